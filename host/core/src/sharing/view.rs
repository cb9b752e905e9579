//! What a member knows of its group.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::records::{
    AssignmentRecord, LeaseVersion, MemberId, MemberRecord, Owners, Record, StoredRecord,
};
use crate::leadership::ElectionSettings;
use crate::queue::Time;

/// Another member, as it was seen last.
#[derive(Debug)]
struct Seen {
    version: LeaseVersion,
    record: Arc<MemberRecord>,
    /// Since when, on this host's clock, its Lease has been in this state.
    since: Time,
}

/// What a member knows of its group. It rests on lists; what a watch shows only says when members
/// have renewed, and when to list again.
#[derive(Debug)]
pub(super) struct View {
    settings: ElectionSettings,
    /// The other members.
    members: BTreeMap<MemberId, Seen>,
    pub assignment: Option<(LeaseVersion, Arc<AssignmentRecord>)>,
    /// Owners that have no Lease, and since when that is known.
    absent: BTreeMap<MemberId, Time>,
    /// Members whose right has surely ended.
    gone: BTreeSet<MemberId>,
    /// When the last list was sent that was answered.
    pub listed: Option<Time>,
}

impl View {
    pub fn new(settings: ElectionSettings) -> Self {
        Self {
            settings,
            members: BTreeMap::new(),
            assignment: None,
            absent: BTreeMap::new(),
            gone: BTreeSet::new(),
            listed: None,
        }
    }

    /// Who owns what, as far as it is known.
    pub fn owners(&self) -> Option<&Owners> {
        Some(&self.assignment.as_ref()?.1.owners)
    }

    /// The other members.
    pub fn others(&self) -> impl Iterator<Item = &Arc<MemberRecord>> {
        self.members.values().map(|seen| &seen.record)
    }

    /// Takes a list. Returns what it has of the member `own`.
    pub fn list(
        &mut self,
        records: &[StoredRecord],
        own: &MemberId,
        sent: Time,
        now: Time,
    ) -> Option<LeaseVersion> {
        let mut before = std::mem::take(&mut self.members);
        self.assignment = None;
        self.listed = Some(sent);
        let mut own_version = None;
        for StoredRecord { version, record } in records {
            match record {
                Record::Assignment(record) => {
                    self.assignment = Some((version.clone(), record.clone()));
                }
                Record::Member(record) if record.id == *own => {
                    own_version = Some(version.clone());
                }
                Record::Member(record) => {
                    let known = before.remove(&record.id);
                    let since = known
                        .filter(|seen| seen.version == *version)
                        .map_or(now, |seen| seen.since);
                    let seen = Seen {
                        version: version.clone(),
                        record: record.clone(),
                        since,
                    };
                    self.members.insert(record.id.clone(), seen);
                }
            }
        }
        self.note_absent(own, now);
        own_version
    }

    fn note_absent(&mut self, own: &MemberId, now: Time) {
        let mut absent = BTreeMap::new();
        let mut gone = BTreeSet::new();
        for owner in self.owners().into_iter().flat_map(Owners::values) {
            if owner != own && !self.members.contains_key(owner) && !absent.contains_key(owner) {
                let since = self.absent.get(owner).copied().unwrap_or(now);
                absent.insert(owner.clone(), since);
                if self.gone.contains(owner) {
                    gone.insert(owner.clone());
                }
            }
        }
        self.absent = absent;
        self.gone = gone;
    }

    /// Takes what the watch has shown. True if a list is due.
    pub fn observe(&mut self, stored: &StoredRecord, own: &MemberId, now: Time) -> bool {
        let version = &stored.version;
        let is_old = |known: &LeaseVersion| {
            known == version || version.resource_version.is_at_most(&known.resource_version)
        };
        match &stored.record {
            Record::Assignment(_) => {
                let known = self.assignment.as_ref();
                known.is_none_or(|(known, _)| !is_old(known))
            }
            Record::Member(record) if record.id == *own => false,
            Record::Member(record) => match self.members.get_mut(&record.id) {
                Some(seen) if is_old(&seen.version) => false,
                Some(seen) if seen.version.uid == version.uid => {
                    let is_news =
                        seen.record.leaving != record.leaving || seen.record.offer != record.offer;
                    seen.version = version.clone();
                    seen.record = record.clone();
                    seen.since = now;
                    is_news
                }
                _ => true,
            },
        }
    }

    /// A member's Lease was deleted by this host, in the state in which it had been for so long.
    pub fn removed(&mut self, id: &MemberId, now: Time) {
        self.members.remove(id);
        self.absent.entry(id.clone()).or_insert(now);
        self.gone.insert(id.clone());
    }

    /// Has this owner's right surely ended?
    ///
    /// It has if this host has deleted its Lease. If somebody else has, perhaps a person, it may
    /// have been renewed shortly before: then it has ended after one lease duration.
    pub fn is_gone(&self, owner: &MemberId, now: Time) -> bool {
        !self.members.contains_key(owner)
            && (self.gone.contains(owner)
                || self
                    .absent
                    .get(owner)
                    .is_some_and(|since| *since + self.settings.whole_duration() <= now))
    }

    fn expiry(&self, seen: &Seen) -> Time {
        // What the other waits by its own settings, if they differ during an update.
        let duration = seen
            .record
            .lease_duration
            .max(self.settings.whole_duration());
        seen.since + duration
    }

    /// A member whose Lease has expired, and was still the same in a list sent after that.
    pub fn expired(&self) -> Option<(&MemberId, &LeaseVersion)> {
        let listed = self.listed?;
        let mut members = self.members.iter();
        let (id, seen) = members.find(|(_, seen)| self.expiry(seen) <= listed)?;
        Some((id, &seen.version))
    }

    /// When a list is due because a Lease may have expired by then.
    pub fn next_expiry(&self) -> Option<Time> {
        let expiries = self.members.values().map(|seen| self.expiry(seen));
        expiries
            .filter(|expiry| self.listed.is_none_or(|listed| listed < *expiry))
            .min()
    }

    /// When the next owner without a Lease is surely gone.
    pub fn next_gone(&self, now: Time) -> Option<Time> {
        let times = self.absent.values();
        times
            .map(|since| *since + self.settings.whole_duration())
            .filter(|time| *time > now)
            .min()
    }
}
