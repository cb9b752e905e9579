//! The hub, shared by threads that run guests and tasks that watch and write. It is held by one at a time, and each says what for.

mod holds;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use pilothouse_core::hub::{
    Exchange, Hub, JoinError, Lookup, Next, PluginId, Preparation, Quarantine, SeatStatus,
    Settings, Turn, TurnError,
};
use pilothouse_core::plan::Executed;
use pilothouse_core::plugin::Plugin;
use pilothouse_core::queue::Time;
use tokio::sync::Notify;

use holds::Holder;
pub use holds::{Cause, Holds};

/// The longest a worker sleeps without looking; only a guard, every change wakes the workers.
const LONGEST_SLEEP: Duration = Duration::from_secs(10);

/// Who holds the hub for longer is taken to hold it for ever.
const STUCK: Duration = Duration::from_secs(10);

pub struct Shared {
    hub: Mutex<Hub>,
    /// Told whenever there may be something to run.
    changed: Condvar,
    /// Told whenever a plugin goes into quarantine.
    condemned: Notify,
    holds: Holds,
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
            condemned: Notify::new(),
            holds: Holds::default(),
            started: tokio::time::Instant::now(),
        }
    }

    /// Time since the host started.
    pub fn now(&self) -> Time {
        self.started.elapsed()
    }

    /// Changes the hub, then wakes the workers.
    pub fn change<'a, R>(
        &self,
        holder: impl Into<Holder<'a>>,
        change: impl FnOnce(&mut Hub, Time) -> R,
    ) -> R {
        let result = self.hold(holder.into(), change);
        self.changed.notify_all();
        result
    }

    fn hold<R>(&self, holder: Holder<'_>, work: impl FnOnce(&mut Hub, Time) -> R) -> R {
        let mut hub = self.lock();
        // Not before: the hub's time would go back by the wait for it.
        let began = self.now();
        self.holds.begin(holder, began);
        let result = work(&mut hub, began);
        self.holds.end();
        drop(hub);
        let now = self.now();
        self.holds.note(holder, now.saturating_sub(began), now);
        result
    }

    /// For how long, and for what, the hub is held at a time.
    pub fn holds(&self) -> &Holds {
        &self.holds
    }

    /// Why nothing goes on, if somebody holds the hub and does not come to an end. Answers even then.
    pub fn stuck(&self) -> Option<String> {
        let (cause, since) = self.holds.current()?;
        let held = self.now().saturating_sub(since);
        (held > STUCK).then(|| {
            let seconds = held.as_secs();
            format!("the hub has been held for {seconds} s ({cause}): no plugin gets a turn")
        })
    }

    /// Adds a plugin, and keeps nobody else waiting while its views and indexes are made. It has joined when this returns.
    pub fn join(
        &self,
        plugin: Arc<dyn Plugin>,
        settings: &Settings,
    ) -> Result<PluginId, JoinError> {
        let (id, preparation) =
            self.change(Cause::Plugins, |hub, _| hub.prepare(plugin, settings))?;
        tokio::task::block_in_place(|| self.finish(preparation))?;
        Ok(id)
    }

    /// Puts another version in a plugin's place, in the same way. Says for how long at most nothing was handed out meanwhile.
    pub fn replace(
        &self,
        id: PluginId,
        plugin: Arc<dyn Plugin>,
        settings: &Settings,
    ) -> Result<Duration, JoinError> {
        let prepared = self.change(Cause::Plugins, |hub, _| {
            hub.prepare_replacement(id, plugin, settings)
        });
        tokio::task::block_in_place(|| {
            let longest = self.finish(prepared?)?;
            self.trim();
            Ok(longest)
        })
    }

    /// Removes a plugin, and what was in the caches for it alone.
    pub fn leave(&self, id: PluginId) {
        tokio::task::block_in_place(|| {
            drop(self.change(Cause::Plugins, |hub, _| hub.leave(id)));
            self.trim();
        });
    }

    /// Frees what nobody needs any more. A host that is stopping need not.
    fn trim(&self) {
        if let Some(preparation) = self.change(Cause::Plugins, |hub, _| hub.prepare_trim()) {
            self.finish(preparation).ok();
        }
    }

    /// Builds beside the hub, and frees there what it needs no more. Says how long the hub was held for it at most.
    fn finish(&self, mut preparation: Preparation) -> Result<Duration, JoinError> {
        let mut longest = Duration::ZERO;
        loop {
            preparation.build(self.now());
            let (exchange, took) = self.change(Cause::Plugins, |hub, now| {
                let started = tokio::time::Instant::now();
                (hub.exchange(preparation, now), started.elapsed())
            });
            longest = longest.max(took);
            match exchange {
                Exchange::Again(again) => preparation = *again,
                Exchange::Done(_) => return Ok(longest),
                Exchange::Refused(error, _) => return Err(error),
            }
        }
    }

    /// Every plugin's state.
    pub fn status(&self) -> Vec<SeatStatus> {
        let now = self.now();
        self.look(Cause::Status, |hub| hub.status(now))
    }

    /// A turn has failed. Says so to whoever waits for [`condemned`](Self::condemned) if that was too much.
    pub fn fail(&self, turn: &Turn, error: &TurnError, executed: Executed) {
        let holder = Cause::End.of(turn.plugin_name());
        if self.change(holder, |hub, now| hub.failed(turn, error, executed, now)) {
            self.condemned.notify_one();
        }
    }

    /// Waits until a plugin goes into quarantine.
    pub async fn condemned(&self) {
        self.condemned.notified().await;
    }

    /// The plugins in quarantine.
    pub fn quarantined(&self) -> Vec<(PluginId, Quarantine)> {
        let now = self.now();
        self.look(Cause::Plugins, |hub| hub.quarantined(now))
    }

    /// Looks at the hub.
    pub fn look<'a, R>(&self, holder: impl Into<Holder<'a>>, look: impl FnOnce(&Hub) -> R) -> R {
        self.hold(holder.into(), |hub, _| look(hub))
    }

    /// Waits for something to do. None once `is_stopping` says so and everything is done.
    pub fn next_task(&self, is_stopping: impl Fn() -> bool) -> Option<Task> {
        let mut hub = self.lock();
        loop {
            let began = self.now();
            self.holds.begin(Cause::Turn.into(), began);
            let next = hub.next(began, wall_clock_ms());
            self.holds.end();
            let now = self.now();
            self.holds
                .note(Cause::Turn.into(), now.saturating_sub(began), now);
            let due = match next {
                Next::Run(turn) => return Some(Task::Run(turn)),
                Next::Look(lookup) => return Some(Task::Look(lookup)),
                Next::Idle(due) => due,
            };
            if is_stopping() && hub.is_drained(now) {
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

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_holds_the_hub_for_more_than_ten_seconds_has_it_stuck() {
        let shared = Shared::new(1);
        advance(Duration::from_secs(1)).await;
        // It is to be told while nobody gets the hub.
        let stuck = || {
            let _hub = shared.lock();
            shared.stuck()
        };
        shared.holds.begin(Cause::Turn.into(), shared.now());
        advance(Duration::from_secs(9)).await;
        assert_eq!(stuck(), None);
        advance(Duration::from_secs(2)).await;
        let reason = stuck().unwrap();
        assert!(reason.contains("11 s (turn)"), "{reason}");
        shared.holds.end();
        assert_eq!(stuck(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_holds_the_hub_while_all_sleep() {
        let shared = Shared::new(1);
        assert!(shared.next_task(|| true).is_none());
        shared.look(Cause::Status, |_| ());
        shared.change(Cause::Plugins, |_, _| ());
        advance(2 * STUCK).await;
        assert_eq!(shared.stuck(), None);
    }
}
