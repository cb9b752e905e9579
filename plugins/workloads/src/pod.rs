//! The state that a pod is in: active, being deleted, ended, ready, available.

use std::time::Duration;

use pilothouse_sdk::{Metadata, Projection, Time};
use serde::Deserialize;

/// The part of a pod's `status` that says which state it is in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Projection)]
#[serde(default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`. Empty before anybody has set it.
    pub phase: String,
    /// What is known of the pod, `Ready` among it.
    pub conditions: Vec<PodCondition>,
}

/// An entry of a pod's `status.conditions`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Projection)]
#[serde(default, rename_all = "camelCase")]
pub struct PodCondition {
    /// The type: `Ready`.
    pub r#type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Since when the status is so.
    pub last_transition_time: Option<Time>,
}

/// A pod as a controller has decoded it. Who says where metadata and status are is told the pod's
/// state.
pub trait PodView {
    /// The pod's name, uid and time of deletion.
    fn metadata(&self) -> &Metadata;

    /// The pod's status.
    fn status(&self) -> &PodStatus;

    /// True if its containers have ended for good: it has succeeded or failed.
    fn is_terminal(&self) -> bool {
        matches!(&*self.status().phase, "Succeeded" | "Failed")
    }

    /// True if it has failed.
    fn is_failed(&self) -> bool {
        self.status().phase == "Failed"
    }

    /// True if it is to be deleted, whether it has ended or not.
    fn is_deleted(&self) -> bool {
        self.metadata().deletion_timestamp.is_some()
    }

    /// True if it counts as a replica: it has not ended and is not being deleted.
    fn is_active(&self) -> bool {
        !self.is_terminal() && !self.is_deleted()
    }

    /// True if it is being deleted and has not ended yet.
    fn is_terminating(&self) -> bool {
        !self.is_terminal() && self.is_deleted()
    }

    /// True if it is ready to serve.
    fn is_ready(&self) -> bool {
        self.ready_condition().is_some()
    }

    /// Since when it is ready. `None`: it is not, or nobody has noted when.
    fn ready_since(&self) -> Option<Time> {
        self.ready_condition()?.last_transition_time
    }

    /// True if it is ready, and has been so for this long. One of which nobody has noted since when
    /// is available only if no time is asked for.
    fn is_available(&self, min_ready: Duration, now: Duration) -> bool {
        let is_old = |since: Time| since.0 + min_ready <= now;
        self.is_ready() && (min_ready.is_zero() || self.ready_since().is_some_and(is_old))
    }

    /// How long it takes until it is available, if it only has to stay ready for that. `None`: it
    /// is not ready, or is available, or nobody has noted since when it is ready.
    fn available_in(&self, min_ready: Duration, now: Duration) -> Option<Duration> {
        let available_at = self.ready_since()?.0 + min_ready;
        let remaining = available_at.checked_sub(now).filter(|time| !time.is_zero());
        remaining.filter(|_| !min_ready.is_zero())
    }

    /// The condition `Ready`, if it is `True`.
    fn ready_condition(&self) -> Option<&PodCondition> {
        let mut conditions = self.status().conditions.iter();
        let ready = conditions.find(|condition| condition.r#type == "Ready")?;
        (ready.status == "True").then_some(ready)
    }
}

impl<P: PodView + ?Sized> PodView for &P {
    fn metadata(&self) -> &Metadata {
        (**self).metadata()
    }

    fn status(&self) -> &PodStatus {
        (**self).status()
    }
}

/// How long it takes until the next of these pods becomes available. `None`: none of them only has
/// to stay ready for that.
pub fn next_available<'a, P: PodView + 'a>(
    pods: impl IntoIterator<Item = &'a P>,
    min_ready: Duration,
    now: Duration,
) -> Option<Duration> {
    let waiting = pods.into_iter();
    waiting
        .filter_map(|pod| pod.available_in(min_ready, now))
        .min()
}

/// A number of seconds in an object, such as `minReadySeconds`. A negative one counts as none.
#[must_use]
pub fn seconds(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Pod(Metadata, PodStatus);

    impl PodView for Pod {
        fn metadata(&self) -> &Metadata {
            &self.0
        }

        fn status(&self) -> &PodStatus {
            &self.1
        }
    }

    fn in_phase(phase: &str) -> Pod {
        let status = PodStatus {
            phase: phase.to_owned(),
            ..PodStatus::default()
        };
        Pod(Metadata::default(), status)
    }

    fn deleted(mut pod: Pod) -> Pod {
        pod.0.deletion_timestamp = Some(Time::default());
        pod
    }

    /// A running pod with the condition `Ready`, since so many seconds after 1970.
    fn ready(status: &str, since: Option<u64>) -> Pod {
        let condition = |r#type: &str, status: &str| PodCondition {
            r#type: r#type.to_owned(),
            status: status.to_owned(),
            last_transition_time: since.map(|since| Time(seconds(since.cast_signed()))),
        };
        let mut pod = in_phase("Running");
        pod.1.conditions = vec![condition("Initialized", "True"), condition("Ready", status)];
        pod
    }

    #[test]
    fn a_pod_is_active_until_it_has_ended_or_is_to_be_deleted() {
        for phase in ["", "Pending", "Running", "Unknown"] {
            let pod = in_phase(phase);
            assert!(pod.is_active() && !pod.is_terminal() && !pod.is_terminating());
            let pod = deleted(pod);
            assert!(!pod.is_active() && !pod.is_terminal() && pod.is_terminating());
        }
        for phase in ["Succeeded", "Failed"] {
            let pod = in_phase(phase);
            assert!(!pod.is_active() && pod.is_terminal() && !pod.is_terminating());
            let pod = deleted(pod);
            assert!(!pod.is_active() && pod.is_terminal() && !pod.is_terminating());
            assert_eq!(pod.is_failed(), phase == "Failed");
        }
    }

    #[test]
    fn a_pod_is_ready_if_its_condition_says_so() {
        assert!(ready("True", None).is_ready());
        assert!(!ready("False", Some(1)).is_ready());
        assert!(!ready("Unknown", Some(1)).is_ready());
        assert!(!in_phase("Running").is_ready());
        assert_eq!(ready("True", Some(7)).ready_since(), Some(Time(seconds(7))));
        assert_eq!(ready("False", Some(7)).ready_since(), None);
    }

    #[test]
    fn a_ready_pod_becomes_available_after_its_time() {
        let (ten, pod) = (seconds(10), ready("True", Some(100)));
        for (now, is_available, wait) in [(100, false, 10), (109, false, 1), (110, true, 0)] {
            assert_eq!(pod.is_available(ten, seconds(now)), is_available);
            let wait = Some(seconds(wait)).filter(|wait| !wait.is_zero());
            assert_eq!(pod.available_in(ten, seconds(now)), wait);
        }
        let unknown = ready("True", None);
        assert!(unknown.is_available(Duration::ZERO, Duration::ZERO));
        assert!(!unknown.is_available(ten, seconds(1_000)));
        assert_eq!(unknown.available_in(ten, Duration::ZERO), None);
    }

    #[test]
    fn without_a_time_to_wait_a_ready_pod_is_available_at_once() {
        let pod = ready("True", Some(100));
        assert!(pod.is_available(Duration::ZERO, seconds(100)));
        assert_eq!(pod.available_in(Duration::ZERO, seconds(1)), None);
        assert_eq!(seconds(-1), Duration::ZERO);
    }

    /// Upstream: `TestFindMinNextPodAvailabilitySimpleCheck`.
    #[test]
    fn the_first_pod_to_become_available_says_when_to_look_again() {
        let (now, ten) = (seconds(1_000), seconds(10));
        let pods = |ready_for: &[u64]| -> Vec<Pod> {
            let ready = ready_for
                .iter()
                .map(|time| ready("True", Some(1_000 - time)));
            ready.chain([ready_false()]).collect()
        };
        fn ready_false() -> Pod {
            ready("False", Some(1_000))
        }
        assert_eq!(
            next_available(&pods(&[2, 0, 4]), ten, now),
            Some(seconds(6))
        );
        assert_eq!(next_available(&pods(&[15, 11, 10]), ten, now), None);
        assert_eq!(next_available(&pods(&[0]), Duration::ZERO, now), None);
        assert_eq!(next_available(&pods(&[]), ten, now), None);
    }
}
