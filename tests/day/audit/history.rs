//! The states that every object went through.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use pilothouse_tests::What;

use super::Record;
use crate::facts::Facts;

/// All objects that there are or were.
pub struct Cluster {
    tracks: BTreeMap<String, Track>,
    /// By the uid of the manager.
    owned: BTreeMap<String, BTreeSet<String>>,
    doings: BTreeSet<String>,
}

/// What is known of an object up to now.
pub struct Track {
    /// Its versions, the oldest first, each with the time since which it is so.
    versions: Vec<(Timestamp, Arc<Facts>)>,
    gone: Option<Timestamp>,
    /// When a controller has deleted it, or asked to.
    pub taken: Option<Timestamp>,
}

impl Cluster {
    pub fn new(doings: BTreeSet<String>) -> Self {
        Self {
            tracks: BTreeMap::new(),
            owned: BTreeMap::new(),
            doings,
        }
    }

    /// Takes a change in. True: with it, a controller has deleted the object, or asked to.
    pub fn learn(&mut self, record: &Record) -> bool {
        let facts = &record.facts;
        let track = self.tracks.entry(facts.uid.clone()).or_insert(Track {
            versions: Vec::new(),
            gone: None,
            taken: None,
        });
        let was_deleting = track
            .versions
            .last()
            .is_some_and(|(_, last)| last.is_deleting);
        if record.what == What::Deleted {
            track.gone = Some(record.at);
        } else {
            track.versions.push((record.at, facts.clone()));
            if let Some(owner) = &facts.owner {
                let owned = self.owned.entry(owner.uid.clone()).or_default();
                owned.insert(facts.uid.clone());
            }
        }
        let is_deleted = record.what == What::Deleted || facts.is_deleting;
        let is_taken = is_deleted && !was_deleting && !self.doings.contains(&facts.uid);
        if is_taken {
            track.taken.get_or_insert(record.at);
        }
        is_taken
    }

    /// The object, if it is there.
    pub fn now(&self, uid: &str) -> Option<&Arc<Facts>> {
        self.tracks.get(uid)?.now()
    }

    pub fn track(&self, uid: &str) -> Option<&Track> {
        self.tracks.get(uid)
    }

    /// What this object manages or has managed, also what is gone.
    pub fn owned(&self, uid: &str) -> impl Iterator<Item = &Track> {
        let uids = self.owned.get(uid).into_iter().flatten();
        uids.filter_map(|uid| self.tracks.get(uid))
    }

    /// What this object manages now.
    pub fn owned_now(&self, uid: &str) -> impl Iterator<Item = &Arc<Facts>> {
        self.owned(uid).filter_map(Track::now)
    }

    pub fn all(&self) -> impl Iterator<Item = &Track> {
        self.tracks.values()
    }
}

impl Track {
    /// The object, if it is there.
    pub fn now(&self) -> Option<&Arc<Facts>> {
        match self.gone {
            Some(_) => None,
            None => self.versions.last().map(|(_, facts)| facts),
        }
    }

    /// All its versions, the oldest first.
    pub fn versions(&self) -> impl Iterator<Item = &Facts> {
        self.versions.iter().map(|(_, facts)| &**facts)
    }

    /// The versions that it had at some time since the horizon.
    pub fn since(&self, horizon: Timestamp) -> impl Iterator<Item = &Facts> {
        let was_there = self.gone.is_none_or(|gone| gone >= horizon);
        let before = self.versions.partition_point(|(at, _)| *at <= horizon);
        let window = &self.versions[before.saturating_sub(1)..];
        let window = if was_there { window } else { &[] };
        window.iter().map(|(_, facts)| &**facts)
    }

    /// Since when it has been so for the first time; none: never.
    pub fn first(&self, is_so: impl Fn(&Facts) -> bool) -> Option<Timestamp> {
        let mut versions = self.versions.iter();
        versions.find(|(_, facts)| is_so(facts)).map(|(at, _)| *at)
    }

    /// Whether it has been there all the time since the horizon.
    pub fn is_there_since(&self, horizon: Timestamp) -> bool {
        let first = self.versions.first();
        self.gone.is_none() && first.is_some_and(|(at, _)| *at <= horizon)
    }

    /// Whether a controller may take this pod for available: it is, or was, and it was not a
    /// controller that ended that.
    pub fn may_seem_available(&self, min_ready: i64, horizon: Timestamp, at: Timestamp) -> bool {
        if self.taken.is_some() {
            return false;
        }
        let mut window = self.since(horizon);
        window.any(|facts| facts.is_available(min_ready, at))
    }

    /// Whether this pod was available at all times since the horizon, before it was asked to go: a
    /// controller that knew anything of it knew that.
    pub fn was_surely_available(&self, min_ready: i64, horizon: Timestamp) -> bool {
        let first = self.versions.first();
        let is_old = first.is_some_and(|(at, _)| *at <= horizon);
        let before = self.versions.partition_point(|(at, _)| *at <= horizon);
        let window = &self.versions[before.saturating_sub(1)..];
        let mut live = window.iter().filter(|(_, facts)| !facts.is_deleting);
        is_old && live.all(|(_, facts)| facts.is_available(min_ready, horizon))
    }
}
