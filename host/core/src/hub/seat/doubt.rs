//! Keys that keep failing, on what may not be there.
//!
//! What a watch brings may be valid JSON and yet not what the server has: a proxy or a broken etcd
//! node can garble it. It stays in the cache until the object changes, and a guest that cannot make
//! sense of it fails each time. client-go decodes into types, finds this by that, and lists anew;
//! the host knows no types. But it knows what a failing key has read. So from the third failure in
//! a row on, and after one that is terminal, it reads these objects from the server itself, some at
//! a time, and what differs is put right. Each state of an object is looked up once, as far as that
//! can be remembered, so a guest that fails for a reason of its own costs the server no more than
//! that. What was not answered is asked again, as long as the key fails.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use super::Seat;
use crate::hub::{Lookup, PluginId, Purpose, Question};
use crate::key::{ObjectKey, ResourceVersion};
use crate::queue::Time;
use crate::reader::{Read, matching};
use crate::snapshot::{InformerId, Snapshot};

/// From so many failures in a row on what a key has read is looked up.
pub(super) const DOUBT_AFTER: u32 = 3;

/// Most objects looked up at a time.
const MAX_QUESTIONS: usize = 64;

/// After so many objects that were looked at the next have their time: others wait for the hub
/// meanwhile. A key is looked at as a whole.
const MAX_LOOKED_AT: usize = if cfg!(test) { 1_000 } else { 10_000 };

/// Time between two lookups of one plugin: a plugin that fails everywhere is to cost the server little.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Time until the next lookup after one that was not answered.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// More states are not remembered. Then all are forgotten, and looked up again when a key fails
/// once more.
const MAX_CONFIRMED: usize = if cfg!(test) { 512 } else { 16_384 };

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    /// The keys whose reads are to be looked up.
    keys: BTreeSet<ObjectKey>,
    /// Before this time nothing is.
    next: Time,
    is_asking: bool,
    /// Objects that were looked at since the last pause.
    looked_at: usize,
    /// What the server has confirmed, or given: the state of an object, or that there is none.
    confirmed: HashMap<(InformerId, ObjectKey), Option<ResourceVersion>>,
}

impl Doubts {
    /// What a key has read is to be looked up.
    pub fn add(&mut self, key: &ObjectKey) {
        self.keys.insert(key.clone());
    }

    /// When the next lookup is due, if one is.
    pub fn due(&self) -> Option<Time> {
        (!self.is_asking && !self.keys.is_empty()).then_some(self.next)
    }

    fn pause(&mut self, until: Time) {
        self.next = until;
        self.looked_at = 0;
    }

    fn is_confirmed(&self, informer: InformerId, key: &ObjectKey, snapshot: &Snapshot) -> bool {
        let place = (informer, key.clone());
        let state = self.confirmed.get(&place);
        state.is_some_and(|state| state.as_ref() == snapshot.informers[informer].version_of(key))
    }
}

impl Seat {
    /// The next lookup of what failing keys have read, if one is due.
    pub(super) fn next_doubt(
        &mut self,
        plugin: PluginId,
        snapshot: &Snapshot,
        now: Time,
    ) -> Option<Lookup> {
        self.doubts.due().filter(|due| *due <= now)?;
        while self.doubts.looked_at < MAX_LOOKED_AT {
            let key = self.doubts.keys.pop_first()?;
            if !self.queue.is_failing(&key) {
                continue;
            }
            let (questions, looked_at) = self.questions(&key, snapshot);
            self.doubts.looked_at += looked_at;
            if questions.is_empty() {
                continue;
            }
            self.doubts.is_asking = true;
            self.doubts.pause(now + ASK_EVERY);
            return Some(Lookup {
                plugin,
                key,
                purpose: Purpose::Doubt,
                questions,
            });
        }
        self.doubts.pause(now + ASK_EVERY);
        None
    }

    /// What a key has read and nobody has confirmed yet, and how many objects were looked at for
    /// that.
    fn questions(&self, key: &ObjectKey, snapshot: &Snapshot) -> (Vec<Question>, usize) {
        let subject = self.subject.as_ref();
        let own = subject.and_then(|subject| subject.informer_of(snapshot, key));
        let own = own.map(|informer| Read::Object(informer, key.clone()));
        let reads = own.iter().chain(self.reads.of(key));
        let objects = reads.flat_map(|read| objects_of(read, snapshot));
        let mut looked_at = 0;
        let objects = objects.inspect(|_| looked_at += 1);
        let is_open = |(informer, key): &(InformerId, ObjectKey)| {
            !self.doubts.is_confirmed(*informer, key, snapshot)
        };
        // It may have read an object twice.
        let mut known = BTreeSet::new();
        let open = objects.filter(|object| is_open(object) && known.insert(object.clone()));
        let questions = open
            .take(MAX_QUESTIONS)
            .map(|(informer, key)| Question::of(snapshot, informer, key))
            .collect();
        (questions, looked_at)
    }

    /// A lookup for a doubt has ended. `states`: what the caches show now of each object of which
    /// nothing more is to be asked. `is_answered`: whether there was an answer to each question.
    pub fn doubt_ended(
        &mut self,
        lookup: &Lookup,
        states: Vec<Question>,
        is_answered: bool,
        now: Time,
    ) {
        self.doubts.is_asking = false;
        if !is_answered {
            self.doubts.pause(now + ASK_AGAIN_AFTER);
        }
        // It may have read more than was asked for at once, and what is still open is asked again.
        let is_open =
            states.len() < lookup.questions.len() || lookup.questions.len() == MAX_QUESTIONS;
        let is_full = self.doubts.confirmed.len() + states.len() > MAX_CONFIRMED;
        if is_full {
            self.doubts.confirmed.clear();
        } else if is_open {
            self.doubts.add(&lookup.key);
        }
        let states = states.into_iter();
        let states = states.map(|state| ((state.informer, state.key), state.cached));
        self.doubts.confirmed.extend(states);
    }
}

/// What a read has found, or has not.
fn objects_of<'a>(
    read: &'a Read,
    snapshot: &'a Snapshot,
) -> Box<dyn Iterator<Item = (InformerId, ObjectKey)> + 'a> {
    match read {
        Read::Object(informer, key) | Read::Applied(informer, key, _) => {
            Box::new(std::iter::once((*informer, key.clone())))
        }
        Read::List(informer, namespace, filter) => {
            let cache = &snapshot.informers[*informer];
            let found = matching(cache, namespace.as_deref(), filter);
            Box::new(found.map(|object| (*informer, object.key().to_key())))
        }
    }
}
