//! Parts of objects that most controllers write.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Kind, rfc3339};

/// One of `status.conditions`, as in Kubernetes' `metav1.Condition`. What another controller has left
/// out of its own is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// CamelCase: `Ready`.
    pub r#type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// CamelCase, for machines: why the status is what it is.
    pub reason: String,
    /// For people.
    pub message: String,
    /// Since when the status is what it is. [`set_condition`] sees to it.
    pub last_transition_time: String,
    /// The `metadata.generation` that this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

impl Condition {
    /// It is so, or it is not.
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

    /// Nobody knows.
    #[must_use]
    pub fn unknown(r#type: &str, reason: &str, message: &str) -> Self {
        Self {
            status: "Unknown".to_owned(),
            ..Self::new(r#type, false, reason, message)
        }
    }

    /// About this `metadata.generation`.
    #[must_use]
    pub fn observed(mut self, generation: i64) -> Self {
        self.observed_generation = Some(generation);
        self
    }
}

/// Puts a condition in the place of the one of its type, or behind the others. Its
/// `lastTransitionTime` is `now` when its status is another than before, and stays otherwise, so that
/// a status which says the same as before is written no second time.
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

/// One of `metadata.ownerReferences`: when the owner is deleted, the garbage collector deletes what it
/// owns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    api_version: String,
    kind: String,
    name: String,
    uid: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    controller: bool,
}

impl OwnerReference {
    /// An owner in the same namespace, or in none, that the plugin reads: the host refuses others. The
    /// uid comes along with whatever is read of an object.
    #[must_use]
    pub fn new(kind: &Kind, name: &str, uid: &str) -> Self {
        Self {
            api_version: kind.api_version(),
            kind: kind.kind.clone(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            controller: false,
        }
    }

    /// The one among the owners that sees to the object.
    #[must_use]
    pub fn controller(mut self) -> Self {
        self.controller = true;
        self
    }
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

    #[test]
    fn an_owner_reference_says_who() {
        let site = Kind::new("example.com", "v1", "Site");
        let reference = OwnerReference::new(&site, "a", "u1");
        let wanted =
            json!({"apiVersion": "example.com/v1", "kind": "Site", "name": "a", "uid": "u1"});
        assert_eq!(serde_json::to_value(&reference).unwrap_or_default(), wanted);
        let controller = serde_json::to_value(reference.controller()).unwrap_or_default();
        assert_eq!(controller["controller"], true);
    }
}
