//! The hub, shared by the threads that run guests and the tasks that watch and write. One caller
//! holds it at a time, and each caller gives a [`Cause`].

mod holds;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::{Condvar, Mutex, MutexGuard};
use pilothouse_core::{
    Conclusion, ControllerSettings, ControllerStatus, Decision, Exchange, Fetch, Finished, Hub,
    JoinError, Next, Plugin, PluginId, Preparation, Quarantine, Ran, Reconcile, ServedKind, Time,
};
use tokio::sync::Notify;

use holds::Holder;
pub use holds::{Cause, Holds};

/// Upper bound on a worker's sleep. A safety net: a change that has something to do wakes one.
const LONGEST_SLEEP: Duration = Duration::from_secs(10);

/// A hub that is held for longer than this is reported as stuck.
const STUCK: Duration = Duration::from_secs(10);

/// See the module's documentation.
pub struct Shared {
    state: Mutex<State>,
    /// Notified whenever there may be something to run.
    changed: Condvar,
    /// Notified whenever a plugin goes into quarantine.
    quarantine_began: Notify,
    /// Notified whenever a reconcile has asked about kinds that have no informer.
    kinds_wanted: Notify,
    /// Notified whenever an object that says which kinds there are has come, changed or gone.
    kinds_redefined: Notify,
    /// Informers may have to bring other namespaces.
    extents_changed: Notify,
    holds: Holds,
    started: tokio::time::Instant,
}

/// What one caller has at a time.
struct State {
    hub: Hub,
    /// When the first of the waiting workers looks for a task by itself. `None`: not known.
    look_at: Option<Time>,
}

impl State {
    /// Whether there is something to do before a waiting worker looks for it by itself.
    fn needs_worker(&mut self, now: Time) -> bool {
        let due = self.hub.next_time(now);
        due.is_some_and(|due| self.look_at.is_none_or(|look_at| due < look_at))
    }
}

/// The next task of a worker.
pub enum Task {
    Run(Box<Reconcile>),
    Fetch(Fetch),
}

impl Shared {
    /// A hub for this number of threads that run guests.
    pub fn new(threads: usize) -> Self {
        Self {
            state: Mutex::new(State {
                hub: Hub::with_threads(threads),
                look_at: None,
            }),
            changed: Condvar::new(),
            quarantine_began: Notify::new(),
            kinds_wanted: Notify::new(),
            kinds_redefined: Notify::new(),
            extents_changed: Notify::new(),
            holds: Holds::default(),
            started: tokio::time::Instant::now(),
        }
    }

    /// Time since the host started.
    pub fn now(&self) -> Time {
        self.started.elapsed()
    }

    /// Changes the hub, then wakes a worker if there is something to do. If that one leaves
    /// something, it wakes another: see [`next_task`](Self::next_task).
    pub fn change<'a, R>(
        &self,
        holder: impl Into<Holder<'a>>,
        change: impl FnOnce(&mut Hub, Time) -> R,
    ) -> R {
        let (result, needs_worker) = self.hold(holder.into(), |state, now| {
            (change(&mut state.hub, now), state.needs_worker(now))
        });
        if needs_worker {
            self.changed.notify_one();
        }
        result
    }

    fn hold<R>(&self, holder: Holder<'_>, work: impl FnOnce(&mut State, Time) -> R) -> R {
        let mut state = self.lock();
        // Read only under the lock. Otherwise the hub's time would go back by the time spent
        // waiting for it.
        let began = self.now();
        self.holds.begin(holder, began);
        let result = work(&mut state, began);
        self.holds.end();
        drop(state);
        let now = self.now();
        self.holds.note(holder, now.saturating_sub(began), now);
        result
    }

    /// Metrics about how long the hub is held, and for what.
    pub fn holds(&self) -> &Holds {
        &self.holds
    }

    /// Why no plugin makes progress, if the hub has been held for longer than [`STUCK`]. Needs no
    /// lock, so it answers in that case, too.
    pub fn stuck(&self) -> Option<String> {
        let (cause, since) = self.holds.current()?;
        let held = self.now().saturating_sub(since);
        (held > STUCK).then(|| {
            let seconds = held.as_secs();
            format!("the hub has been held for {seconds} s ({cause}): no plugin gets a turn")
        })
    }

    /// Adds a plugin. Its views and indexes are built without holding the hub, so other plugins
    /// keep running. The plugin has joined when this returns.
    pub fn join(
        &self,
        plugin: Arc<dyn Plugin>,
        settings: &ControllerSettings,
    ) -> Result<PluginId, JoinError> {
        let (id, preparation) =
            self.change(Cause::Plugins, |hub, _| hub.prepare(plugin, settings))?;
        tokio::task::block_in_place(|| self.finish(preparation))?;
        Ok(id)
    }

    /// Swaps a plugin to another version. Views and indexes are built as in [`join`](Self::join).
    /// Returns the longest time that the hub was held for it, during which no key was handed out.
    pub fn replace(
        &self,
        id: PluginId,
        plugin: Arc<dyn Plugin>,
        settings: &ControllerSettings,
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

    /// Removes a plugin, and what only this plugin needed in the caches.
    pub fn leave(&self, id: PluginId) {
        tokio::task::block_in_place(|| {
            drop(self.change(Cause::Plugins, |hub, _| hub.leave(id)));
            self.trim();
        });
    }

    /// Frees what no plugin needs any more. An error is ignored, because a host that is stopping
    /// need not free memory.
    fn trim(&self) {
        if let Some(preparation) = self.change(Cause::Plugins, |hub, _| hub.prepare_trim()) {
            self.finish(preparation).ok();
        }
    }

    /// Builds and frees outside the hub until the hub accepts the result. Returns the longest time
    /// that the hub was held.
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

    /// The state of every plugin.
    pub fn status(&self) -> Vec<ControllerStatus> {
        let now = self.now();
        self.read(Cause::Status, |hub| hub.status(now))
    }

    /// Registers what a reconcile read, and says what follows.
    pub fn ran(&self, ran: Ran) -> Decision {
        let plugin = ran.held().plugin_name().to_owned();
        let (decision, wants_kinds) = self.change(Cause::Reads.of(&plugin), |hub, now| {
            (hub.ran(ran, now), hub.wants_informers())
        });
        if wants_kinds {
            self.want_kinds();
        }
        decision
    }

    /// Has informers given to kinds that were asked about.
    pub fn want_kinds(&self) {
        self.kinds_wanted.notify_one();
    }

    /// Waits until somebody has asked about kinds that have no informer.
    pub async fn kinds_wanted(&self) {
        self.kinds_wanted.notified().await;
    }

    /// An object that says which kinds there are has come, changed or gone.
    pub fn redefine_kinds(&self) {
        self.kinds_redefined.notify_one();
    }

    /// Waits until there may be other kinds.
    pub async fn kinds_redefined(&self) {
        self.kinds_redefined.notified().await;
    }

    /// Other shards run here than before: has informers bring their namespaces.
    pub fn change_extents(&self) {
        self.extents_changed.notify_one();
    }

    /// Waits until informers may have to bring other namespaces.
    pub async fn extents_changed(&self) {
        self.extents_changed.notified().await;
    }

    /// Gives informers to the kinds of patterns that reconciles have asked about, as far as there
    /// is room. Views and indexes are built as in [`join`](Self::join).
    pub fn widen(&self, room: impl Fn(&Hub) -> usize) {
        let widening = |hub: &mut Hub, now| hub.prepare_widening(room(hub), now);
        if let Some(preparation) = self.change(Cause::Plugins, widening) {
            // Only a host that is stopping refuses it.
            tokio::task::block_in_place(|| self.finish(preparation).ok());
        }
    }

    /// Tells the hub which kinds the cluster serves. Ends the informers of kinds of patterns that
    /// nobody needs any more, and frees what only they needed.
    pub fn set_kinds(&self, kinds: Vec<ServedKind>) {
        tokio::task::block_in_place(|| {
            drop(self.change(Cause::Plugins, |hub, now| hub.set_kinds(kinds, now)));
            self.trim();
        });
    }

    /// Gives the key of a reconcile back. Notifies [`quarantine_began`](Self::quarantine_began) if
    /// the reconcile put its plugin in quarantine.
    pub fn finished(&self, finished: Finished) -> Conclusion {
        let plugin = finished.held().plugin_name().to_owned();
        let conclusion = self.change(Cause::End.of(&plugin), |hub, now| {
            hub.finished(finished, now)
        });
        if conclusion.is_quarantined {
            self.quarantine_began.notify_one();
        }
        conclusion
    }

    /// Waits until a plugin goes into quarantine.
    pub async fn quarantine_began(&self) {
        self.quarantine_began.notified().await;
    }

    /// The plugins in quarantine.
    pub fn quarantined(&self) -> Vec<(PluginId, Quarantine)> {
        let now = self.now();
        self.read(Cause::Plugins, |hub| hub.quarantined(now))
    }

    /// Reads the hub.
    pub fn read<'a, R>(&self, holder: impl Into<Holder<'a>>, read: impl FnOnce(&Hub) -> R) -> R {
        self.hold(holder.into(), |state, _| read(&state.hub))
    }

    /// Waits for the next task. Returns `None` once `is_stopping` returns true and everything is
    /// done.
    ///
    /// Most changes have one task to run, or none. So one worker is woken for a task, and who takes
    /// it wakes the next if there are more. When there is none, the last one to look knows how long
    /// to wait for what comes next.
    pub fn next_task(&self, is_stopping: impl Fn() -> bool) -> Option<Task> {
        let (task, needs_worker) = self.wait_for_task(is_stopping);
        if needs_worker {
            self.changed.notify_one();
        }
        task
    }

    /// The next task, and whether there is something to do for another worker.
    fn wait_for_task(&self, is_stopping: impl Fn() -> bool) -> (Option<Task>, bool) {
        let mut state = self.lock();
        loop {
            let began = self.now();
            self.holds.begin(Cause::Reconcile.into(), began);
            let next = state.hub.next(began, wall_clock_ms());
            let found = match next {
                Next::Run(reconcile) => Ok(Task::Run(reconcile)),
                Next::Fetch(fetch) => Ok(Task::Fetch(fetch)),
                Next::Idle(due) => Err(due),
            };
            let needs_worker = found.is_ok() && state.needs_worker(began);
            self.holds.end();
            let now = self.now();
            self.holds
                .note(Cause::Reconcile.into(), now.saturating_sub(began), now);
            let due = match found {
                Ok(task) => return (Some(task), needs_worker),
                Err(due) => due,
            };
            if is_stopping() && state.hub.is_drained(now) {
                return (None, true);
            }
            let sleep = due.map_or(LONGEST_SLEEP, |due| {
                due.saturating_sub(now).min(LONGEST_SLEEP)
            });
            let look_at = now + sleep;
            state.look_at = Some(state.look_at.map_or(look_at, |first| first.min(look_at)));
            self.changed.wait_for(&mut state, sleep);
            // Perhaps it was this worker's time, and when the others look is not known.
            state.look_at = None;
        }
    }

    /// This lock does not poison. A thread that panics while it holds the hub ends the host; see
    /// `workers`.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
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
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicBool, Ordering};

    use pilothouse_core::{Limits, Manifest, Outcome, Reader, Request, RunError};
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_holds_the_hub_for_more_than_ten_seconds_has_it_stuck() {
        let shared = Shared::new(1);
        advance(Duration::from_secs(1)).await;
        // `stuck` must answer while the hub is locked.
        let stuck = || {
            let _hub = shared.lock();
            shared.stuck()
        };
        shared.holds.begin(Cause::Reconcile.into(), shared.now());
        advance(Duration::from_secs(9)).await;
        assert_eq!(stuck(), None);
        advance(Duration::from_secs(2)).await;
        let reason = stuck().unwrap();
        assert!(reason.contains("11 s (reconcile)"), "{reason}");
        shared.holds.end();
        assert_eq!(stuck(), None);
    }

    /// Does nothing.
    struct Idle(Manifest);

    impl Plugin for Idle {
        fn manifest(&self) -> &Manifest {
            &self.0
        }

        fn reconcile(&self, _: &Request, _: &mut Reader) -> Result<Outcome, RunError> {
            Ok(Outcome::default())
        }
    }

    fn singleton() -> Manifest {
        Manifest {
            name: "idle".into(),
            version: "1.0.0".into(),
            reconciles: vec![],
            reads: vec![],
            indexes: vec![],
            writes: vec![],
            limits: Limits::default(),
            config_schema: None,
            optional: BTreeSet::new(),
        }
    }

    #[test]
    fn a_worker_is_needed_for_what_is_to_be_done_before_another_looks() {
        const SECOND: Duration = Duration::from_secs(1);
        let mut state = State {
            hub: Hub::with_threads(1),
            look_at: None,
        };
        assert!(!state.needs_worker(SECOND), "there is no plugin");
        let plugin = Arc::new(Idle(singleton()));
        let settings = ControllerSettings {
            resync: Some(60 * SECOND),
            ..ControllerSettings::default()
        };
        state.hub.join(plugin, &settings, Duration::ZERO).unwrap();
        assert!(state.needs_worker(SECOND), "it is to run");
        let running = state.hub.next(SECOND, 0);
        assert!(matches!(running, Next::Run(_)));
        let due = state.hub.next_time(SECOND).expect("it resyncs");
        assert!(due > SECOND, "there is nothing to do before");
        assert!(state.needs_worker(SECOND), "nobody looks then");
        state.look_at = Some(due);
        assert!(!state.needs_worker(SECOND));
        state.look_at = Some(due + SECOND);
        assert!(state.needs_worker(SECOND), "that would be too late");
        state.look_at = Some(due);
        state.hub.drain();
        assert!(state.needs_worker(SECOND), "all workers are to end");
    }

    #[test]
    fn a_change_that_brings_nothing_to_do_wakes_no_worker() {
        let shared = Shared::new(1);
        let is_stopping = AtomicBool::new(false);
        let (looks, looked) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let (shared, is_stopping) = (&shared, &is_stopping);
            scope.spawn(move || {
                shared.next_task(|| {
                    // The hub is held until the worker waits.
                    looks.send(()).unwrap();
                    is_stopping.load(Ordering::SeqCst)
                })
            });
            looked.recv().unwrap();
            for _ in 0..100 {
                shared.change(Cause::Change, |_, _| ());
                std::thread::yield_now();
            }
            shared.change(Cause::End, |hub, _| {
                is_stopping.store(true, Ordering::SeqCst);
                hub.drain();
            });
        });
        assert_eq!(looked.try_iter().count(), 1, "when it was to end");
    }

    #[test]
    fn a_change_that_ends_all_workers_ends_each_of_them_at_once() {
        const WORKERS: usize = 3;
        let shared = Shared::new(WORKERS);
        let is_stopping = AtomicBool::new(false);
        let (waits, waiting) = std::sync::mpsc::channel();
        let began = tokio::time::Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..WORKERS {
                let (waits, shared, is_stopping) = (waits.clone(), &shared, &is_stopping);
                scope.spawn(move || {
                    shared.next_task(|| {
                        // The hub is held until the worker waits.
                        waits.send(()).unwrap();
                        is_stopping.load(Ordering::SeqCst)
                    })
                });
            }
            (0..WORKERS).for_each(|_| waiting.recv().unwrap());
            shared.change(Cause::End, |hub, _| {
                is_stopping.store(true, Ordering::SeqCst);
                hub.drain();
            });
        });
        assert!(began.elapsed() < LONGEST_SLEEP / 2);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_holds_the_hub_while_all_sleep() {
        let shared = Shared::new(1);
        assert!(shared.next_task(|| true).is_none());
        shared.read(Cause::Status, |_| ());
        shared.change(Cause::Plugins, |_, _| ());
        advance(2 * STUCK).await;
        assert_eq!(shared.stuck(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_under_the_lock_leaves_the_hub_to_those_who_end_the_host() {
        let shared = Shared::new(1);
        std::thread::scope(|scope| {
            let dies =
                scope.spawn(|| shared.change(Cause::Reconcile, |_, _| panic!("under the lock")));
            assert!(dies.join().is_err(), "its owner sees the panic");
        });
        shared.change(Cause::End, |hub, _| hub.drain());
        assert_eq!(shared.status().len(), 0);
    }
}
