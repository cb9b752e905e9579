//! Deletes every Job that has ended, when its `spec.ttlSecondsAfterFinished` has passed.
//!
//! The rules are those of kube-controller-manager's ttl-after-finished controller
//! (`pkg/controller/ttlafterfinished` in kubernetes/kubernetes). The README lists the differences.

use std::time::Duration;

use pilothouse_sdk::{
    Controller, Delete, Failure, Host, Kind, Manifest, Metadata, Outcome, Projection, Propagation,
    Request, Selection, Time, Verb,
};
use serde::Deserialize;

/// The part of a Job that the rules use.
#[derive(Deserialize, Projection)]
#[projection(kind = "batch/v1/Job")]
struct Job {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    ttl_seconds_after_finished: Option<u32>,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
}

#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    r#type: String,
    status: String,
    last_transition_time: Option<Time>,
}

impl Job {
    /// The condition that says that it has ended: the first of `Complete` and `Failed` that holds.
    fn end(&self) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| {
            matches!(condition.r#type.as_str(), "Complete" | "Failed") && condition.status == "True"
        })
    }

    /// When it is to be deleted. `None`: never, or not before something about it changes.
    ///
    /// # Errors
    ///
    /// It has ended, and nobody has noted when.
    fn expires_at(&self) -> Result<Option<Duration>, Failure> {
        let (Some(ttl), Some(end)) = (self.spec.ttl_seconds_after_finished, self.end()) else {
            return Ok(None);
        };
        let Some(ended_at) = end.last_transition_time else {
            return Err(Failure::terminal(format!(
                "the Job's condition {} has no lastTransitionTime, so it is not known when the Job \
                 ended; set it, or delete the Job by hand",
                end.r#type
            )));
        };
        Ok(Some(ended_at.0 + Duration::from_secs(u64::from(ttl))))
    }
}

/// The ttl-after-finished controller.
pub struct TtlAfterFinishedController;

impl Controller for TtlAfterFinishedController {
    fn manifest() -> Manifest {
        Manifest::new(
            "ttl-after-finished",
            env!("CARGO_PKG_VERSION"),
            Selection::of(Job::KIND),
        )
        .reads_as::<Job>()
        .writes(Job::KIND, [Verb::Delete])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let Some(job) = request.object::<Job>()? else {
            return Ok(Outcome::done());
        };
        if job.metadata.deletion_timestamp.is_some() {
            return Ok(Outcome::done());
        }
        let Some(expires_at) = job.expires_at()? else {
            return Ok(Outcome::done());
        };
        let now = host.now();
        if now < expires_at {
            return Ok(Outcome::done().requeue_after(expires_at - now));
        }
        // Of the version that was looked at: a Job whose time was extended meanwhile stays.
        let delete = Delete::new(request.key()).propagation(Propagation::Foreground);
        Ok(Outcome::done().with(delete))
    }
}

pilothouse_sdk::register!(TtlAfterFinishedController);
