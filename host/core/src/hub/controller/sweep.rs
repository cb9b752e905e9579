//! The reconciles that every subject gets although nothing has changed: first runs and resyncs.
//!
//! They are not queued but read from the caches one at a time: ten thousand queued keys are two
//! megabytes for each plugin. The result is the same as if all keys had been queued with [`LOW`]
//! priority when the sweep began:
//! - Every subject that exists when the sweep reaches it is reconciled, unless it has been since
//!   the sweep began. A subject that was created, changed or deleted meanwhile was queued by that.
//! - Keys queued earlier with the same priority run before the sweep's keys, and keys queued later
//!   run after them.
//!
//! A sweep goes through one kind after the other. One that begins while another is under way
//! continues from the other's position and goes once around. So the last keys are reached however
//! often sweeps begin.

use std::collections::HashSet;
use std::time::Duration;

use crate::cache::snapshot::Snapshot;
use crate::hub::duties::Duty;
use crate::hub::subjects::Subjects;
use crate::model::key::ObjectKey;
use crate::model::subject_key::SubjectKey;
use crate::queue::{LOW, QueuePosition, Time, WorkQueue};

/// At most this many objects that are not to run are skipped in one step, because the hub is locked
/// meanwhile.
const MAX_PASSED: usize = 1_000;

/// At most this many bytes of objects are read in one step to evaluate field conditions. It is some
/// milliseconds.
const MAX_READ: usize = 1 << 20;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Sweep {
    /// The position of its keys in the queue.
    place: QueuePosition,
    since: Time,
    /// The shards whose keys it runs.
    of: Duty,
    /// The last key it has reached; `None` before the first key.
    at: Option<SubjectKey>,
    /// The key after which it began, and with which it ends; `None` if it began with the first key.
    end: Option<SubjectKey>,
    /// Whether it has passed the last key and continued with the first.
    is_around: bool,
    /// Keys it has not reached yet, but which have run or been queued since it began.
    ahead: HashSet<SubjectKey>,
    /// How many objects it has not reached yet, selected or not and of any shard, without those in
    /// `ahead`.
    left: usize,
    /// While the plugin is draining, the objects that existed when draining began. `None`: the
    /// current objects.
    only: Option<Snapshot>,
}

/// The result of one step.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SweepStep {
    /// A subject to reconcile.
    Key(SubjectKey),
    /// Only objects that are not to run so far.
    NotYet,
    /// The sweep is over.
    End,
}

impl Sweep {
    /// A sweep over the objects of these shards, among this many. It replaces the one that may be
    /// under way.
    pub fn begin(
        before: Option<Self>,
        of: Duty,
        objects: usize,
        queue: &mut WorkQueue,
        now: Time,
    ) -> Self {
        let at = before.and_then(|before| before.at);
        Self {
            place: queue.place(LOW),
            since: now,
            of,
            end: at.clone(),
            at,
            is_around: false,
            ahead: HashSet::new(),
            left: objects,
            only: None,
        }
    }

    pub fn place(&self) -> QueuePosition {
        self.place
    }

    /// How long its keys have been waiting.
    pub fn waited(&self, now: Time) -> Duration {
        now.saturating_sub(self.since)
    }

    /// How many objects it has not reached yet, selected or not. This includes keys that were
    /// queued before it began and have not run yet. If it runs some shards only, this is an
    /// estimate: to count their objects, all would have to be looked at.
    pub fn left(&self) -> usize {
        self.of.share_of(self.left)
    }

    /// From now on only the keys of these shards are run. Returns whether it still has some.
    pub fn keep(&mut self, kept: &Duty) -> bool {
        self.of = self.of.narrowed_to(kept);
        self.ahead.retain(|key| kept.has(key));
        !self.of.is_empty()
    }

    /// Whether it has not reached this key yet, and the key has not been queued since it began.
    pub fn is_to_run(&self, key: &SubjectKey) -> bool {
        self.comes_to(key) && self.of.has(key) && !self.ahead.contains(key)
    }

    /// An object has been created or deleted.
    pub fn note_change(&mut self, key: &SubjectKey, was_there: bool, is_there: bool) {
        let is_left = || self.comes_to(key) && !self.ahead.contains(key);
        if was_there != is_there && is_left() {
            self.left = match is_there {
                true => self.left + 1,
                false => self.left.saturating_sub(1),
            };
        }
    }

    /// A queued key runs or will run, so the sweep can skip it.
    pub fn note_queued(&mut self, key: &SubjectKey, is_there: bool) {
        let is_left = self.comes_to(key) && self.of.has(key);
        if is_left && self.ahead.insert(key.clone()) && is_there {
            self.left = self.left.saturating_sub(1);
        }
    }

    /// From now on, new objects are not part of the sweep.
    pub fn finish(&mut self, snapshot: &Snapshot) {
        self.only.get_or_insert_with(|| snapshot.clone());
    }

    fn comes_to(&self, key: &SubjectKey) -> bool {
        let is_after = self.at.as_ref().is_none_or(|at| key > at);
        let is_before_end = self.end.as_ref().is_some_and(|end| key <= end);
        match self.is_around {
            true => is_after && is_before_end,
            false => is_after || is_before_end,
        }
    }

    /// Goes on to the next subject.
    pub fn next(&mut self, subjects: &Subjects, snapshot: &Snapshot) -> SweepStep {
        let only = self.only.clone();
        let snapshot = only.as_ref().unwrap_or(snapshot);
        let nothing = ObjectKey::singleton();
        let mut read = 0;
        for _ in 0..MAX_PASSED {
            if read > MAX_READ {
                break;
            }
            let found = subjects.after(snapshot, self.at.as_ref());
            let found = found.map(|(subject, object)| {
                let before = self.at.as_ref().map_or(&nothing, |at| &at.object);
                let key = subject.key(object.key().to_key_beside(before));
                (key, subject, object)
            });
            let found = found.filter(|(key, ..)| self.comes_to(key));
            let Some((key, subject, object)) = found else {
                if self.is_around || self.end.is_none() {
                    return SweepStep::End;
                }
                self.is_around = true;
                self.at = None;
                continue;
            };
            self.at = Some(key.clone());
            if self.ahead.remove(&key) {
                continue;
            }
            self.left = self.left.saturating_sub(1);
            if !self.of.has(&key) {
                continue;
            }
            read += subject.bytes_to_read(object);
            if subject.selects(object) {
                return SweepStep::Key(key);
            }
        }
        SweepStep::NotYet
    }
}
