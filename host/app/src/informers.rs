//! One list-watch per informer, however many plugins use it. While plugins need more or less than
//! it brings, a second list-watch runs beside it and replaces it when it has caught up.

mod budget;
pub mod errors;
mod incidents;
mod limit;
mod sink;
mod stage;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pilothouse_cluster::ApiCluster;
use pilothouse_cluster::watch::{CacheSink, WatchSettings, WatchState};
use pilothouse_core::{Cache, Extent, Hub, InformerId, InformerKey, RECHECK_INTERVAL};
use tokio::task::{AbortHandle, JoinSet};

use crate::allocator;
use crate::metrics::Metrics;
use crate::shared::{Cause, Shared};
pub use budget::Budget;
use errors::Role;
pub use errors::{InformerError, WatchErrors};
use incidents::Incidents;
pub use limit::WatchLimit;
use sink::{Feed, HubSink};

/// The delay between the first requests of two informers that start together. The total is bounded
/// by [`LONGEST_SPREAD`].
const SPREAD: Duration = Duration::from_millis(20);

/// However many informers start at once, none is delayed by more than this.
const LONGEST_SPREAD: Duration = Duration::from_millis(500);

/// How long after a list-watch has ended, or its successor has begun, memory is given back. By then
/// most caches have been replaced.
const GIVE_BACK_AFTER: Duration = Duration::from_secs(5);

/// The list-watches of all informers.
pub struct Watches {
    cluster: Arc<ApiCluster>,
    shared: Arc<Shared>,
    watch_errors: WatchErrors,
    incidents: Arc<Incidents>,
    metrics: Arc<Metrics>,
    budget: Budget,
    tasks: JoinSet<()>,
    running: BTreeMap<InformerId, Running>,
    /// Gives memory back when what informers have had is freed.
    giving_back: Option<AbortHandle>,
}

/// An informer's list-watches.
struct Running {
    informer_key: InformerKey,
    follower: Follower,
    /// Replaces the follower when it has listed everything and has caught up with the cache.
    successor: Option<Follower>,
}

/// A list-watch that feeds a cache, or that is going to.
#[derive(Clone)]
struct Follower {
    extent: Extent,
    task: AbortHandle,
    /// What this list-watch brings is ignored from now on. Set while the hub is held, so that
    /// nothing of it reaches the cache afterwards.
    is_retired: Arc<AtomicBool>,
}

impl Follower {
    /// The hub must be held.
    fn retire(&self) {
        self.is_retired.store(true, Ordering::SeqCst);
        self.task.abort();
    }
}

impl Running {
    /// Decides which list-watch to start, if any, now that plugins need this much in this cache.
    /// The hub must be held.
    fn begin(&mut self, extent: Extent, cache: &Cache) -> Begin {
        // A retired follower means that the successor has taken over since.
        let has_ended = self.follower.is_retired.load(Ordering::SeqCst);
        if let Some(successor) = self.successor.take_if(|_| has_ended) {
            self.follower = successor;
        }
        let successor = self.successor.as_ref();
        if successor.is_some_and(|successor| successor.extent == extent) {
            return Begin::Nothing;
        }
        if let Some(successor) = self.successor.take() {
            successor.retire();
        }
        // A list-watch with this extent may have listed before the plugins needed less for a
        // while. The cache was cut down meanwhile, and the list-watch will not list again by
        // itself.
        let will_be_synced = cache.is_initial() || cache.is_synced(extent);
        if self.follower.extent == extent && will_be_synced {
            return Begin::Nothing;
        }
        if !cache.is_initial() {
            return Begin::Successor;
        }
        // The cache is still empty, so there is nothing to lose.
        self.follower.retire();
        Begin::Follower
    }
}

/// Which list-watch of an informer is missing.
enum Begin {
    Nothing,
    Follower,
    Successor,
}

impl Watches {
    pub fn new(
        cluster: Arc<ApiCluster>,
        shared: Arc<Shared>,
        watch_errors: WatchErrors,
        metrics: Arc<Metrics>,
        budget: Budget,
    ) -> Self {
        Self {
            cluster,
            shared,
            watch_errors,
            incidents: Arc::new(Incidents::new(metrics.server())),
            metrics,
            budget,
            tasks: JoinSet::new(),
            running: BTreeMap::new(),
            giving_back: None,
        }
    }

    /// Starts the informers that the hub wants and that do not run, stops those that no plugin
    /// wants any more, and starts a successor for each list-watch that brings too much or too
    /// little of each object.
    pub fn adjust(&mut self) {
        let wanted = self.shared.read(Cause::Plugins, Hub::wanted);
        let is_unwanted = |id: &&InformerId| !wanted.contains_key(*id);
        let unwanted: Vec<InformerId> = self.running.keys().filter(is_unwanted).copied().collect();
        for id in unwanted {
            self.end(id);
        }
        for (id, (informer_key, extent)) in wanted {
            match extent.namespaces.is_none() {
                true => self.vacate(id),
                false => self.bring(id, informer_key, extent),
            }
        }
    }

    /// Gives free memory back after a while: caches become smaller, or end.
    fn give_back_soon(&mut self) {
        let giving_back = tokio::spawn(async {
            tokio::time::sleep(GIVE_BACK_AFTER).await;
            // It cannot fail.
            let _ = tokio::task::spawn_blocking(allocator::give_back).await;
        });
        if let Some(before) = self.giving_back.replace(giving_back.abort_handle()) {
            before.abort();
        }
    }

    /// Stops an informer of which no key that this host runs can read an object.
    fn vacate(&mut self, id: InformerId) {
        if self.running.contains_key(&id) {
            self.end(id);
            let vacate = |hub: &mut Hub, now| hub.vacate(id, now);
            self.shared.change(Cause::Plugins, vacate);
        }
    }

    /// Stops an informer that no plugin wants any more.
    fn end(&mut self, id: InformerId) {
        let Some(running) = self.running.remove(&id) else {
            return;
        };
        self.give_back_soon();
        self.shared.read(Cause::Plugins, |_| {
            running.follower.retire();
            running.successor.iter().for_each(Follower::retire);
        });
        for role in [Role::Follower, Role::Successor] {
            self.watch_errors.forget(&running.informer_key, role);
            self.incidents.end(&running.informer_key, role);
        }
        self.metrics.remove_informer(&running.informer_key);
    }

    /// Makes sure that a list-watch brings this much into an informer's cache.
    fn bring(&mut self, id: InformerId, informer_key: InformerKey, extent: Extent) {
        let begin = match self.running.get_mut(&id) {
            None => Begin::Follower,
            Some(running) => self.shared.read(Cause::Plugins, |hub| {
                running.begin(extent, &hub.snapshot().informers[id])
            }),
        };
        let is_successor = |running: &Running| running.successor.is_some();
        if !self.running.get(&id).is_some_and(is_successor) {
            self.watch_errors.forget(&informer_key, Role::Successor);
            self.incidents.end(&informer_key, Role::Successor);
        }
        match begin {
            Begin::Nothing => {}
            Begin::Follower => {
                let follower = self.start(id, informer_key.clone(), extent, None);
                let running = Running {
                    informer_key,
                    follower,
                    successor: None,
                };
                self.running.insert(id, running);
            }
            Begin::Successor => {
                self.give_back_soon();
                let old = self.running.get(&id).map(|old| old.follower.clone());
                let successor = self.start(id, informer_key, extent, old);
                if let Some(running) = self.running.get_mut(&id) {
                    running.successor = Some(successor);
                }
            }
        }
    }

    /// Starts a list-watch. With a predecessor, it replaces that as soon as it has caught up.
    fn start(
        &mut self,
        id: InformerId,
        informer_key: InformerKey,
        extent: Extent,
        predecessor: Option<Follower>,
    ) -> Follower {
        let is_retired = Arc::<AtomicBool>::default();
        let feed = Feed::new(
            id,
            informer_key.clone(),
            extent,
            is_retired.clone(),
            predecessor,
        );
        let (shared, watch_errors) = (self.shared.clone(), self.watch_errors.clone());
        let (incidents, budget) = (self.incidents.clone(), self.budget.clone());
        let mut sink = HubSink::new(feed, shared, watch_errors, incidents, budget);
        let (cluster, metrics) = (self.cluster.clone(), self.metrics.clone());
        // The first one starts at once.
        let others = u32::try_from(self.running.len()).unwrap_or(u32::MAX);
        let settings = WatchSettings {
            start_spread: SPREAD.saturating_mul(others).min(LONGEST_SPREAD),
            ..WatchSettings::default()
        };
        let task = self.tasks.spawn(async move {
            loop {
                if let Ok(resource) = cluster.discovery().look_for(&informer_key.kind, None).await {
                    sink.count(metrics.add_informer(&informer_key, &resource));
                }
                match cluster
                    .list_watch(&informer_key, extent, settings.clone())
                    .await
                {
                    Ok(list_watch) => {
                        let known = sink.known();
                        let list_watch = list_watch.not_older_than(known.as_ref());
                        let mut list_watch = list_watch.replacing(sink.is_listed());
                        list_watch.run_until_gone(&mut sink).await;
                        // The kind may come back under another path.
                        cluster.discovery().forget(&informer_key.kind);
                    }
                    Err(error) if error.is_of_server() => {
                        sink.state(WatchState::Unreachable(error.to_string()));
                    }
                    Err(error) => sink.state(WatchState::Error(error.to_string())),
                }
                tokio::time::sleep(RECHECK_INTERVAL).await;
            }
        });
        Follower {
            extent,
            task,
            is_retired,
        }
    }

    /// Waits until a list-watch fails. They never end by themselves, so that means a panic.
    pub async fn failed(&mut self) -> anyhow::Error {
        loop {
            match self.tasks.join_next().await {
                None => std::future::pending().await,
                Some(Err(error)) if error.is_cancelled() => {}
                Some(_) => return anyhow::anyhow!("a watch has died; see the panic above"),
            }
        }
    }
}
