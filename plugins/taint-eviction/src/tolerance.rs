//! How long a pod tolerates the taints of its node.

use std::time::Duration;

use serde::Deserialize;
use workloads::scheduling::{Taint, Toleration};

/// A toleration of a pod, with the time for which it holds.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodToleration {
    #[serde(flatten)]
    rule: Toleration,
    /// `None`: forever.
    toleration_seconds: Option<i64>,
}

/// How long taints are tolerated.
#[derive(Debug, PartialEq, Eq)]
pub enum Tolerance {
    /// One of them not at all.
    None,
    /// At least one of them for this time, and none for a shorter one.
    For(Duration),
    /// All of them. That is so as well where there are none.
    Forever,
}

impl Tolerance {
    /// Of these taints by these tolerations. For each taint the first toleration counts that
    /// tolerates it.
    pub fn of<'a>(taints: impl Iterator<Item = &'a Taint>, tolerations: &[PodToleration]) -> Self {
        let mut shortest: Option<u64> = None;
        for taint in taints {
            let mut tolerations = tolerations.iter();
            let Some(used) = tolerations.find(|one| one.rule.tolerates(taint)) else {
                return Self::None;
            };
            // What is less than zero counts as zero.
            let seconds = used
                .toleration_seconds
                .map(|time| time.max(0).unsigned_abs());
            shortest = shortest.into_iter().chain(seconds).min();
        }
        shortest.map_or(Self::Forever, |time| Self::For(Duration::from_secs(time)))
    }
}
