//! An object that is being deleted and waits for the garbage collector.

use std::time::Duration;

use pilothouse_sdk::{Failure, Finalizer, Host, ObjectRef, Outcome};

use serde_json::Value;

use crate::collect::references_patch;
use crate::dependents::{PAGE, pages};
use crate::item::{FOREGROUND, ItemMetadata, ORPHAN};

/// How many dependents give up their owner in one outcome, which has at most 10,000 actions of
/// 4 MiB in all.
const MAX_RELEASED: usize = 2_000;

/// How long an object with many dependents rests before it looks at them again: each that goes is
/// news to it.
const REST: Duration = Duration::from_secs(1);

/// Deletion that leaves the dependents: they give up the object as their owner, and then it goes.
pub fn orphan(
    key: &ObjectRef,
    metadata: &ItemMetadata,
    host: &dyn Host,
) -> Result<Outcome, Failure> {
    let uid = &metadata.always.uid;
    let mut outcome = Outcome::done();
    let mut released = 0;
    for page in pages(uid, host) {
        for dependent in page? {
            if released == MAX_RELEASED {
                // The others follow when these are seen to be released.
                return Ok(outcome);
            }
            let references = dependent.metadata.owner_references.iter();
            let kept = references.filter(|reference| reference.owner.uid != *uid);
            let kept: Vec<Value> = kept.map(|reference| reference.text.clone()).collect();
            let patch = references_patch(&dependent.key(), &dependent.metadata, &kept)?;
            outcome = outcome.with(patch);
            released += 1;
        }
    }
    Ok(outcome.stage().with(Finalizer::remove(key, ORPHAN)))
}

/// Deletion in the foreground: the object goes when no dependent blocks it any more. The dependents
/// have read that it waits, and see to their own deletion.
pub fn when_unblocked(
    key: &ObjectRef,
    metadata: &ItemMetadata,
    host: &dyn Host,
) -> Result<Outcome, Failure> {
    let uid = &metadata.always.uid;
    for page in pages(uid, host) {
        let page = page?;
        if page.iter().any(|dependent| dependent.metadata.blocks(uid)) {
            let rest = match page.len() > PAGE as usize / 2 {
                true => REST,
                false => Duration::ZERO,
            };
            return Ok(Outcome::done().not_before(rest));
        }
    }
    Ok(Outcome::done().with(Finalizer::remove(key, FOREGROUND)))
}
