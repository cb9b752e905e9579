//! One reconcile of a quota.

use std::time::Duration;

use pilothouse_sdk::{ActionResult, EffectVerb, Failure, Host, ObjectRef, Outcome, Patch, Request};
use serde_json::{Map, Value, json};

use crate::config::Config;
use crate::memo::Memo;
use crate::objects::Quota;
use crate::resources::{Resources, filtered};
use crate::usage::Tally;

/// Objects that are counted in a millisecond, at least, and a pause as long as ten times that: so
/// that a namespace in which thousands of pods change occupies a worker for a tenth of the time.
const OBJECTS_A_MILLISECOND: u64 = 10;
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Decides what is to be done about one quota.
///
/// Everything is counted each time. But less is written only if an object has gone, or uses
/// something else, or if it is time for it: when the API server lets an object in, it adds it to
/// the status first, and the watches may show the status before they show the object.
pub fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
    let Some(quota) = request.object::<Quota>()? else {
        return Ok(Outcome::done());
    };
    let config: Config = request.configuration()?;
    let key = request.key();
    let tally = Tally::of(host, &key.namespace, &quota.spec)?;
    let before = request.memo::<Memo>();
    let is_due = before.as_ref().is_none_or(|before| {
        is_unsettled(request, before)
            || before.marks.are_missing_in(&tally.marks)
            || is_time(before, &config, tally.now)
    });
    let is_due = is_due || has_more(&quota, &tally.used) || is_new(&quota);
    let counted_at = match &before {
        Some(before) if !is_due => before.counted_at(),
        _ => tally.now,
    };
    let mut memo = Memo::new(counted_at, tally.marks.clone());
    memo.is_partial = !tally.uncounted.is_empty();
    let mut outcome = Outcome::done();
    if is_due && let Some(patch) = patch(key, &quota, &tally.used)? {
        memo.has_written = true;
        outcome = outcome.with(patch);
    }
    outcome = outcome.remember(&memo)?.not_before(pause(tally.objects));
    Ok(plan_next(outcome, &tally, &config, counted_at))
}

/// True if what the last outcome wrote is not in the status, or it could not count everything.
fn is_unsettled(request: &Request, before: &Memo) -> bool {
    let mut effects = request.previous.iter();
    let write =
        effects.find(|effect| effect.object == *request.key() && effect.verb == EffectVerb::Patch);
    let is_written = write.is_some_and(|write| {
        matches!(
            write.outcome,
            ActionResult::Done(_) | ActionResult::Unchanged
        )
    });
    before.is_partial || (before.has_written && !is_written)
}

/// True if it is time to count everything anew.
fn is_time(before: &Memo, config: &Config, now: Duration) -> bool {
    let period = config.period();
    period.is_some_and(|period| now >= before.counted_at() + period)
}

/// True if the status does not say yet what is limited, or how much of that is used.
fn is_new(quota: &Quota) -> bool {
    let hard = &quota.spec.hard;
    *hard != quota.status.hard || (quota.status.used.is_none() && !hard.is_empty())
}

/// True if more is used than the status says.
fn has_more(quota: &Quota, counted: &Resources) -> bool {
    let used = quota.status.used.as_ref();
    counted.iter().any(|(name, amount)| {
        let known = used.and_then(|used| used.get(name));
        known.is_none_or(|known| amount > known)
    })
}

/// Writes what is limited and what is used, if the status does not say so already. What cannot be
/// counted stays as it is.
///
/// The patch is of the version that the snapshot shows: the API server writes the status with each
/// object that it lets in.
fn patch(key: &ObjectRef, quota: &Quota, counted: &Resources) -> Result<Option<Patch>, Failure> {
    let hard = &quota.spec.hard;
    let had = quota.status.used.clone().unwrap_or_default();
    let mut used = filtered(&had, |name| hard.contains_key(name));
    used.extend(counted.iter().map(|(name, amount)| (name.clone(), *amount)));
    if !is_new(quota) && used == had {
        return Ok(None);
    }
    let status = json!({
        "hard": replacing(&quota.status.hard, hard), "used": replacing(&had, &used),
    });
    let body = json!({"metadata": {"resourceVersion": "seen"}, "status": status});
    Ok(Some(Patch::merge(key, &body)?.subresource("status")))
}

/// A merge patch that makes some amounts of others.
fn replacing(from: &Resources, to: &Resources) -> Map<String, Value> {
    let gone = from.keys().filter(|name| !to.contains_key(*name));
    let gone = gone.map(|name| (name.clone(), Value::Null));
    let amounts = to
        .iter()
        .map(|(name, amount)| (name.clone(), amount.to_string().into()));
    gone.chain(amounts).collect()
}

/// The rest after this many objects were counted.
fn pause(objects: usize) -> Duration {
    let objects = u64::try_from(objects).unwrap_or(u64::MAX);
    Duration::from_millis(objects / OBJECTS_A_MILLISECOND).min(LONGEST_PAUSE)
}

/// Counts again when it is time, or when an object uses something else because time passes. With
/// back-off if something could not be counted.
fn plan_next(outcome: Outcome, tally: &Tally, config: &Config, counted_at: Duration) -> Outcome {
    if !tally.uncounted.is_empty() {
        return outcome.retry(tally.uncounted.join("; "));
    }
    let period = config.period().map(|period| counted_at + period);
    match period.into_iter().chain(tally.next_change).min() {
        Some(next) => outcome.requeue_after(next.saturating_sub(tally.now)),
        None => outcome,
    }
}
