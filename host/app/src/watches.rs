//! One list-watch per informer, whoever asked for it.

mod budget;
mod incidents;
mod sink;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pilothouse_cluster::ApiCluster;
use pilothouse_cluster::watch::{CacheSink, Settings, WatchState};
use pilothouse_core::hub::Hub;
use pilothouse_core::snapshot::InformerId;
use pilothouse_core::source::{Payload, Source};
use tokio::task::{AbortHandle, JoinSet};

use crate::metrics::Metrics;
use crate::plugins::LOOK_AGAIN;
use crate::shared::Shared;
pub use budget::Budget;
use incidents::Incidents;
use sink::HubSink;

/// The first requests of informers come at different moments, each so much after the one before; with many of them, within
/// [`LONGEST_SPREAD`].
const SPREAD: Duration = Duration::from_millis(20);

/// No start waits longer to be one of many.
const LONGEST_SPREAD: Duration = Duration::from_millis(500);

/// Why an informer is not being followed at the moment. Those that are fine are not in it.
pub type Troubles = Arc<Mutex<BTreeMap<Source, String>>>;

pub struct Watches {
    cluster: Arc<ApiCluster>,
    shared: Arc<Shared>,
    troubles: Troubles,
    incidents: Arc<Incidents>,
    metrics: Arc<Metrics>,
    budget: Budget,
    tasks: JoinSet<()>,
    running: BTreeMap<InformerId, Running>,
}

struct Running {
    source: Source,
    payload: Payload,
    task: AbortHandle,
    /// Held while a list-watch of the informer runs, so that one that replaces another begins when that has ended.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Watches {
    pub fn new(
        cluster: Arc<ApiCluster>,
        shared: Arc<Shared>,
        troubles: Troubles,
        metrics: Arc<Metrics>,
        budget: Budget,
    ) -> Self {
        Self {
            cluster,
            shared,
            troubles,
            incidents: Arc::new(Incidents::new(metrics.server())),
            metrics,
            budget,
            tasks: JoinSet::new(),
            running: BTreeMap::new(),
        }
    }

    /// Starts what the hub wants and does not have, ends what nobody wants any more, and replaces what brings too much or too
    /// little of each object.
    pub fn adjust(&mut self) {
        let wanted = self.shared.look(Hub::wanted);
        self.running.retain(|id, running| {
            let is_wanted = wanted.contains_key(id);
            if !is_wanted {
                running.task.abort();
                forget(&self.troubles, &running.source);
                self.incidents.end(&running.source);
                self.metrics.remove_informer(&running.source);
            }
            is_wanted
        });
        for (id, (source, payload)) in wanted {
            let old = self.running.get(&id);
            if old.is_some_and(|old| old.payload == payload) {
                continue;
            }
            let turn = old.map_or_else(Arc::default, |old| {
                old.task.abort();
                old.turn.clone()
            });
            let task = self.start(id, source.clone(), payload, turn.clone());
            let running = Running {
                source,
                payload,
                task,
                turn,
            };
            self.running.insert(id, running);
        }
    }

    fn start(
        &mut self,
        id: InformerId,
        source: Source,
        payload: Payload,
        turn: Arc<tokio::sync::Mutex<()>>,
    ) -> AbortHandle {
        let (shared, troubles) = (self.shared.clone(), self.troubles.clone());
        let budget = self.budget.clone();
        let incidents = self.incidents.clone();
        let mut sink = HubSink::new(shared, id, source.clone(), troubles, incidents, budget);
        let (cluster, metrics) = (self.cluster.clone(), self.metrics.clone());
        // The first one starts at once.
        let others = u32::try_from(self.running.len()).unwrap_or(u32::MAX);
        let settings = Settings {
            start_spread: SPREAD.saturating_mul(others).min(LONGEST_SPREAD),
            ..Settings::default()
        };
        self.tasks.spawn(async move {
            let _turn = turn.lock().await;
            loop {
                if let Ok(resource) = cluster.discovery().resolve(&source.kind).await {
                    sink.count(metrics.add_informer(&source, &resource));
                }
                match cluster.list_watch(&source, payload, settings.clone()).await {
                    Ok(list_watch) => {
                        let known = sink.known();
                        let mut list_watch = list_watch.not_older_than(known.as_ref());
                        list_watch.run_until_gone(&mut sink).await;
                        // It may come back under another path.
                        cluster.discovery().forget(&source.kind);
                    }
                    Err(error) if error.is_of_server() => {
                        sink.state(WatchState::Unreachable(error.to_string()));
                    }
                    Err(error) => sink.state(WatchState::Error(error.to_string())),
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        })
    }

    /// Waits until a watch ends, which none does by itself.
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

fn forget(troubles: &Troubles, source: &Source) {
    let mut troubles = troubles.lock().unwrap_or_else(PoisonError::into_inner);
    troubles.remove(source);
}
