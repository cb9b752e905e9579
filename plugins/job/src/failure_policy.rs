//! What a Job's pod failure policy says about a failed pod.

use crate::objects::{ConditionPattern, ContainerStatus, Job, OnExitCodes, Pod};

/// What follows from the failure of a pod.
#[derive(Debug, PartialEq, Eq)]
pub enum Consequence {
    /// The whole Job fails, for this reason.
    FailJob(String),
    /// The pod's index fails, however few failures it has had.
    FailIndex,
    /// Nothing is counted.
    Ignore,
    /// The failure counts towards the back-off limits. No rule matches, or one that says so.
    Count,
}

impl Consequence {
    /// True if the failure counts towards the back-off limits.
    pub fn counts(&self) -> bool {
        *self != Self::Ignore
    }
}

/// Applies the first rule that matches the failed pod.
pub fn consequence(job: &Job, pod: &Pod) -> Consequence {
    let policy = job.spec.pod_failure_policy.iter();
    let rules = policy.flat_map(|policy| &policy.rules);
    for (place, rule) in rules.enumerate() {
        let reason = match (&rule.on_exit_codes, &rule.on_pod_conditions) {
            (Some(codes), _) => exit_code_reason(pod, codes),
            (None, Some(patterns)) => condition_reason(pod, patterns),
            (None, None) => None,
        };
        let Some(reason) = reason else { continue };
        match rule.action.as_str() {
            "FailJob" => {
                return Consequence::FailJob(format!(
                    "{reason} matching FailJob rule at index {place}"
                ));
            }
            "FailIndex" => return Consequence::FailIndex,
            "Ignore" => return Consequence::Ignore,
            "Count" => return Consequence::Count,
            // A later Kubernetes' action.
            _ => {}
        }
    }
    Consequence::Count
}

/// Says which container has ended with one of the exit codes, if one has. Init containers come
/// last.
fn exit_code_reason(pod: &Pod, codes: &OnExitCodes) -> Option<String> {
    let (status, metadata) = (&pod.status, &pod.metadata.always);
    let containers = status.container_statuses.iter();
    let mut all = containers.chain(&status.init_container_statuses);
    let (container, code) = all.find_map(|container| {
        let code = matching_code(container, codes)?;
        Some((&container.name, code))
    })?;
    let (namespace, name) = (&metadata.namespace, &metadata.name);
    Some(format!(
        "Container {container} for pod {namespace}/{name} failed with exit code {code}"
    ))
}

fn matching_code(container: &ContainerStatus, codes: &OnExitCodes) -> Option<i32> {
    let code = container.state.terminated.as_ref()?.exit_code;
    let wanted = codes.container_name.as_ref();
    let is_meant = wanted.is_none_or(|name| *name == container.name) && code != 0;
    let is_matching = match codes.operator.as_str() {
        "In" => codes.values.contains(&code),
        "NotIn" => !codes.values.contains(&code),
        _ => false,
    };
    (is_meant && is_matching).then_some(code)
}

/// Says which condition of the pod is one of these, if one is.
fn condition_reason(pod: &Pod, patterns: &[ConditionPattern]) -> Option<String> {
    let mut conditions = pod.status.state.conditions.iter();
    let condition = conditions.find(|condition| {
        let mut patterns = patterns.iter();
        patterns
            .any(|wanted| wanted.r#type == condition.r#type && wanted.status == condition.status)
    })?;
    let metadata = &pod.metadata.always;
    let (namespace, name) = (&metadata.namespace, &metadata.name);
    let r#type = &condition.r#type;
    Some(format!("Pod {namespace}/{name} has condition {type}"))
}
