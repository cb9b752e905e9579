//! The parts of claims and volumes that the rules use.

use pilothouse_sdk::{Metadata, Projection, Quantity};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize, Projection)]
#[projection(kind = "v1/PersistentVolumeClaim")]
pub struct Claim {
    pub metadata: ClaimMetadata,
    #[serde(default)]
    pub spec: ClaimSpec,
    #[serde(default)]
    pub status: ClaimStatus,
}

#[derive(Deserialize, Projection)]
pub struct ClaimMetadata {
    #[serde(flatten)]
    pub always: Metadata,
    #[serde(default)]
    pub annotations: ClaimAnnotations,
}

#[derive(Default, Deserialize, Projection)]
pub struct ClaimAnnotations {
    /// The driver that is to expand the volume.
    #[serde(rename = "volume.kubernetes.io/storage-resizer")]
    pub resizer: Option<String>,
}

#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSpec {
    pub volume_name: String,
    resources: Resources,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
struct Resources {
    requests: Sizes,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
pub struct ClaimStatus {
    pub phase: String,
    capacity: Sizes,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
struct Sizes {
    storage: Quantity,
}

impl Claim {
    /// How much storage it asks for.
    pub fn requested(&self) -> Quantity {
        self.spec.resources.requests.storage
    }

    /// How much storage it has.
    pub fn capacity(&self) -> Quantity {
        self.status.capacity.storage
    }
}

#[derive(Deserialize, Projection)]
#[projection(kind = "v1/PersistentVolume")]
pub struct Volume {
    pub metadata: VolumeMetadata,
    pub spec: VolumeSpec,
}

#[derive(Deserialize, Projection)]
pub struct VolumeMetadata {
    #[serde(default)]
    pub annotations: VolumeAnnotations,
}

#[derive(Default, Deserialize, Projection)]
pub struct VolumeAnnotations {
    /// The claim's size before the volume was expanded, until the file system is expanded as well.
    #[serde(rename = "volume.alpha.kubernetes.io/pre-resize-capacity")]
    pub size_before: Option<String>,
}

/// What it is bound to, and the sources of storage drivers that were once part of Kubernetes.
#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeSpec {
    pub claim_ref: Option<ClaimRef>,
    pub flex_volume: Option<Value>,
    aws_elastic_block_store: Option<Value>,
    azure_disk: Option<Value>,
    azure_file: Option<Value>,
    cinder: Option<Value>,
    gce_persistent_disk: Option<Value>,
    portworx_volume: Option<Value>,
    vsphere_volume: Option<Value>,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
pub struct ClaimRef {
    pub namespace: String,
    pub uid: String,
}

/// A storage driver that was once part of Kubernetes.
pub struct Migrated {
    /// Its name there.
    pub name: &'static str,
    /// The CSI driver that is used instead.
    pub driver: &'static str,
}

impl VolumeSpec {
    /// The driver of this volume, if it was once part of Kubernetes.
    pub fn migrated(&self) -> Option<Migrated> {
        let all = [
            (
                &self.aws_elastic_block_store,
                "kubernetes.io/aws-ebs",
                "ebs.csi.aws.com",
            ),
            (
                &self.azure_disk,
                "kubernetes.io/azure-disk",
                "disk.csi.azure.com",
            ),
            (
                &self.azure_file,
                "kubernetes.io/azure-file",
                "file.csi.azure.com",
            ),
            (
                &self.cinder,
                "kubernetes.io/cinder",
                "cinder.csi.openstack.org",
            ),
            (
                &self.gce_persistent_disk,
                "kubernetes.io/gce-pd",
                "pd.csi.storage.gke.io",
            ),
            (
                &self.portworx_volume,
                "kubernetes.io/portworx-volume",
                "pxd.portworx.com",
            ),
            (
                &self.vsphere_volume,
                "kubernetes.io/vsphere-volume",
                "csi.vsphere.vmware.com",
            ),
        ];
        let (_, name, driver) = all.into_iter().find(|(source, ..)| source.is_some())?;
        Some(Migrated { name, driver })
    }
}
