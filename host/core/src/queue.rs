//! The work queue of one plugin: which key to run next.
//!
//! It only orders keys. It does not know what the keys mean or why they were added.
//!
//! Guarantees (those on which client-go's workqueue and controller-runtime's priority queue agree):
//! - A key is never handed out twice at once. A key added while it runs is handed out once more
//!   when it is done.
//! - However often a pending key is added, it is handed out once, with the highest priority it was
//!   added with.
//! - Keys are handed out by priority, then first come, first served. A key whose priority rises
//!   goes to the end of its new class.
//! - A delayed key becomes pending when its time comes. Of two delays the earlier one counts, with
//!   the higher of their priorities, and a plain add ends the delay.
//! - Failures are counted per key. Only success resets them: adding a key neither resets nor
//!   increases its back-off.
//! - A key that has failed [`BREAK_AFTER`] times in a row is *broken*: adding it makes it run no
//!   earlier than [`COOL_DOWN`] after its last try. Otherwise a key that fails each time would run
//!   as often as the cluster changes. The cool-down ends early if what the key ran on has changed
//!   ([`WorkQueue::end_cool_downs`]). client-go has nothing like it.
//! - A key may not run [before a given time](WorkQueue::set_not_before): what adds it meanwhile is
//!   remembered, and it runs then.
//! - No key that was added is lost.
//!
//! Time is an argument: the time since the host started.

pub mod backoff;
mod entry;
mod failures;
mod held;
mod report;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use crate::model::subject_key::SubjectKey;
use crate::queue::backoff::Backoff;
use entry::{Again, Entry, State};

/// Time since the host started. It never goes back.
pub type Time = Duration;

/// Keys with a higher priority run first.
pub type Priority = i32;

/// The priority of keys queued by a change in the cluster.
pub const NORMAL: Priority = 0;

/// The priority of keys queued by start-up and resync (controller-runtime's `LowPriority`): real
/// changes overtake them.
pub const LOW: Priority = -100;

/// A key with this many failures in a row is broken. With the default back-off it has then been
/// tried for five seconds.
pub const BREAK_AFTER: u32 = 10;

/// A broken key that is added runs no sooner than this after its last try. Its own back-off may be
/// shorter or longer.
pub const COOL_DOWN: Duration = Duration::from_secs(10);

/// Memory for this many keys is kept. The memory for ten thousand keys that changed at once would
/// be most of what an otherwise quiet plugin uses.
const KEPT_ROOM: usize = 256;

/// A key's position in the queue: by priority, then in the order of arrival.
pub type QueuePosition = (Reverse<Priority>, u64);

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct WorkQueue {
    /// Invariant: `pending`, `delayed` and `entries` agree. A key is in at most one of the first
    /// two (a held key is in `delayed`) and in neither while it runs. It has an entry as long as
    /// there is anything to remember about it.
    pending: BTreeMap<QueuePosition, SubjectKey>,
    delayed: BTreeMap<(Time, u64), SubjectKey>,
    entries: HashMap<SubjectKey, Entry>,
    /// The number of entries with failures, and the broken keys, so that reading them walks no
    /// entries.
    failing: usize,
    broken: BTreeSet<SubjectKey>,
    backoff: Backoff,
    next_ticket: u64,
    /// The running keys and when they were handed out. A plugin's concurrency keeps this short.
    running: Vec<(SubjectKey, Time)>,
    /// How many keys are pending with each priority. No count is zero.
    depth: BTreeMap<Priority, usize>,
    held: usize,
    is_draining: bool,
    counts: Counts,
}

/// Counters since the queue was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Keys that became pending.
    pub adds: u64,
    /// Delays requested after a failure.
    pub retries: u64,
}

/// A key that was handed out; give it back with [`WorkQueue::done`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The key.
    pub key: SubjectKey,
    /// Failures in a row so far.
    pub failures: u32,
    /// The priority it ran with.
    pub priority: Priority,
    /// How long it was pending.
    pub waited: Duration,
}

impl WorkQueue {
    /// An empty queue.
    pub fn new(backoff: Backoff) -> Self {
        Self {
            backoff,
            ..Self::default()
        }
    }

    /// Queues a key to run as soon as it can.
    pub fn add(&mut self, key: &SubjectKey, priority: Priority, now: Time) {
        let entry = self.entries.get(key);
        let waits_for = entry
            .map_or(Time::ZERO, Entry::waits_until)
            .saturating_sub(now);
        match entry.map(|entry| &entry.state) {
            // No second hand-out at once: the add is remembered, and outranks a delay.
            Some(State::Running { again }) => {
                let priority = match again {
                    Some(Again::Now(have) | Again::At(_, have)) => priority.max(*have),
                    None => priority,
                };
                self.set_running(key, Some(Again::Now(priority)));
            }
            // Only a release or its time lets a held key run, so an add may only raise its
            // priority.
            Some(&State::Held {
                due,
                priority: have,
                since,
            }) => {
                let priority = priority.max(have);
                self.set_state(
                    key,
                    State::Held {
                        due,
                        priority,
                        since,
                    },
                );
            }
            _ if self.is_draining => {}
            Some(&State::Pending { place, since }) => {
                if priority > place.0.0 {
                    self.pull(&place);
                    self.push(key, priority, since);
                }
            }
            // The add must not bypass the cool-down of a broken key, nor a time set for the key.
            _ if !waits_for.is_zero() => self.add_after(key, waits_for, priority, now),
            Some(&State::Delayed {
                due,
                priority: have,
            }) => {
                self.delayed.remove(&due);
                self.make_pending(key, priority.max(have), now);
            }
            Some(State::Idle) | None => self.make_pending(key, priority, now),
        }
    }

    /// Queues a key to run after `delay`. If it runs earlier anyway, only its priority can rise.
    pub fn add_after(&mut self, key: &SubjectKey, delay: Duration, priority: Priority, now: Time) {
        if delay.is_zero() {
            return self.add(key, priority, now);
        }
        let entry = self.entries.get(key);
        let not_before = entry.map_or(Time::ZERO, |entry| entry.not_before);
        let due = now.saturating_add(delay).max(not_before);
        let state = entry.map(|entry| &entry.state);
        match state {
            Some(State::Running { again: None }) => {
                self.set_running(key, Some(Again::At(due, priority)));
            }
            Some(&State::Running {
                again: Some(Again::At(at, have)),
            }) => {
                self.set_running(key, Some(Again::At(due.min(at), priority.max(have))));
            }
            // Of these keys an add changes nothing but the priority.
            Some(State::Pending { .. } | State::Held { .. } | State::Running { .. }) => {
                self.add(key, priority, now);
            }
            _ if self.is_draining => {}
            Some(&State::Delayed {
                due: old,
                priority: have,
            }) => {
                let priority = priority.max(have);
                if old.0 <= due {
                    self.set_state(key, State::Delayed { due: old, priority });
                } else {
                    self.delayed.remove(&old);
                    self.make_delayed(key, due, priority);
                }
            }
            Some(State::Idle) | None => self.make_delayed(key, due, priority),
        }
    }

    /// Hands out the next key. It runs until [`done`](Self::done).
    pub fn next(&mut self, now: Time) -> Option<Taken> {
        self.wake(now);
        let place = *self.pending.first_key_value()?.0;
        self.hand_out(place, now)
    }

    /// Hands out this key if it is pending or held, regardless of its position. It runs until
    /// [`done`](Self::done).
    pub fn claim(&mut self, key: &SubjectKey, now: Time) -> Option<Taken> {
        self.release(key);
        match self.entries.get(key)?.state {
            State::Pending { place, .. } => self.hand_out(place, now),
            _ => None,
        }
    }

    /// Reserves a position at the end of this priority's keys, for keys that will be
    /// [visited](Self::visit).
    pub fn place(&mut self, priority: Priority) -> QueuePosition {
        (Reverse(priority), self.ticket())
    }

    /// Whether no pending key comes before this position.
    pub fn is_first(&mut self, place: QueuePosition, now: Time) -> bool {
        self.wake(now);
        let first = self.pending.first_key_value();
        first.is_none_or(|(first, _)| *first > place)
    }

    /// Hands out a key as if it had been added with this priority before, even while draining.
    /// `None` if it runs, is held, or must wait for its time. Then it runs later.
    pub fn visit(&mut self, key: &SubjectKey, priority: Priority, now: Time) -> Option<Taken> {
        let is_draining = std::mem::replace(&mut self.is_draining, false);
        self.add(key, priority, now);
        self.is_draining = is_draining;
        match self.entries.get(key)?.state {
            State::Pending { place, .. } => self.hand_out(place, now),
            _ => None,
        }
    }

    /// Whether [`next`](Self::next) would hand out a key.
    pub fn is_ready(&self, now: Time) -> bool {
        !self.pending.is_empty() || self.next_due().is_some_and(|due| due <= now)
    }

    /// When [`next`](Self::next) can hand out a key; zero if it can now.
    pub fn next_ready(&self) -> Option<Time> {
        match self.pending.is_empty() {
            true => self.next_due(),
            false => Some(Time::ZERO),
        }
    }

    /// When the earliest delayed key is due.
    pub fn next_due(&self) -> Option<Time> {
        self.delayed.keys().next().map(|(due, _)| *due)
    }

    /// From now on, this key runs no earlier than at this time, whatever adds it or has added it
    /// while it ran. To be called while the key runs: a queued key keeps the time that it has.
    pub fn set_not_before(&mut self, key: &SubjectKey, at: Time) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.not_before = at;
        }
    }

    /// Takes back a key that was handed out. If it was added while it ran, it is queued again.
    pub fn done(&mut self, key: &SubjectKey, now: Time) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        let State::Running { again } = entry.state else {
            return;
        };
        entry.state = State::Idle;
        let (waits_until, not_before) = (entry.waits_until(), entry.not_before);
        let is_forgettable = entry.is_forgettable(now);
        self.stop(key);
        match again {
            Some(Again::Now(priority)) if waits_until <= now => {
                self.make_pending(key, priority, now);
            }
            Some(Again::Now(priority)) if !self.is_draining => {
                self.make_delayed(key, waits_until, priority);
            }
            Some(Again::At(due, priority)) if !self.is_draining => {
                self.make_delayed(key, due.max(not_before), priority);
            }
            _ if is_forgettable => self.remove_entry(key),
            _ => {}
        }
    }

    /// Drops all keys but these, and what is remembered about the others. Of these others, running
    /// keys end and run again only if they are added.
    pub fn retain(&mut self, is_kept: impl Fn(&SubjectKey) -> bool) {
        let keys = self.entries.keys();
        let dropped: Vec<SubjectKey> = keys.filter(|key| !is_kept(key)).cloned().collect();
        for key in dropped {
            self.forget(&key);
            self.set_not_before(&key, Time::ZERO);
            match self.entries.get(&key).map(|entry| &entry.state) {
                Some(State::Running { .. }) => {
                    self.set_running(&key, None);
                    continue;
                }
                Some(&State::Pending { place, .. }) => drop(self.pull(&place)),
                Some(&State::Delayed { due, .. }) => drop(self.delayed.remove(&due)),
                Some(&State::Held { due, .. }) => {
                    self.delayed.remove(&due);
                    self.held -= 1;
                }
                Some(State::Idle) | None => {}
            }
            self.remove_entry(&key);
        }
    }

    /// From now on, only pending and held keys, and keys that are added while they run, are handed
    /// out. Delayed keys are dropped.
    pub fn drain(&mut self) {
        self.is_draining = true;
        for (due, key) in std::mem::take(&mut self.delayed) {
            if matches!(
                self.entries.get(&key),
                Some(Entry {
                    state: State::Held { .. },
                    ..
                })
            ) {
                self.delayed.insert(due, key);
            } else {
                self.drop_entry(&key);
            }
        }
    }

    /// Every key may run as soon as it is added, whatever time was set for it. Keys that were added
    /// before still wait. Linear in the number of remembered keys.
    pub fn end_not_before(&mut self) {
        for entry in self.entries.values_mut() {
            entry.not_before = Time::ZERO;
        }
    }

    /// Forgets a key if it is neither queued nor running. Returns whether it was forgotten.
    pub fn forget_idle(&mut self, key: &SubjectKey) -> bool {
        let state = self.entries.get(key).map(|entry| &entry.state);
        let is_idle = matches!(state, None | Some(State::Idle));
        if is_idle {
            self.remove_entry(key);
        }
        is_idle
    }

    fn wake(&mut self, now: Time) {
        while let Some(first) = self
            .delayed
            .first_entry()
            .filter(|first| first.key().0 <= now)
        {
            let due = first.key().0;
            let key = first.get().clone();
            match self.entries.get(&key).map(|entry| &entry.state) {
                Some(State::Held { .. }) => self.release(&key),
                Some(&State::Delayed { priority, .. }) => {
                    first.remove();
                    self.make_pending(&key, priority, due);
                }
                _ => drop(first.remove()),
            }
        }
    }

    fn make_pending(&mut self, key: &SubjectKey, priority: Priority, since: Time) {
        self.counts.adds += 1;
        self.push(key, priority, since);
    }

    fn push(&mut self, key: &SubjectKey, priority: Priority, since: Time) {
        let place = (Reverse(priority), self.ticket());
        self.pending.insert(place, key.clone());
        *self.depth.entry(priority).or_default() += 1;
        self.entries.entry(key.clone()).or_default().state = State::Pending { place, since };
    }

    fn hand_out(&mut self, place: QueuePosition, now: Time) -> Option<Taken> {
        let (priority, key) = (place.0.0, self.pull(&place)?);
        let entry = self
            .entries
            .get_mut(&key)
            .expect("a pending key has an entry");
        let since = match entry.state {
            State::Pending { since, .. } => since,
            _ => now,
        };
        entry.state = State::Running { again: None };
        self.running.push((key.clone(), now));
        Some(Taken {
            failures: entry.failures,
            priority,
            waited: now.saturating_sub(since),
            key,
        })
    }

    /// Removes a key from the pending ones.
    fn pull(&mut self, place: &QueuePosition) -> Option<SubjectKey> {
        let key = self.pending.remove(place)?;
        let priority = place.0.0;
        if let Some(depth) = self.depth.get_mut(&priority) {
            *depth -= 1;
            if *depth == 0 {
                self.depth.remove(&priority);
            }
        }
        Some(key)
    }

    fn stop(&mut self, key: &SubjectKey) {
        if let Some(at) = self.running.iter().position(|(running, _)| running == key) {
            self.running.swap_remove(at);
        }
    }

    fn make_delayed(&mut self, key: &SubjectKey, at: Time, priority: Priority) {
        let due = (at, self.ticket());
        self.delayed.insert(due, key.clone());
        self.entries.entry(key.clone()).or_default().state = State::Delayed { due, priority };
    }

    fn drop_entry(&mut self, key: &SubjectKey) {
        if let Some(entry) = self.entries.remove(key) {
            self.recount(key, entry.failures, 0);
        }
    }

    fn remove_entry(&mut self, key: &SubjectKey) {
        self.drop_entry(key);
        // Not while many entries are left, because shrinking moves all of them.
        if self.entries.len() <= KEPT_ROOM / 2 && self.entries.capacity() > 2 * KEPT_ROOM {
            self.entries.shrink_to(KEPT_ROOM);
        }
    }

    fn set_running(&mut self, key: &SubjectKey, again: Option<Again>) {
        self.set_state(key, State::Running { again });
    }

    fn set_state(&mut self, key: &SubjectKey, state: State) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.state = state;
        }
    }

    fn ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket
    }
}

#[cfg(test)]
mod tests;
