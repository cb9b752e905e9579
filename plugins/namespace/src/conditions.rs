//! The five conditions that say how far the deletion of a namespace is.

use std::collections::BTreeMap;
use std::time::Duration;

use pilothouse_sdk::{Condition, set_condition};

use crate::content::Content;
use crate::namespace::Namespace;

/// `failing`: what to say of the groups whose kinds are not known.
pub fn set(namespace: &mut Namespace, failing: Option<&str>, content: &Content, now: Duration) {
    let is_well = failing.is_none() && content.failures().is_empty();
    if is_well && !content.is_being_deleted() {
        // There will be more to say when all that is there has been asked to be deleted.
        return;
    }
    let mut conditions = namespace.conditions();
    let news = [
        discovery(failing),
        Condition::new(
            "NamespaceDeletionGroupVersionParsingFailure",
            false,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        failures(content),
        remaining(content),
        finalizers(content),
    ];
    for condition in news {
        // What has been asked for only now is not said to remain.
        let is_left = content.is_being_deleted() || !condition.r#type.ends_with("Remaining");
        if is_left {
            set_condition(&mut conditions, condition, now);
        }
    }
    namespace.set_conditions(&conditions);
}

fn discovery(failing: Option<&str>) -> Condition {
    let name = "NamespaceDeletionDiscoveryFailure";
    match failing {
        Some(message) => Condition::new(name, true, "DiscoveryFailed", message),
        None => Condition::new(
            name,
            false,
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
    }
}

fn failures(content: &Content) -> Condition {
    let name = "NamespaceDeletionContentFailure";
    let failures = content.failures();
    if failures.is_empty() {
        let message = "All content successfully deleted, may be waiting on finalization";
        return Condition::new(name, false, "ContentDeleted", message);
    }
    let message = format!(
        "Failed to delete all resource types, {} remaining: {}",
        failures.len(),
        failures.join(", ")
    );
    Condition::new(name, true, "ContentDeletionFailed", &message)
}

/// While pods are left, upstream says nothing of what remains.
fn remaining(content: &Content) -> Condition {
    let name = "NamespaceContentRemaining";
    let kinds = content.kinds.iter();
    let left = kinds.filter(|kind| kind.count > 0 && !content.is_of_pods);
    let left =
        left.map(|kind| format!("{} has {} resource instances", kind.resource(), kind.count));
    let mut left: Vec<String> = left.collect();
    left.sort_unstable();
    if left.is_empty() {
        let message = "All content successfully removed";
        return Condition::new(name, false, "ContentRemoved", message);
    }
    let message = format!("Some resources are remaining: {}", left.join(", "));
    Condition::new(name, true, "SomeResourcesRemain", &message)
}

fn finalizers(content: &Content) -> Condition {
    let name = "NamespaceFinalizersRemaining";
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for kind in content.kinds.iter().filter(|_| !content.is_of_pods) {
        for (finalizer, count) in &kind.finalizers {
            *counts.entry(finalizer).or_default() += count;
        }
    }
    if counts.is_empty() {
        let message = "All content-preserving finalizers finished";
        return Condition::new(name, false, "ContentHasNoFinalizers", message);
    }
    let counts = counts.iter();
    let mut waiting: Vec<String> = counts
        .map(|(finalizer, count)| format!("{finalizer} in {count} resource instances"))
        .collect();
    waiting.sort_unstable();
    let message = format!(
        "Some content in the namespace has finalizers remaining: {}",
        waiting.join(", ")
    );
    Condition::new(name, true, "SomeFinalizersRemain", &message)
}
