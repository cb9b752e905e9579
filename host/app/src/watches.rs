//! One list-watch per kind, whoever asked for it.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pilothouse_cluster::ApiCluster;
use pilothouse_cluster::watch::{CacheSink, Settings, WatchState};
use pilothouse_core::cache::{Delta, Unreadable};
use pilothouse_core::key::{Kind, ObjectKey, ResourceVersion};
use pilothouse_core::object::Schema;
use pilothouse_core::snapshot::KindId;
use pilothouse_core::source::{Payload, Source};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{debug, error, info, warn};

use crate::plugins::LOOK_AGAIN;
use crate::shared::Shared;

/// The first requests of this many kinds come at different moments; with more of them, within [`LONGEST_SPREAD`].
const SPREAD_PER_KIND: Duration = Duration::from_millis(20);

/// No start waits longer to be one of many.
const LONGEST_SPREAD: Duration = Duration::from_millis(500);

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
    ) {
        if !self.kinds.insert(id) {
            return;
        }
        let mut sink = HubSink {
            shared: shared.clone(),
            id,
            kind: kind.clone(),
            troubles: self.troubles.clone(),
            incident: None,
            unreadable: HashSet::new(),
        };
        let cluster = cluster.clone();
        let source = Source::all(kind);
        // The first kind starts at once.
        let others = u32::try_from(self.kinds.len() - 1).unwrap_or(u32::MAX);
        let settings = Settings {
            start_spread: SPREAD_PER_KIND.saturating_mul(others).min(LONGEST_SPREAD),
            ..Settings::default()
        };
        self.tasks.spawn(async move {
            loop {
                match cluster
                    .list_watch(&source, Payload::Full, settings.clone())
                    .await
                {
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

/// Feeds one kind's cache, and writes one line when something goes wrong and one when it is over.
struct HubSink {
    shared: Arc<Shared>,
    id: KindId,
    kind: Kind,
    troubles: Troubles,
    /// Since when the kind has not been watched.
    incident: Option<Instant>,
    /// Objects that were said to be unreadable.
    unreadable: HashSet<ObjectKey>,
}

impl HubSink {
    fn set_trouble(&self, reason: Option<String>) {
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        match reason {
            Some(reason) => troubles.insert(self.kind.clone(), reason),
            None => troubles.remove(&self.kind),
        };
    }

    fn note_unreadable(&mut self, delta: &Delta) {
        match delta {
            Delta::Unreadable(object) => self.warn_unreadable(object),
            Delta::Replace(listing) => {
                let still: HashSet<&ObjectKey> = listing
                    .unreadable
                    .iter()
                    .map(|object| &object.key)
                    .collect();
                self.unreadable.retain(|key| still.contains(key));
                for object in &listing.unreadable {
                    self.warn_unreadable(object);
                }
            }
            Delta::Upsert(object) => {
                self.unreadable.remove(&object.header.key);
            }
            Delta::Delete { key, .. } => {
                self.unreadable.remove(key);
            }
            Delta::Bookmark(_) => {}
        }
    }

    /// Once, until it can be read again.
    fn warn_unreadable(&mut self, object: &Unreadable) {
        let Unreadable { key, reason, .. } = object;
        if self.unreadable.insert(key.clone()) {
            warn!(kind = %self.kind, object = %key, reason, "an object cannot be read");
        }
    }
}

impl CacheSink for HubSink {
    fn schema(&self) -> Arc<Schema> {
        self.shared.look(|hub| hub.schema(self.id))
    }

    fn apply(&mut self, delta: Delta) {
        self.note_unreadable(&delta);
        self.shared
            .change(|hub, now| hub.apply(self.id, delta, now));
    }

    fn state(&mut self, state: WatchState) {
        match state {
            WatchState::Error(reason) => {
                if self.incident.is_none() {
                    self.incident = Some(Instant::now());
                    warn!(kind = %self.kind, reason, "watch failed");
                } else {
                    debug!(kind = %self.kind, reason, "watch still fails");
                }
                self.set_trouble(Some(reason));
            }
            WatchState::Watching => {
                if let Some(since) = self.incident.take() {
                    let lasted = format!("{:.1} s", since.elapsed().as_secs_f32());
                    info!(kind = %self.kind, lasted, "watch recovered");
                    self.set_trouble(None);
                }
            }
            WatchState::Listing => {}
        }
    }

    fn stale(&mut self, version: &ResourceVersion) {
        debug!(kind = %self.kind, resource_version = version.as_str(), "dropped an event that is older than the cache");
    }

    fn rolled_back(&mut self, from: &ResourceVersion, to: &ResourceVersion) {
        error!(kind = %self.kind, from = from.as_str(), to = to.as_str(), "the API server has been rolled back; listing everything anew");
        // That was the line of this incident.
        self.incident.get_or_insert_with(Instant::now);
    }
}
