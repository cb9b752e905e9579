//! What is asked of a single pod.

use std::time::Duration;

use pilothouse_sdk::{Kind, Metadata, ObjectRef, OwnerReference, Time, controller_of};
use workloads::claim::Claimable;
use workloads::pod::{PodStatus, PodView};
use workloads::ranking::{Ranked, Restarts};

use crate::objects::{ContainerStatus, Job, Pod};

/// The finalizer that keeps a pod until it is counted.
pub const TRACKING: &str = "batch.kubernetes.io/job-tracking";

impl PodView for Pod {
    fn metadata(&self) -> &Metadata {
        &self.metadata.always
    }

    fn status(&self) -> &PodStatus {
        &self.status.state
    }
}

impl Claimable for Pod {
    fn metadata(&self) -> &Metadata {
        &self.metadata.always
    }

    fn owners(&self) -> &[OwnerReference] {
        &self.metadata.owner_references
    }
}

impl Ranked for Pod {
    fn node_name(&self) -> &str {
        &self.spec.node_name
    }

    fn created(&self) -> Option<Time> {
        self.metadata.creation_timestamp
    }

    fn restarts(&self) -> Restarts {
        let most = |containers: &mut dyn Iterator<Item = &ContainerStatus>| {
            let restarts = containers.map(|container| container.restart_count);
            restarts.max().unwrap_or_default()
        };
        Restarts {
            containers: most(&mut self.status.container_statuses.iter()),
            sidecars: most(&mut self.sidecars()),
        }
    }

    /// A Job does not look at it.
    fn deletion_cost(&self) -> Option<&str> {
        None
    }
}

impl Pod {
    pub fn name(&self) -> &str {
        &self.metadata.always.name
    }

    pub fn uid(&self) -> &str {
        &self.metadata.always.uid
    }

    pub fn object_ref(&self) -> ObjectRef {
        self.metadata.always.of_kind(Self::KIND)
    }

    pub fn has_succeeded(&self) -> bool {
        self.status.state.phase == "Succeeded"
    }

    /// True if the pod counts as failed: one that is being deleted, too, unless the Job replaces
    /// only those that have come to their end.
    pub fn has_failed(&self, job: &Job) -> bool {
        let is_lost = self.is_deleted() && !self.has_succeeded();
        self.is_failed() || (is_lost && !job.replaces_only_failed())
    }

    /// True if the pod is still to be counted.
    pub fn is_tracked(&self) -> bool {
        self.metadata.finalizers.iter().any(|name| name == TRACKING)
    }

    /// The pod's completion index. `None`: it has none, or something else stands in its place.
    pub fn index(&self) -> Option<i64> {
        let index: i64 = self.metadata.annotations.index.as_ref()?.parse().ok()?;
        (index >= 0).then_some(index)
    }

    /// The index, if the Job has it.
    pub fn valid_index(&self, job: &Job) -> Option<i64> {
        self.index().filter(|index| *index < job.completions())
    }

    /// How often the pods of this index have failed before, so that it counts.
    pub fn failures(&self) -> i32 {
        count(self.metadata.annotations.failures.as_deref())
    }

    /// How often the pods of this index have failed before, so that it does not count.
    pub fn ignored_failures(&self) -> i32 {
        count(self.metadata.annotations.ignored_failures.as_deref())
    }

    /// How often the pods of this index have failed before.
    pub fn all_failures(&self) -> i64 {
        i64::from(self.failures()) + i64::from(self.ignored_failures())
    }

    /// The owner that manages the pod.
    pub fn controller(&self) -> Option<&OwnerReference> {
        controller_of(&self.metadata.owner_references)
    }

    /// When the pod has come to its end: when its last container has, or else when it became not
    /// ready, was deleted, or was created.
    pub fn finished_at(&self) -> Duration {
        let at = self.containers_finished_at();
        let at = at.or_else(|| self.not_ready_since());
        let at = at.or_else(|| self.deleted_at());
        let created = self.metadata.creation_timestamp.unwrap_or_default();
        at.unwrap_or(created.0)
    }

    /// Sidecars end after the others, so they count, too.
    fn containers_finished_at(&self) -> Option<Duration> {
        let mut containers = self.status.container_statuses.iter();
        let others = latest_end(None, &mut containers);
        latest_end(others, &mut self.sidecars())
    }

    /// The init containers that run as long as the pod does.
    fn sidecars(&self) -> impl Iterator<Item = &ContainerStatus> {
        let is_sidecar = |status: &&ContainerStatus| {
            let mut specs = self.spec.init_containers.iter();
            specs.any(|spec| {
                spec.name == status.name && spec.restart_policy.as_deref() == Some("Always")
            })
        };
        let statuses = self.status.init_container_statuses.iter();
        statuses.filter(is_sidecar)
    }

    fn not_ready_since(&self) -> Option<Duration> {
        let mut conditions = self.status.state.conditions.iter();
        let ready = conditions.find(|condition| condition.r#type == "Ready")?;
        let since = ready.last_transition_time?.0;
        (ready.status == "False").then_some(since)
    }

    fn deleted_at(&self) -> Option<Duration> {
        let gone_at = self.metadata.always.deletion_timestamp?.0;
        let grace = Duration::from_secs(self.metadata.deletion_grace_period_seconds);
        Some(gone_at.saturating_sub(grace))
    }

    /// The restarts of all containers that have begun, init containers included.
    pub fn all_restarts(&self) -> i64 {
        let status = &self.status;
        let all = status.container_statuses.iter();
        let all = all.chain(&status.init_container_statuses);
        all.map(|container| container.restart_count).sum()
    }
}

impl ContainerStatus {
    fn finished_at(&self) -> Option<Duration> {
        let terminated = self.state.terminated.as_ref()?;
        terminated.finished_at.map(|time| time.0)
    }
}

/// The end of the last of these containers, or `before` if there are none. `None`: one has not
/// ended.
fn latest_end(
    before: Option<Duration>,
    containers: &mut dyn Iterator<Item = &ContainerStatus>,
) -> Option<Duration> {
    let mut latest = before;
    for container in containers {
        latest = latest.max(Some(container.finished_at()?));
    }
    latest
}

/// A count in an annotation. What is none is zero.
fn count(text: Option<&str>) -> i32 {
    let count: i32 = text.and_then(|text| text.parse().ok()).unwrap_or_default();
    count.max(0)
}
