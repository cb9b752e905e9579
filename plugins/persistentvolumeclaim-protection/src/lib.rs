//! Keeps PersistentVolumeClaims that are being deleted until no pod uses them any more.
//!
//! The rules are those of kube-controller-manager's PVC protection controller
//! (`pkg/controller/volume/pvcprotection` in kubernetes/kubernetes). The README lists the
//! differences.

use pilothouse_sdk::{
    Controller, Failure, Filter, Finalizer, Host, Kind, Manifest, Metadata, ObjectRef, Outcome,
    Projection, Read, Request, Selection, Verb,
};
use serde::Deserialize;
use serde_json::Value;

/// The finalizer that holds a claim.
const FINALIZER: &str = "kubernetes.io/pvc-protection";

/// The index of pods by the claims that they name.
const BY_CLAIM: &str = "claim";

#[derive(Deserialize, Projection)]
#[projection(kind = "v1/PersistentVolumeClaim")]
struct Claim {
    metadata: ClaimMetadata,
}

#[derive(Deserialize, Projection)]
#[serde(rename_all = "camelCase")]
struct ClaimMetadata {
    #[serde(flatten)]
    always: Metadata,
    #[serde(default)]
    finalizers: Vec<String>,
    #[serde(default)]
    owner_references: Vec<Owner>,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
struct Owner {
    kind: String,
    name: String,
    uid: String,
    controller: bool,
}

#[derive(Deserialize, Projection)]
#[projection(kind = "v1/Pod")]
struct Pod {
    metadata: PodMetadata,
    #[serde(default)]
    spec: PodSpec,
}

#[derive(Deserialize, Projection)]
#[serde(rename_all = "camelCase")]
struct PodMetadata {
    #[serde(flatten)]
    always: Metadata,
    deletion_grace_period_seconds: Option<i64>,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
struct PodSpec {
    volumes: Vec<Volume>,
}

#[derive(Deserialize, Projection)]
struct Volume {
    name: String,
    /// Where the volume's claim is made for the pod, what it is made from.
    ephemeral: Option<Value>,
}

impl Pod {
    /// True if its kubelet is done with it, or nobody waits for the kubelet.
    fn is_shut_down(&self) -> bool {
        self.metadata.always.deletion_timestamp.is_some()
            && self.metadata.deletion_grace_period_seconds == Some(0)
    }

    /// True if one of its volumes is a claim of this name that is made for it.
    fn makes_claim(&self, claim: &str) -> bool {
        let name = &self.metadata.always.name;
        let mut made = self.spec.volumes.iter();
        made.any(|volume| volume.ephemeral.is_some() && format!("{name}-{}", volume.name) == claim)
    }
}

/// The PVC protection controller.
pub struct ClaimProtection;

impl Controller for ClaimProtection {
    fn manifest() -> Manifest {
        // A pod without a node does not use its claims yet: its kubelet will not start it when one
        // of them is being deleted. When it gets a node, it is there for this plugin, and for the
        // confirmation, which would not see that a pod has changed.
        let scheduled = Read {
            fields: Pod::fields(),
            ..Read::new(Pod::KIND, []).field_selector("spec.nodeName!=")
        };
        Manifest::new(
            "persistentvolumeclaim-protection",
            env!("CARGO_PKG_VERSION"),
            Selection::of(Claim::KIND),
        )
        .reads_as::<Claim>()
        .reads_only(scheduled)
        .indexes(
            BY_CLAIM,
            Pod::KIND,
            [".spec.volumes[*].persistentVolumeClaim.claimName"],
        )
        .writes(Claim::KIND, [Verb::Patch])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let Some(Claim { metadata }) = request.object()? else {
            return Ok(Outcome::done());
        };
        let key = request.key();
        let is_held = metadata.finalizers.iter().any(|name| name == FINALIZER);
        let is_being_deleted = metadata.always.deletion_timestamp.is_some();
        match (is_being_deleted, is_held) {
            (true, true) => release(key, &metadata.owner_references, host),
            // Claims that were made when the API server did not add it yet.
            (false, false) => Ok(Outcome::done().with(Finalizer::add(key, FINALIZER))),
            _ => Ok(Outcome::done()),
        }
    }
}

pilothouse_sdk::register!(ClaimProtection);

/// Lets a claim go if no pod uses it. That is confirmed: a pod may have been put on a node that no
/// watch has brought yet.
fn release(claim: &ObjectRef, owners: &[Owner], host: &dyn Host) -> Result<Outcome, Failure> {
    let users = Filter::index(BY_CLAIM, &claim.name);
    let named_by: Vec<Pod> = host.list_as(Some(&claim.namespace), &users)?;
    if !named_by.is_empty() {
        return Ok(Outcome::done());
    }
    let outcome = Outcome::done()
        .with(Finalizer::remove(claim, FINALIZER))
        .confirm_list(Pod::KIND, Some(&claim.namespace), &users);
    let controller = owners.iter().find(|owner| owner.controller);
    let Some(owner) = controller.filter(|owner| owner.kind == "Pod") else {
        return Ok(outcome);
    };
    let made_for = ObjectRef::new(Pod::KIND, &claim.namespace, &owner.name);
    let pod: Option<Pod> = host.get(&made_for)?;
    let is_used = pod.is_some_and(|pod| {
        pod.metadata.always.uid == owner.uid && pod.makes_claim(&claim.name) && !pod.is_shut_down()
    });
    if is_used {
        return Ok(Outcome::done());
    }
    Ok(outcome.confirm(&made_for))
}
