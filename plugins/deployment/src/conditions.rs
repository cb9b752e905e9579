//! Conditions of a Deployment: their reasons and how they replace each other.

use std::time::Duration;

use pilothouse_sdk::Time;

use crate::objects::{Condition, DeploymentStatus, ReplicaSet};

pub const PROGRESSING: &str = "Progressing";
pub const AVAILABLE: &str = "Available";
pub const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Reasons of `Progressing`.
pub const SET_UPDATED: &str = "ReplicaSetUpdated";
pub const SET_CREATE_ERROR: &str = "ReplicaSetCreateError";
pub const SET_CREATED: &str = "NewReplicaSetCreated";
pub const SET_FOUND: &str = "FoundNewReplicaSet";
pub const SET_AVAILABLE: &str = "NewReplicaSetAvailable";
pub const TIMED_OUT: &str = "ProgressDeadlineExceeded";
pub const PAUSED: &str = "DeploymentPaused";
pub const RESUMED: &str = "DeploymentResumed";

impl Condition {
    /// A condition that has come about now. `status` is `True`, `False` or `Unknown`.
    pub fn new(r#type: &str, status: &str, reason: &str, message: &str, now: Duration) -> Self {
        Self {
            r#type: r#type.to_owned(),
            status: status.to_owned(),
            last_update_time: Some(whole_seconds(now)),
            last_transition_time: Some(whole_seconds(now)),
            reason: reason.to_owned(),
            message: message.to_owned(),
        }
    }
}

/// As an object can hold it.
fn whole_seconds(now: Duration) -> Time {
    Time(Duration::from_secs(now.as_secs()))
}

impl DeploymentStatus {
    pub fn condition(&self, r#type: &str) -> Option<&Condition> {
        self.conditions
            .iter()
            .find(|condition| condition.r#type == r#type)
    }

    pub fn remove_condition(&mut self, r#type: &str) {
        self.conditions
            .retain(|condition| condition.r#type != r#type);
    }

    /// Puts a condition in the place of the one of its type, unless that has the same status and
    /// reason. The transition time changes only with the status.
    pub fn set_condition(&mut self, mut condition: Condition) {
        if let Some(current) = self.condition(&condition.r#type)
            && current.status == condition.status
        {
            if current.reason == condition.reason {
                return;
            }
            condition.last_transition_time = current.last_transition_time;
        }
        self.remove_condition(&condition.r#type);
        self.conditions.push(condition);
    }
}

/// The failure of one of the ReplicaSets to create or delete pods: of the new one rather than of an
/// old one.
pub fn replica_failure<'a>(
    new: Option<&'a ReplicaSet>,
    old: impl Iterator<Item = &'a ReplicaSet>,
) -> Option<Condition> {
    let of = |set: &'a ReplicaSet| {
        let mut conditions = set.status.conditions.iter();
        conditions.find(|condition| condition.r#type == REPLICA_FAILURE)
    };
    let failure = new.into_iter().chain(old).find_map(of)?;
    Some(Condition {
        r#type: failure.r#type.clone(),
        status: failure.status.clone(),
        last_update_time: failure.last_transition_time,
        last_transition_time: failure.last_transition_time,
        reason: failure.reason.clone(),
        message: failure.message.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    /// `TestSetCondition` and `TestRemoveCondition` in deployment_util_test.go.
    #[test]
    fn a_condition_replaces_the_one_of_its_type_and_goes_to_the_end() {
        let progressing = Condition::new(PROGRESSING, "False", "ForSomeReason", "", DAY);
        let available = Condition::new(AVAILABLE, "True", "AwesomeController", "", DAY);
        let better = Condition::new(PROGRESSING, "True", "BecauseItIs", "", 2 * DAY);
        let mut status = DeploymentStatus::default();
        status.set_condition(progressing.clone());
        status.set_condition(available.clone());
        assert_eq!(status.conditions, [progressing, available.clone()]);
        status.set_condition(better.clone());
        assert_eq!(status.conditions, [available.clone(), better]);
        assert!(status.condition(REPLICA_FAILURE).is_none());
        status.remove_condition(REPLICA_FAILURE);
        status.remove_condition(PROGRESSING);
        assert_eq!(status.conditions, [available]);
    }

    #[test]
    fn a_condition_with_the_same_status_keeps_its_transition_and_with_the_same_reason_all() {
        let mut status = DeploymentStatus::default();
        status.set_condition(Condition::new(PROGRESSING, "True", SET_CREATED, "a", DAY));
        status.set_condition(Condition::new(
            PROGRESSING,
            "True",
            SET_CREATED,
            "b",
            2 * DAY,
        ));
        assert_eq!(status.conditions[0].message, "a");
        status.set_condition(Condition::new(
            PROGRESSING,
            "True",
            SET_UPDATED,
            "c",
            3 * DAY,
        ));
        let condition = &status.conditions[0];
        assert_eq!(condition.message, "c");
        assert_eq!(condition.last_transition_time, Some(Time(DAY)));
        assert_eq!(condition.last_update_time, Some(Time(3 * DAY)));
    }
}
