//! Keeps PersistentVolumes that are being deleted until they are not bound to a claim any more.
//!
//! The rules are those of kube-controller-manager's PV protection controller
//! (`pkg/controller/volume/pvprotection` in kubernetes/kubernetes). The README lists the
//! differences.

use pilothouse_sdk::{
    Controller, Failure, Finalizer, Host, Kind, Manifest, Metadata, Outcome, Patch, Projection,
    Request, Selection, Verb,
};
use serde::Deserialize;
use serde_json::json;

/// The finalizer that holds a volume.
const FINALIZER: &str = "kubernetes.io/pv-protection";

#[derive(Deserialize, Projection)]
#[projection(kind = "v1/PersistentVolume")]
struct Volume {
    metadata: VolumeMetadata,
    #[serde(default)]
    status: VolumeStatus,
}

#[derive(Deserialize, Projection)]
struct VolumeMetadata {
    #[serde(flatten)]
    always: Metadata,
    #[serde(default)]
    finalizers: Vec<String>,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
struct VolumeStatus {
    phase: String,
}

/// The PV protection controller.
pub struct VolumeProtection;

impl Controller for VolumeProtection {
    fn manifest() -> Manifest {
        Manifest::new(
            "persistentvolume-protection",
            env!("CARGO_PKG_VERSION"),
            Selection::of(Volume::KIND),
        )
        .reads_as::<Volume>()
        .writes(Volume::KIND, [Verb::Patch])
    }

    fn reconcile(request: &Request, _host: &dyn Host) -> Result<Outcome, Failure> {
        let Some(Volume { metadata, status }) = request.object()? else {
            return Ok(Outcome::done());
        };
        let key = request.key();
        let is_held = metadata.finalizers.iter().any(|name| name == FINALIZER);
        match (metadata.always.deletion_timestamp.is_some(), is_held) {
            (true, true) if status.phase != "Bound" => {
                // A conflict if the volume has changed since: it may have been bound.
                let is_as_seen = json!({"metadata": {"resourceVersion": "seen"}});
                Ok(Outcome::done()
                    .with(Patch::merge(key, &is_as_seen)?)
                    .with(Finalizer::remove(key, FINALIZER)))
            }
            // Volumes that were made when the API server did not add it yet.
            (false, false) => Ok(Outcome::done().with(Finalizer::add(key, FINALIZER))),
            _ => Ok(Outcome::done()),
        }
    }
}

pilothouse_sdk::register!(VolumeProtection);
