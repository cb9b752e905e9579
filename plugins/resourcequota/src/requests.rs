//! What a pod requests and is limited to, with its init containers, its sidecars, its overhead and
//! resizes under way (upstream's `k8s.io/component-helpers/resource`).

use crate::pod_objects::{ContainerStatus, Pod, Requirements};
use crate::resources::{Resources, add, raise};

/// The requests of a whole pod.
pub fn requests(pod: &Pod) -> Resources {
    let mut sum = of_containers(pod, Side::Requests);
    if let Some(own) = &pod.spec.resources
        && has_pod_level(&own.requests)
    {
        replace(&mut sum, &own.requests);
    }
    add(&mut sum, &pod.spec.overhead);
    sum
}

/// The limits of a whole pod.
pub fn limits(pod: &Pod) -> Resources {
    let mut sum = of_containers(pod, Side::Limits);
    if let Some(own) = &pod.spec.resources
        && (has_pod_level(&own.requests) || has_pod_level(&own.limits))
    {
        replace(&mut sum, &own.limits);
    }
    for (name, amount) in &pod.spec.overhead {
        // What is not limited stays unlimited.
        if let Some(limit) = sum.get_mut(name).filter(|limit| !limit.is_zero()) {
            *limit += *amount;
        }
    }
    sum
}

/// True for a resource that can be asked for by the pod as a whole.
fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

fn has_pod_level(of: &Resources) -> bool {
    of.keys().any(|name| is_pod_level(name))
}

/// What the pod asks for as a whole counts instead of what its containers ask for.
fn replace(sum: &mut Resources, own: &Resources) {
    let own = own.iter().filter(|(name, _)| is_pod_level(name));
    sum.extend(own.map(|(name, amount)| (name.clone(), *amount)));
}

#[derive(Clone, Copy)]
enum Side {
    Requests,
    Limits,
}

impl Side {
    fn of(self, requirements: &Requirements) -> &Resources {
        match self {
            Self::Requests => &requirements.requests,
            Self::Limits => &requirements.limits,
        }
    }
}

/// The containers run together; each init container runs before them, beside the sidecars that have
/// been started before it. Of each resource the most that is needed at one time counts.
fn of_containers(pod: &Pod, side: Side) -> Resources {
    let mut sum = Resources::new();
    for container in &pod.spec.containers {
        add(
            &mut sum,
            &effective(pod, &container.name, &container.resources, side),
        );
    }
    let mut sidecars = Resources::new();
    let mut most = Resources::new();
    for container in &pod.spec.init_containers {
        if container.restart_policy == "Always" {
            let own = effective(pod, &container.name, &container.resources, side);
            add(&mut sum, &own);
            add(&mut sidecars, &own);
            raise(&mut most, &sidecars);
        } else {
            let mut own = side.of(&container.resources).clone();
            add(&mut own, &sidecars);
            raise(&mut most, &own);
        }
    }
    raise(&mut sum, &most);
    sum
}

/// What a container asks for, or what it has if that is more: until a resize is done, both may be
/// needed. One that the node cannot do does not count.
fn effective(pod: &Pod, name: &str, wanted: &Requirements, side: Side) -> Resources {
    let status = &pod.status;
    let found = |statuses: &[ContainerStatus]| statuses.iter().rposition(|one| one.name == name);
    let of_init = found(&status.init_container_statuses);
    let of_init = of_init.map(|place| &status.init_container_statuses[place]);
    let of_others = found(&status.container_statuses);
    let of_others = of_others.map(|place| &status.container_statuses[place]);
    let Some(status) = of_init.or(of_others) else {
        return side.of(wanted).clone();
    };
    let Some(actual) = &status.resources else {
        return side.of(wanted).clone();
    };
    let mut effective = side.of(actual).clone();
    if matches!(side, Side::Requests) {
        raise(&mut effective, &status.allocated_resources);
    }
    if !is_infeasible(pod) {
        raise(&mut effective, side.of(wanted));
    }
    effective
}

/// True if the node cannot do the resize that is wanted.
fn is_infeasible(pod: &Pod) -> bool {
    let mut conditions = pod.status.conditions.iter();
    let pending = conditions.find(|condition| condition.r#type == "PodResizePending");
    pending.is_some_and(|pending| pending.reason == "Infeasible")
}
