//! The pod of a Job, as it is created.

use pilothouse_sdk::Kind;
use serde_json::{Map, Value, json};

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
    let prefix = format!("{}-", job.metadata.name);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": metadata(job, &prefix), "spec": job.spec.template["spec"],
    })
}

/// The pod of an index. With a back-off limit for each index the pod says how often this one has
/// failed, as known from the pod that it replaces.
pub fn indexed_pod(job: &Job, index: i64, replaced: Option<&Pod>) -> Value {
    let mut spec = job.spec.template["spec"].clone();
    add_index_variable(&mut spec["initContainers"]);
    add_index_variable(&mut spec["containers"]);
    if spec["initContainers"].is_null()
        && let Some(spec) = spec.as_object_mut()
    {
        spec.remove("initContainers");
    }
    spec["hostname"] = format!("{}-{index}", job.metadata.name).into();
    let mut metadata = Value::Object(metadata(job, &prefix(&job.metadata.name, index)));
    metadata["annotations"][INDEX] = index.to_string().into();
    metadata["labels"][INDEX] = index.to_string().into();
    if job.spec.backoff_limit_per_index.is_some() {
        let (failures, ignored) = replaced.map_or((0, 0), |replaced| failures(job, replaced));
        metadata["annotations"][FAILURES] = failures.to_string().into();
        if ignored > 0 {
            metadata["annotations"][IGNORED_FAILURES] = ignored.to_string().into();
        }
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

fn metadata(job: &Job, prefix: &str) -> Map<String, Value> {
    let template = &job.spec.template["metadata"];
    let mut metadata = Map::new();
    for member in ["labels", "annotations"] {
        if let Value::Object(entries) = &template[member] {
            metadata.insert(member.to_owned(), entries.clone().into());
        }
    }
    let mut finalizers = template["finalizers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    if finalizers.iter().all(|name| name != TRACKING) {
        finalizers.push(TRACKING.into());
    }
    metadata.insert(
        "namespace".to_owned(),
        job.metadata.namespace.as_str().into(),
    );
    metadata.insert("generateName".to_owned(), prefix.into());
    metadata.insert("finalizers".to_owned(), finalizers.into());
    metadata.insert("ownerReferences".to_owned(), json!([owner(job)]));
    metadata
}

/// The Job as the owner that manages a pod.
pub fn owner(job: &Job) -> Value {
    let (api_version, kind) = Job::KIND.rsplit_once('/').unwrap_or_default();
    json!({
        "apiVersion": api_version, "kind": kind, "name": job.metadata.name,
        "uid": job.metadata.uid, "controller": true, "blockOwnerDeletion": true,
    })
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
