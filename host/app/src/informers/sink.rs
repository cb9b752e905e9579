//! Passes on what a list-watch brings: objects to the hub, failures to the log. A failure that
//! concerns one kind is one line when it begins and one when it is over. Failures of the server are
//! logged for all kinds together; see `incidents`.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pilothouse_cluster::watch::{CacheSink, WatchState};
use pilothouse_core::{
    Delta, Extent, InformerId, InformerKey, ObjectKey, ResourceVersion, Schema, Unreadable,
};
use tokio::time::Instant;
use tracing::{debug, error, info, warn};

use super::stage::Stage;
use super::{Budget, Follower, Incidents, Role, WatchErrors};
use crate::metrics::Informer;
use crate::patterns::defines_kinds;
use crate::shared::{Cause, Shared};

/// Which cache a list-watch feeds, and which list-watch it replaces, if any.
pub struct Feed {
    id: InformerId,
    informer_key: InformerKey,
    extent: Extent,
    /// Once true, deltas of this list-watch are ignored.
    is_retired: Arc<AtomicBool>,
    /// The list-watch that feeds the cache until this one has caught up, and what this one has
    /// brought so far.
    handover: Option<(Follower, Stage)>,
}

impl Feed {
    pub fn new(
        id: InformerId,
        informer_key: InformerKey,
        extent: Extent,
        is_retired: Arc<AtomicBool>,
        predecessor: Option<Follower>,
    ) -> Self {
        Self {
            id,
            informer_key,
            extent,
            is_retired,
            handover: predecessor.map(|predecessor| (predecessor, Stage::default())),
        }
    }

    fn role(&self) -> Role {
        match self.handover {
            Some(_) => Role::Successor,
            None => Role::Follower,
        }
    }

    /// Applies a delta to the cache, or to the stage while a predecessor still feeds the cache.
    /// Returns true if this list-watch has just taken over.
    fn apply(&mut self, shared: &Shared, delta: Delta) -> bool {
        let (id, is_retired) = (self.id, &self.is_retired);
        let is_retired = || is_retired.load(Ordering::SeqCst);
        let Some((predecessor, stage)) = &mut self.handover else {
            shared.change(Cause::Change, |hub, now| {
                if !is_retired() {
                    hub.apply(id, delta, now);
                }
            });
            return false;
        };
        stage.add(delta);
        // One step under the lock: otherwise a change that the predecessor brings in between would
        // be taken for one that the new list already contains.
        let has_taken_over = shared.change(Cause::Change, |hub, now| {
            let cached = hub.snapshot().informers[id].resource_version();
            let listing = stage.take(cached).filter(|_| !is_retired());
            listing.is_some_and(|listing| {
                predecessor.retire();
                hub.apply(id, Delta::Replace(listing), now);
                true
            })
        });
        if has_taken_over {
            self.handover = None;
        }
        has_taken_over
    }
}

/// Feeds one informer's cache.
pub struct HubSink {
    feed: Feed,
    shared: Arc<Shared>,
    watch_errors: WatchErrors,
    incidents: Arc<Incidents>,
    budget: Budget,
    /// Set once the kind's path is known.
    metrics: Option<Informer>,
    /// Since when the informer has failed for a reason of its own.
    incident: Option<Instant>,
    /// Unreadable objects that have been logged.
    unreadable: HashSet<ObjectKey>,
}

impl HubSink {
    pub fn new(
        feed: Feed,
        shared: Arc<Shared>,
        watch_errors: WatchErrors,
        incidents: Arc<Incidents>,
        budget: Budget,
    ) -> Self {
        Self {
            feed,
            shared,
            watch_errors,
            incidents,
            budget,
            metrics: None,
            incident: None,
            unreadable: HashSet::new(),
        }
    }

    /// Counts what happens from now on in these metrics.
    pub fn count(&mut self, metrics: Informer) {
        self.metrics = Some(metrics);
    }

    /// The cache's resourceVersion, if it holds a complete list. A list-watch that replaces another
    /// begins there.
    pub fn known(&self) -> Option<ResourceVersion> {
        self.shared.read(Cause::Change, |hub| {
            let cache = &hub.snapshot().informers[self.feed.id];
            (!cache.is_initial()).then(|| cache.resource_version().clone())
        })
    }

    /// True if the cache holds a complete list with this much.
    pub fn is_listed(&self) -> bool {
        let Feed { id, extent, .. } = self.feed;
        self.shared.read(Cause::Change, |hub| {
            hub.snapshot().informers[id].is_synced(extent)
        })
    }

    /// False for what is known: a bookmark, or the deletion of an object that has gone, which a
    /// watch may bring once more.
    fn is_news(&self, delta: &Delta) -> bool {
        let Delta::Delete { key, .. } = delta else {
            return !matches!(delta, Delta::Bookmark(_));
        };
        self.shared.read(Cause::Change, |hub| {
            let cache = &hub.snapshot().informers[self.feed.id];
            cache.get(key.parts()).is_some() || cache.unreadable().contains_key(key)
        })
    }

    /// Returns whether there was an error before.
    fn set_error(&self, reason: Option<String>) -> bool {
        let Feed {
            informer_key,
            is_retired,
            ..
        } = &self.feed;
        self.watch_errors
            .set(informer_key, self.feed.role(), reason, is_retired)
    }

    /// Called once this list-watch feeds the cache. Clears the errors of this list-watch and of its
    /// predecessor.
    fn has_taken_over(&self) {
        let Feed {
            informer_key,
            extent,
            ..
        } = &self.feed;
        debug!(kind = %informer_key, %extent, "another list-watch has taken over");
        let roles = [Role::Follower, Role::Successor];
        for role in roles {
            self.incidents.end(informer_key, role);
        }
        let had_errors = roles.map(|role| self.watch_errors.forget(informer_key, role));
        if had_errors.contains(&true) {
            self.shared.change(Cause::Change, |hub, _| hub.recovered());
        }
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

    /// Warns once, until the object can be read again.
    fn warn_unreadable(&mut self, object: &Unreadable) {
        let Unreadable { key, reason, .. } = object;
        if self.unreadable.insert(key.clone()) {
            warn!(kind = %self.feed.informer_key, object = %key, reason, "an object cannot be read");
        }
    }
}

impl CacheSink for HubSink {
    fn schema(&self) -> Arc<Schema> {
        self.shared
            .read(Cause::Change, |hub| hub.schema(self.feed.id))
    }

    fn apply(&mut self, delta: Delta) {
        self.note_unreadable(&delta);
        if defines_kinds(&self.feed.informer_key.kind) && self.is_news(&delta) {
            self.shared.redefine_kinds();
        }
        let apply = || self.feed.apply(&self.shared, delta);
        let has_taken_over = match &self.metrics {
            Some(metrics) => metrics.process(apply),
            None => apply(),
        };
        if has_taken_over {
            self.has_taken_over();
        }
        self.budget.check(&self.shared);
    }

    fn room(&self) -> usize {
        self.budget.room(&self.shared, self.feed.id)
    }

    fn state(&mut self, state: WatchState) {
        if self.feed.is_retired.load(Ordering::SeqCst) {
            return;
        }
        let role = self.feed.role();
        match state {
            WatchState::Unreachable(reason) => {
                let Feed {
                    informer_key,
                    is_retired,
                    ..
                } = &self.feed;
                self.incidents
                    .begin(informer_key, role, &reason, is_retired);
                self.set_error(Some(reason));
            }
            WatchState::Error(reason) => {
                // The server answers, so its incident is over for this informer.
                self.incidents.end(&self.feed.informer_key, role);
                if self.incident.is_none() {
                    self.incident = Some(Instant::now());
                    warn!(kind = %self.feed.informer_key, reason, "watch failed");
                } else {
                    debug!(kind = %self.feed.informer_key, reason, "watch still fails");
                }
                self.set_error(Some(reason));
            }
            WatchState::Watching => {
                self.incidents.end(&self.feed.informer_key, role);
                if let Some(since) = self.incident.take() {
                    let lasted = format!("{:.1} s", since.elapsed().as_secs_f32());
                    info!(kind = %self.feed.informer_key, lasted, "watch recovered");
                }
                // The error may have been that of the informer's other list-watch.
                if self.set_error(None) {
                    self.shared.change(Cause::Change, |hub, _| hub.recovered());
                }
            }
            WatchState::Listing => {}
        }
    }

    fn stale(&mut self, version: &ResourceVersion) {
        debug!(kind = %self.feed.informer_key, resource_version = %version, "dropped an event that is older than the cache");
        self.shared
            .change(Cause::Change, |hub, _| hub.note_stale(self.feed.id));
    }

    fn rolled_back(&mut self, from: &ResourceVersion, to: &ResourceVersion, is_news: bool) {
        if let Some(metrics) = &self.metrics {
            metrics.rolled_back();
        }
        if !is_news {
            debug!(kind = %self.feed.informer_key, %from, %to, "the API server has been rolled back, as others have found");
            return;
        }
        error!(kind = %self.feed.informer_key, %from, %to, "the API server has been rolled back; relisting everything");
        // The line above also announced this informer's failure.
        self.incident.get_or_insert_with(Instant::now);
    }
}

#[cfg(test)]
mod tests;
