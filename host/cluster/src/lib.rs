//! Talks to an API server: reads which kinds it serves, watches their objects, and writes changes.
//!
//! [`connect`] finds the server. [`client`] sends every request within the limits ([`limit`]).
//! [`discovery`] knows the kinds, and [`watch`] keeps one cache current. [`mod@write`] sends the
//! writes of a plan, under the service account in [`identity`]. [`ApiCluster`] holds them together.
//! Requests are built here and not by `kube::Api`, for two reasons: objects stay the bytes that the
//! server sent, and each request's retry is decided where its meaning is known.
//!
//! This crate spawns no task: everything runs in the caller's future. (kube's client has one task
//! of its own, which ends with the client.)

pub mod client;
pub mod connect;
pub mod discovery;
#[cfg(test)]
mod testing;
mod text;
pub mod watch;
mod write;

use std::hash::{BuildHasher, Hasher, RandomState};

use jiff::Timestamp;
use pilothouse_core::{Detail, InformerKey};

pub use write::WriteError;
pub use write::identity::{Identity, IdentityError, ReviewError};

use client::Client;
use discovery::{Discovery, DiscoveryError};
use watch::{Alarm, ListWatch, WatchSettings};

/// An API server, as the host uses it.
pub struct ApiCluster {
    client: Client,
    discovery: Discovery,
    events: write::event::Recorder,
    alarm: Alarm,
    /// Name of this process in the Events it writes.
    instance: String,
    /// The clock that dates Events.
    now: fn() -> Timestamp,
}

impl ApiCluster {
    /// `instance` is the name of the pod or the machine. It tells this process from others that
    /// report Events under the same controller names.
    pub fn new(client: impl Into<Client>, instance: &str) -> Self {
        let client = client.into();
        Self {
            discovery: Discovery::new(client.clone()),
            client,
            events: write::event::Recorder::default(),
            alarm: Alarm::default(),
            instance: instance.to_owned(),
            now: Timestamp::now,
        }
    }

    /// Drops everything kept for a plugin that was removed.
    pub fn forget(&self, plugin: &str) {
        self.client.forget(plugin);
    }

    /// The kinds that the server serves.
    pub fn discovery(&self) -> &Discovery {
        &self.discovery
    }

    /// The list-watch of a source, with `detail` as the part kept of each object. It sends nothing
    /// before it is run; this call asks discovery if the kind is not known yet.
    pub async fn list_watch(
        &self,
        informer_key: &InformerKey,
        detail: Detail,
        settings: WatchSettings,
    ) -> Result<ListWatch, DiscoveryError> {
        let resource = self.discovery.resolve(&informer_key.kind).await?;
        if !resource.is_watchable() {
            return Err(DiscoveryError::Unwatchable(informer_key.kind.clone()));
        }
        let seed = RandomState::new().build_hasher().finish();
        let list_watch = ListWatch::new(
            self.client.clone(),
            resource,
            informer_key.clone(),
            detail,
            settings,
            seed,
        );
        Ok(list_watch.sharing(&self.alarm))
    }
}
