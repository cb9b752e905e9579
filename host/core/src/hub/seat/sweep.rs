//! The runs that every subject is to have though nothing has changed: first runs, and resyncs.
//!
//! They are read off the caches when their turn comes, and not queued: ten thousand queued keys are
//! two megabytes of each plugin. It is as if all keys had been queued, with [`LOW`] priority, when
//! the sweep began:
//! - Every subject that is there when the sweep comes to it runs, unless it has run since the sweep
//!   began. One that came, changed or went meanwhile was queued by that.
//! - What was queued before with the same priority runs before, what was queued later runs after.
//!
//! A sweep that begins while another is under way goes on from where that one stands, once around: so
//! the last keys have their turn however often sweeps begin.

use std::collections::HashSet;
use std::time::Duration;

use crate::hub::subject::SubjectKind;
use crate::key::{KeyRef, ObjectKey};
use crate::queue::{LOW, Place, Time, WorkQueue};
use crate::snapshot::Snapshot;

/// So many objects that are not to run are passed over at a time, while everybody waits.
const MAX_PASSED: usize = 1_000;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Sweep {
    /// Where its keys stand in line.
    place: Place,
    since: Time,
    /// The last key that it has come to; none at the very beginning.
    at: Option<ObjectKey>,
    /// The key after which it began, and with which it ends; none if it began with the first.
    end: Option<ObjectKey>,
    /// Whether it has come to the last key, and then gone on with the first.
    is_around: bool,
    /// Keys it would yet come to, but that have run or been queued since it began.
    ahead: HashSet<ObjectKey>,
    /// How many objects it has yet to come to, selected or not, without those that are ahead.
    left: usize,
    /// If the plugin is to finish what it had: what there was. None: what there is.
    only: Option<Snapshot>,
}

/// What a sweep comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A subject that is to run.
    Key(ObjectKey),
    /// So far only objects that are not to run.
    NotYet,
    /// It is over.
    End,
}

impl Sweep {
    /// A sweep over so many objects, in the place of one that may be under way.
    pub fn begin(before: Option<Self>, objects: usize, queue: &mut WorkQueue, now: Time) -> Self {
        let at = before.and_then(|before| before.at);
        Self {
            place: queue.place(LOW),
            since: now,
            end: at.clone(),
            at,
            is_around: false,
            ahead: HashSet::new(),
            left: objects,
            only: None,
        }
    }

    pub fn place(&self) -> Place {
        self.place
    }

    /// For how long its keys have been in line.
    pub fn waited(&self, now: Time) -> Duration {
        now.saturating_sub(self.since)
    }

    /// How many objects it has yet to come to, selected or not. Those whose keys were queued before it
    /// began are among them until they run.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Whether it has yet to come to this key, which was not queued since it began.
    pub fn is_to_run(&self, key: &ObjectKey) -> bool {
        self.comes_to(key.parts()) && !self.ahead.contains(key)
    }

    /// An object has come or gone.
    pub fn note_change(&mut self, key: &ObjectKey, was_there: bool, is_there: bool) {
        if was_there != is_there && self.is_to_run(key) {
            self.left = match is_there {
                true => self.left + 1,
                false => self.left.saturating_sub(1),
            };
        }
    }

    /// A key runs, or is to run, that was queued: the sweep need not come to it.
    pub fn note_queued(&mut self, key: &ObjectKey, is_there: bool) {
        if self.comes_to(key.parts()) && self.ahead.insert(key.clone()) && is_there {
            self.left = self.left.saturating_sub(1);
        }
    }

    /// What comes from now on is none of its subjects.
    pub fn finish(&mut self, snapshot: &Snapshot) {
        self.only.get_or_insert_with(|| snapshot.clone());
    }

    fn comes_to(&self, key: KeyRef<'_>) -> bool {
        let is_after = self.at.as_ref().is_none_or(|at| key > at.parts());
        let is_before_end = self.end.as_ref().is_some_and(|end| key <= end.parts());
        match self.is_around {
            true => is_after && is_before_end,
            false => is_after || is_before_end,
        }
    }

    /// Goes on to the next subject.
    pub fn next(&mut self, subject: &SubjectKind, snapshot: &Snapshot) -> Step {
        let only = self.only.clone();
        let snapshot = only.as_ref().unwrap_or(snapshot);
        for _ in 0..MAX_PASSED {
            let object = subject.after(snapshot, self.at.as_ref());
            let object = object.filter(|object| self.comes_to(object.key()));
            let Some(object) = object else {
                if self.is_around || self.end.is_none() {
                    return Step::End;
                }
                self.is_around = true;
                self.at = None;
                continue;
            };
            let before = self.at.take().unwrap_or_else(ObjectKey::singleton);
            let key = object.key().to_key_beside(&before);
            self.at = Some(key.clone());
            if self.ahead.remove(&key) {
                continue;
            }
            self.left = self.left.saturating_sub(1);
            if subject.selects(object) {
                return Step::Key(key);
            }
        }
        Step::NotYet
    }
}
