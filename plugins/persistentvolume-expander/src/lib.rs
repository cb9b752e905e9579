//! Says who expands the volumes whose claims ask for more storage than they have: a driver outside
//! of Kubernetes.
//!
//! The rules are those of kube-controller-manager's expand controller
//! (`pkg/controller/volume/expand` in kubernetes/kubernetes). The README lists the differences.

mod objects;

use pilothouse_sdk::{
    ActionResult, Controller, Effect, EffectVerb, Event, Failure, Host, Kind, Manifest, Outcome,
    Patch, Quantity, Request, Selection, Verb,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use objects::{Claim, Migrated, Volume};

const REASON: &str = "ExternalExpanding";
const RESIZER: &str = "volume.kubernetes.io/storage-resizer";

const NO_FLEX: &str = "the claim's volume is a FlexVolume, which this plugin does not expand; move \
                       the data to a volume of a CSI driver";

/// The sizes that were told last: the memo.
#[derive(Deserialize, Serialize)]
struct Told {
    requested: Quantity,
    capacity: Quantity,
}

/// The expand controller.
pub struct VolumeExpander;

impl Controller for VolumeExpander {
    fn manifest() -> Manifest {
        Manifest::new(
            "persistentvolume-expander",
            env!("CARGO_PKG_VERSION"),
            Selection::of(Claim::KIND),
        )
        .reads_as::<Claim>()
        .reads_as::<Volume>()
        .writes_subresource(Claim::KIND, "status", [Verb::Patch])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let Some(claim) = request.object::<Claim>()? else {
            return Ok(Outcome::done());
        };
        if claim.status.phase != "Bound" {
            return Ok(Outcome::done());
        }
        let volume = volume(&claim, host)?;
        let is_enough = claim.requested() <= claim.capacity();
        if is_enough && volume.metadata.annotations.size_before.is_none() {
            return Ok(Outcome::done());
        }
        if volume.spec.flex_volume.is_some() {
            return Err(Failure::terminal(NO_FLEX));
        }
        let told = Told {
            requested: claim.requested(),
            capacity: claim.capacity(),
        };
        match volume.spec.migrated() {
            Some(driver) => hand_over(request, &claim, &driver, &told),
            None => {
                let note = "waiting for an external controller to expand this PVC";
                Ok(tell(request, &told, note).remember(&told)?)
            }
        }
    }
}

pilothouse_sdk::register!(VolumeExpander);

/// The volume that the claim is bound to, and that is bound to the claim.
fn volume(claim: &Claim, host: &dyn Host) -> Result<Volume, Failure> {
    let name = &claim.spec.volume_name;
    let found: Option<Volume> = match name.as_str() {
        "" => None,
        name => host.get_as("", name)?,
    };
    let Some(volume) = found else {
        let reason = format!("failed to get PV {name:?}: there is none");
        return Err(Failure::terminal(reason));
    };
    let key = &claim.metadata.always;
    let is_its =
        |bound: &objects::ClaimRef| bound.namespace == key.namespace && bound.uid == key.uid;
    if !volume.spec.claim_ref.as_ref().is_some_and(is_its) {
        return Err(Failure::terminal(format!(
            "persistent Volume is not bound to PVC being updated : {}/{}",
            key.namespace, key.name
        )));
    }
    Ok(volume)
}

/// Tells the claim once for each increase, also of what it has.
fn tell(request: &Request, now: &Told, note: &str) -> Outcome {
    let before: Option<Told> = request.memo();
    let is_news = before
        .is_none_or(|before| now.requested > before.requested || now.capacity > before.capacity);
    if !is_news {
        return Outcome::done();
    }
    Outcome::done().with(Event::normal(request.key(), REASON, "Expand", note))
}

/// Leaves the claim to the CSI driver that is used instead of the volume's own.
fn hand_over(
    request: &Request,
    claim: &Claim,
    driver: &Migrated,
    told: &Told,
) -> Result<Outcome, Failure> {
    let key = request.key();
    let note = format!(
        "CSI migration enabled for {}; waiting for external resizer to expand the pvc",
        driver.name
    );
    let mut outcome = tell(request, told, &note);
    if claim.metadata.annotations.resizer.as_deref() != Some(driver.driver) {
        if let Some(why) = request.previous.iter().find_map(failure) {
            let note = format!(
                "error setting resizer annotation to pvc {}/{}, with error patchPVCStatus failed \
                 to patch PVC {:?}: {why}",
                key.namespace, key.name, key.name
            );
            outcome = outcome.with(Event::warning(key, REASON, "Expand", &note));
        }
        // Of the version that was seen.
        let metadata = json!({
            "resourceVersion": "seen", "annotations": {RESIZER: driver.driver},
        });
        let patch = Patch::merge(key, &json!({"metadata": metadata}))?;
        outcome = outcome.with(patch.subresource("status"));
    }
    Ok(outcome.remember(told)?)
}

/// Why the last outcome's patch has failed.
fn failure(effect: &Effect) -> Option<&str> {
    if effect.verb != EffectVerb::Patch {
        return None;
    }
    match &effect.outcome {
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
