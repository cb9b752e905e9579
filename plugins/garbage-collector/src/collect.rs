//! An object with owners: it goes when none of them is there, and gives up those that are not.

use std::time::Duration;

use pilothouse_sdk::{
    ActionResult, Delete, EffectVerb, Failure, Host, ObjectRef, Outcome, Patch, Propagation,
    Request,
};
use serde_json::{Value, json};

use crate::dependents::survey;
use crate::events::misplaced;
use crate::item::{FOREGROUND, ItemMetadata, ORPHAN, Reference};
use crate::owners::{Memo, Owners};

/// The most owners of which an outcome asks the server whether they are there: of the hundred
/// questions that it may ask, one is about the object itself.
const MAX_ASKED: usize = 99;

/// When an object is looked at again one of whose owners cannot be watched: after as long as the
/// server has been asked for it, so that each time is twice the one before, as upstream's back-off
/// is. The longest time is upstream's, too.
const SOONEST: Duration = Duration::from_secs(1);
const LATEST: Duration = Duration::from_secs(1_000);

pub fn collect(
    request: &Request,
    metadata: &ItemMetadata,
    host: &dyn Host,
) -> Result<Outcome, Failure> {
    let before: Memo = request.memo().unwrap_or_default();
    let owners = Owners::of(metadata, &before, host)?;
    let outcome = decide(request, metadata, &owners, host)?;
    let mut memo = Memo {
        seen: owners.seen,
        asked_since: None,
    };
    let mut next = outcome;
    if owners.has_unwatched {
        let now = host.now();
        let since = before.asked_since.map_or(now, Duration::from_millis);
        memo.asked_since = u64::try_from(since.as_millis()).ok();
        next = next.requeue_after(now.saturating_sub(since).clamp(SOONEST, LATEST));
    }
    Ok(match memo == Memo::default() {
        true => next,
        false => next.remember(&memo)?,
    })
}

fn decide(
    request: &Request,
    metadata: &ItemMetadata,
    owners: &Owners<'_>,
    host: &dyn Host,
) -> Result<Outcome, Failure> {
    let key = request.key();
    let events = misplaced(key, owners, host)?;
    let outcome = events.into_iter().fold(Outcome::done(), Outcome::with);
    if owners.is_unknown || !owners.misplaced.is_empty() {
        return Ok(outcome);
    }
    let gone = owners.dangling.len() + owners.waiting.len();
    if owners.solid > 0 || gone > MAX_ASKED {
        return give_up(key, metadata, owners, outcome);
    }
    if !owners.waiting.is_empty() {
        let dependents = survey(&metadata.always.uid, host)?;
        if dependents.has_waiting && is_blocking(metadata) {
            // The two would wait for each other. The deletion follows when that is written.
            let references = metadata.owner_references.iter();
            let unblocked = references.map(Reference::unblocked);
            let outcome = outcome.with(references_patch(
                key,
                metadata,
                &unblocked.collect::<Vec<_>>(),
            )?);
            return Ok(confirmed(outcome, owners));
        }
        if dependents.has_some {
            let outcome = delete(request, metadata, Propagation::Foreground, outcome);
            return Ok(confirmed(outcome, owners));
        }
    }
    // What has been asked for before is kept to.
    let propagation = if metadata.has_finalizer(ORPHAN) {
        Propagation::Orphan
    } else if metadata.has_finalizer(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    let outcome = delete(request, metadata, propagation, outcome);
    Ok(confirmed(outcome, owners))
}

/// Removes the references to owners that are not there, or that wait for their dependents: another
/// owner keeps the object.
fn give_up(
    key: &ObjectRef,
    metadata: &ItemMetadata,
    owners: &Owners<'_>,
    outcome: Outcome,
) -> Result<Outcome, Failure> {
    let mut asked = owners.clone();
    asked.dangling.truncate(MAX_ASKED);
    asked.waiting.truncate(MAX_ASKED - asked.dangling.len());
    if asked.dangling.is_empty() && asked.waiting.is_empty() {
        return Ok(outcome);
    }
    let references = metadata.owner_references.iter();
    let kept = references.filter(|reference| !asked.gives_up(reference));
    let kept: Vec<Value> = kept.map(|reference| reference.text.clone()).collect();
    let outcome = outcome.with(references_patch(key, metadata, &kept)?);
    Ok(confirmed(outcome, &asked))
}

/// Deletes the object at the version that the snapshot shows. If that has failed because something
/// else in it has changed, so that it might fail for ever, the server is asked instead whether what
/// counts is as it was.
fn delete(
    request: &Request,
    metadata: &ItemMetadata,
    propagation: Propagation,
    outcome: Outcome,
) -> Outcome {
    let key = request.key();
    let delete = Delete::new(key).propagation(propagation);
    let mut previous = request.previous.iter();
    let is_contended = previous.any(|effect| {
        let is_conflict = matches!(effect.outcome, ActionResult::Conflict(_));
        effect.verb == EffectVerb::Delete && is_conflict
    });
    if !is_contended {
        return outcome.with(delete);
    }
    let outcome = outcome.with(delete.uid(&metadata.always.uid));
    outcome.confirm_unchanged(key)
}

/// Has the server confirm that the owners which are not there, and have never been seen, are not,
/// and that those which wait still do. Of owners whose kind cannot be watched it has said so.
fn confirmed(outcome: Outcome, owners: &Owners<'_>) -> Outcome {
    let dangling = owners.dangling.iter().filter(|it| !it.is_known);
    let outcome = dangling.fold(outcome, |outcome, it| outcome.confirm(&it.object));
    let waiting = owners.waiting.iter().filter(|it| !it.is_known);
    waiting.fold(outcome, |outcome, it| outcome.confirm_unchanged(&it.object))
}

fn is_blocking(metadata: &ItemMetadata) -> bool {
    let mut references = metadata.owner_references.iter();
    references.any(|reference| reference.owner.block_owner_deletion)
}

/// Replaces the references of an object, at the version that the snapshot shows.
pub fn references_patch(
    key: &ObjectRef,
    metadata: &ItemMetadata,
    references: &[Value],
) -> Result<Patch, serde_json::Error> {
    let metadata = json!({
        "uid": metadata.always.uid, "resourceVersion": "", "ownerReferences": references,
    });
    Patch::merge(key, &json!({"metadata": metadata}))
}
