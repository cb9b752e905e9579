//! Conditions: the parts of a status that most controllers write.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::rfc3339;

/// An entry of `status.conditions`, as in Kubernetes' `metav1.Condition`. Fields that another
/// controller has left out are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// The type, in CamelCase: `Ready`.
    pub r#type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The reason for the status, in CamelCase, for machines.
    pub reason: String,
    /// The details, for people.
    pub message: String,
    /// When the status last changed (RFC 3339). [`set_condition`] sets it.
    pub last_transition_time: String,
    /// The `metadata.generation` that the condition was derived from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

impl Condition {
    /// A condition whose status is `True` or `False`.
    #[must_use]
    pub fn new(r#type: &str, is_so: bool, reason: &str, message: &str) -> Self {
        Self {
            r#type: r#type.to_owned(),
            status: if is_so { "True" } else { "False" }.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            ..Self::default()
        }
    }

    /// A condition whose status is `Unknown`.
    #[must_use]
    pub fn unknown(r#type: &str, reason: &str, message: &str) -> Self {
        Self {
            status: "Unknown".to_owned(),
            ..Self::new(r#type, false, reason, message)
        }
    }

    /// Sets the `metadata.generation` that the condition was derived from.
    #[must_use]
    pub fn observed(mut self, generation: i64) -> Self {
        self.observed_generation = Some(generation);
        self
    }
}

/// Replaces the condition of the same type, or appends the condition if there is none. Its
/// `lastTransitionTime` becomes `now` if the status has changed or had no time, and stays as it is
/// otherwise. A status with the same content is therefore not written again.
pub fn set_condition(conditions: &mut Vec<Condition>, mut condition: Condition, now: Duration) {
    let same_type = |have: &&mut Condition| have.r#type == condition.r#type;
    let Some(have) = conditions.iter_mut().find(same_type) else {
        condition.last_transition_time = rfc3339(now);
        conditions.push(condition);
        return;
    };
    let is_same = have.status == condition.status && !have.last_transition_time.is_empty();
    condition.last_transition_time = if is_same {
        have.last_transition_time.clone()
    } else {
        rfc3339(now)
    };
    *have = condition;
}

/// The condition of this type, if there is one.
#[must_use]
pub fn find_condition<'a>(conditions: &'a [Condition], r#type: &str) -> Option<&'a Condition> {
    conditions
        .iter()
        .find(|condition| condition.r#type == r#type)
}

/// True if there is a condition of this type, and its status is `True`.
#[must_use]
pub fn is_condition_true(conditions: &[Condition], r#type: &str) -> bool {
    find_condition(conditions, r#type).is_some_and(|condition| condition.status == "True")
}

/// Removes the condition of this type.
pub fn remove_condition(conditions: &mut Vec<Condition>, r#type: &str) {
    conditions.retain(|condition| condition.r#type != r#type);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn a_condition_keeps_its_time_while_its_status_stays() {
        let mut conditions = Vec::new();
        let times = |conditions: &[Condition]| -> Vec<String> {
            let times = conditions
                .iter()
                .map(|c| c.last_transition_time[..10].to_owned());
            times.collect()
        };
        set_condition(
            &mut conditions,
            Condition::new("Ready", false, "Starting", ""),
            DAY,
        );
        set_condition(
            &mut conditions,
            Condition::unknown("Sound", "NotAsked", ""),
            DAY,
        );
        assert_eq!(times(&conditions), ["1970-01-02", "1970-01-02"]);

        let later = Condition::new("Ready", false, "Waiting", "for a pod").observed(3);
        set_condition(&mut conditions, later, 2 * DAY);
        assert_eq!(times(&conditions), ["1970-01-02", "1970-01-02"]);
        assert_eq!(conditions[0].reason, "Waiting");
        assert_eq!(conditions[0].observed_generation, Some(3));

        set_condition(
            &mut conditions,
            Condition::new("Ready", true, "Up", ""),
            3 * DAY,
        );
        assert_eq!(times(&conditions), ["1970-01-04", "1970-01-02"]);
    }

    #[test]
    fn a_condition_is_found_by_its_type_and_removed_by_it() {
        let mut conditions = vec![
            Condition::new("Ready", true, "Up", ""),
            Condition::unknown("Sound", "NotAsked", ""),
            Condition::new("Stalled", false, "Moving", ""),
        ];
        let found = find_condition(&conditions, "Sound").map(|found| found.reason.as_str());
        assert_eq!(found, Some("NotAsked"));
        assert_eq!(find_condition(&conditions, "Fast"), None);
        let is_true = ["Ready", "Sound", "Stalled", "Fast"]
            .map(|r#type| is_condition_true(&conditions, r#type));
        assert_eq!(is_true, [true, false, false, false]);

        remove_condition(&mut conditions, "Sound");
        remove_condition(&mut conditions, "Fast");
        let left: Vec<&str> = conditions.iter().map(|left| left.r#type.as_str()).collect();
        assert_eq!(left, ["Ready", "Stalled"]);
    }

    #[test]
    fn a_condition_of_another_controller_may_leave_things_out() {
        let condition: Condition =
            serde_json::from_value(json!({"type": "Ready", "status": "True"})).unwrap_or_default();
        assert_eq!(condition.status, "True");
        let mut conditions = vec![condition];
        set_condition(
            &mut conditions,
            Condition::new("Ready", true, "Up", ""),
            DAY,
        );
        assert_eq!(
            serde_json::to_value(&conditions).unwrap_or_default(),
            json!([{
                "type": "Ready", "status": "True", "reason": "Up", "message": "",
                "lastTransitionTime": "1970-01-02T00:00:00Z",
            }])
        );
    }
}
