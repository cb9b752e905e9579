//! When the change happened that a write answers: the annotation
//! `endpoints.kubernetes.io/last-change-trigger-time`, from which kube-proxy measures how long the
//! network takes to follow (upstream's `TriggerTimeTracker`).

use std::collections::BTreeMap;
use std::time::Duration;

use pilothouse_sdk::Time;
use serde::{Deserialize, Serialize};

use crate::pod::Pod;

/// The annotation.
pub const ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// Most bytes of the pods' part of a memo, which has at most 64 KiB.
const MAX_BYTES: usize = 48 << 10;

/// The times that one reconcile of a Service has seen, for the next one. In seconds since the Unix
/// epoch, which is what objects have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriggerTimes {
    /// When the Service was created.
    service: u64,
    /// When the readiness of each pod changed last. Those that changed first are left out if there
    /// are too many.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pods: BTreeMap<String, u64>,
    /// The latest time that was left out of `pods`. A pod that is not among them is as it was if it
    /// has not changed since.
    #[serde(default, skip_serializing_if = "is_zero")]
    left_out: u64,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "the form that serde wants"
)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl TriggerTimes {
    /// The times of a Service and of the pods that it selects.
    #[must_use]
    pub fn of(created: Option<Time>, pods: &[Pod]) -> Self {
        let times = pods.iter().filter_map(|pod| {
            let changed = pod.ready_changed()?;
            Some((pod.metadata.name.clone(), changed.0.as_secs()))
        });
        let mut times: Vec<(String, u64)> = times.collect();
        // The latest first.
        times.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        let mut bytes = 0;
        let kept = times.iter().take_while(|(name, _)| {
            // The name, the time, quotes, colon and comma.
            bytes += name.len() + 14;
            bytes <= MAX_BYTES
        });
        let left_out = times.get(kept.count()..).unwrap_or_default();
        let latest_left_out = left_out.first().map_or(0, |(_, time)| *time);
        let kept = times.len() - left_out.len();
        Self {
            service: created.unwrap_or_default().0.as_secs(),
            pods: times.into_iter().take(kept).collect(),
            left_out: latest_left_out,
        }
    }

    /// The earliest change that a reconcile answers which sees these times. `known` are the times
    /// of the one before. `None`: no time has changed.
    ///
    /// The first reconcile of a Service answers its creation; so does the first of a host. If
    /// something changes twice between two reconciles, the first change is not known.
    #[must_use]
    pub fn trigger(&self, known: Option<&Self>) -> Option<Time> {
        let is_set = |time: &u64| *time > 0;
        let Some(known) = known else {
            return Some(self.service).filter(is_set).map(time);
        };
        let pods = self.pods.iter().filter(|(name, changed)| {
            let before = known.pods.get(*name).unwrap_or(&known.left_out);
            *changed > before
        });
        let service = Some(&self.service).filter(|created| **created > known.service);
        let first = pods.map(|(_, changed)| changed).chain(service).min();
        first.copied().filter(is_set).map(time)
    }
}

fn time(seconds: u64) -> Time {
    Time(Duration::from_secs(seconds))
}

#[cfg(test)]
#[path = "trigger_tests.rs"]
mod tests;
