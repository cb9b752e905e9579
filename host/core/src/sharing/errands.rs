//! What a member asks beside its own Lease, and in which order.

use std::sync::Arc;

use super::records::{AssignmentRecord, MemberId, Record};
use super::requests::SharingCall;
use super::{Sharing, planning};
use crate::model::key::ResourceVersion;
use crate::queue::Time;

/// A request that is not about the own Lease.
#[derive(Debug)]
pub(super) struct Errand {
    pub request: u64,
    pub sent: Time,
    pub epoch: u64,
    pub purpose: Purpose,
}

#[derive(Debug)]
pub(super) enum Purpose {
    /// Read the group. True if it shall say how the own Lease is, which was in doubt.
    List(bool),
    /// Replace the assignment that was in this state; `None`: create it.
    Assign(Option<ResourceVersion>),
    /// Delete the Lease of a member that is gone.
    Remove(MemberId),
}

impl Sharing {
    /// Begins the errand that is most wanted.
    pub(super) fn begin_errand(&mut self, now: Time) {
        if !self.membership.is_member() && !self.membership.in_doubt() {
            return;
        }
        let (purpose, call) = if self.list_due(now) <= now {
            self.is_stale = false;
            (Purpose::List(self.membership.in_doubt()), SharingCall::List)
        } else if self.right().is_none() || !self.has_read() || self.membership.is_deleting() {
            return;
        } else if let Some((id, version)) = self.view.expired() {
            let call = SharingCall::Delete(id.clone(), version.clone());
            (Purpose::Remove(id.clone()), call)
        } else if let Some(call) = self.assignment_call(now) {
            call
        } else {
            return;
        };
        let request = self.send(call);
        self.errand = Some(Errand {
            request,
            sent: now,
            epoch: self.epoch,
            purpose,
        });
    }

    /// When the group has to be listed, if not at once.
    pub(super) fn list_due(&self, now: Time) -> Time {
        if self.is_stale || self.membership.in_doubt() {
            return now;
        }
        let period = if self.is_watching {
            self.settings.whole_duration()
        } else {
            self.settings.retry_period
        };
        let periodic = self.view.listed.map_or(now, |listed| listed + period);
        self.view
            .next_expiry()
            .map_or(periodic, |expiry| expiry.min(periodic))
    }

    /// The next update of the assignment, if there is something to write and it is this host's
    /// turn.
    fn assignment_call(&mut self, now: Time) -> Option<(Purpose, SharingCall)> {
        let own = self.own();
        let wanted = planning::wanted(&self.view, &own, now);
        let next = planning::next_owners(&self.view, &own, &wanted, now);
        let is_same = self.view.owners() == Some(&next.owners);
        if is_same && self.doubtful.is_none() {
            self.lacking = None;
            return None;
        }
        let since = *self.lacking.get_or_insert(now);
        let is_urgent = next.is_own || self.doubtful.is_some();
        if !is_urgent && self.turn_to_write(since) > now {
            return None;
        }
        self.lacking = None;
        let assignment = self.view.assignment.as_ref();
        let record = Record::Assignment(Arc::new(AssignmentRecord {
            owners: next.owners,
            writes: assignment.map_or(1, |(_, record)| record.writes + 1),
        }));
        Some(match assignment {
            None => (Purpose::Assign(None), SharingCall::Create(record)),
            Some((version, _)) => (
                Purpose::Assign(Some(version.resource_version.clone())),
                SharingCall::Update(record, version.clone()),
            ),
        })
    }

    /// When this host writes what any member could write: members take turns, so that they do not
    /// all try at once.
    pub(super) fn turn_to_write(&self, since: Time) -> Time {
        let step = self.settings.retry_period / 4;
        since + step * planning::rank(&self.view, &self.own())
    }
}
