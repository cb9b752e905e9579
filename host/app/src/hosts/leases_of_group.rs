//! The Leases of a group that shares: translates what [`Sharing`](pilothouse_core::Sharing) asks
//! into requests, and answers into its words.

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use pilothouse_cluster::leases::{
    LeaseChange, LeaseError, LeaseSelection, LeaseWatch, Leases, time_of_day,
};
use pilothouse_core::{
    LeaseVersion, MemberId, NotARecord, Record, SharingAnswer, SharingCall, SharingEvent,
    SharingGroup, StoredRecord,
};
use serde_json::Value;
use tracing::warn;

use super::{Opening, Reminder, WatchOpener};

/// See the module's documentation.
#[derive(Clone)]
pub(super) struct GroupLeases {
    leases: Leases,
    group: SharingGroup,
    reminder: Arc<Reminder>,
}

impl GroupLeases {
    pub(super) fn new(leases: Leases, group: SharingGroup) -> Self {
        Self {
            leases,
            group,
            reminder: Arc::default(),
        }
    }

    fn selection(&self) -> LeaseSelection {
        LeaseSelection::Labelled(self.group.label_selector())
    }

    /// Sends a request, and waits for its answer.
    pub(super) async fn call(&self, call: SharingCall) -> SharingAnswer {
        match call {
            SharingCall::List => self.list().await,
            SharingCall::Create(record) => {
                let created = self.leases.create(&self.lease(&record, None)).await;
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
            LeaseError::Refused(refused) => {
                let remedy = match refused.code() {
                    Some(403) => {
                        "; the host needs create, list, update, watch and delete of leases in its namespace (see pilothouse rbac --share)"
                    }
                    _ => "",
                };
                if self.reminder.is_due() {
                    warn!("a request about the group's Leases was refused: {refused}{remedy}");
                }
                SharingAnswer::Failed
            }
            LeaseError::Unknown(_) => SharingAnswer::Unknown,
        }
    }
}

/// The changes of the group's Leases, as a watch reports them.
pub(super) struct Changes {
    leases: GroupLeases,
    opener: WatchOpener,
    opening: Option<Opening>,
    watch: Option<LeaseWatch>,
    /// What is still to be told.
    waiting: VecDeque<SharingEvent>,
}

impl Changes {
    pub(super) fn new(leases: GroupLeases) -> Self {
        Self {
            leases,
            opener: WatchOpener::default(),
            opening: None,
            watch: None,
            waiting: VecDeque::new(),
        }
    }

    /// The next event. May be dropped and called again at any time.
    pub(super) async fn next(&mut self) -> SharingEvent {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return event;
            }
            let Some(open) = &mut self.watch else {
                self.open().await;
                continue;
            };
            match open.next().await {
                Some(LeaseChange::Is(lease)) => {
                    let stored = self.leases.read(&lease);
                    self.waiting.extend(stored.map(SharingEvent::Observed));
                }
                Some(LeaseChange::Gone(_)) => return SharingEvent::ObservedDeletion,
                None => {
                    self.watch = None;
                    return SharingEvent::Watching(false);
                }
            }
        }
    }

    async fn open(&mut self) {
        let leases = &self.leases;
        let open = || self.opener.open(leases.leases.clone(), leases.selection());
        self.watch = self.opening.get_or_insert_with(open).await;
        self.opening = None;
        let opened = self.watch.is_some();
        self.waiting
            .extend(opened.then_some(SharingEvent::Watching(true)));
    }
}
