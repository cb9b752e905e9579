//! The pod of a Job, as it is created.

use pilothouse_sdk::Kind;
use serde_json::{Value, json};
use workloads::claim::Claimant;
use workloads::template;

use crate::failure_policy::consequence;
use crate::objects::{Job, Pod};
use crate::pods::TRACKING;

/// Annotation and label with a pod's completion index.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// Most characters of a name's prefix: the host cuts longer ones.
const MAX_PREFIX: usize = 55;

/// A pod of a Job without indexes.
pub fn pod(job: &Job) -> Value {
    let owner = Claimant::new(Job::KIND, &job.metadata.always).controller_reference();
    let mut pod = template::pod(&job.spec.template, &job.object_ref(), &owner);
    let finalizers = pod["metadata"]["finalizers"].as_array().cloned();
    let mut finalizers = finalizers.unwrap_or_default();
    if finalizers.iter().all(|name| name != TRACKING) {
        finalizers.push(TRACKING.into());
    }
    pod["metadata"]["finalizers"] = finalizers.into();
    pod
}

/// The pod of an index. With a back-off limit for each index the pod says how often this one has
/// failed, as known from the pod that it replaces.
pub fn indexed_pod(job: &Job, index: i64, replaced: Option<&Pod>) -> Value {
    let mut pod = pod(job);
    let metadata = &mut pod["metadata"];
    metadata["generateName"] = prefix(&job.metadata.always.name, index).into();
    metadata["annotations"][INDEX] = index.to_string().into();
    metadata["labels"][INDEX] = index.to_string().into();
    if job.spec.backoff_limit_per_index.is_some() {
        let (failures, ignored) = replaced.map_or((0, 0), |replaced| failures(job, replaced));
        metadata["annotations"][FAILURES] = failures.to_string().into();
        if ignored > 0 {
            metadata["annotations"][IGNORED_FAILURES] = ignored.to_string().into();
        }
    }
    for containers in ["initContainers", "containers"] {
        if let Some(containers) = pod["spec"].get_mut(containers) {
            add_index_variable(containers);
        }
    }
    pod["spec"]["hostname"] = format!("{}-{index}", job.metadata.always.name).into();
    pod
}

/// `NAME-INDEX-`, of which the name is cut if it is long.
fn prefix(name: &str, index: i64) -> String {
    let end = format!("-{index}-");
    let name: String = name
        .chars()
        .take(MAX_PREFIX.saturating_sub(end.len()))
        .collect();
    name + &end
}

/// Gives each container the index in a variable, unless it sets that itself.
fn add_index_variable(containers: &mut Value) {
    let path = format!("metadata.labels['{INDEX}']");
    let variable = json!({
        "name": INDEX_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": path}},
    });
    for container in containers.as_array_mut().into_iter().flatten() {
        let variables = container["env"].as_array().cloned();
        let mut variables = variables.unwrap_or_default();
        if variables.iter().all(|one| one["name"] != INDEX_VARIABLE) {
            variables.push(variable.clone());
            container["env"] = variables.into();
        }
    }
}

/// How often an index has failed now that this pod has: counting and ignored failures.
fn failures(job: &Job, failed: &Pod) -> (i64, i64) {
    let before = (
        i64::from(failed.failures()),
        i64::from(failed.ignored_failures()),
    );
    if consequence(job, failed).counts() {
        (before.0 + 1, before.1)
    } else {
        (before.0, before.1 + 1)
    }
}
