//! What the queue remembers of a key, and where the key is.

use super::{BREAK_AFTER, COOL_DOWN, Priority, QueuePosition, Time};

/// What is remembered of a key.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) state: State,
    pub(super) failures: u32,
    /// When the key last failed; `None` if that failure is no reason to wait any more.
    pub(super) failed_at: Option<Time>,
    /// The key runs no earlier, whatever adds it.
    pub(super) not_before: Time,
}

impl Entry {
    /// Until when adding the key does not make it run.
    pub(super) fn waits_until(&self) -> Time {
        let is_broken = self.failures >= BREAK_AFTER;
        let failed_at = self.failed_at.filter(|_| is_broken);
        let broken_until = failed_at.map_or(Time::ZERO, |failed_at| failed_at + COOL_DOWN);
        broken_until.max(self.not_before)
    }

    /// Whether there is nothing to remember of an idle key.
    pub(super) fn is_forgettable(&self, now: Time) -> bool {
        self.failures == 0 && self.not_before <= now
    }
}

/// Where a key is in the queue.
#[derive(Debug, Default)]
pub(super) enum State {
    /// Not queued. Kept only for its failures.
    #[default]
    Idle,
    Pending {
        place: QueuePosition,
        since: Time,
    },
    Delayed {
        due: (Time, u64),
        priority: Priority,
    },
    /// Counts as pending, but is not handed out before it is released or due.
    Held {
        due: (Time, u64),
        priority: Priority,
        since: Time,
    },
    Running {
        again: Option<Again>,
    },
}

/// What happens to a running key when it is done.
#[derive(Clone, Copy, Debug)]
pub(super) enum Again {
    /// It was added while it ran, so it runs again at once.
    Now(Priority),
    /// It runs again at this time.
    At(Time, Priority),
}
