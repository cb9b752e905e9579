//! The pods of a DaemonSet: its template, with the tolerations that every daemon has, its revision,
//! and the node that the pod is for.

use pilothouse_sdk::{Kind, ObjectRef};
use serde_json::{Value, json};
use workloads::claim::Claimant;
use workloads::scheduling::{NO_EXECUTE, NO_SCHEDULE};
use workloads::template;

use crate::objects::{DaemonSet, GENERATION_LABEL, HASH_LABEL};

/// The taints that every daemon tolerates: it is not driven off a node that has problems, and it
/// starts on one that is full or cordoned.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", NO_EXECUTE),
    ("node.kubernetes.io/unreachable", NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/unschedulable", NO_SCHEDULE),
];
/// The taint that a daemon on the host's network tolerates as well: it may be what brings the
/// network.
const HOST_NETWORK_TOLERATED: (&str, &str) =
    ("node.kubernetes.io/network-unavailable", NO_SCHEDULE);

/// The tolerations of a pod with this spec: its own, and those of every daemon.
pub fn tolerations(spec: &Value) -> Vec<Value> {
    let own = spec["tolerations"].as_array();
    let mut tolerations = own.cloned().unwrap_or_default();
    let host_network = spec["hostNetwork"] == true;
    let host_network = host_network.then_some(HOST_NETWORK_TOLERATED);
    for (key, effect) in TOLERATED.into_iter().chain(host_network) {
        let added = json!({"key": key, "operator": "Exists", "effect": effect});
        let is_same = |other: &Value| {
            let text = |member: &str| other[member].as_str().unwrap_or_default();
            [text("key"), text("operator"), text("effect"), text("value")]
                == [key, "Exists", effect, ""]
        };
        let mut is_there = false;
        for same in tolerations.iter_mut().filter(|other| is_same(other)) {
            // One that is for some seconds only becomes one without an end.
            *same = added.clone();
            is_there = true;
        }
        if !is_there {
            tolerations.push(added);
        }
    }
    tolerations
}

/// What the pods of a DaemonSet are made of.
pub struct PodTemplate {
    /// A pod for no node yet.
    pod: Value,
}

impl PodTemplate {
    /// The template of the pods of this revision.
    pub fn of(key: &ObjectRef, daemon_set: &DaemonSet, hash: &str) -> Self {
        let claimant = Claimant::new(DaemonSet::KIND, &daemon_set.metadata.always);
        let owner = claimant.controller_reference();
        let mut pod = template::pod(&daemon_set.spec.template, key, &owner);
        let spec = member(&mut pod, "spec");
        spec["tolerations"] = Value::Array(tolerations(spec));
        let labels = member(&mut pod["metadata"], "labels");
        labels[HASH_LABEL] = hash.into();
        if let Some(generation) = daemon_set.template_generation() {
            labels[GENERATION_LABEL] = generation.into();
        }
        Self { pod }
    }

    /// The pod for this node. The scheduler puts it there and nowhere else, or leaves it waiting.
    pub fn on_node(&self, node: &str) -> Value {
        let mut pod = self.pod.clone();
        let pinned = json!([{
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}],
        }]);
        // What the template itself requires of the node holds for this one.
        let affinity = member(&mut pod["spec"], "affinity");
        let affinity = member(affinity, "nodeAffinity");
        let required = member(affinity, "requiredDuringSchedulingIgnoredDuringExecution");
        required["nodeSelectorTerms"] = pinned;
        pod
    }
}

/// The member of this name, which becomes an empty object if there is none.
fn member<'a>(object: &'a mut Value, name: &str) -> &'a mut Value {
    let member = &mut object[name];
    if member.is_null() {
        *member = json!({});
    }
    member
}
