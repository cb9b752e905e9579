//! The hub, shared by threads that run guests and tasks that watch and write.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use pilothouse_core::hub::{Hub, Lookup, Next, SeatStatus, Turn};
use pilothouse_core::queue::Time;

/// The longest a worker sleeps without looking; only a guard, every change wakes the workers.
const LONGEST_SLEEP: Duration = Duration::from_secs(10);

pub struct Shared {
    hub: Mutex<Hub>,
    /// Told whenever there may be something to run.
    changed: Condvar,
    started: tokio::time::Instant,
}

/// What a worker is to do next.
pub enum Task {
    Run(Box<Turn>),
    Look(Lookup),
}

impl Shared {
    /// For so many threads that run guests.
    pub fn new(threads: usize) -> Self {
        Self {
            hub: Mutex::new(Hub::with_threads(threads)),
            changed: Condvar::new(),
            started: tokio::time::Instant::now(),
        }
    }

    /// Time since the host started.
    pub fn now(&self) -> Time {
        self.started.elapsed()
    }

    /// Changes the hub, then wakes the workers.
    pub fn change<R>(&self, change: impl FnOnce(&mut Hub, Time) -> R) -> R {
        let now = self.now();
        let result = change(&mut self.lock(), now);
        self.changed.notify_all();
        result
    }

    /// Every plugin's state.
    pub fn status(&self) -> Vec<SeatStatus> {
        let now = self.now();
        self.look(|hub| hub.status(now))
    }

    /// Looks at the hub.
    pub fn look<R>(&self, look: impl FnOnce(&Hub) -> R) -> R {
        look(&self.lock())
    }

    /// Waits for something to do. None once `is_stopping` says so and everything is done.
    pub fn next_task(&self, is_stopping: impl Fn() -> bool) -> Option<Task> {
        let mut hub = self.lock();
        loop {
            let now = self.now();
            let due = match hub.next(now, wall_clock_ms()) {
                Next::Run(turn) => return Some(Task::Run(turn)),
                Next::Look(lookup) => return Some(Task::Look(lookup)),
                Next::Idle(due) => due,
            };
            if is_stopping() && hub.is_drained() {
                return None;
            }
            let sleep = due.map_or(LONGEST_SLEEP, |due| {
                due.saturating_sub(now).min(LONGEST_SLEEP)
            });
            let wait = self.changed.wait_timeout(hub, sleep);
            hub = wait
                .map(|(hub, _)| hub)
                .unwrap_or_else(|poisoned| poisoned.into_inner().0);
        }
    }

    /// A thread that panicked while it held the hub has ended the host by then; see `workers`.
    fn lock(&self) -> MutexGuard<'_, Hub> {
        self.hub.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wall_clock_ms() -> u64 {
    let since_epoch = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
}
