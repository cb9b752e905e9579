//! Fetches unreadable objects by name: once when they arrive, and again later until there is an
//! answer.
//!
//! An object may have been garbled on the way, or the server may be in the middle of a schema
//! change. One such object must not stop its kind. It is reported as unreadable, and everything
//! else goes on.

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;
use std::time::Duration;

use pilothouse_core::{Listing, ObjectKey, ResourceVersion, Schema};
use tokio::time::Instant;

use super::requests::Requests;
use crate::watch::machine::{is_leap, is_older};
use crate::watch::sink::CacheSink;
use crate::watch::wire::change::{self, WatchChange, WatchChangeKind};

/// How many objects are fetched during one list, stream or watch.
const PER_ATTEMPT: u32 = 100;

/// Time spent on fetching during one list, stream or watch; the rest of the kind waits meanwhile.
const TIME_PER_ATTEMPT: Duration = Duration::from_secs(5);

/// How many unanswered objects are fetched again before a watch is opened.
const AGAIN: usize = 10;

/// The objects that the cache shows as unreadable.
#[derive(Default)]
pub(crate) struct UnreadableObjects {
    /// Objects that were unreadable when fetched too. They are not fetched again until a readable
    /// state of them has arrived, or a list without them.
    hopeless: HashSet<ObjectKey>,
    /// Objects that were not fetched yet, or whose fetch got no answer.
    open: BTreeMap<ObjectKey, WatchChange>,
    /// The key of `open` that was fetched last; the next ones are those after it.
    turn: Option<ObjectKey>,
    /// How many more objects may be fetched in this attempt.
    left: u32,
    /// How much more time may be spent on fetching in this attempt.
    time_left: Duration,
    /// The newest version of an object fetched by name, until the state machine is told.
    newest: Option<ResourceVersion>,
}

/// The result of fetching one object.
enum Refetched {
    Is(Box<WatchChange>),
    Gone,
    Hopeless,
    NoAnswer,
}

impl UnreadableObjects {
    /// A list, a stream or a watch begins, with a new budget for fetching.
    pub(crate) fn begin(&mut self) {
        self.left = PER_ATTEMPT;
        self.time_left = TIME_PER_ATTEMPT;
    }

    /// Everything is about to be listed again.
    pub(crate) fn begin_anew(&mut self) {
        self.begin();
        self.open.clear();
        self.newest = None;
    }

    /// True if the budget of this list, stream or watch is used up.
    fn is_over(&self) -> bool {
        self.left == 0 || self.time_left.is_zero()
    }

    /// The objects to fetch again now, in turn.
    fn next_open(&self) -> Vec<ObjectKey> {
        let after = match &self.turn {
            Some(last) => Bound::Excluded(last),
            None => Bound::Unbounded,
        };
        let rest = self.open.range((after, Bound::Unbounded));
        let all_in_turn = rest.chain(&self.open).map(|(key, _)| key.clone());
        all_in_turn.take(AGAIN.min(self.open.len())).collect()
    }

    /// A complete list has arrived. Objects that it lacks, or that it contains in readable form,
    /// may be fetched again when they next arrive unreadable.
    pub(crate) fn keep_hopeless(&mut self, listing: &Listing) {
        if self.hopeless.is_empty() {
            return;
        }
        let unreadable = listing.unreadable.iter().map(|object| &object.key);
        let unreadable: HashSet<&ObjectKey> = unreadable.collect();
        self.hopeless.retain(|key| unreadable.contains(key));
    }

    fn forget(&mut self, key: &ObjectKey) {
        if !self.hopeless.is_empty() {
            self.hopeless.remove(key);
        }
        if !self.open.is_empty() {
            self.open.remove(key);
        }
    }

    /// Returns a readable change as it is. For an unreadable one, returns the object's current
    /// state if it can be fetched by name.
    pub(crate) async fn reread(
        &mut self,
        change: WatchChange,
        schema: &Schema,
        requests: &mut Requests,
    ) -> WatchChange {
        let WatchChangeKind::Unreadable(reason) = &change.what else {
            self.forget(&change.key);
            return change;
        };
        if self.hopeless.contains(&change.key) {
            return change;
        }
        let refetched = if self.is_over() {
            Refetched::NoAnswer
        } else {
            let began = Instant::now();
            self.left -= 1;
            let refetched = self.refetch(&change, schema, requests).await;
            self.time_left = self.time_left.saturating_sub(began.elapsed());
            refetched
        };
        let what = match refetched {
            Refetched::Is(found) => {
                self.forget(&change.key);
                self.note(found.version);
                match found.what {
                    WatchChangeKind::Upsert(object) => WatchChangeKind::Read(object),
                    what => what,
                }
            }
            Refetched::Gone => {
                self.forget(&change.key);
                WatchChangeKind::Delete
            }
            Refetched::Hopeless => {
                self.forget(&change.key);
                self.hopeless.insert(change.key.clone());
                return change;
            }
            Refetched::NoAnswer => {
                let open = WatchChange {
                    key: change.key.clone(),
                    version: change.version.clone(),
                    what: WatchChangeKind::Unreadable(reason.clone()),
                };
                self.open.insert(change.key.clone(), open);
                return change;
            }
        };
        WatchChange { what, ..change }
    }

    /// Fetches some of the unanswered objects again. Each call takes others, so that objects
    /// without an answer do not hold up the rest. Returns whether the sink was given any.
    pub(crate) async fn reread_open(
        &mut self,
        requests: &mut Requests,
        sink: &mut impl CacheSink,
    ) -> bool {
        let mut has_read = false;
        for key in self.next_open() {
            // An object that is not fetched now has not had its turn.
            if self.is_over() {
                break;
            }
            let Some(open) = self.open.remove(&key) else {
                continue;
            };
            self.turn = Some(key);
            let change = self.reread(open, &sink.schema(), requests).await;
            if !matches!(change.what, WatchChangeKind::Unreadable(_)) {
                sink.apply(change.into_delta());
                has_read = true;
            }
        }
        has_read
    }

    /// The newest version of the objects fetched since the last call. When they are in the cache,
    /// no later list may be older than they are.
    pub(crate) fn take_newest(&mut self) -> Option<ResourceVersion> {
        self.newest.take()
    }

    fn note(&mut self, version: ResourceVersion) {
        let newest = self.newest.as_ref();
        if newest.is_none_or(|newest| is_older(newest, &version)) {
            self.newest = Some(version);
        }
    }

    async fn refetch(
        &self,
        change: &WatchChange,
        schema: &Schema,
        requests: &mut Requests,
    ) -> Refetched {
        let (key, version) = (&change.key, &change.version);
        let Some(answer) = requests.fetch_object(key, self.time_left).await else {
            return Refetched::Hopeless;
        };
        match answer {
            Ok(body) => match read_object(&body, schema, requests) {
                Some(found)
                    if found.key == *key
                        && !matches!(found.what, WatchChangeKind::Unreadable(_))
                        && !is_leap(&found.version, version) =>
                {
                    Refetched::Is(Box::new(found))
                }
                _ => Refetched::Hopeless,
            },
            Err(error) => match error.code() {
                Some(404) => Refetched::Gone,
                // The right to list does not include the right to get.
                Some(403 | 405) => Refetched::Hopeless,
                _ => Refetched::NoAnswer,
            },
        }
    }
}

fn read_object(body: &[u8], schema: &Schema, requests: &Requests) -> Option<WatchChange> {
    let raw = serde_json::from_slice(body).ok()?;
    change::upsert(requests.resource(), raw, schema).ok()
}
