//! A member's own Lease, and the right to write that it gives.

use std::sync::Arc;
use std::time::Duration;

use super::records::{LeaseVersion, MemberId, MemberRecord, Offer, Record, StoredRecord};
use super::requests::{SharingAnswer, SharingCall};
use crate::leadership::ElectionSettings;
use crate::model::hash::mix;
use crate::queue::Time;

/// What a request about the own Lease is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Create,
    Renew,
    Delete,
    /// It concerned a Lease that is gone.
    Void,
}

#[derive(Debug)]
struct Pending {
    request: u64,
    sent: Time,
    purpose: Purpose,
    offer: Arc<Offer>,
    leaving: bool,
}

/// What an answer, or a list, means for the membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nothing new.
    None,
    /// It has begun.
    Joined,
    /// The Lease is gone, by another's doing.
    Lost,
    /// The Lease is gone, by this host's own deletion.
    Left,
}

/// A member's own Lease.
#[derive(Debug)]
pub(super) struct Membership {
    settings: ElectionSettings,
    host: Arc<str>,
    seed: u64,
    /// How often this host has begun to be a member.
    incarnation: u64,
    pub id: MemberId,
    lease: Option<LeaseVersion>,
    /// The outcome of a request is unknown, or something else has changed the Lease: a list has to
    /// show how it is.
    doubt: bool,
    pending: Option<Pending>,
    right: Option<Time>,
    /// When the next request about the Lease may be sent.
    next: Time,
    /// Has the last request failed, so that the next waits even if it has something to tell?
    has_failed: bool,
    created: Option<Time>,
    writes: u64,
    /// What the Lease says of this host.
    offer: Arc<Offer>,
    leaving: bool,
}

impl Membership {
    pub fn new(settings: ElectionSettings, host: &str, seed: u64) -> Self {
        Self {
            settings,
            host: host.into(),
            seed,
            incarnation: 1,
            id: MemberId(format!("{host}-1").into()),
            lease: None,
            doubt: false,
            pending: None,
            right: None,
            next: Time::ZERO,
            has_failed: false,
            created: None,
            writes: 0,
            offer: Arc::default(),
            leaving: false,
        }
    }

    pub fn is_member(&self) -> bool {
        self.lease.is_some()
    }

    /// Does a list have to say how the Lease is?
    pub fn in_doubt(&self) -> bool {
        self.doubt && self.pending.is_none()
    }

    /// Until when this host may write, as far as the Lease goes.
    pub fn right(&self) -> Option<Time> {
        self.right
    }

    /// Do the others know that this host is leaving?
    pub fn says_leaving(&self) -> bool {
        self.leaving
    }

    pub fn is_deleting(&self) -> bool {
        self.pending
            .as_ref()
            .is_some_and(|pending| pending.purpose == Purpose::Delete)
    }

    /// Has this host no Lease, and has it asked for none?
    pub fn is_out(&self) -> bool {
        self.lease.is_none() && !self.doubt && self.pending.is_none()
    }

    /// Ends a right whose time is over. True if it was one.
    pub fn lapse(&mut self, now: Time) -> bool {
        let is_over = self.right.is_some_and(|right| right <= now);
        if is_over {
            self.right = None;
        }
        is_over
    }

    /// When [`call`](Self::call) will have a request, if nothing else happens.
    pub fn next_due(&self) -> Option<Time> {
        (self.pending.is_none() && !self.doubt).then_some(self.next)
    }

    /// The next request about the Lease, if it is time for one.
    pub fn call(
        &mut self,
        request: u64,
        offer: &Arc<Offer>,
        leaving: bool,
        now: Time,
    ) -> Option<SharingCall> {
        if self.pending.is_some() || self.doubt {
            return None;
        }
        let is_news = self.lease.is_some() && (self.offer != *offer || self.leaving != leaving);
        if self.next > now && (self.has_failed || !is_news) {
            return None;
        }
        let purpose = match self.lease {
            Some(_) => Purpose::Renew,
            None => Purpose::Create,
        };
        self.begin(request, purpose, now);
        if let Some(pending) = &mut self.pending {
            pending.offer = offer.clone();
            pending.leaving = leaving;
        }
        let record = Record::Member(Arc::new(MemberRecord {
            id: self.id.clone(),
            offer: offer.clone(),
            leaving,
            lease_duration: self.settings.whole_duration(),
            writes: self.writes,
        }));
        Some(match &self.lease {
            Some(version) => SharingCall::Update(record, version.clone()),
            None => SharingCall::Create(record),
        })
    }

    /// The deletion with which this host leaves.
    pub fn deletion(&mut self, request: u64, now: Time) -> Option<SharingCall> {
        let version = self.lease.clone()?;
        let waits = self.has_failed && self.next > now;
        if self.pending.is_some() || self.doubt || waits {
            return None;
        }
        // From here on others may take what this host has had.
        self.right = None;
        self.begin(request, Purpose::Delete, now);
        Some(SharingCall::Delete(self.id.clone(), version))
    }

    fn begin(&mut self, request: u64, purpose: Purpose, now: Time) {
        if purpose == Purpose::Create {
            self.created = Some(now);
        }
        self.writes += 1;
        self.has_failed = false;
        self.next = now + self.settings.retry_period;
        self.pending = Some(Pending {
            request,
            sent: now,
            purpose,
            offer: self.offer.clone(),
            leaving: self.leaving,
        });
    }

    /// Takes the answer to a request, if it is one about the Lease.
    pub fn answered(&mut self, request: u64, answer: &SharingAnswer, now: Time) -> Option<Turn> {
        let pending = self.pending.take_if(|pending| pending.request == request)?;
        Some(match (pending.purpose, answer) {
            (Purpose::Void, _) => Turn::None,
            (Purpose::Create | Purpose::Renew, SharingAnswer::Written(stored)) => {
                self.written(pending, stored, now)
            }
            (Purpose::Renew, SharingAnswer::NotFound) => self.lose(now),
            (Purpose::Delete, SharingAnswer::Deleted | SharingAnswer::NotFound) => {
                self.lease = None;
                Turn::Left
            }
            (_, SharingAnswer::Failed) | (Purpose::Create, SharingAnswer::NotFound) => {
                self.has_failed = true;
                self.next = pending.sent + self.pause();
                Turn::None
            }
            // Another host has this name: this one asks for each only once.
            (Purpose::Create, SharingAnswer::AlreadyExists) => self.lose(now),
            // Done or not; or somebody has edited the Lease. As long as it is not gone nothing is
            // lost: the right lasts as it has lasted.
            _ => {
                self.doubt = true;
                Turn::None
            }
        })
    }

    fn written(&mut self, pending: Pending, stored: &StoredRecord, now: Time) -> Turn {
        let has_joined = self.lease.is_none();
        self.lease = Some(stored.version.clone());
        self.offer = pending.offer;
        self.leaving = pending.leaving;
        self.renewed(pending.sent, now);
        if has_joined { Turn::Joined } else { Turn::None }
    }

    /// The right to write lasts until one renew deadline after the renewal was *sent*, however late
    /// its answer comes. The Lease was changed after the sending, so nobody else can have watched
    /// its new state for longer. It is deleted one lease duration after it was seen at the
    /// earliest: between the two is [`ElectionSettings::slack`], 5 s by default, which covers
    /// clocks of different speeds and writes that are on their way.
    fn renewed(&mut self, sent: Time, now: Time) {
        let until = sent + self.settings.renew_deadline;
        if until > now {
            self.right = Some(until);
        }
    }

    /// What a list, sent while this host was a member or in doubt, says of the Lease.
    pub fn listed(&mut self, own: Option<&LeaseVersion>, resolves: bool, now: Time) -> Turn {
        match (&self.lease, own) {
            (Some(lease), Some(own)) if lease.uid == own.uid => {
                if resolves {
                    self.lease = Some(own.clone());
                    self.resolved(now);
                }
                Turn::None
            }
            (Some(_), _) => self.lose(now),
            (None, Some(own)) if resolves => {
                // Created by a request of this host whose outcome was not known. When it was, is
                // not known either: the right begins with the first renewal.
                self.lease = Some(own.clone());
                self.resolved(now);
                Turn::Joined
            }
            // It was never created, or is not yet, or it was, and others have deleted it: then what
            // they give away of this name may be given away at any time. The name is not used
            // again.
            (None, None) if resolves => self.lose(now),
            (None, _) => Turn::None,
        }
    }

    fn resolved(&mut self, now: Time) {
        self.doubt = false;
        self.next = now;
    }

    fn lose(&mut self, now: Time) -> Turn {
        self.lease = None;
        self.right = None;
        self.doubt = false;
        if let Some(pending) = &mut self.pending {
            pending.purpose = Purpose::Void;
        }
        self.incarnation += 1;
        self.id = MemberId(format!("{}-{}", self.host, self.incarnation).into());
        let earliest = self
            .created
            .map_or(now, |created| created + self.settings.retry_period);
        self.next = earliest.max(now);
        Turn::Lost
    }

    /// One to 2.2 retry periods, as client-go waits after a failed attempt; within a right, which
    /// must not end by waiting, one.
    fn pause(&mut self) -> Duration {
        if self.right.is_some() {
            return self.settings.retry_period;
        }
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let fraction = (mix(self.seed) >> 11) as f64 / (1u64 << 53) as f64;
        self.settings.retry_period.mul_f64(1.0 + 1.2 * fraction)
    }
}
