//! How long a replacement of failed pods waits.

use std::time::Duration;

use pilothouse_sdk::{ActionResult, EffectVerb, Kind, Request, Time};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::objects::{Job, Pod};
use crate::rest::Rest;

const LONGEST: Duration = Duration::from_secs(600);

/// What the operator can configure.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    /// How long the replacement of a failed pod waits. It doubles with each further failure.
    #[serde(default = "ten")]
    pub pod_failure_back_off_seconds: u64,
}

/// As upstream, where it cannot be changed.
fn ten() -> u64 {
    10
}

impl Config {
    /// What is valid.
    pub fn schema() -> Value {
        json!({
            "type": "object", "additionalProperties": false,
            "properties": {
                "podFailureBackOffSeconds": {
                    "type": "integer", "minimum": 0, "maximum": LONGEST.as_secs(), "default": ten(),
                },
            },
        })
    }

    pub fn first_back_off(&self) -> Duration {
        Duration::from_secs(self.pod_failure_back_off_seconds)
    }
}

/// The failures of a Job's pods since the last success.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Failures {
    pub count: i64,
    /// When the last of them was.
    pub last: Option<Time>,
}

/// What is remembered of a Job. A pod's failure counts once, when the status that takes it up has
/// been written: if that has failed, the pod is met again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Memo {
    /// The uid of the Job. Another one of its name begins anew.
    pub job: String,
    /// If the status was not written.
    pub before: Failures,
    /// If it was.
    pub after: Failures,
    /// Until when the key rests, if its last run has written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest: Option<Rest>,
}

impl Memo {
    /// What this Job's last outcome has left.
    pub fn of(job: &Job, request: &Request) -> Option<Self> {
        let memo: Option<Self> = request.memo();
        memo.filter(|memo| memo.job == job.metadata.always.uid)
    }
}

impl Failures {
    /// What this Job's last outcome has left.
    pub fn remembered(job: &Job, request: &Request) -> Self {
        let memo = Memo::of(job, request).unwrap_or_default();
        let is_written = request.previous.iter().any(|effect| {
            effect.object.kind == Job::KIND
                && effect.verb == EffectVerb::Patch
                && matches!(effect.outcome, ActionResult::Done(_))
        });
        if is_written { memo.after } else { memo.before }
    }

    /// With pods that have come to their end since then. Those that failed before the last success
    /// do not count.
    #[must_use]
    pub fn with(&self, succeeded: &[&Pod], failed: &[&Pod]) -> Self {
        let last_success = succeeded.iter().map(|pod| pod.finished_at()).max();
        let failed = failed.iter().map(|pod| pod.finished_at());
        let failed = failed.filter(|at| last_success.is_none_or(|success| *at > success));
        let failed: Vec<Duration> = failed.collect();
        let before = if last_success.is_some() {
            Self::default()
        } else {
            self.clone()
        };
        let last = failed.iter().max().map(|last| Time(*last));
        Self {
            count: before.count + i64::try_from(failed.len()).unwrap_or(i64::MAX),
            last: last.or(before.last),
        }
    }

    /// The time until a pod may be created. `first` is the delay after the first failure.
    pub fn remaining(&self, first: Duration, now: Duration) -> Duration {
        let last = self.last.unwrap_or_default().0;
        remaining(self.count, last, first, now)
    }
}

/// The time until a pod of an index may be created whose last pod is this one.
pub fn remaining_after(last: &Pod, first: Duration, now: Duration) -> Duration {
    remaining(last.all_failures() + 1, last.finished_at(), first, now)
}

fn remaining(failures: i64, last: Duration, first: Duration, now: Duration) -> Duration {
    if failures <= 0 {
        return Duration::ZERO;
    }
    let doublings = u32::try_from(failures - 1).unwrap_or(u32::MAX);
    let factor = 2_u32.checked_pow(doublings).unwrap_or(u32::MAX);
    let delay = first.saturating_mul(factor).min(LONGEST);
    // A clock that is behind makes it longer, as upstream.
    (last + delay).saturating_sub(now)
}
