//! The parts of the objects that the controller looks at, but for pods.

use pilothouse_sdk::{Metadata, Projection, Time};
use serde::Deserialize;

use crate::resources::Resources;

#[derive(Deserialize, Projection)]
#[projection(kind = "v1/ResourceQuota")]
pub struct Quota {
    #[serde(default)]
    pub spec: QuotaSpec,
    #[serde(default)]
    pub status: QuotaStatus,
}

#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct QuotaSpec {
    pub hard: Resources,
    pub scopes: Vec<String>,
    pub scope_selector: ScopeSelector,
}

#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct ScopeSelector {
    pub match_expressions: Vec<ScopeExpression>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct ScopeExpression {
    pub scope_name: String,
    pub operator: String,
    pub values: Vec<String>,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
pub struct QuotaStatus {
    pub hard: Resources,
    pub used: Option<Resources>,
}

#[derive(Deserialize, Projection)]
#[projection(kind = "v1/Service")]
pub struct Service {
    pub metadata: Metadata,
    #[serde(default)]
    pub spec: ServiceSpec,
}

#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    pub r#type: String,
    pub ports: Vec<Port>,
    pub allocate_load_balancer_node_ports: Option<bool>,
}

#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct Port {
    pub node_port: i32,
}

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
#[serde(default)]
pub struct ClaimAnnotations {
    #[serde(rename = "volume.beta.kubernetes.io/storage-class")]
    pub storage_class: Option<String>,
}

#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSpec {
    pub storage_class_name: Option<String>,
    pub volume_attributes_class_name: Option<String>,
    pub resources: ClaimResources,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
pub struct ClaimResources {
    pub requests: Resources,
}

#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimStatus {
    pub allocated_resources: Resources,
    pub current_volume_attributes_class_name: Option<String>,
    pub modify_volume_status: ModifyVolumeStatus,
}

#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct ModifyVolumeStatus {
    pub target_volume_attributes_class_name: String,
}

/// A claim for devices.
#[derive(Deserialize, Projection)]
#[projection(kind = "resource.k8s.io/v1/ResourceClaim")]
pub struct DeviceClaim {
    pub metadata: DeviceClaimMetadata,
    #[serde(default)]
    pub spec: DeviceClaimSpec,
}

#[derive(Deserialize, Projection)]
#[serde(rename_all = "camelCase")]
pub struct DeviceClaimMetadata {
    #[serde(flatten)]
    pub always: Metadata,
    pub creation_timestamp: Option<Time>,
    #[serde(default)]
    pub annotations: DeviceClaimAnnotations,
    #[serde(default)]
    pub owner_references: Vec<Owner>,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
pub struct DeviceClaimAnnotations {
    #[serde(rename = "resource.kubernetes.io/extended-resource-claim")]
    pub extended_resource_claim: String,
}

#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct Owner {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    pub controller: bool,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
pub struct DeviceClaimSpec {
    pub devices: Devices,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
pub struct Devices {
    pub requests: Vec<DeviceRequest>,
}

#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceRequest {
    pub exactly: Option<SubRequest>,
    pub first_available: Vec<SubRequest>,
}

#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct SubRequest {
    pub device_class_name: String,
    pub allocation_mode: String,
    pub count: i64,
}

#[derive(Deserialize, Projection)]
#[projection(kind = "resource.k8s.io/v1/DeviceClass")]
pub struct DeviceClass {
    pub metadata: Metadata,
    #[serde(default)]
    pub spec: DeviceClassSpec,
}

#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceClassSpec {
    pub extended_resource_name: Option<String>,
}
