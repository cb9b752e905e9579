//! The parts of CronJob and Job that the rules use.

use pilothouse_sdk::{Metadata, ObjectRef, Projection, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub const CRON_JOBS: &str = "batch/v1/CronJob";
pub const JOBS: &str = "batch/v1/Job";

#[derive(Deserialize, Projection)]
#[projection(kind = "batch/v1/CronJob")]
pub struct CronJob {
    pub metadata: CronJobMetadata,
    pub spec: CronJobSpec,
    #[serde(default)]
    pub status: CronJobStatus,
}

#[derive(Deserialize, Projection)]
#[serde(rename_all = "camelCase")]
pub struct CronJobMetadata {
    #[serde(flatten)]
    pub always: Metadata,
    pub creation_timestamp: Time,
}

#[derive(Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub struct CronJobSpec {
    pub schedule: String,
    pub time_zone: Option<String>,
    pub starting_deadline_seconds: Option<i64>,
    pub concurrency_policy: String,
    pub suspend: bool,
    /// What a Job is made of, with fields that are not known here.
    pub job_template: Value,
    pub successful_jobs_history_limit: Option<usize>,
    pub failed_jobs_history_limit: Option<usize>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct CronJobStatus {
    pub active: Vec<Reference>,
    pub last_schedule_time: Option<Time>,
    pub last_successful_time: Option<Time>,
}

/// An ObjectReference of Kubernetes, with all its fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct Reference {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field_path: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

#[derive(Deserialize, Projection)]
#[projection(kind = "batch/v1/Job")]
pub struct Job {
    pub metadata: JobMetadata,
    #[serde(default)]
    pub status: JobStatus,
}

#[derive(Deserialize, Projection)]
#[serde(rename_all = "camelCase")]
pub struct JobMetadata {
    #[serde(flatten)]
    pub always: Metadata,
    #[serde(default)]
    pub owner_references: Vec<Owner>,
}

#[derive(Deserialize, Projection)]
#[serde(default)]
#[derive(Default)]
pub struct Owner {
    pub name: String,
    pub uid: String,
    pub controller: bool,
}

#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    pub start_time: Option<Time>,
    pub completion_time: Option<Time>,
    pub conditions: Vec<JobCondition>,
}

#[derive(Deserialize, Projection)]
pub struct JobCondition {
    pub r#type: String,
    pub status: String,
}

impl Job {
    pub fn key(&self) -> ObjectRef {
        self.metadata.always.of_kind(JOBS)
    }

    pub fn name(&self) -> &str {
        &self.metadata.always.name
    }

    pub fn uid(&self) -> &str {
        &self.metadata.always.uid
    }

    pub fn is_being_deleted(&self) -> bool {
        self.metadata.always.deletion_timestamp.is_some()
    }

    /// The owner that manages it.
    pub fn controller(&self) -> Option<&Owner> {
        let mut owners = self.metadata.owner_references.iter();
        owners.find(|owner| owner.controller)
    }

    /// The condition that says that it has ended: `Complete` or `Failed`.
    pub fn end(&self) -> Option<&str> {
        let mut ends = self.status.conditions.iter().filter(|condition| {
            matches!(condition.r#type.as_str(), "Complete" | "Failed") && condition.status == "True"
        });
        ends.next().map(|condition| condition.r#type.as_str())
    }

    /// A reference to it. `resource_version` is empty if it is not known.
    pub fn reference(&self, resource_version: &str) -> Reference {
        let Metadata {
            namespace,
            name,
            uid,
            ..
        } = self.metadata.always.clone();
        Reference {
            api_version: "batch/v1".to_owned(),
            kind: "Job".to_owned(),
            namespace,
            name,
            uid,
            resource_version: resource_version.to_owned(),
            ..Reference::default()
        }
    }
}
