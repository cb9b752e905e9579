//! Whether the caches show what another host has written.
//!
//! A host that gains shards takes them from another one, which may have written until just before.
//! The caches here follow the server at some distance, so they may not show these writes yet: a key
//! that ran now could create an object once more, or undo what was decided a moment ago. So from
//! the gain on, every informer is in *doubt*, and the gained shards wait until the informers that
//! their plugin uses are *proven*.
//!
//! The proof is one list that the API server answers by quorum, asked after the gain. It tells the
//! version that the server has reached. Everything that was written before the gain has a version
//! that is not newer, so a cache that has reached the version shows all of it. Of a quiet kind
//! nothing comes that would bring the cache there soon. So the objects of the answer count, too: a
//! cache which shows each of them in that state or a later one, and no others, lacks nothing.
//!
//! What this does not say:
//! - A write that the other host sent before the gain and that the server carries out after the
//!   answer is shown by no proof. Only its own right to write, which ends before a gain, keeps a
//!   host from sending one so late.
//! - Each informer is proven on its own, at its own time. A snapshot is no causal cut, as ever.
//! - Where the objects are the proof, the watch may still bring an object that was created and
//!   deleted before the answer, and its end. A key can see it in between, as on any late watch.
//! - A proof is about the moment of the gain. After that the caches are as late as they always may
//!   be, because only this host writes for the keys.
//!
//! An informer that begins after the gain lists after it, and is in no doubt. A list that comes
//! after the gain is no proof by itself: it may have been asked for before. This holds for the list
//! of more namespaces, too, which a gain may need: where it replaces what a cache shows, it has
//! come at least as far. So a cache that is proven by its version stays proven; and objects that it
//! lacks are part of a proof by objects.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::cache::Cache;
use crate::cache::snapshot::{InformerId, Snapshot};
use crate::model::informer_key::InformerKey;
use crate::model::key::{ObjectKey, ResourceVersion};
use crate::model::namespaces::Namespaces;
use crate::queue::Time;

/// How long the informer of a pattern's kind can hold keys back: as long as keys wait for such a
/// kind to be listed. A single kind whose API is broken must not stop a plugin that reads them all.
pub(super) const LONGEST_DOUBT: Duration = Duration::from_secs(10);

/// If a cache differs from an answer by more objects than this, it waits for the version.
const MAX_BEHIND: usize = 1_000;

/// An informer that is to be proven: a question to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// The informer.
    pub informer: InformerId,
    /// The kind, namespace and selectors of the objects to be listed.
    pub informer_key: InformerKey,
    /// The objects of which namespaces are to be listed; others in the answer count for nothing.
    pub namespaces: Namespaces,
    /// Whether an answer has come that the cache has not reached yet.
    pub is_answered: bool,
    number: u64,
}

/// The API server's answer: a list by quorum, asked after the [`Doubt`] was taken from the hub.
#[derive(Clone, Debug)]
pub struct Proof {
    /// The list's version.
    pub version: ResourceVersion,
    /// The version of each object. `None` if the list is not complete.
    pub objects: Option<BTreeMap<ObjectKey, ResourceVersion>>,
}

/// See the module's documentation. Each gain is a doubt about all informers, and has a number.
#[derive(Default)]
pub(super) struct Doubts {
    last: u64,
    /// The doubts that began in the last [`LONGEST_DOUBT`], and when each did.
    recent: VecDeque<(u64, Time)>,
    open: BTreeMap<InformerId, OpenDoubt>,
}

struct OpenDoubt {
    number: u64,
    /// The doubts up to this one are over.
    settled: u64,
    answer: Option<Answered>,
}

/// What a cache has to reach: the version, or each of the objects.
struct Answered {
    version: ResourceVersion,
    /// The objects that the cache did not show as the answer does, with their versions; `None` for
    /// one that the answer does not have. Those that come first are left out once they are shown.
    behind: Option<BTreeMap<ObjectKey, Option<ResourceVersion>>>,
}

impl Doubts {
    /// The number of the last doubt.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Begins to doubt these informers.
    pub fn begin(&mut self, informers: impl Iterator<Item = InformerId>, now: Time) {
        self.last += 1;
        self.recent
            .retain(|(_, began)| now < *began + LONGEST_DOUBT);
        self.recent.push_back((self.last, now));
        for informer in informers {
            let before = self.open.get(&informer);
            let settled = before.map_or(self.last - 1, |before| before.settled);
            let doubt = OpenDoubt {
                number: self.last,
                settled,
                answer: None,
            };
            self.open.insert(informer, doubt);
        }
    }

    /// The informers in doubt, of those that are to bring objects of some namespaces.
    pub fn questions(
        &self,
        snapshot: &Snapshot,
        wanted: &BTreeMap<InformerId, Namespaces>,
    ) -> Vec<Doubt> {
        let open = self.open.iter();
        let questions = open.map(|(informer, open)| Doubt {
            informer: *informer,
            informer_key: snapshot.informers[*informer].informer_key().clone(),
            namespaces: wanted.get(informer).copied().unwrap_or_default(),
            is_answered: open.answer.is_some(),
            number: open.number,
        });
        questions
            .filter(|doubt| !doubt.namespaces.is_none())
            .collect()
    }

    /// Whether nothing of this doubt is left about an informer.
    pub fn is_settled(&self, informer: InformerId, number: u64) -> bool {
        let open = self.open.get(&informer);
        open.is_none_or(|open| open.settled >= number)
    }

    /// The informers about which something of this doubt is left.
    pub fn open(&self, number: u64) -> impl Iterator<Item = InformerId> {
        let open = self.open.iter();
        let open = open.filter(move |(_, open)| open.settled < number);
        open.map(|(informer, _)| *informer)
    }

    /// Until when the informer of a pattern's kind holds back what waits for this doubt to be over;
    /// `None` if it holds back nothing.
    pub fn until(&self, informer: InformerId, number: u64) -> Option<Time> {
        if self.is_settled(informer, number) {
            return None;
        }
        let mut recent = self.recent.iter();
        let (_, began) = recent.find(|(recent, _)| *recent == number)?;
        Some(*began + LONGEST_DOUBT)
    }

    /// The API server has answered. An answer to an earlier question proves nothing.
    pub fn answer(&mut self, doubt: &Doubt, proof: &Proof, cache: &Cache) {
        let open = self.open.get_mut(&doubt.informer);
        let Some(open) = open.filter(|open| open.number == doubt.number) else {
            return;
        };
        let objects = proof.objects.as_ref().filter(|_| !cache.is_initial());
        let behind = objects.and_then(|objects| behind(objects, cache, doubt.namespaces));
        let mut answered = Answered {
            version: proof.version.clone(),
            behind,
        };
        // Of two answers to one question the earlier one is enough.
        if let Some(before) = open.answer.take() {
            if before.version.is_at_most(&answered.version) {
                answered.version = before.version;
            }
            answered.behind = answered.behind.or(before.behind);
        }
        open.answer = Some(answered);
    }

    /// Something has come to a cache. Returns whether that ends the doubt about it.
    pub fn settle(&mut self, informer: InformerId, cache: &Cache) -> bool {
        let open = self.open.get_mut(&informer);
        let answer = open.and_then(|open| open.answer.as_mut());
        let is_over = answer.is_some_and(|answer| answer.is_reached(cache));
        if is_over {
            self.open.remove(&informer);
        }
        is_over
    }

    /// The server has gone back in time: its answer is of another time.
    pub fn forget_answer(&mut self, informer: InformerId) {
        if let Some(open) = self.open.get_mut(&informer) {
            open.answer = None;
        }
    }

    /// An informer has ended.
    pub fn end(&mut self, informer: InformerId) {
        self.open.remove(&informer);
    }
}

impl Answered {
    fn is_reached(&mut self, cache: &Cache) -> bool {
        if cache.is_initial() {
            return false;
        }
        if shows(&self.version, cache.resource_version()) {
            return true;
        }
        let Some(behind) = &mut self.behind else {
            return false;
        };
        while let Some(first) = behind.first_entry() {
            if !is_shown(first.key(), first.get().as_ref(), cache) {
                return false;
            }
            first.remove();
        }
        true
    }
}

/// Whether a state of this version is shown by what has come to the other one.
fn shows(version: &ResourceVersion, have: &ResourceVersion) -> bool {
    version == have || version.is_at_most(have)
}

/// Whether the cache shows an object in this version or a later one; or does not show it, if the
/// answer does not have it.
fn is_shown(key: &ObjectKey, version: Option<&ResourceVersion>, cache: &Cache) -> bool {
    match (version, cache.version_of(key)) {
        (Some(version), Some(have)) => shows(version, have),
        (None, None) => !cache.unreadable().contains_key(key),
        _ => false,
    }
}

/// The objects of these namespaces that the cache does not show as the answer does; `None` if they
/// are many.
fn behind(
    objects: &BTreeMap<ObjectKey, ResourceVersion>,
    cache: &Cache,
    namespaces: Namespaces,
) -> Option<BTreeMap<ObjectKey, Option<ResourceVersion>>> {
    let listed = objects.iter();
    let listed = listed.filter(|(key, _)| namespaces.has(&key.namespace));
    let older = listed.filter(|(key, version)| !is_shown(key, Some(version), cache));
    let older = older.map(|(key, version)| (key.clone(), Some(version.clone())));
    let cached = cache.list(None).map(|object| object.key().to_key());
    let unreadable = cache.unreadable().keys().cloned();
    let others = cached.chain(unreadable);
    let is_other = |key: &ObjectKey| namespaces.has(&key.namespace) && !objects.contains_key(key);
    let others = others.filter(is_other);
    let others = others.map(|key| (key, None));
    let behind: BTreeMap<_, _> = older.chain(others).take(MAX_BEHIND + 1).collect();
    (behind.len() <= MAX_BEHIND).then_some(behind)
}
