//! Keys that keep failing, perhaps because a cache is wrong.
//!
//! What a watch brings may be valid JSON and still differ from what the server has: a proxy or a
//! broken etcd node can garble it. It stays in the cache until the object changes, and a guest that
//! cannot make sense of it fails each time. client-go decodes into types, notices the garbling that
//! way, and relists. The host knows no types, but it knows what a failing key has read. So from the
//! third failure in a row on, and after a terminal failure, it fetches these objects from the API
//! server, a few at a time, and corrects the cache where it differs. Each state of an object is
//! fetched once, as far as the confirmed states can be remembered. So a guest that fails for its
//! own reasons costs the server no more than that. Fetches that were not answered are repeated as
//! long as the key fails.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use super::present::Present;
use super::recorded::RecordedReads;
use crate::cache::snapshot::{InformerId, Snapshot};
use crate::hub::{Fetch, Question};
use crate::model::key::{ObjectKey, ResourceVersion};
use crate::model::subject_key::SubjectKey;
use crate::queue::Time;
use crate::reads::read::{Read, candidates};
use crate::reads::source::Source;

/// Number of consecutive failures from which on the objects that a key has read are fetched.
pub(super) const SUSPECT_AFTER: u32 = 3;

/// Maximum number of objects in one fetch.
const MAX_QUESTIONS: usize = 64;

/// After this many examined objects the other keys wait for the next time, because the hub is
/// locked meanwhile. Of a single key only so many objects are ever examined.
const MAX_CHECKED: usize = if cfg!(test) { 1_000 } else { 10_000 };

/// Time between two fetches of one plugin. A plugin whose keys all fail must cost the server
/// little.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Time until the next fetch after a fetch that was not answered.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// Maximum number of remembered states. Beyond it all of them are forgotten, and fetched again when
/// a key fails once more.
const MAX_CONFIRMED: usize = if cfg!(test) { 512 } else { 16_384 };

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    /// The keys whose reads must be fetched.
    keys: BTreeSet<SubjectKey>,
    /// No fetch begins before this time.
    next: Time,
    is_asking: bool,
    /// Objects examined since the last pause.
    checked: usize,
    /// What the server has confirmed or supplied: the version of an object, or that there is none.
    confirmed: HashMap<(InformerId, ObjectKey), Option<ResourceVersion>>,
}

impl Suspects {
    /// Marks a key: its reads must be fetched.
    pub fn add(&mut self, key: &SubjectKey) {
        self.keys.insert(key.clone());
    }

    /// Forgets all keys but these.
    pub fn retain(&mut self, is_kept: impl Fn(&SubjectKey) -> bool) {
        self.keys.retain(is_kept);
    }

    /// When the next fetch is due, if there is one to make.
    pub fn due(&self) -> Option<Time> {
        (!self.is_asking && !self.keys.is_empty()).then_some(self.next)
    }

    /// The next failing key and what of its reads is to be fetched, if a fetch is due.
    pub fn next(
        &mut self,
        reads: &RecordedReads,
        is_failing: impl Fn(&SubjectKey) -> bool,
        present: Present<'_>,
    ) -> Option<(SubjectKey, Vec<Question>)> {
        let now = present.now;
        self.due().filter(|due| *due <= now)?;
        while self.checked < MAX_CHECKED {
            let key = self.keys.pop_first()?;
            if !is_failing(&key) {
                continue;
            }
            let (questions, checked) = self.questions(&key, reads, present);
            self.checked += checked;
            if questions.is_empty() {
                continue;
            }
            self.is_asking = true;
            self.pause(now + ASK_EVERY);
            return Some((key, questions));
        }
        self.pause(now + ASK_EVERY);
        None
    }

    /// What a key has read and the server has not confirmed yet, and how many objects were examined
    /// to find it.
    fn questions(
        &self,
        key: &SubjectKey,
        reads: &RecordedReads,
        present: Present<'_>,
    ) -> (Vec<Question>, usize) {
        let snapshot = present.snapshot;
        let own = present.installed.subjects().informer_of(snapshot, key);
        let own = own.map(|informer| Read::Object(informer, key.object.clone()));
        let reads = own.iter().chain(reads.of(key));
        let parts = reads.flat_map(|read| present.installed.reads_of_informers(read));
        let checked = Cell::new(0);
        let is_open = |(informer, key): &(InformerId, ObjectKey)| {
            !self.is_confirmed(*informer, key, snapshot)
        };
        // The key may have read an object twice.
        let mut known = BTreeSet::new();
        let mut questions = Vec::new();
        for read in parts {
            checked.set(checked.get() + 1);
            let objects = objects_of(&read, snapshot, &checked);
            let open = objects.filter(|object| is_open(object) && known.insert(object.clone()));
            let open = open.take(MAX_QUESTIONS - questions.len());
            questions.extend(open.map(|(informer, key)| Question::of(snapshot, informer, key)));
            if questions.len() == MAX_QUESTIONS || checked.get() > MAX_CHECKED {
                break;
            }
        }
        (questions, checked.get())
    }

    fn is_confirmed(&self, informer: InformerId, key: &ObjectKey, snapshot: &Snapshot) -> bool {
        let place = (informer, key.clone());
        let state = self.confirmed.get(&place);
        state.is_some_and(|state| state.as_ref() == snapshot.informers[informer].version_of(key))
    }

    fn pause(&mut self, until: Time) {
        self.next = until;
        self.checked = 0;
    }

    /// A fetch for a failing key has ended. `states`: what the caches now show of the objects that
    /// need no further fetch. `is_answered`: whether every question was answered.
    pub fn fetch_ended(
        &mut self,
        fetch: &Fetch,
        states: Vec<Question>,
        is_answered: bool,
        now: Time,
    ) {
        self.is_asking = false;
        if !is_answered {
            self.pause(now + ASK_AGAIN_AFTER);
        }
        // The key may have read more than fits into one fetch, and unanswered questions are asked
        // again.
        let is_open =
            states.len() < fetch.questions.len() || fetch.questions.len() == MAX_QUESTIONS;
        let is_full = self.confirmed.len() + states.len() > MAX_CONFIRMED;
        if is_full {
            self.confirmed.clear();
        } else if is_open {
            self.add(&fetch.key);
        }
        let states = states.into_iter();
        let states = states.map(|state| ((state.informer, state.key), state.cached));
        self.confirmed.extend(states);
    }
}

/// The objects that a read of one informer has found, or has looked for by name. Counts in
/// `checked` what is examined for that, whether or not the read selects it: a read that finds
/// nothing in a large cache takes as long as one that finds everything. Ends when too many have
/// been examined.
fn objects_of<'a>(
    read: &'a Read,
    snapshot: &'a Snapshot,
    checked: &'a Cell<usize>,
) -> Box<dyn Iterator<Item = (InformerId, ObjectKey)> + 'a> {
    let is_allowed = || {
        checked.set(checked.get() + 1);
        checked.get() <= MAX_CHECKED
    };
    let is_real = |informer: &InformerId| {
        // The API server has no objects that describe kinds: those the host makes.
        !snapshot.informers[*informer].is_of_served_kinds()
    };
    match read {
        Read::Object(informer, key) | Read::Applied(informer, key, _) if is_real(informer) => {
            Box::new(std::iter::once((*informer, key.clone())))
        }
        Read::List(Source::Informer(informer), namespace, filter) if is_real(informer) => {
            let (cache, namespace) = (&snapshot.informers[*informer], namespace.as_deref());
            let examined = candidates(cache, namespace, filter, None);
            let examined = examined.take_while(move |_| is_allowed());
            let found = examined.flatten();
            let found = found.filter(move |object| filter.selects(object, namespace));
            Box::new(found.map(|object| (*informer, object.key().to_key())))
        }
        _ => Box::new(std::iter::empty()),
    }
}
