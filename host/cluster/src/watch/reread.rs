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

use super::change::{self, WatchChange, WatchChangeKind};
use super::position::{is_leap, is_older};
use super::{CacheSink, ListWatch};
use crate::request;

/// Largest object, in bytes. A line of a watch is not longer either.
const MAX_OBJECT: usize = 8 * 1024 * 1024;

/// How many objects are fetched during one list, stream or watch.
const PER_ATTEMPT: u32 = 100;

/// Time spent on fetching during one list, stream or watch; the rest of the kind waits meanwhile.
const TIME_PER_ATTEMPT: Duration = Duration::from_secs(5);

/// How many unanswered objects are fetched again before a watch is opened.
const AGAIN: usize = 10;

/// The objects that the cache shows as unreadable.
#[derive(Default)]
pub(super) struct Unread {
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

impl Unread {
    /// A list, a stream or a watch begins, with a new budget for fetching.
    pub(super) fn begin(&mut self) {
        self.left = PER_ATTEMPT;
        self.time_left = TIME_PER_ATTEMPT;
    }

    /// Everything is about to be listed again.
    pub(super) fn begin_anew(&mut self) {
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
    pub(super) fn keep_hopeless(&mut self, listing: &Listing) {
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
}

/// The result of fetching one object.
enum Answer {
    Is(Box<WatchChange>),
    Gone,
    Hopeless,
    None,
}

impl ListWatch {
    /// Returns a readable change as it is. For an unreadable one, returns the object's current
    /// state if it can be fetched by name.
    pub(super) async fn reread(&mut self, change: WatchChange, schema: &Schema) -> WatchChange {
        let WatchChangeKind::Unreadable(reason) = &change.what else {
            self.unread.forget(&change.key);
            return change;
        };
        if self.unread.hopeless.contains(&change.key) {
            return change;
        }
        let answer = if self.unread.is_over() {
            Answer::None
        } else {
            let began = Instant::now();
            self.unread.left -= 1;
            let answer = self.ask_for(&change, schema).await;
            let time_left = &mut self.unread.time_left;
            *time_left = time_left.saturating_sub(began.elapsed());
            answer
        };
        match answer {
            Answer::Is(found) => {
                let found = *found;
                self.unread.forget(&change.key);
                let newest = &mut self.unread.newest;
                if newest
                    .as_ref()
                    .is_none_or(|newest| is_older(newest, &found.version))
                {
                    *newest = Some(found.version);
                }
                return WatchChange {
                    what: match found.what {
                        WatchChangeKind::Upsert(object) => WatchChangeKind::Read(object),
                        what => what,
                    },
                    ..change
                };
            }
            Answer::Gone => {
                self.unread.forget(&change.key);
                return WatchChange {
                    what: WatchChangeKind::Delete,
                    ..change
                };
            }
            Answer::Hopeless => {
                self.unread.forget(&change.key);
                self.unread.hopeless.insert(change.key.clone());
            }
            Answer::None => {
                let open = WatchChange {
                    key: change.key.clone(),
                    version: change.version.clone(),
                    what: WatchChangeKind::Unreadable(reason.clone()),
                };
                self.unread.open.insert(change.key.clone(), open);
            }
        }
        change
    }

    /// Fetches some of the unanswered objects again. Each call takes others, so that objects
    /// without an answer do not hold up the rest.
    pub(super) async fn reread_open(&mut self, sink: &mut impl CacheSink) {
        for key in self.unread.next_open() {
            // An object that is not fetched now has not had its turn.
            if self.unread.is_over() {
                break;
            }
            let Some(open) = self.unread.open.remove(&key) else {
                continue;
            };
            self.unread.turn = Some(key);
            let change = self.reread(open, &sink.schema()).await;
            if !matches!(change.what, WatchChangeKind::Unreadable(_)) {
                sink.apply(change.into_delta());
                self.note_reread();
            }
        }
    }

    /// The fetched objects are in the cache now, so no later list may be older than they are.
    pub(super) fn note_reread(&mut self) {
        if let Some(newest) = self.unread.newest.take() {
            self.state.see(newest);
        }
    }

    async fn ask_for(&mut self, change: &WatchChange, schema: &Schema) -> Answer {
        let (key, version) = (&change.key, &change.version);
        let Some(request) = self.query.object(key) else {
            return Answer::Hopeless;
        };
        let deadline = self.settings.head_deadline.min(self.unread.time_left);
        match request::fetch(&self.asker.client, request, deadline, MAX_OBJECT).await {
            Ok(body) => match self.read_object(&body, schema) {
                Some(found)
                    if found.key == *key
                        && !matches!(found.what, WatchChangeKind::Unreadable(_))
                        && !is_leap(&found.version, version) =>
                {
                    Answer::Is(Box::new(found))
                }
                _ => Answer::Hopeless,
            },
            Err(error) => match error.code() {
                Some(404) => Answer::Gone,
                // The right to list does not include the right to get.
                Some(403 | 405) => Answer::Hopeless,
                _ => Answer::None,
            },
        }
    }

    fn read_object(&self, body: &[u8], schema: &Schema) -> Option<WatchChange> {
        let raw = serde_json::from_slice(body).ok()?;
        change::upsert(&self.query.resource, raw, schema).ok()
    }
}
