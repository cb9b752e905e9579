//! From a list-watch into the hub, and into the log: one line when something goes wrong with the kind, one when it is over. What goes
//! wrong with the server is said for all kinds together.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};

use pilothouse_cluster::watch::{CacheSink, WatchState};
use pilothouse_core::cache::{Delta, Unreadable};
use pilothouse_core::key::{ObjectKey, ResourceVersion};
use pilothouse_core::object::Schema;
use pilothouse_core::snapshot::InformerId;
use pilothouse_core::source::Source;
use tokio::time::Instant;
use tracing::{debug, error, info, warn};

use super::{Budget, Incidents, Troubles};
use crate::metrics::Informer;
use crate::shared::Shared;

/// Feeds one informer's cache.
pub struct HubSink {
    shared: Arc<Shared>,
    id: InformerId,
    source: Source,
    troubles: Troubles,
    incidents: Arc<Incidents>,
    budget: Budget,
    /// Once the kind's path is known.
    metrics: Option<Informer>,
    /// Since when the informer has not been followed, for a reason of its own.
    incident: Option<Instant>,
    /// Objects that were said to be unreadable.
    unreadable: HashSet<ObjectKey>,
}

impl HubSink {
    pub fn new(
        shared: Arc<Shared>,
        id: InformerId,
        source: Source,
        troubles: Troubles,
        incidents: Arc<Incidents>,
        budget: Budget,
    ) -> Self {
        Self {
            shared,
            id,
            source,
            troubles,
            incidents,
            budget,
            metrics: None,
            incident: None,
            unreadable: HashSet::new(),
        }
    }

    /// From now on what happens is counted here.
    pub fn count(&mut self, metrics: Informer) {
        self.metrics = Some(metrics);
    }

    /// How far the cache has come, if a complete list is in it: where a list-watch that replaces another begins.
    pub fn known(&self) -> Option<ResourceVersion> {
        self.shared.look(|hub| {
            let cache = &hub.snapshot().informers[self.id];
            (!cache.is_initial()).then(|| cache.resource_version().clone())
        })
    }

    /// Says whether there was trouble before.
    fn set_trouble(&self, reason: Option<String>) -> bool {
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match reason {
            Some(reason) => troubles.insert(self.source.clone(), reason),
            None => troubles.remove(&self.source),
        };
        before.is_some()
    }

    fn note_unreadable(&mut self, delta: &Delta) {
        match delta {
            Delta::Unreadable(object) => self.warn_unreadable(object),
            Delta::Replace(listing) => {
                let unreadable = listing.unreadable.iter();
                let still: HashSet<&ObjectKey> = unreadable.map(|object| &object.key).collect();
                self.unreadable.retain(|key| still.contains(key));
                for object in &listing.unreadable {
                    self.warn_unreadable(object);
                }
            }
            Delta::Upsert(object) | Delta::Read(object) if !self.unreadable.is_empty() => {
                self.unreadable.remove(&object.key().to_key());
            }
            Delta::Delete { key, .. } => {
                self.unreadable.remove(key);
            }
            Delta::Upsert(_) | Delta::Read(_) | Delta::Bookmark(_) => {}
        }
    }

    /// Once, until it can be read again.
    fn warn_unreadable(&mut self, object: &Unreadable) {
        let Unreadable { key, reason, .. } = object;
        if self.unreadable.insert(key.clone()) {
            warn!(kind = %self.source, object = %key, reason, "an object cannot be read");
        }
    }
}

impl CacheSink for HubSink {
    fn schema(&self) -> Arc<Schema> {
        self.shared.look(|hub| hub.schema(self.id))
    }

    fn apply(&mut self, delta: Delta) {
        self.note_unreadable(&delta);
        let apply = || {
            self.shared
                .change(|hub, now| hub.apply(self.id, delta, now))
        };
        match &self.metrics {
            Some(metrics) => metrics.process(apply),
            None => apply(),
        };
        self.budget.check(&self.shared);
    }

    fn room(&self) -> usize {
        self.budget.room(&self.shared, self.id)
    }

    fn state(&mut self, state: WatchState) {
        match state {
            WatchState::Unreachable(reason) => {
                self.incidents.begin(&self.source, &reason);
                self.set_trouble(Some(reason));
            }
            WatchState::Error(reason) => {
                self.incidents.end(&self.source);
                if self.incident.is_none() {
                    self.incident = Some(Instant::now());
                    warn!(kind = %self.source, reason, "watch failed");
                } else {
                    debug!(kind = %self.source, reason, "watch still fails");
                }
                self.set_trouble(Some(reason));
            }
            WatchState::Watching => {
                self.incidents.end(&self.source);
                if let Some(since) = self.incident.take() {
                    let lasted = format!("{:.1} s", since.elapsed().as_secs_f32());
                    info!(kind = %self.source, lasted, "watch recovered");
                }
                // It may have been another list-watch of this informer that was in trouble.
                if self.set_trouble(None) {
                    self.shared.change(|hub, _| hub.recovered());
                }
            }
            WatchState::Listing => {}
        }
    }

    fn stale(&mut self, version: &ResourceVersion) {
        debug!(kind = %self.source, resource_version = %version, "dropped an event that is older than the cache");
        self.shared.change(|hub, _| hub.note_stale(self.id));
    }

    fn rolled_back(&mut self, from: &ResourceVersion, to: &ResourceVersion, is_news: bool) {
        if let Some(metrics) = &self.metrics {
            metrics.rolled_back();
        }
        if !is_news {
            debug!(kind = %self.source, %from, %to, "the API server has been rolled back, as others have found");
            return;
        }
        error!(kind = %self.source, %from, %to, "the API server has been rolled back; listing everything anew");
        // That was the line of this incident.
        self.incident.get_or_insert_with(Instant::now);
    }
}
