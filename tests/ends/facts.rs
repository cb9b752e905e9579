//! What counts of an object when it is judged.

use pilothouse_tests::name_of;
use serde_json::Value;

use crate::kinds::KindOf;

/// The finalizers that the plugins take away.
pub const FOREGROUND: &str = "foregroundDeletion";
pub const ORPHAN: &str = "orphan";
pub const PROTECTION: &str = "kubernetes.io/pvc-protection";

/// The finalizer of somebody else, who takes it away at some time.
pub const HOLD: &str = "example.dev/hold";

/// A reference to an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    /// `blockOwnerDeletion`.
    pub blocks: bool,
    /// `controller`.
    pub controls: bool,
}

impl Owner {
    /// The reference if the deletion of the owner does not wait for the object.
    pub fn unblocked(&self) -> Self {
        Self {
            blocks: false,
            ..self.clone()
        }
    }
}

/// An object at one version.
#[derive(Debug)]
pub struct Facts {
    pub resource: &'static str,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub is_dying: bool,
    pub finalizers: Vec<String>,
    pub owners: Vec<Owner>,
    /// Of a pod.
    pub pod: Option<PodFacts>,
}

/// What a pod uses.
#[derive(Debug, Default)]
pub struct PodFacts {
    pub has_node: bool,
    /// It is being deleted, and its kubelet is done with it.
    pub is_shut_down: bool,
    /// The claims that its volumes name.
    pub claims: Vec<String>,
    /// The claims that are made for its ephemeral volumes.
    pub made: Vec<String>,
}

impl Facts {
    pub fn of(resource: &'static str, object: &Value) -> Self {
        let metadata = &object["metadata"];
        let finalizers = metadata["finalizers"].as_array();
        let owners = metadata["ownerReferences"].as_array();
        Self {
            resource,
            namespace: text(&metadata["namespace"]),
            name: text(&metadata["name"]),
            uid: text(&metadata["uid"]),
            is_dying: metadata["deletionTimestamp"].is_string(),
            finalizers: finalizers.into_iter().flatten().map(text).collect(),
            owners: owners.into_iter().flatten().map(owner).collect(),
            pod: (resource == "pods").then(|| pod(object)),
        }
    }

    pub fn has(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|one| one == finalizer)
    }

    /// Whether a finalizer holds it.
    pub fn is_held(&self) -> bool {
        !self.finalizers.is_empty()
    }

    /// Whether it is being deleted and waits until its dependents are.
    pub fn is_waiting(&self) -> bool {
        self.is_dying && self.has(FOREGROUND)
    }

    /// Whether it is a pod for whose end nobody waits: the server marks it so, and then removes it.
    pub fn is_ending(&self) -> bool {
        let is_shut_down = self.pod.as_ref().is_some_and(|pod| pod.is_shut_down);
        is_shut_down && !self.is_held()
    }

    /// Whether its deletion leaves its dependents, which have to give it up first.
    pub fn is_orphaning(&self) -> bool {
        self.is_dying && self.has(ORPHAN)
    }

    pub fn path(&self) -> String {
        KindOf::of(self.resource).path(&self.namespace, &self.name)
    }

    /// Whether the deletion of this owner waits for it.
    pub fn blocks(&self, uid: &str) -> bool {
        self.owners.iter().any(|one| one.uid == uid && one.blocks)
    }

    pub fn names(&self, owner_uid: &str) -> bool {
        self.owner(owner_uid).is_some()
    }

    /// Its reference to this owner.
    pub fn owner(&self, uid: &str) -> Option<&Owner> {
        self.owners.iter().find(|one| one.uid == uid)
    }

    /// Whether this pod uses a claim: it has a node, and it names the claim, or the claim is made
    /// for it and its kubelet is not done yet.
    pub fn uses(&self, claim: &Self) -> bool {
        let Some(pod) = &self.pod else {
            return false;
        };
        let names = pod.claims.contains(&claim.name);
        let mut controllers = claim.owners.iter().filter(|owner| owner.controls);
        let is_mine = controllers.any(|owner| owner.uid == self.uid);
        let made = is_mine && pod.made.contains(&claim.name) && !pod.is_shut_down;
        pod.has_node && self.namespace == claim.namespace && (names || made)
    }
}

fn owner(reference: &Value) -> Owner {
    Owner {
        api_version: text(&reference["apiVersion"]),
        kind: text(&reference["kind"]),
        name: text(&reference["name"]),
        uid: text(&reference["uid"]),
        blocks: reference["blockOwnerDeletion"] == true,
        controls: reference["controller"] == true,
    }
}

fn pod(object: &Value) -> PodFacts {
    let (metadata, spec) = (&object["metadata"], &object["spec"]);
    let volumes = || spec["volumes"].as_array().into_iter().flatten();
    let name = name_of(object);
    let named = volumes().filter_map(|one| one["persistentVolumeClaim"]["claimName"].as_str());
    let made = volumes().filter(|one| one["ephemeral"].is_object());
    PodFacts {
        has_node: spec["nodeName"].is_string(),
        is_shut_down: metadata["deletionTimestamp"].is_string()
            && metadata["deletionGracePeriodSeconds"] == 0,
        claims: named.map(str::to_owned).collect(),
        made: made
            .map(|one| format!("{name}-{}", text(&one["name"])))
            .collect(),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
