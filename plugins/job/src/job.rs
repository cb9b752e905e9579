//! What is asked of a Job.

use std::collections::BTreeMap;

use pilothouse_sdk::{Kind, ObjectRef};

use crate::objects::{Job, JobCondition};

/// The name of this controller in `spec.managedBy`.
const CONTROLLER: &str = "kubernetes.io/job-controller";

impl Job {
    pub fn object_ref(&self) -> ObjectRef {
        self.metadata.always.of_kind(Self::KIND)
    }

    pub fn is_being_deleted(&self) -> bool {
        self.metadata.always.deletion_timestamp.is_some()
    }

    /// True if another controller runs this Job.
    pub fn is_managed_by_another(&self) -> bool {
        let manager = self.spec.managed_by.as_deref();
        manager.is_some_and(|manager| manager != CONTROLLER)
    }

    /// True if the Job has failed or is complete.
    pub fn is_finished(&self) -> bool {
        self.true_condition("Complete").is_some() || self.true_condition("Failed").is_some()
    }

    /// The first condition of this type, if it is true.
    pub fn true_condition(&self, r#type: &str) -> Option<&JobCondition> {
        let mut conditions = self.status.conditions.iter();
        let found = conditions.find(|condition| condition.r#type == r#type);
        found.filter(|condition| condition.status == "True")
    }

    pub fn is_indexed(&self) -> bool {
        self.spec.completion_mode.as_deref() == Some("Indexed")
    }

    pub fn has_known_mode(&self) -> bool {
        let mode = self.spec.completion_mode.as_deref();
        matches!(mode, None | Some("Indexed" | "NonIndexed"))
    }

    /// The number of indexes. An indexed Job always has one.
    pub fn completions(&self) -> i64 {
        self.spec.completions.unwrap_or_default()
    }

    /// True if a pod is replaced only when it has come to its end, and not already when it is being
    /// deleted.
    pub fn replaces_only_failed(&self) -> bool {
        let policy = self.spec.pod_replacement_policy.as_deref();
        policy == Some("Failed") || self.spec.pod_failure_policy.is_some()
    }

    /// True if the Job would adopt pods with these labels.
    pub fn adopts(&self, labels: &BTreeMap<String, String>) -> bool {
        let is_at_work =
            !self.is_being_deleted() && !self.is_finished() && !self.is_managed_by_another();
        is_at_work && self.selects(labels)
    }

    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        let selector = self.spec.selector.as_ref();
        selector.is_some_and(|selector| selector.matches(labels))
    }
}
