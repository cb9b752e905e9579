//! Objects of the judge's tests.

use serde_json::{Value, json};

use crate::facts::{FOREGROUND, ORPHAN, PROTECTION};
use crate::kinds::KindOf;

/// An object as the API server shows it, without its version.
#[derive(Clone, Debug)]
pub struct Thing {
    pub resource: &'static str,
    pub object: Value,
}

impl Thing {
    /// An object of this name; those that have a namespace are in the same one.
    pub fn new(resource: &'static str, name: &str) -> Self {
        let kind = KindOf::of(resource);
        let mut object = json!({
            "apiVersion": kind.api_version, "kind": kind.kind,
            "metadata": {"name": name, "uid": format!("uid-of-{name}")},
        });
        if kind.is_namespaced {
            object["metadata"]["namespace"] = "story".into();
        }
        Self { resource, object }
    }

    pub fn config(name: &str) -> Self {
        Self::new("configmaps", name)
    }

    /// One that is being deleted and waits until its dependents are.
    pub fn waiting(name: &str) -> Self {
        Self::config(name).with(FOREGROUND).dying()
    }

    /// One that is being deleted and leaves its dependents.
    pub fn orphaning(name: &str) -> Self {
        Self::config(name).with(ORPHAN).dying()
    }

    pub fn claim() -> Self {
        Self::new("persistentvolumeclaims", "pod-data").with(PROTECTION)
    }

    /// A pod with a node, whose volumes are these.
    pub fn pod(name: &str, volumes: &[Value]) -> Self {
        let mut pod = Self::new("pods", name);
        pod.object["spec"] = json!({"nodeName": "node", "volumes": volumes});
        pod
    }

    /// A pod with a node that names the claim.
    pub fn user(name: &str) -> Self {
        let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": "pod-data"}});
        Self::pod(name, &[volume])
    }

    /// A pod with a node for which the claim is made.
    pub fn maker() -> Self {
        Self::pod("pod", &[json!({"name": "data", "ephemeral": {}})])
    }

    pub fn uid(&self) -> &str {
        self.object["metadata"]["uid"].as_str().unwrap()
    }

    pub fn path(&self) -> String {
        let metadata = &self.object["metadata"];
        let text = |member: &str| metadata[member].as_str().unwrap_or_default();
        KindOf::of(self.resource).path(text("namespace"), text("name"))
    }

    pub fn finalizers(&self) -> &Value {
        &self.object["metadata"]["finalizers"]
    }

    /// Another object of its name.
    pub fn reborn(mut self) -> Self {
        self.object["metadata"]["uid"] = format!("{} again", self.uid()).into();
        self
    }

    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.object["metadata"]["namespace"] = namespace.into();
        self
    }

    pub fn dying(mut self) -> Self {
        self.object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        self.object["metadata"]["deletionGracePeriodSeconds"] = 0.into();
        self
    }

    /// A pod that is being deleted and whose kubelet is not done with it.
    pub fn ending(self) -> Self {
        let mut pod = self.dying();
        pod.object["metadata"]["deletionGracePeriodSeconds"] = 30.into();
        pod
    }

    pub fn with(self, finalizer: &str) -> Self {
        let mut names = list(self.finalizers());
        names.push(finalizer.into());
        self.with_exactly(names)
    }

    pub fn without(self, finalizer: &str) -> Self {
        let mut names = list(self.finalizers());
        names.retain(|name| name != finalizer);
        self.with_exactly(names)
    }

    fn with_exactly(mut self, finalizers: Vec<Value>) -> Self {
        self.object["metadata"]["finalizers"] = finalizers.into();
        self
    }

    pub fn owned_by(self, owner: &Self) -> Self {
        let reference = owner.reference();
        self.referring(reference)
    }

    /// Its owner's deletion waits for it.
    pub fn blocking(self, owner: &Self) -> Self {
        let mut reference = owner.reference();
        reference["blockOwnerDeletion"] = true.into();
        self.referring(reference)
    }

    /// A claim that is made for this pod.
    pub fn made_for(self, pod: &Self) -> Self {
        let mut reference = pod.reference();
        reference["controller"] = true.into();
        self.referring(reference)
    }

    pub fn referring(mut self, reference: Value) -> Self {
        let mut references = list(&self.object["metadata"]["ownerReferences"]);
        references.push(reference);
        self.object["metadata"]["ownerReferences"] = references.into();
        self
    }

    pub fn disowned(mut self, owner: &Self) -> Self {
        let mut references = list(&self.object["metadata"]["ownerReferences"]);
        references.retain(|one| one["uid"] != owner.uid());
        self.object["metadata"]["ownerReferences"] = references.into();
        self
    }

    /// A reference to it.
    pub fn reference(&self) -> Value {
        let metadata = &self.object["metadata"];
        json!({
            "apiVersion": self.object["apiVersion"], "kind": self.object["kind"],
            "name": metadata["name"], "uid": metadata["uid"],
        })
    }
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}
