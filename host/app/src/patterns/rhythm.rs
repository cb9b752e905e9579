//! When the cluster is asked which kinds it serves.
//!
//! Kinds come and go with their CustomResourceDefinitions and APIServices. While the host watches
//! both for its plugins, as far as the cluster serves them, it is told of that, and asks once a
//! minute otherwise: for the kinds that an aggregated server serves more or fewer of, behind the
//! same APIService. While it does not, it asks every five seconds.

use std::time::Duration;

use pilothouse_core::{Hub, InformerKey, Kind};
use tokio::time::Instant;

/// How often kinds are looked at. While the cluster is asked each time, a new kind is found within
/// this time; kube-controller-manager's garbage collector asks every thirty seconds.
pub const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// How often the cluster is asked although nothing has been heard of a change.
const ASK_AT_REST: Duration = Duration::from_secs(60);

/// How long the cluster is asked each time after a change. Discovery follows a definition in a few
/// seconds. Longer than it takes until a kind that is not served any more counts as gone.
const UNSETTLED: Duration = Duration::from_secs(30);

/// How soon after a change the cluster is asked. Many changes may come at once.
const SOON: Duration = Duration::from_secs(1);

/// See the module's documentation.
#[derive(Debug)]
pub struct Rhythm {
    /// When the cluster has answered last.
    answered: Option<Instant>,
    /// Until then the cluster is asked each time.
    unsettled_until: Instant,
    /// When the kinds are looked at next.
    next: Instant,
}

impl Rhythm {
    pub fn new() -> Self {
        let now = Instant::now();
        Self {
            answered: None,
            unsettled_until: now,
            next: now,
        }
    }

    /// The kinds are looked at after this time.
    pub fn look_after(&mut self, delay: Duration) {
        self.next = Instant::now() + delay;
    }

    /// Kinds may have come or gone, or have. Returns the time after which the kinds are to be
    /// looked at, if that is sooner than they would be.
    pub fn unsettle(&mut self) -> Option<Duration> {
        let now = Instant::now();
        self.unsettled_until = now + UNSETTLED;
        (self.next > now + SOON).then_some(SOON)
    }

    /// The cluster has been asked and has answered.
    pub fn answered(&mut self) {
        self.answered = Some(Instant::now());
    }

    /// Whether the cluster is to be asked when the kinds are looked at next. `is_told`: the host is
    /// told when kinds come or go.
    pub fn is_due(&self, is_told: bool) -> bool {
        let is_settled = is_told && self.next >= self.unsettled_until;
        let rests_until = self.answered.map(|answered| answered + ASK_AT_REST);
        !(is_settled && rests_until.is_some_and(|until| self.next < until))
    }
}

/// True if objects of this kind say which kinds there are.
pub fn defines_kinds(kind: &Kind) -> bool {
    defining()
        .iter()
        .any(|defining| defining.is_version_of(kind))
}

/// True if the host watches all objects of those of these kinds that the cluster serves.
pub fn is_told(hub: &Hub, is_served: impl Fn(&Kind) -> bool) -> bool {
    let wanted = hub.wanted();
    let caches = &hub.snapshot().informers;
    let is_watched = |kind: &Kind| {
        let of_all = InformerKey::all(kind.clone());
        let mut found = wanted.iter().filter(|(_, (have, _))| *have == of_all);
        found.any(|(id, _)| !caches[*id].is_initial())
    };
    defining()
        .iter()
        .all(|kind| !is_served(kind) || is_watched(kind))
}

fn defining() -> [Kind; 2] {
    [
        Kind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        Kind::new("apiregistration.k8s.io", "v1", "APIService"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At which of these looks, one after the other, the cluster is asked.
    fn asked(rhythm: &mut Rhythm, looks: usize) -> impl AsyncFnOnce() -> Vec<usize> {
        async move || {
            let mut asked = Vec::new();
            for look in 0..looks {
                rhythm.look_after(LOOK_AGAIN);
                let is_due = rhythm.is_due(true);
                tokio::time::advance(LOOK_AGAIN).await;
                if is_due {
                    rhythm.answered();
                    asked.push(look);
                }
            }
            asked
        }
    }

    #[tokio::test(start_paused = true)]
    async fn at_rest_the_cluster_is_asked_once_a_minute() {
        let mut rhythm = Rhythm::new();
        assert_eq!(asked(&mut rhythm, 25)().await, [0, 12, 24]);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_change_the_cluster_is_asked_soon_and_then_each_time_for_half_a_minute() {
        let mut rhythm = Rhythm::new();
        asked(&mut rhythm, 3)().await;
        rhythm.look_after(LOOK_AGAIN);
        assert_eq!(rhythm.unsettle(), Some(SOON));
        rhythm.look_after(SOON);
        assert!(rhythm.is_due(true));
        assert_eq!(rhythm.unsettle(), None, "that is soon enough");
        assert_eq!(asked(&mut rhythm, 10)().await, [0, 1, 2, 3, 4]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_not_told_of_changes_asks_each_time() {
        let mut rhythm = Rhythm::new();
        for _ in 0..3 {
            rhythm.look_after(LOOK_AGAIN);
            assert!(rhythm.is_due(false));
            rhythm.answered();
        }
    }

    #[test]
    fn kinds_are_defined_by_definitions_and_by_aggregated_servers() {
        for (kind, defines) in [
            ("apiextensions.k8s.io/v1/CustomResourceDefinition", true),
            ("apiregistration.k8s.io/v1/APIService", true),
            ("v1/Pod", false),
        ] {
            assert_eq!(defines_kinds(&kind.parse().unwrap()), defines, "{kind}");
        }
    }
}
