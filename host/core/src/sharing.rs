//! Sharing: several hosts divide the plugins, and the shards of plugins' keys, among themselves.
//!
//! Each host is a *member* and has a Lease of its own, which it renews. Another Lease, the
//! *assignment*, says which member owns which shard. Nobody leads. The rules, which together keep
//! two hosts from running one key:
//!
//! - A member's *right to write* lasts until one renew deadline after its last successful renewal
//!   was sent, by its own clock.
//! - A member whose Lease has not changed for one lease duration, by the clock of the one who
//!   watches it, is gone. Whoever finds that deletes the Lease, on the precondition that it is
//!   still in that state. Between the end of the right and the earliest deletion is
//!   [`ElectionSettings::slack`]. A member whose Lease is gone cannot renew it, and joins again
//!   under another name. A host asks for a Lease of each name only once: if the outcome is unknown
//!   and the Lease is not there, others may have deleted it.
//! - The assignment is replaced on the precondition that it is in the state that was read. A shard
//!   is given away by its owner, once nothing of it runs there any more, or by anybody once its
//!   owner is surely gone: the host that writes has itself deleted the owner's Lease, or the Lease
//!   has been absent for one lease duration (if a person deletes it, its member does not know yet).
//! - A member runs a shard only if an assignment says so that it has read since it joined, and
//!   since its right has last lapsed, by a quorum read.
//! - After an update of unknown outcome, a member gains nothing from the assignment on which the
//!   update was based: the update may be done yet, and give the shard away. Another update voids
//!   it. Every update changes a counter, since the server drops one that changes nothing.
//! - The assignment holds shards of one division of each plugin. So hosts that divide a plugin
//!   differently never both run it.
//! - Once something had to be stopped, this host has no right until all of it is released: what is
//!   still being halted cannot write with the right of the host's next membership.
//!
//! What nobody can prevent: a person who deletes or edits the assignment by hand, while hosts run,
//! gives shards to two hosts until they list it next.
//!
//! At rest a member renews once each retry period. It lists the group once each lease duration
//! while a watch reports changes, else once each retry period.

mod balance;
mod duties;
mod errands;
mod event;
mod lease_json;
mod membership;
mod planning;
mod records;
mod requests;
mod settings;
#[cfg(test)]
mod tests;
mod view;

use std::sync::Arc;

pub use duties::DutyState;
pub use event::{SharingEffect, SharingEvent, SharingNotice};
pub use lease_json::{NotARecord, SharingGroup};
pub use records::{
    AssignmentRecord, LeaseVersion, MemberId, MemberRecord, NotAShard, Offer, Owners, Record,
    Shard, StoredRecord,
};
pub use requests::{SharingAnswer, SharingCall, SharingRequest};
pub use settings::SharingError;

use crate::leadership::ElectionSettings;
use crate::model::key::ResourceVersion;
use crate::queue::Time;
use duties::Duties;
use errands::{Errand, Purpose};
use membership::{Membership, Turn};
use planning::Own;
use view::View;

/// One member: events in, effects out.
///
/// Time is this host's own, since it started, and must go on while the host is stopped or its
/// machine sleeps (`CLOCK_BOOTTIME`).
#[derive(Debug)]
pub struct Sharing {
    settings: ElectionSettings,
    membership: Membership,
    view: View,
    duties: Duties,
    offer: Arc<Offer>,
    is_leaving: bool,
    has_left: bool,
    is_watching: bool,
    requests: u64,
    /// The request under way that is not about the own Lease.
    errand: Option<Errand>,
    /// No errand is begun before this.
    gate: Time,
    /// Counts memberships and lapses. What was read in an earlier one gives nothing.
    epoch: u64,
    /// When the group was read last, if that counts for gaining.
    read_in: Option<u64>,
    /// Something has changed since the last list was sent.
    is_stale: bool,
    /// The assignment on which an update of unknown outcome was based.
    doubtful: Option<ResourceVersion>,
    /// Since when the assignment lacks something that any member could write.
    lacking: Option<Time>,
    effects: Vec<SharingEffect>,
}

impl Sharing {
    /// A host that is no member yet. `host` is its name, unlike every other's and its own at any
    /// earlier start: at most 100 letters, digits and `-`. `seed` is any random number.
    pub fn new(settings: ElectionSettings, host: &str, seed: u64) -> Result<Self, SharingError> {
        settings.check()?;
        settings::check_name(host)?;
        Ok(Self {
            settings,
            membership: Membership::new(settings, host, seed),
            view: View::new(settings),
            duties: Duties::default(),
            offer: Arc::default(),
            is_leaving: false,
            has_left: false,
            is_watching: false,
            requests: 0,
            errand: None,
            gate: Time::ZERO,
            epoch: 0,
            read_in: None,
            is_stale: true,
            doubtful: None,
            lacking: None,
            effects: Vec::new(),
        })
    }

    /// Until when this host may send writes for the shards that it has gained and not released.
    /// Compare it with this host's clock immediately before each write: it may be over.
    ///
    /// `None` while something that was stopped is not released yet.
    pub fn right(&self) -> Option<Time> {
        if self.duties.is_stopping() {
            return None;
        }
        self.membership.right()
    }

    /// The member that this host is, or tries to be.
    pub fn id(&self) -> &MemberId {
        &self.membership.id
    }

    /// Has this host a Lease, as far as it knows?
    pub fn is_member(&self) -> bool {
        self.membership.is_member()
    }

    /// The other members, as they were seen last.
    pub fn others(&self) -> impl Iterator<Item = &MemberRecord> {
        self.view.others().map(|record| &**record)
    }

    /// Who owns what, as it was read last.
    pub fn owners(&self) -> Option<&Owners> {
        self.view.owners()
    }

    /// The shards of which something runs on this host.
    pub fn duties(&self) -> impl Iterator<Item = (&Shard, DutyState)> {
        self.duties.iter()
    }

    /// Takes an event, and returns what is to be done, in order. Whoever publishes
    /// [`right`](Self::right) does that after each `Stop` is in force.
    pub fn handle(&mut self, event: SharingEvent, now: Time) -> Vec<SharingEffect> {
        // First, so that nothing is told to stop that has ended.
        if let SharingEvent::Released(shard) = &event {
            self.duties.released(shard);
        }
        if self.membership.lapse(now) {
            self.begin_epoch();
            self.tell(SharingNotice::Lapsed(self.membership.id.clone()));
            self.stop_all();
        }
        match event {
            SharingEvent::Tick | SharingEvent::Released(_) => {}
            SharingEvent::Answered { request, answer } => self.answered(request, answer, now),
            SharingEvent::Watching(is_watching) => {
                self.is_watching = is_watching;
                self.is_stale = true;
            }
            SharingEvent::Observed(stored) => {
                self.is_stale |= self.view.observe(&stored, &self.membership.id, now);
            }
            SharingEvent::ObservedDeletion => self.is_stale = true,
            SharingEvent::Offered(offer) => self.offer = Arc::new(offer),
            SharingEvent::Leave => self.is_leaving = true,
        }
        self.advance(now);
        std::mem::take(&mut self.effects)
    }

    /// When a `Tick` is due, if nothing else happens before. `None` after `Left`.
    pub fn next_due(&self, now: Time) -> Option<Time> {
        if self.has_left {
            return None;
        }
        let mut times = vec![self.membership.right(), self.membership.next_due()];
        if self.errand.is_none() && (self.membership.is_member() || self.membership.in_doubt()) {
            times.extend([
                Some(self.list_due(now).max(self.gate)),
                self.lacking
                    .map(|since| self.turn_to_write(since).max(self.gate)),
                self.view.next_gone(now),
            ]);
        }
        times.into_iter().flatten().filter(|time| *time > now).min()
    }

    fn begin_epoch(&mut self) {
        self.epoch += 1;
        self.read_in = None;
        self.is_stale = true;
    }

    fn stop_all(&mut self) {
        self.duties.stop(|_| true, &mut self.effects);
    }

    fn tell(&mut self, notice: SharingNotice) {
        self.effects.push(SharingEffect::Tell(notice));
    }

    fn answered(&mut self, request: u64, answer: SharingAnswer, now: Time) {
        let id = self.membership.id.clone();
        if let Some(turn) = self.membership.answered(request, &answer, now) {
            return self.turn(turn, id);
        }
        let Some(errand) = self.errand.take_if(|errand| errand.request == request) else {
            return;
        };
        if matches!(answer, SharingAnswer::Failed | SharingAnswer::Unknown) {
            self.gate = errand.sent + self.settings.retry_period;
        }
        match (errand.purpose, answer) {
            (Purpose::List(resolves), SharingAnswer::Listed(records)) => {
                self.listed(&records, errand.sent, errand.epoch, resolves, now);
            }
            (Purpose::Assign(_), SharingAnswer::Written(stored)) => {
                if let Record::Assignment(record) = stored.record {
                    self.view.assignment = Some((stored.version, record));
                }
            }
            (Purpose::Assign(base), SharingAnswer::Unknown) => {
                self.doubtful = base;
                self.is_stale = true;
            }
            (Purpose::Remove(gone), SharingAnswer::Deleted) => {
                self.view.removed(&gone, now);
                self.tell(SharingNotice::Removed(gone));
            }
            // What failed is tried again.
            (Purpose::Assign(_) | Purpose::Remove(_), SharingAnswer::Failed) => {}
            _ => self.is_stale = true,
        }
        self.clear_doubt();
    }

    /// An update cannot be done any more once the assignment is in another state.
    fn clear_doubt(&mut self) {
        let current = self.view.assignment.as_ref();
        if current.map(|(version, _)| &version.resource_version) != self.doubtful.as_ref() {
            self.doubtful = None;
        }
    }

    fn turn(&mut self, turn: Turn, id: MemberId) {
        match turn {
            Turn::None => {}
            Turn::Joined => {
                self.begin_epoch();
                self.tell(SharingNotice::Joined(id));
            }
            Turn::Lost => {
                self.begin_epoch();
                self.tell(SharingNotice::Lost(id));
                self.stop_all();
            }
            Turn::Left => self.begin_epoch(),
        }
    }

    fn listed(
        &mut self,
        records: &[StoredRecord],
        sent: Time,
        epoch: u64,
        resolves: bool,
        now: Time,
    ) {
        let id = self.membership.id.clone();
        let own = self.view.list(records, &id, sent, now);
        if epoch != self.epoch && !resolves {
            return;
        }
        self.read_in = Some(epoch);
        let turn = self.membership.listed(own.as_ref(), resolves, now);
        self.turn(turn, id);
    }

    fn advance(&mut self, now: Time) {
        if self.has_left || self.leave_if_out() {
            return;
        }
        self.adjust_duties(now);
        self.ask_about_own_lease(now);
        if self.errand.is_none() && self.gate <= now {
            self.begin_errand(now);
        }
    }

    fn leave_if_out(&mut self) -> bool {
        self.has_left = self.is_leaving && self.membership.is_out() && self.duties.is_empty();
        if self.has_left {
            self.tell(SharingNotice::Left);
        }
        self.has_left
    }

    /// Is the assignment known, as it was in this membership?
    fn has_read(&self) -> bool {
        self.read_in == Some(self.epoch) && self.membership.is_member()
    }

    fn own(&self) -> Own<'_> {
        Own {
            id: &self.membership.id,
            offer: &self.offer,
            leaving: self.is_leaving,
            duties: &self.duties,
        }
    }

    /// Finishes what this host should not have, stops what it has lost, and gains what is its own.
    fn adjust_duties(&mut self, now: Time) {
        let is_assigning =
            matches!(&self.errand, Some(errand) if matches!(errand.purpose, Purpose::Assign(_)));
        if !self.has_read() || is_assigning {
            return;
        }
        let id = self.membership.id.clone();
        let owners = self.view.owners().cloned().unwrap_or_default();
        let is_lost = |shard: &Shard| owners.get(shard) != Some(&id);
        self.duties.stop(is_lost, &mut self.effects);
        let wanted = planning::wanted(&self.view, &self.own(), now);
        let may_gain =
            self.doubtful.is_none() && self.right().is_some() && !self.membership.is_deleting();
        for (shard, _) in owners.iter().filter(|(_, owner)| **owner == id) {
            if wanted.get(shard) != Some(&id) {
                self.duties.finish(shard, &mut self.effects);
            } else if may_gain && self.duties.is_idle(shard) {
                self.duties.gain(shard.clone(), &mut self.effects);
            }
        }
    }

    fn ask_about_own_lease(&mut self, now: Time) {
        if self.is_leaving && !self.membership.is_member() {
            return;
        }
        let request = self.requests + 1;
        let call = if self.may_delete_own_lease() {
            self.membership.deletion(request, now)
        } else {
            self.membership
                .call(request, &self.offer, self.is_leaving, now)
        };
        if let Some(call) = call {
            self.send(call);
        }
    }

    fn may_delete_own_lease(&self) -> bool {
        let mut owners = self.view.owners().into_iter().flat_map(Owners::values);
        self.is_leaving
            && self.membership.says_leaving()
            && self.has_read()
            && self.errand.is_none()
            && self.duties.is_empty()
            && owners.all(|owner| *owner != self.membership.id)
    }

    fn send(&mut self, call: SharingCall) -> u64 {
        self.requests += 1;
        self.effects.push(SharingEffect::Send(SharingRequest {
            id: self.requests,
            call,
            timeout: self.settings.timeout(),
        }));
        self.requests
    }
}
