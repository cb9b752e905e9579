//! The status of a budget as it should be, and the patches that make it so.

use std::collections::BTreeMap;
use std::time::Duration;

use pilothouse_sdk::{Failure, ObjectRef, Patch, Time, rfc3339};
use serde_json::{Map, Value, json};

use crate::objects::{Budget, BudgetStatus};

/// The condition that says whether a pod may be evicted.
const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";

/// The numbers of a budget, and which evictions are under way.
pub struct Counts<'a> {
    pub current_healthy: i32,
    pub desired_healthy: i32,
    pub expected_pods: i32,
    pub disrupted: &'a BTreeMap<&'a str, Time>,
}

impl Counts<'_> {
    /// How many pods may be evicted. None of no pods: a budget that has selected nothing so far
    /// must not let its first pods go before it has counted them.
    fn allowed(&self) -> i32 {
        if self.expected_pods <= 0 {
            return 0;
        }
        let spare = self.current_healthy.saturating_sub(self.desired_healthy);
        spare.max(0)
    }

    /// Writes the status, unless the budget has it already.
    pub fn patch(
        &self,
        key: &ObjectRef,
        budget: &Budget,
        now: Duration,
    ) -> Result<Option<Patch>, Failure> {
        let have = &budget.status;
        let generation = budget.metadata.generation;
        let allowed = self.allowed();
        let numbers = |status: &BudgetStatus| {
            [
                status.current_healthy,
                status.desired_healthy,
                status.expected_pods,
                status.disruptions_allowed,
            ]
        };
        let wanted = [
            self.current_healthy,
            self.desired_healthy,
            self.expected_pods,
            allowed,
        ];
        let condition = Condition::of_allowed(allowed);
        if numbers(have) == wanted
            && self.has_same_pods(have)
            && have.observed_generation == generation
            && condition.is_in(&have.conditions)
        {
            return Ok(None);
        }
        let mut status = json!({
            "currentHealthy": self.current_healthy,
            "desiredHealthy": self.desired_healthy,
            "expectedPods": self.expected_pods,
            "disruptionsAllowed": allowed,
            "observedGeneration": generation,
            "conditions": condition.put_into(&have.conditions, generation, now),
        });
        let changes = self.changes_of_pods(have);
        if !changes.is_empty() {
            status["disruptedPods"] = changes.into();
        }
        patch(key, &status).map(Some)
    }

    fn has_same_pods(&self, have: &BudgetStatus) -> bool {
        let have = have.disrupted_pods.iter();
        let have = have.map(|(name, entered)| (name.as_str(), entered.unwrap_or_default()));
        have.eq(self
            .disrupted
            .iter()
            .map(|(name, entered)| (*name, *entered)))
    }

    /// A merge patch of the disrupted pods: those that are expected no more are removed. The others
    /// are as they were.
    fn changes_of_pods(&self, have: &BudgetStatus) -> Map<String, Value> {
        let names = have.disrupted_pods.keys();
        let gone = names.filter(|name| !self.disrupted.contains_key(name.as_str()));
        gone.map(|name| (name.clone(), Value::Null)).collect()
    }
}

/// Allows no eviction, and says why nothing could be counted. The numbers stay as they are. `None`:
/// the budget says so already.
pub fn fail_safe(
    key: &ObjectRef,
    budget: &Budget,
    reason: &str,
    now: Duration,
) -> Result<Option<Patch>, Failure> {
    let have = &budget.status;
    let condition = Condition {
        is_true: false,
        reason: "SyncFailed",
        message: reason,
    };
    let conditions = condition.put_into(&have.conditions, have.observed_generation, now);
    if have.disruptions_allowed == 0 && conditions == have.conditions {
        return Ok(None);
    }
    let status = json!({"disruptionsAllowed": 0, "conditions": conditions});
    patch(key, &status).map(Some)
}

/// The patch is of the version that the snapshot shows: the API server itself writes the status
/// with each eviction, and what it has written must not be lost.
fn patch(key: &ObjectRef, status: &Value) -> Result<Patch, Failure> {
    let body = json!({"metadata": {"resourceVersion": "seen"}, "status": status});
    Ok(Patch::merge(key, &body)?.subresource("status"))
}

/// The condition [`DISRUPTION_ALLOWED`] as it should be.
struct Condition<'a> {
    is_true: bool,
    reason: &'static str,
    message: &'a str,
}

impl Condition<'_> {
    fn of_allowed(allowed: i32) -> Self {
        let is_true = allowed > 0;
        Self {
            is_true,
            reason: if is_true {
                "SufficientPods"
            } else {
                "InsufficientPods"
            },
            message: "",
        }
    }

    fn status(&self) -> &'static str {
        if self.is_true { "True" } else { "False" }
    }

    /// True if there is one with the same status and reason.
    fn is_in(&self, conditions: &[Value]) -> bool {
        let found = conditions.iter().find(|one| is_of_this_type(one));
        found
            .is_some_and(|found| found["status"] == self.status() && found["reason"] == self.reason)
    }

    /// These conditions with this one among them. Its time stays if its status does.
    fn put_into(&self, conditions: &[Value], generation: i64, now: Duration) -> Vec<Value> {
        let mut conditions = conditions.to_vec();
        let found = conditions.iter().position(is_of_this_type);
        let before = found.map(|place| &conditions[place]);
        let since = before.filter(|before| before["status"] == self.status());
        let since = since.map(|before| before["lastTransitionTime"].clone());
        let mut condition = json!({
            "type": DISRUPTION_ALLOWED, "status": self.status(), "reason": self.reason,
            "message": self.message,
            "lastTransitionTime": since.unwrap_or_else(|| rfc3339(now).into()),
        });
        if generation != 0 {
            condition["observedGeneration"] = generation.into();
        }
        match found {
            Some(place) => conditions[place] = condition,
            None => conditions.push(condition),
        }
        conditions
    }
}

fn is_of_this_type(condition: &Value) -> bool {
    condition["type"] == DISRUPTION_ALLOWED
}
