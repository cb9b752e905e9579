//! What is deleted of a namespace's content, and when it is looked at again.

use std::num::NonZeroU32;
use std::time::Duration;

use pilothouse_sdk::{
    Action, Delete, DeleteAll, Failure, Filter, Host, Metadata, Outcome, Propagation,
};
use serde::Deserialize;

use crate::content::{Content, KindContent, PAGE, has_verb};

/// Most objects that are deleted one by one in an outcome, which has at most 10,000 actions.
const MAX_DELETED: usize = 2_000;

/// How long the content rests after a look at it: each object that goes is news.
const REST: Duration = Duration::from_secs(1);

/// As `REST`, while not all is being deleted.
const SHORT_REST: Duration = Duration::from_millis(250);

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
}

pub fn deletions(
    content: &Content,
    namespace: &str,
    host: &dyn Host,
) -> Result<Vec<Action>, Failure> {
    let mut deletions = Vec::new();
    for kind in &content.kinds {
        let is_unknown = !kind.failures.is_empty() || !kind.is_watchable();
        let is_wanted = kind.undeleted > 0 || (is_unknown && !kind.was_swept);
        if !is_wanted {
            continue;
        }
        if has_verb(&kind.served, "deletecollection") {
            // Whoever owns something here must not make orphans of it: all of it is to go.
            let all = DeleteAll::new(&kind.served.kind, namespace);
            deletions.push(all.propagation(Propagation::Background).into());
        } else if kind.undeleted > 0 {
            each(kind, namespace, &mut deletions, host)?;
        }
    }
    Ok(deletions)
}

/// Deletes the objects of a kind one by one.
fn each(
    kind: &KindContent,
    namespace: &str,
    deletions: &mut Vec<Action>,
    host: &dyn Host,
) -> Result<(), Failure> {
    let size = NonZeroU32::new(PAGE).unwrap_or(NonZeroU32::MIN);
    let kind = &kind.served.kind;
    for page in host.pages::<Object>(kind, Some(namespace), &Filter::Everything, size) {
        for Object { metadata } in page? {
            if deletions.len() >= MAX_DELETED {
                return Ok(());
            }
            if metadata.deletion_timestamp.is_none() {
                let delete = Delete::new(&metadata.of_kind(kind)).uid(&metadata.uid);
                deletions.push(delete.propagation(Propagation::Background).into());
            }
        }
    }
    Ok(())
}

/// When to look again: later and later if something is wrong, and otherwise in half the time that
/// what is left may take. What goes meanwhile runs the key before.
pub fn again(outcome: Outcome, failing: Option<String>, content: &Content) -> Outcome {
    let rest = if content.is_being_deleted() {
        REST
    } else {
        SHORT_REST
    };
    let outcome = outcome.not_before(rest);
    let failures = content.failures();
    if failing.is_some() || !failures.is_empty() {
        let failures = failures.into_iter().map(str::to_owned);
        let all: Vec<String> = failing.into_iter().chain(failures).collect();
        return outcome.retry(all.join(", "));
    }
    let seconds = content.estimate().as_secs() / 2 + 1;
    outcome.requeue_after(Duration::from_secs(seconds))
}
