//! The Leases of a group that shares: translates what [`Sharing`](pilothouse_core::Sharing) asks
//! into requests, and answers into its words.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use parking_lot::Mutex;
use pilothouse_cluster::leases::{LeaseError, LeaseSelection, Leases, time_of_day};
use pilothouse_core::{
    LeaseVersion, MemberId, NotARecord, Record, SharingAnswer, SharingCall, SharingEvent,
    SharingGroup, StoredRecord,
};
use serde_json::Value;
use tracing::warn;

use super::lease_changes::{LeaseChanges, Seen};
use super::problems::{Needs, Reminder, remedy};

const NEEDS: Needs = Needs {
    verbs: "create, list, update, watch and delete",
    command: "pilothouse rbac --share",
};

/// See the module's documentation.
#[derive(Clone)]
pub(super) struct GroupLeases {
    leases: Leases,
    group: SharingGroup,
    reminder: Arc<Reminder>,
    /// Why a request has failed, until a Lease is written again.
    problem: Arc<Mutex<Option<String>>>,
}

impl GroupLeases {
    pub(super) fn new(leases: Leases, group: SharingGroup) -> Self {
        Self {
            leases,
            group,
            reminder: Arc::default(),
            problem: Arc::default(),
        }
    }

    /// Why a request has failed, if no Lease was written since.
    pub(super) fn problem(&self) -> Option<String> {
        self.problem.lock().clone()
    }

    fn selection(&self) -> LeaseSelection {
        LeaseSelection::Labelled(self.group.label_selector())
    }

    /// The changes of the group's Leases.
    pub(super) fn changes(&self) -> LeaseChanges {
        LeaseChanges::new(self.leases.clone(), self.selection())
    }

    /// What a change means for the group. `None` if it cannot be understood.
    pub(super) fn event(&self, seen: Seen) -> Option<SharingEvent> {
        match seen {
            Seen::Began => Some(SharingEvent::Watching(true)),
            Seen::Is(lease) => self.read(&lease).map(SharingEvent::Observed),
            Seen::Gone => Some(SharingEvent::ObservedDeletion),
            Seen::Ended => Some(SharingEvent::Watching(false)),
        }
    }

    /// Sends a request, and waits for its answer.
    pub(super) async fn call(&self, call: SharingCall) -> SharingAnswer {
        match call {
            SharingCall::List => self.list().await,
            SharingCall::Create(record) => {
                let created = self.leases.create(&self.lease(&record, None)).await;
                if let Err(error @ LeaseError::Absent) = &created {
                    self.complain(error);
                }
                self.written(created, SharingAnswer::AlreadyExists)
            }
            SharingCall::Update(record, version) => {
                let lease = self.lease(&record, Some(&version));
                let updated = self.leases.update(&lease).await;
                self.written(updated, SharingAnswer::Conflict)
            }
            SharingCall::Delete(member, version) => self.delete(&member, &version).await,
        }
    }

    fn lease(&self, record: &Record, version: Option<&LeaseVersion>) -> Lease {
        let now = time_of_day(Timestamp::now());
        let lease = self.group.to_lease(record, version, &now);
        serde_json::from_value(lease).unwrap_or_default()
    }

    async fn list(&self) -> SharingAnswer {
        let listed = match self.leases.list(&self.selection()).await {
            Ok(listed) => listed,
            Err(error) => return self.failed(&error),
        };
        let records: Option<Vec<StoredRecord>> =
            listed.iter().map(|lease| self.read(lease)).collect();
        records.map_or(SharingAnswer::Failed, SharingAnswer::Listed)
    }

    /// What a Lease says. `None`, which is logged, if it cannot be understood.
    fn read(&self, lease: &Lease) -> Option<StoredRecord> {
        let json: Value = serde_json::to_value(lease).unwrap_or_default();
        let read = self.group.read(&json);
        let tell = |error: &NotARecord| {
            if self.reminder.is_due() {
                warn!(%error, "nothing is shared");
            }
        };
        read.inspect_err(tell).ok()
    }

    fn written(
        &self,
        answer: Result<Lease, LeaseError>,
        on_conflict: SharingAnswer,
    ) -> SharingAnswer {
        match answer {
            // A Lease that was written and cannot be read may do harm or not.
            Ok(lease) => {
                *self.problem.lock() = None;
                let stored = self.read(&lease);
                stored.map_or(SharingAnswer::Unknown, SharingAnswer::Written)
            }
            Err(LeaseError::Conflict) => on_conflict,
            Err(error) => self.failed(&error),
        }
    }

    async fn delete(&self, member: &MemberId, version: &LeaseVersion) -> SharingAnswer {
        let name = self.group.member_lease(member);
        let state = version.resource_version.to_string();
        match self.leases.delete(&name, &version.uid, &state).await {
            Ok(()) => SharingAnswer::Deleted,
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&self, error: &LeaseError) -> SharingAnswer {
        match error {
            LeaseError::Absent => SharingAnswer::NotFound,
            LeaseError::Conflict => SharingAnswer::Conflict,
            LeaseError::Refused(_) => {
                self.complain(error);
                SharingAnswer::Failed
            }
            LeaseError::Unknown(_) => {
                *self.problem.lock() = Some(error.to_string());
                SharingAnswer::Unknown
            }
        }
    }

    fn complain(&self, error: &LeaseError) {
        let reason = remedy(error, &NEEDS, self.leases.namespace());
        if self.reminder.is_due() {
            warn!(reason, "a request about the group's Leases was refused");
        }
        *self.problem.lock() = Some(reason);
    }
}
