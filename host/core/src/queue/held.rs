//! Keys that were handed out and cannot run yet.

use super::entry::{Again, Entry, State};
use super::{Taken, Time, WorkQueue};
use crate::model::subject_key::SubjectKey;

impl WorkQueue {
    /// Takes back a key that was handed out but cannot run yet. It keeps the time at which it
    /// became pending. It is handed out again when it is [released](Self::release), or at `until`,
    /// even while draining.
    pub fn hold(&mut self, taken: &Taken, until: Time, now: Time) {
        let due = (until, self.ticket());
        let Some(entry) = self.entries.get_mut(&taken.key) else {
            return;
        };
        let State::Running { again } = entry.state else {
            return;
        };
        let priority = match again {
            Some(Again::Now(priority) | Again::At(_, priority)) => priority.max(taken.priority),
            None => taken.priority,
        };
        entry.state = State::Held {
            due,
            priority,
            since: now.saturating_sub(taken.waited),
        };
        self.stop(&taken.key);
        self.held += 1;
        self.delayed.insert(due, taken.key.clone());
    }

    /// Makes a held key pending again.
    pub fn release(&mut self, key: &SubjectKey) {
        let state = self.entries.get(key).map(|entry| &entry.state);
        if let Some(&State::Held {
            due,
            priority,
            since,
        }) = state
        {
            self.delayed.remove(&due);
            self.held -= 1;
            self.push(key, priority, since);
        }
    }

    /// Changes the time at which a held key becomes pending by itself.
    pub fn hold_until(&mut self, key: &SubjectKey, until: Time) {
        let new = (until, self.ticket());
        if let Some(Entry {
            state: State::Held { due, .. },
            ..
        }) = self.entries.get_mut(key)
        {
            self.delayed.remove(due);
            *due = new;
            self.delayed.insert(new, key.clone());
        }
    }

    /// How many keys are held.
    pub fn held(&self) -> usize {
        self.held
    }
}
