//! The states that every object went through, up to the change that is judged.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use pilothouse_tests::What;

use crate::facts::Facts;
use crate::owners::{Standing, standing};
use crate::world::Record;

/// All objects that there are or were.
#[derive(Default)]
pub struct History {
    tracks: HashMap<String, Track>,
    /// The uids of those that ever named an owner, by its uid.
    dependents: HashMap<String, BTreeSet<String>>,
    /// The uids of the pods that ever were in a namespace.
    pods: HashMap<String, BTreeSet<String>>,
}

#[derive(Default)]
struct Track {
    /// The oldest first.
    states: Vec<(u64, Arc<Facts>)>,
    is_gone: bool,
}

impl History {
    pub fn learn(&mut self, record: &Record) {
        let facts = &record.facts;
        for owner in &facts.owners {
            let dependents = self.dependents.entry(owner.uid.clone()).or_default();
            dependents.insert(facts.uid.clone());
        }
        if facts.resource == "pods" {
            let pods = self.pods.entry(facts.namespace.clone()).or_default();
            pods.insert(facts.uid.clone());
        }
        let track = self.tracks.entry(facts.uid.clone()).or_default();
        match record.what {
            What::Deleted => track.is_gone = true,
            _ => track.states.push((record.version, facts.clone())),
        }
    }

    /// The object as it is now, if it is there.
    pub fn now(&self, uid: &str) -> Option<Arc<Facts>> {
        let track = self.tracks.get(uid).filter(|track| !track.is_gone)?;
        track.states.last().map(|(_, facts)| facts.clone())
    }

    /// The object as it was last, there or gone.
    pub fn last(&self, uid: &str) -> Option<Arc<Facts>> {
        let state = self.tracks.get(uid)?.states.last();
        state.map(|(_, facts)| facts.clone())
    }

    /// The version of the object as it was last.
    pub fn version(&self, uid: &str) -> Option<u64> {
        let state = self.tracks.get(uid)?.states.last();
        state.map(|(version, _)| *version)
    }

    /// The object as it was when the server was at this version.
    pub fn at(&self, uid: &str, version: u64) -> Option<Arc<Facts>> {
        let states = &self.tracks.get(uid)?.states;
        let until = states.iter().rfind(|(made, _)| *made <= version);
        until.map(|(_, facts)| facts.clone())
    }

    /// The version since which this was so of an object without a break.
    pub fn since(&self, uid: &str, is_so: impl Fn(&Facts) -> bool) -> u64 {
        let states = self.tracks.get(uid).map(|track| track.states.as_slice());
        let states = states.unwrap_or_default().iter().rev();
        let so = states.take_while(|(_, facts)| is_so(facts));
        so.last().map_or(u64::MAX, |(version, _)| *version)
    }

    /// Whether this was ever so of an object.
    pub fn ever(&self, uid: &str, is_so: impl Fn(&Facts) -> bool) -> bool {
        let track = self.tracks.get(uid).into_iter();
        let mut states = track.flat_map(|track| &track.states);
        states.any(|(_, facts)| is_so(facts))
    }

    /// Those that are there and name this owner, but the owner itself.
    pub fn dependents(&self, uid: &str) -> Vec<Arc<Facts>> {
        let dependents = self.dependents.get(uid).into_iter().flatten();
        let present = dependents.filter_map(|dependent| self.now(dependent));
        let present = present.filter(|one| one.names(uid) && one.uid != uid);
        present.collect()
    }

    /// The uids of all that ever named this owner, but the owner itself.
    pub fn ever_dependent(&self, uid: &str) -> impl Iterator<Item = &str> {
        let dependents = self.dependents.get(uid).into_iter().flatten();
        let uid = uid.to_owned();
        let others = dependents.filter(move |one| **one != uid);
        others.map(String::as_str)
    }

    /// The pods that are there and use a claim.
    pub fn users(&self, claim: &Facts) -> Vec<Arc<Facts>> {
        let pods = self.pods.get(&claim.namespace).into_iter().flatten();
        let present = pods.filter_map(|pod| self.now(pod));
        present.filter(|pod| pod.uses(claim)).collect()
    }

    /// What the owners of an object are now.
    pub fn standings(&self, facts: &Facts) -> Vec<Standing> {
        let owners = facts.owners.iter();
        let standings = owners.map(|owner| standing(owner, facts, |uid| self.now(uid)));
        standings.collect()
    }
}
