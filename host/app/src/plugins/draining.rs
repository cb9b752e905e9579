//! Drains plugins. Each stays in the hub until nothing of it runs any more, so that two plugins of
//! the same name never run a key at the same time.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_core::PluginId;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::shared::{Cause, Shared};

/// How often to check whether a plugin is drained.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A plugin that has drained.
pub struct Drained {
    pub plugin: PluginId,
    /// The number of keys that were still queued.
    pub dropped: usize,
}

/// The plugins that are draining.
#[derive(Default)]
pub struct Draining(JoinSet<Drained>);

impl Draining {
    /// Begins to drain a plugin. Its queued keys may run for as long as `patience`; if that is
    /// zero, they are dropped.
    pub fn begin(
        &mut self,
        shared: &Arc<Shared>,
        plugin: PluginId,
        name: String,
        patience: Duration,
    ) {
        shared.change(Cause::Plugins, |hub, _| {
            hub.drain_plugin(plugin);
            if patience.is_zero() {
                hub.halt_plugin(plugin);
            }
        });
        let shared = shared.clone();
        self.0.spawn(async move {
            let dropped = drain(&shared, plugin, &name, patience).await;
            Drained { plugin, dropped }
        });
    }

    /// Waits for the next plugin that has drained and can be removed from the hub. Waits forever if
    /// no plugin is draining.
    pub async fn next(&mut self) -> Drained {
        match self.0.join_next().await {
            Some(Ok(drained)) => drained,
            // The task only polls the hub and sleeps, and is never cancelled. An error is a panic,
            // which is passed on.
            Some(Err(panicked)) => std::panic::resume_unwind(panicked.into_panic()),
            None => std::future::pending().await,
        }
    }
}

/// Waits until nothing of the plugin runs any more. Returns how many keys were still queued.
async fn drain(shared: &Shared, plugin: PluginId, name: &str, patience: Duration) -> usize {
    let is_drained = async {
        while !shared.read(Cause::Plugins, |hub| {
            hub.is_plugin_drained(plugin, shared.now())
        }) {
            sleep(POLL_INTERVAL).await;
        }
    };
    tokio::pin!(is_drained);
    if timeout(patience, &mut is_drained).await.is_err() {
        shared.change(Cause::Plugins, |hub, _| hub.halt_plugin(plugin));
        is_drained.await;
    }
    let status = shared.status();
    let mut controllers = status.iter();
    let left = controllers.find(|controller| controller.name == name);
    left.map_or(0, |controller| {
        controller.keys.queued + controller.keys.held
    })
}
