//! Creates the PersistentVolumeClaims of the ephemeral volumes of pods, which go with their pod.
//!
//! The rules are those of kube-controller-manager's ephemeral volume controller
//! (`pkg/controller/volume/ephemeral` in kubernetes/kubernetes). The README lists the differences.

use pilothouse_sdk::{
    ActionResult, Controller, Create, Effect, EffectVerb, Event, Failure, Host, Kind, Manifest,
    Metadata, ObjectRef, Outcome, OwnerReference, Projection, Request, Selection, Verb,
};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize, Projection)]
#[projection(kind = "v1/Pod")]
struct Pod {
    metadata: Metadata,
    #[serde(default)]
    spec: PodSpec,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
struct PodSpec {
    volumes: Vec<Volume>,
}

#[derive(Deserialize, Projection)]
struct Volume {
    name: String,
    ephemeral: Option<Ephemeral>,
}

#[derive(Deserialize, Projection)]
#[serde(rename_all = "camelCase")]
struct Ephemeral {
    #[serde(default)]
    volume_claim_template: Template,
}

/// What a claim is made from. It is copied, whatever it is.
#[derive(Default, Deserialize, Projection)]
#[serde(default)]
struct Template {
    metadata: TemplateMetadata,
    spec: Option<Value>,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
struct TemplateMetadata {
    labels: Option<Value>,
    annotations: Option<Value>,
}

#[derive(Deserialize, Projection)]
#[projection(kind = "v1/PersistentVolumeClaim")]
struct Claim {
    metadata: ClaimMetadata,
}

#[derive(Deserialize, Projection)]
#[serde(rename_all = "camelCase")]
struct ClaimMetadata {
    #[serde(default)]
    owner_references: Vec<Owner>,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
struct Owner {
    uid: String,
    controller: bool,
}

impl Claim {
    fn is_for(&self, pod: &Pod) -> bool {
        let mut owners = self.metadata.owner_references.iter();
        let controller = owners.find(|owner| owner.controller);
        controller.is_some_and(|owner| owner.uid == pod.metadata.uid)
    }
}

/// The ephemeral volume controller.
pub struct EphemeralVolume;

impl Controller for EphemeralVolume {
    fn manifest() -> Manifest {
        Manifest::new(
            "ephemeral-volume",
            env!("CARGO_PKG_VERSION"),
            Selection::of(Pod::KIND),
        )
        .reads_as::<Pod>()
        .reads_as::<Claim>()
        .writes(Claim::KIND, [Verb::Create])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let Some(pod) = request.object::<Pod>()? else {
            return Ok(Outcome::done());
        };
        if pod.metadata.deletion_timestamp.is_some() {
            return Ok(Outcome::done());
        }
        let key = request.key();
        let mut outcome = Outcome::done();
        for volume in &pod.spec.volumes {
            let Some(ephemeral) = &volume.ephemeral else {
                continue;
            };
            let name = format!("{}-{}", key.name, volume.name);
            let claim = ObjectRef::new(Claim::KIND, &key.namespace, &name);
            match host.get::<Claim>(&claim)? {
                Some(found) if found.is_for(&pod) => {}
                Some(_) => return Ok(refused(outcome, key, &volume.name, &claim)),
                None => {
                    if let Some(why) = failure(&request.previous, &claim) {
                        let why = format!("create PVC {name}: {why}");
                        outcome = outcome.with(warning(key, &volume.name, &why));
                    }
                    let template = &ephemeral.volume_claim_template;
                    let made = template.claim(&claim, key, &pod.metadata.uid);
                    outcome = outcome.with(Create::new(&made)?);
                }
            }
        }
        Ok(outcome)
    }
}

pilothouse_sdk::register!(EphemeralVolume);

impl Template {
    /// The claim, which the pod with this uid owns.
    fn claim(&self, claim: &ObjectRef, pod: &ObjectRef, uid: &str) -> Value {
        let owner = OwnerReference::controller_of(pod, uid);
        let mut metadata = json!({
            "namespace": claim.namespace, "name": claim.name, "ownerReferences": [owner],
        });
        for (member, value) in [
            ("labels", &self.metadata.labels),
            ("annotations", &self.metadata.annotations),
        ] {
            if let Some(value) = value {
                metadata[member] = value.clone();
            }
        }
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": metadata, "spec": self.spec.clone().unwrap_or_else(|| json!({})),
        })
    }
}

/// A claim of the volume's name is not the pod's. The volumes after it wait.
fn refused(outcome: Outcome, pod: &ObjectRef, volume: &str, claim: &ObjectRef) -> Outcome {
    let pod_name = format!("{}/{}", pod.namespace, pod.name);
    let why = format!(
        "PVC {}/{} was not created for pod {pod_name} (pod is not owner)",
        claim.namespace, claim.name
    );
    let message = format!("pod {pod_name}, ephemeral volume {volume}: {why}");
    outcome.with(warning(pod, volume, &why)).retry(message)
}

fn warning(pod: &ObjectRef, volume: &str, why: &str) -> Event {
    let note = format!("ephemeral volume {volume}: {why}");
    Event::warning(pod, "FailedBinding", "Create", &note)
}

/// Why the last outcome's creation of this claim has failed.
fn failure<'a>(previous: &'a [Effect], claim: &ObjectRef) -> Option<&'a str> {
    let is_it = |effect: &&Effect| effect.verb == EffectVerb::Create && effect.object == *claim;
    match &previous.iter().find(is_it)?.outcome {
        ActionResult::Conflict(why)
        | ActionResult::AlreadyExists(why)
        | ActionResult::NotFound(why)
        | ActionResult::Forbidden(why)
        | ActionResult::Invalid(why)
        | ActionResult::Failed(why) => Some(why),
        ActionResult::Done(_)
        | ActionResult::Unchanged
        | ActionResult::Skipped
        | ActionResult::Answered(_) => None,
    }
}
