//! One list-watch per kind, whoever asked for it.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use pilothouse_cluster::ApiCluster;
use pilothouse_cluster::watch::{CacheSink, Settings, WatchState};
use pilothouse_core::cache::Delta;
use pilothouse_core::key::Kind;
use pilothouse_core::object::Schema;
use pilothouse_core::snapshot::KindId;
use tokio::task::JoinSet;
use tracing::{info, warn};

use crate::metrics::{Informer, Metrics};
use crate::plugins::LOOK_AGAIN;
use crate::shared::Shared;

/// Why a kind is not being watched at the moment, by kind. Kinds that are fine are not in it.
pub type Troubles = Arc<Mutex<BTreeMap<Kind, String>>>;

#[derive(Default)]
pub struct Watches {
    tasks: JoinSet<()>,
    kinds: HashSet<KindId>,
    troubles: Troubles,
}

impl Watches {
    pub fn new(troubles: Troubles) -> Self {
        Self {
            troubles,
            ..Self::default()
        }
    }

    /// Watches a kind, unless it is being watched.
    pub fn ensure(
        &mut self,
        id: KindId,
        kind: Kind,
        cluster: &Arc<ApiCluster>,
        shared: &Arc<Shared>,
        metrics: &Arc<Metrics>,
    ) {
        if !self.kinds.insert(id) {
            return;
        }
        let mut sink = HubSink {
            shared: shared.clone(),
            id,
            kind: kind.clone(),
            troubles: self.troubles.clone(),
            informer: None,
        };
        let (cluster, metrics) = (cluster.clone(), metrics.clone());
        self.tasks.spawn(async move {
            loop {
                if let Ok(resource) = cluster.discovery().resolve(&kind).await {
                    sink.informer = Some(metrics.add_informer(&resource));
                }
                match cluster.list_watch(&kind, Settings::default()).await {
                    Ok(list_watch) => match list_watch.run(&mut sink).await {},
                    Err(error) => sink.state(WatchState::Error(error.to_string())),
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        });
    }

    /// Waits until a watch ends, which none does by itself.
    pub async fn failed(&mut self) -> anyhow::Error {
        if self.tasks.is_empty() {
            std::future::pending::<()>().await;
        }
        self.tasks.join_next().await;
        anyhow::anyhow!("a watch has died; see the panic above")
    }
}

/// Feeds one kind's cache.
struct HubSink {
    shared: Arc<Shared>,
    id: KindId,
    kind: Kind,
    troubles: Troubles,
    /// Once the kind's path is known.
    informer: Option<Informer>,
}

impl CacheSink for HubSink {
    fn schema(&self) -> Arc<Schema> {
        self.shared.look(|hub| hub.schema(self.id))
    }

    fn apply(&mut self, delta: Delta) {
        let apply = || {
            self.shared
                .change(|hub, now| hub.apply(self.id, delta, now))
        };
        match &self.informer {
            Some(informer) => informer.process(apply),
            None => apply(),
        };
    }

    fn state(&mut self, state: WatchState) {
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        match state {
            WatchState::Error(reason) => {
                if troubles.insert(self.kind.clone(), reason.clone()).as_ref() != Some(&reason) {
                    warn!(kind = %self.kind, reason, "watch failed");
                }
            }
            WatchState::Watching => {
                if troubles.remove(&self.kind).is_some() {
                    info!(kind = %self.kind, "watch recovered");
                }
            }
            WatchState::Listing => {}
        }
    }
}
