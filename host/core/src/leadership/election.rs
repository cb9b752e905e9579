//! The elector: what to ask the API server next, and who leads.
//!
//! ```text
//!           ┌── held by another, or failed: wait ──┐
//!  Get ─────┴─ free, expired or own ─▶ Update ─────┴─ done ─▶ leading ─┐
//!   │                                    ▲                            │
//!   └── absent ─▶ Create ────────────────┘◀── each retry period ──────┘
//! ```
//!
//! A leader renews without reading first (client-go's fast path). So does who releases the Lease,
//! and who is told that it was released: a hand-over waits for as few answers as possible. When
//! that fails, the Lease is read.

use crate::leadership::lease_record::LeaseRecord;
use crate::leadership::settings::{ElectionSettings, JITTER_FACTOR};
use crate::model::jitter::Jitter;
use crate::queue::Time;

/// A request about the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElectionRequest {
    /// Read the Lease, as the server has it now.
    Get,
    /// Create the Lease.
    Create(LeaseRecord),
    /// Replace what the Lease says, if it is still in the state that was read, written or
    /// [taken from the watch](Election::observed) last.
    Update(LeaseRecord),
}

/// The answer to an [`ElectionRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseAnswer {
    /// The Lease as it is now: it was read, created or updated.
    Is(LeaseRecord),
    /// There is no such Lease.
    Absent,
    /// The Lease has changed meanwhile, or there is one already. Nothing was done.
    Conflict,
    /// Refused, or no answer; then it is not known whether it was done.
    Failed,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// Send this now, and pass on its answer ([`Election::answered`]).
    Send(ElectionRequest),
    /// Nothing before this time, or before an answer or a change comes.
    Wait(Time),
    /// The Lease was released, or this host did not hold it.
    Released,
}

/// What has changed since it was last asked for; see [`Election::news`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElectionNews {
    /// This host leads.
    Leads,
    /// This host has stopped leading: it could not renew in time, or another host has the Lease.
    Stopped,
    /// Another host leads now (client-go's `OnNewLeader`).
    NewLeader(String),
}

/// What is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Idle,
    Getting,
    /// A write of a record that names this host; sent at this time.
    Acquiring {
        sent: Time,
        is_fast: bool,
    },
    Releasing {
        is_fast: bool,
    },
}

/// The Lease as last seen.
#[derive(Debug)]
struct Observed {
    record: LeaseRecord,
    /// When it was first seen so, by this host's clock.
    since: Time,
}

impl Observed {
    /// From when it counts as free if it does not change.
    fn expires(&self) -> Time {
        self.since + self.record.duration()
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Election {
    identity: String,
    settings: ElectionSettings,
    observed: Option<Observed>,
    step: Step,
    /// When the next attempt begins.
    next: Time,
    /// Until when this host may write. `None` if it does not lead.
    right: Option<Time>,
    /// By when the Lease must have been released, once that has begun.
    release_by: Option<Time>,
    is_released: bool,
    slow_renewals: u64,
    told_leading: bool,
    told_leader: String,
    jitter: Jitter,
}

impl Election {
    /// An elector that has not asked yet. `identity` must differ from that of every other host, and
    /// from that of this host's earlier processes. `seed` spreads the attempts.
    pub fn new(identity: &str, settings: ElectionSettings, seed: u64) -> Self {
        Self {
            identity: identity.to_owned(),
            settings,
            observed: None,
            step: Step::Idle,
            next: Time::ZERO,
            right: None,
            release_by: None,
            is_released: false,
            slow_renewals: 0,
            told_leading: false,
            told_leader: String::new(),
            jitter: Jitter::new(seed),
        }
    }

    /// Until when this host may write: one renew deadline after its last successful renewal was
    /// sent. `None` if it does not lead.
    pub fn right(&self) -> Option<Time> {
        self.right
    }

    /// The holder of the Lease, as last seen. Empty if nobody holds it, or if that is not known.
    pub fn holder(&self) -> &str {
        self.observed
            .as_ref()
            .map_or("", |observed| &observed.record.holder)
    }

    /// How often a leader had to read the Lease before it could renew it.
    pub fn slow_renewals(&self) -> u64 {
        self.slow_renewals
    }

    /// What to do now. `wall` is the time of day for the Lease, as RFC 3339 with microseconds.
    pub fn poll(&mut self, now: Time, wall: &str) -> Attempt {
        self.lapse(now);
        if self.step != Step::Idle {
            return Attempt::Wait(self.right.unwrap_or(Time::MAX));
        }
        if let Some(by) = self.release_by {
            let is_done = self.is_released || !self.is_holder() || now >= by;
            if is_done {
                return Attempt::Released;
            }
        }
        if now < self.next {
            let due = self.right.map_or(self.next, |right| right.min(self.next));
            return Attempt::Wait(due);
        }
        self.next = now + self.settings.retry_period;
        if let Some(request) = self.write_unread(now, wall) {
            return Attempt::Send(request);
        }
        self.step = Step::Getting;
        Attempt::Send(ElectionRequest::Get)
    }

    /// The answer to the request that is under way. There may be another request to send at once:
    /// ask [`poll`](Self::poll) again, or take the one that is returned.
    pub fn answered(
        &mut self,
        answer: LeaseAnswer,
        now: Time,
        wall: &str,
    ) -> Option<ElectionRequest> {
        let step = std::mem::replace(&mut self.step, Step::Idle);
        let request = match (step, answer) {
            (Step::Getting, LeaseAnswer::Is(record)) => {
                self.see(record, now);
                self.take(now, wall)
            }
            (Step::Getting, LeaseAnswer::Absent) => {
                self.observed = None;
                self.right = None;
                self.create(now, wall)
            }
            (Step::Acquiring { sent, .. }, LeaseAnswer::Is(record)) => {
                self.see(record, now);
                self.hold(sent, now);
                None
            }
            (Step::Releasing { .. }, LeaseAnswer::Is(record)) => {
                self.see(record, now);
                self.is_released = true;
                None
            }
            (Step::Acquiring { is_fast: true, .. } | Step::Releasing { is_fast: true }, _) => {
                self.step = Step::Getting;
                Some(ElectionRequest::Get)
            }
            _ => None,
        };
        if request.is_none() && self.right.is_none() && self.release_by.is_none() {
            self.wait_for_turn(now);
        }
        request
    }

    /// The Lease has changed, as a watch reports: possibly late, but never in advance. An absent
    /// Lease is an empty record. Returns whether it counts: then the next update is of this state.
    pub fn observed(&mut self, record: LeaseRecord, now: Time) -> bool {
        if self.right.is_some() {
            // Its own renewals, or a state before them. If another host had the Lease, the next
            // renewal would say so.
            return false;
        }
        let is_free = record.holder.is_empty();
        self.see(record, now);
        if is_free {
            self.next = now;
        } else if self.step == Step::Idle {
            self.wait_for_turn(now);
        }
        true
    }

    /// Gives the Lease back, if this host holds it. From now on it must not write any more.
    /// client-go's `ReleaseOnCancel`.
    pub fn release(&mut self, now: Time) {
        self.right = None;
        if self.release_by.is_none() {
            self.release_by = Some(now + self.settings.renew_deadline);
            self.next = now;
        }
    }

    /// What has changed since the last call, in order.
    pub fn news(&mut self, now: Time) -> Vec<ElectionNews> {
        self.lapse(now);
        let mut news = Vec::new();
        let leads = self.right.is_some();
        if self.told_leading && !leads {
            news.push(ElectionNews::Stopped);
        }
        if self.holder() != self.told_leader {
            self.told_leader = self.holder().to_owned();
            if !self.told_leader.is_empty() && self.told_leader != self.identity {
                news.push(ElectionNews::NewLeader(self.told_leader.clone()));
            }
        }
        if leads && !self.told_leading {
            news.push(ElectionNews::Leads);
        }
        self.told_leading = leads;
        news
    }

    /// Ends a right whose time is over.
    fn lapse(&mut self, now: Time) {
        self.right = self.right.filter(|right| now < *right);
    }

    fn is_holder(&self) -> bool {
        self.holder() == self.identity
    }

    /// Whether the Lease as last seen is held and has not expired (client-go's `isLeaseValid`).
    fn is_held(&self, now: Time) -> bool {
        self.observed.as_ref().is_some_and(|observed| {
            let is_free = observed.record.holder.is_empty();
            !is_free && now < observed.expires()
        })
    }

    /// Whether the Lease as last seen was given back. An absent one is created instead.
    fn is_free(&self) -> bool {
        self.observed.as_ref().is_some_and(|observed| {
            observed.record.holder.is_empty() && observed.record != LeaseRecord::default()
        })
    }

    fn see(&mut self, record: LeaseRecord, now: Time) {
        if record.holder != self.identity {
            self.right = None;
        }
        let is_same = |observed: &Observed| observed.record == record;
        if !self.observed.as_ref().is_some_and(is_same) {
            self.observed = Some(Observed { record, since: now });
        }
    }

    /// This host's record was written; it was sent at `sent`.
    fn hold(&mut self, sent: Time, now: Time) {
        if self.release_by.is_none() && self.is_holder() {
            self.right = Some(sent + self.settings.renew_deadline);
        }
        self.lapse(now);
    }

    /// When to try again after an attempt that did not succeed: after one to 2.2 retry periods, or
    /// when the Lease as last seen expires, if that is earlier.
    fn wait_for_turn(&mut self, now: Time) {
        let factor = 1.0 + JITTER_FACTOR * self.jitter.fraction();
        let later = now + self.settings.retry_period.mul_f64(factor);
        let expires = self.observed.as_ref().map(Observed::expires);
        let expires = expires.filter(|expires| now < *expires);
        self.next = expires.map_or(later, |expires| expires.min(later));
    }

    /// What can be written to the Lease as it was last seen.
    fn write_unread(&mut self, now: Time, wall: &str) -> Option<ElectionRequest> {
        if self.release_by.is_some() {
            return self.give_back(wall, true);
        }
        let is_own = self.is_holder() && self.is_held(now);
        (is_own || self.is_free()).then(|| self.renew(now, wall, true))
    }

    /// The Lease was read: takes it or renews it, if that may be done now.
    fn take(&mut self, now: Time, wall: &str) -> Option<ElectionRequest> {
        if self.release_by.is_some() {
            return self.give_back(wall, false);
        }
        if self.is_held(now) && !self.is_holder() {
            return None;
        }
        self.slow_renewals += u64::from(self.is_holder());
        Some(self.renew(now, wall, false))
    }

    fn give_back(&mut self, wall: &str, is_fast: bool) -> Option<ElectionRequest> {
        if !self.is_holder() {
            return None;
        }
        let transitions = self.observed.as_ref()?.record.transitions;
        self.step = Step::Releasing { is_fast };
        Some(ElectionRequest::Update(LeaseRecord {
            holder: String::new(),
            duration_seconds: 1,
            transitions,
            acquire_time: wall.to_owned(),
            renew_time: wall.to_owned(),
        }))
    }

    /// A record that names this host, to replace the one that was seen last.
    fn renew(&mut self, now: Time, wall: &str, is_fast: bool) -> ElectionRequest {
        self.step = Step::Acquiring { sent: now, is_fast };
        let is_holder = self.is_holder();
        let old = self.observed.as_ref().map(|observed| &observed.record);
        let own = LeaseRecord {
            holder: self.identity.clone(),
            duration_seconds: self.settings.lease_seconds(),
            transitions: 0,
            acquire_time: wall.to_owned(),
            renew_time: wall.to_owned(),
        };
        ElectionRequest::Update(match old {
            Some(old) if is_holder => LeaseRecord {
                transitions: old.transitions,
                acquire_time: old.acquire_time.clone(),
                ..own
            },
            Some(old) => LeaseRecord {
                transitions: old.transitions + 1,
                ..own
            },
            None => own,
        })
    }

    fn create(&mut self, now: Time, wall: &str) -> Option<ElectionRequest> {
        if self.release_by.is_some() {
            return None;
        }
        match self.renew(now, wall, false) {
            ElectionRequest::Update(record) => Some(ElectionRequest::Create(record)),
            other => Some(other),
        }
    }
}
