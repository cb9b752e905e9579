//! One host of a model: its machine, its clock, and what runs on it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::queue::Time;
use crate::sharing::Sharing;
use crate::sharing::event::SharingEvent;
use crate::sharing::records::{MemberId, Offer, Shard};
use crate::sharing::requests::SharingAnswer;

/// A shard that a host has gained and not released.
#[derive(Clone)]
pub struct Acting {
    pub member: MemberId,
    /// The uid of the member's Lease when it was gained.
    pub uid: Option<Arc<str>>,
    pub release_is_due: bool,
}

pub struct Host {
    pub sharing: Sharing,
    pub name: String,
    pub started: u64,
    /// How fast its clock runs, in thousandths.
    pub rate: u64,
    pub is_alive: bool,
    pub is_paused: bool,
    pub has_left: bool,
    pub is_leaving: bool,
    pub offer: Offer,
    pub watches: bool,
    pub cut_until: u64,
    /// Only answers are lost, requests are done.
    pub cut_is_one_way: bool,
    pub open: BTreeSet<u64>,
    pub inbox: Vec<Message>,
    pub acting: BTreeMap<Shard, Acting>,
    pub ticks: u64,
    pub requests: u64,
}

impl Host {
    pub fn local(&self, now: u64) -> Time {
        Duration::from_micros((now - self.started) * self.rate)
    }

    /// The first millisecond at which this host's clock shows `time`.
    pub fn global(&self, time: Time) -> u64 {
        self.started + (time.as_nanos() as u64).div_ceil(self.rate * 1_000)
    }

    pub fn has_right(&self, now: u64) -> bool {
        self.is_alive
            && self
                .sharing
                .right()
                .is_some_and(|right| self.local(now) < right)
    }

    pub fn runs(&self) -> impl Iterator<Item = &Shard> {
        self.acting.keys()
    }
}

/// What comes to a host.
#[derive(Clone)]
pub enum Message {
    Tick(u64),
    Answer(u64, SharingAnswer),
    Timeout(u64),
    Event(SharingEvent),
}

/// What a host runs that has keys in common with this shard.
pub fn overlapping<'a>(
    host: &'a Host,
    shard: &'a Shard,
) -> impl Iterator<Item = (&'a Shard, &'a Acting)> {
    host.acting.iter().filter(move |(theirs, _)| {
        theirs.plugin == shard.plugin && (theirs.of != shard.of || theirs.index == shard.index)
    })
}
