//! Plugins that are draining. Each stays in the hub until nothing of it runs any more, so that two
//! plugins of the same name never run a key at the same time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::plugin_file::Running;
use super::plugin_list::{PluginEntry, PluginState};
use crate::shared::{Cause, Shared};

/// Queued keys may run for this long. After that only running ones are awaited, which have their
/// own deadlines.
const DRAIN: Duration = Duration::from_secs(10);

/// How often to check whether a plugin is drained.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// What happens to the queued keys of a draining plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queued {
    /// They run: a change that was seen is acted upon, as when the host itself stops.
    Run,
    /// They are dropped: the plugin may not run any more, or will run them under another name.
    Drop,
}

/// A plugin that has drained.
pub struct Drained {
    pub running: Running,
    /// The number of keys that were still queued.
    pub dropped: usize,
}

/// The plugins that are draining.
#[derive(Default)]
pub struct Draining {
    tasks: JoinSet<Drained>,
    /// By plugin name.
    entries: BTreeMap<String, PluginEntry>,
}

impl Draining {
    /// Begins to drain a plugin. `entry` is its file's entry so far.
    pub fn begin(
        &mut self,
        shared: &Arc<Shared>,
        running: Running,
        queued: Queued,
        entry: PluginEntry,
    ) {
        shared.change(Cause::Plugins, |hub, _| {
            hub.drain_plugin(running.id);
            if queued == Queued::Drop {
                hub.halt_plugin(running.id);
            }
        });
        let name = running.name().to_owned();
        let state = PluginState::Draining(running.id);
        self.entries.insert(name, PluginEntry { state, ..entry });
        let shared = shared.clone();
        self.tasks.spawn(async move {
            let dropped = drain(&shared, &running).await;
            Drained { running, dropped }
        });
    }

    /// Waits for the next plugin that has drained and can be removed from the hub. Waits forever if
    /// no plugin is draining.
    pub async fn next(&mut self) -> Drained {
        loop {
            match self.tasks.join_next().await {
                Some(Ok(left)) => {
                    self.entries.remove(left.running.name());
                    return left;
                }
                // The task only polls the hub and sleeps, and is never cancelled. An error is a
                // panic, which is passed on.
                Some(Err(panicked)) => std::panic::resume_unwind(panicked.into_panic()),
                None => std::future::pending().await,
            }
        }
    }

    /// True while a plugin of this name is draining.
    pub fn has(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    pub fn entries(&self) -> impl Iterator<Item = &PluginEntry> {
        self.entries.values()
    }
}

/// Waits until nothing of the plugin runs any more. Returns how many keys were still queued.
async fn drain(shared: &Shared, running: &Running) -> usize {
    let is_drained = async {
        while !shared.read(Cause::Plugins, |hub| {
            hub.is_plugin_drained(running.id, shared.now())
        }) {
            sleep(POLL_INTERVAL).await;
        }
    };
    tokio::pin!(is_drained);
    if timeout(DRAIN, &mut is_drained).await.is_err() {
        shared.change(Cause::Plugins, |hub, _| hub.halt_plugin(running.id));
        is_drained.await;
    }
    let status = shared.status();
    let mut controllers = status
        .iter()
        .filter(|controller| controller.name == running.name());
    controllers
        .next()
        .map_or(0, |controller| controller.queued + controller.held)
}
