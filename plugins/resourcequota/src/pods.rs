//! Pods: how many there are, and what they request and are limited to.

use std::time::Duration;

use pilothouse_sdk::{Failure, Filter, Kind};

use crate::alike::{Alike, Likeness, PodText};
use crate::objects::ScopeExpression;
use crate::pod_objects::{Pod, PodMetadata, PodStatus, Requirements, Term, Terms};
use crate::requests::{limits, requests};
use crate::resources::{Resources, is_native};
use crate::scopes::InvalidScope;
use crate::usage::{PAGE, Tally, number};

const COUNT: &str = "count/pods";
const PODS: &str = "pods";
const REQUESTS: &str = "requests.";
const LIMITS: &str = "limits.";
const HUGE_PAGES: &str = "hugepages-";
/// The computing resources that are limited by their own name and with a prefix.
const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// What stands before the name of a DeviceClass in the resource that a pod requests of it.
pub const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

/// Counts the pods of the scopes.
pub fn count(tally: &mut Tally) -> Result<(), Failure> {
    if !tally.begin(is_counted) {
        return Ok(());
    }
    let (host, namespace) = (tally.host, tally.namespace);
    let mut alike = Alike::default();
    for page in host.pages::<PodText>(Pod::KIND, Some(namespace), &Filter::Everything, PAGE) {
        for pod in page? {
            tally.objects += 1;
            let likeness = alike.of(&pod, tally)?;
            match likeness.is_held {
                Ok(true) => count_one(tally, &pod.metadata, likeness),
                Ok(false) => {}
                Err(InvalidScope) => return Ok(()),
            }
        }
    }
    Ok(())
}

fn count_one(tally: &mut Tally, metadata: &PodMetadata, likeness: &Likeness) {
    let is_charged = is_charged(metadata, likeness.has_ended, tally.now);
    let usage = match is_charged {
        true => &likeness.charged,
        false => &likeness.uncharged,
    };
    tally.add_part(Pod::KIND, &metadata.uid, usage);
    let end = end_of_grace(metadata).filter(|end| is_charged && *end >= tally.now);
    if let Some(end) = end {
        // It counts at that moment still.
        tally.changes_at(end + Duration::from_millis(1));
    }
}

fn is_counted(name: &str) -> bool {
    let own = name.strip_prefix(REQUESTS);
    let compute = own.or(name.strip_prefix(LIMITS)).unwrap_or(name);
    matches!(name, COUNT | PODS)
        || COMPUTE.contains(&compute)
        || own.unwrap_or(name).starts_with(HUGE_PAGES)
        || is_extended(name)
}

/// True for a quota's name of a resource that Kubernetes does not know, such as
/// `requests.example.com/gpu`. Of these only requests are limited.
pub fn is_extended(name: &str) -> bool {
    let requested = name.strip_prefix(REQUESTS);
    requested.is_some_and(|requested| requested.starts_with(DEVICE_CLASS) || !is_native(name))
}

/// What a pod uses at this time.
pub fn usage_at(pod: &Pod, now: Duration) -> Resources {
    usage(pod, is_charged(&pod.metadata, has_ended(&pod.status), now))
}

/// What a pod uses. One that is not charged, because it has ended or should be gone, is only an
/// object.
pub fn usage(pod: &Pod, is_charged: bool) -> Resources {
    let mut usage = Resources::from([(COUNT.to_owned(), number(1))]);
    if !is_charged {
        return usage;
    }
    let mut put = |name: String, amount| usage.insert(name, amount);
    put(PODS.to_owned(), number(1));
    for (name, amount) in requests(pod) {
        let (is_compute, is_huge) = (COMPUTE.contains(&&*name), name.starts_with(HUGE_PAGES));
        if is_compute || is_huge || name.starts_with(DEVICE_CLASS) || !is_native(&name) {
            put(format!("{REQUESTS}{name}"), amount);
        }
        if is_compute || is_huge {
            put(name, amount);
        }
    }
    for (name, amount) in limits(pod) {
        if COMPUTE.contains(&&*name) {
            put(format!("{LIMITS}{name}"), amount);
        }
    }
    usage
}

/// True unless the pod has ended, or its grace period is over: one that a lost node cannot report
/// gone must not keep others from taking its place.
fn is_charged(metadata: &PodMetadata, has_ended: bool, now: Duration) -> bool {
    !has_ended && end_of_grace(metadata).is_none_or(|end| now <= end)
}

pub fn has_ended(status: &PodStatus) -> bool {
    matches!(&*status.phase, "Succeeded" | "Failed")
}

/// Until when a pod that is being deleted counts. (As upstream, a grace period after its deletion
/// is due, which is a grace period after it was asked for.)
fn end_of_grace(metadata: &PodMetadata) -> Option<Duration> {
    let (deletion, grace) = metadata
        .deletion_timestamp
        .zip(metadata.deletion_grace_period_seconds)?;
    let grace = u64::try_from(grace).unwrap_or_default();
    Some(deletion.0 + Duration::from_secs(grace))
}

/// Whether a scope holds of a pod.
pub fn holds(scope: &ScopeExpression, pod: &Pod) -> Result<bool, InvalidScope> {
    let has_deadline = || {
        let deadline = pod.spec.active_deadline_seconds;
        deadline.is_some_and(|deadline| deadline >= 0)
    };
    match scope.scope_name.as_str() {
        "Terminating" => Ok(has_deadline()),
        "NotTerminating" => Ok(!has_deadline()),
        "BestEffort" => Ok(is_best_effort(pod)),
        "NotBestEffort" => Ok(!is_best_effort(pod)),
        "PriorityClass" => {
            let class = Some(&*pod.spec.priority_class_name);
            scope.selects(class.filter(|class| !class.is_empty()))
        }
        "CrossNamespacePodAffinity" => Ok(reaches_other_namespaces(pod)),
        _ => Ok(false),
    }
}

/// As the status says, and before it does: if nothing asks for CPU or memory.
fn is_best_effort(pod: &Pod) -> bool {
    let asks = |of: &Requirements| {
        let mut amounts = of.requests.iter().chain(&of.limits);
        amounts.any(|(name, amount)| matches!(&**name, "cpu" | "memory") && *amount > number(0))
    };
    let (spec, status) = (&pod.spec, &pod.status);
    if !status.qos_class.is_empty() {
        return status.qos_class == "BestEffort";
    }
    match &spec.resources {
        Some(own) => !asks(own),
        None => {
            let containers = spec.containers.iter().map(|container| &container.resources);
            let init = spec.init_containers.iter().map(|init| &init.resources);
            !containers.chain(init).any(asks)
        }
    }
}

/// True if the pod wants to be near to pods of other namespaces, or far from them.
fn reaches_other_namespaces(pod: &Pod) -> bool {
    let reaches = |term: &Term| !term.namespaces.is_empty() || term.namespace_selector.is_some();
    let any = |terms: &Terms| {
        let preferred = terms.preferred.iter().map(|term| &term.pod_affinity_term);
        terms.required.iter().chain(preferred).any(reaches)
    };
    let affinity = &pod.spec.affinity;
    any(&affinity.pod_affinity) || any(&affinity.pod_anti_affinity)
}
