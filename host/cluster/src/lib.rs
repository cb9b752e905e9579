//! Talks to an API server: which kinds there are, what is in them, and what is to be changed.
//!
//! [`connect`] finds the server, [`client`] sends what there is to send within the limits ([`limit`]). [`discovery`] knows the kinds,
//! [`watch`] keeps one cache current, [`mod@write`] does what a plan says, as whom [`identity`] says; [`ApiCluster`] holds them together. Requests are
//! made here and not by `kube::Api`, because objects stay the bytes they came as, and because each request's retry is decided where
//! its meaning is known.
//!
//! Nothing is spawned: what runs, runs in the caller's future. (kube's client has one task of its own, which ends with the client.)

pub mod client;
pub mod connect;
pub mod discovery;
mod event;
pub mod identity;
pub mod limit;
mod path;
mod read;
pub mod request;
pub mod watch;
pub mod write;

use std::hash::{BuildHasher, Hasher, RandomState};

use jiff::Timestamp;
use pilothouse_core::source::{Payload, Source};

pub use path::PathError;

use client::Client;
use discovery::{Discovery, DiscoveryError};
use watch::{Alarm, ListWatch, Settings};

/// An API server, as the host uses it.
pub struct ApiCluster {
    client: Client,
    discovery: Discovery,
    events: event::Recorder,
    alarm: Alarm,
    /// This process, in the Events it writes.
    instance: String,
    /// What Events are dated by.
    now: fn() -> Timestamp,
}

impl ApiCluster {
    /// `instance` tells this process from others that report Events under the same names: the pod's or the machine's name.
    pub fn new(client: impl Into<Client>, instance: &str) -> Self {
        let client = client.into();
        Self {
            discovery: Discovery::new(client.clone()),
            client,
            events: event::Recorder::default(),
            alarm: Alarm::default(),
            instance: instance.to_owned(),
            now: Timestamp::now,
        }
    }

    /// A plugin has gone: nothing is kept for it any more.
    pub fn forget(&self, plugin: &str) {
        self.client.forget(plugin);
    }

    /// The kinds there are.
    pub fn discovery(&self) -> &Discovery {
        &self.discovery
    }

    /// The list-watch of a source, for so much of each object; nothing of it is asked before it runs.
    pub async fn list_watch(
        &self,
        source: &Source,
        payload: Payload,
        settings: Settings,
    ) -> Result<ListWatch, DiscoveryError> {
        let resource = self.discovery.resolve(&source.kind).await?;
        if !resource.is_watchable() {
            return Err(DiscoveryError::Unwatchable(source.kind.clone()));
        }
        let seed = RandomState::new().build_hasher().finish();
        let list_watch = ListWatch::new(
            self.client.clone(),
            resource,
            source.clone(),
            payload,
            settings,
            seed,
        );
        Ok(list_watch.sharing(&self.alarm))
    }
}

#[cfg(test)]
mod fake;
