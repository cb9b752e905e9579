//! The Events about a Job.

use pilothouse_sdk::{ActionResult, Effect, EffectVerb, Event, Kind, ObjectRef, Request};

use crate::backoff::Memo;
use crate::objects::{Job, JobStatus, Pod};
use crate::observed::Observed;
use crate::verdict::Verdict;

/// Most Events about pods at a time. The host writes 25 at once about one object, and how the Job
/// ends is to be among them.
const MAX_EVENTS: usize = 20;

/// What has become of the pods that this Job's last outcome created and deleted. Only now their
/// names are known.
pub fn about_pods(job: &Job, request: &Request) -> Vec<Event> {
    if Memo::of(job, request).is_none() {
        return Vec::new();
    }
    let effects = request.previous.iter();
    let pods = effects.filter(|effect| effect.object.kind == Pod::KIND);
    let events = pods.filter_map(|effect| about_pod(request.key(), effect));
    events.take(MAX_EVENTS).collect()
}

fn about_pod(job: &ObjectRef, effect: &Effect) -> Option<Event> {
    use ActionResult as Result;
    let name = &effect.object.name;
    let (verb, done, doing, past) = match effect.verb {
        EffectVerb::Create => ("Create", "Created", "creating", "SuccessfulCreate"),
        EffectVerb::Delete => ("Delete", "Deleted", "deleting", "SuccessfulDelete"),
        _ => return None,
    };
    match &effect.outcome {
        Result::Done(_) => Some(Event::normal(
            job,
            past,
            verb,
            &format!("{done} pod: {name}"),
        )),
        Result::Conflict(text)
        | Result::NotFound(text)
        | Result::Forbidden(text)
        | Result::Invalid(text)
        | Result::Failed(text) => {
            let reason = format!("Failed{verb}");
            let note = format!("Error {doing}: {text}");
            Some(Event::warning(job, &reason, verb, &note))
        }
        // A pod that is there already was created by a request without an answer.
        Result::Unchanged | Result::Skipped | Result::AlreadyExists(_) | Result::Answered(_) => {
            None
        }
    }
}

/// The Job has been suspended, or goes on.
pub fn suspended(job: &ObjectRef, is_suspended: bool) -> Event {
    if is_suspended {
        Event::normal(job, "Suspended", "Suspend", "Job suspended")
    } else {
        Event::normal(job, "Resumed", "Resume", "Job resumed")
    }
}

/// The Job has come to its end, with this status.
pub fn ended(
    job: &ObjectRef,
    observed: &Observed<'_>,
    status: &JobStatus,
    verdict: &Verdict,
) -> Vec<Event> {
    let Verdict {
        reason, message, ..
    } = verdict;
    if verdict.is_failure() {
        return vec![Event::warning(job, reason, "Finish", message)];
    }
    let completions = observed.job.spec.completions;
    let are_too_many = completions.is_some_and(|completions| status.succeeded > completions);
    let note = "Too many succeeded pods running after completion count reached";
    let warning = are_too_many.then(|| Event::warning(job, "TooManySucceededPods", "Finish", note));
    let completed = Event::normal(job, "Completed", "Finish", "Job completed");
    warning.into_iter().chain([completed]).collect()
}
