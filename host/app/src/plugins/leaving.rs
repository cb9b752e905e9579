//! Plugins that are to leave the hub, until nothing of them runs: two plugins of one name never run a key at the same time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::roster::{Entry, State};
use super::slot::Running;
use crate::shared::{Cause, Shared};

/// So long what is queued is run; then only what runs is waited for, which has deadlines of its own.
const DRAIN: Duration = Duration::from_secs(10);

/// How often it is looked whether that is done.
const LOOK: Duration = Duration::from_millis(20);

/// What becomes of the keys that a leaving plugin has queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queued {
    /// They are run: a change that was seen is acted upon, as when the host itself stops.
    Run,
    /// They are dropped: the plugin may not run any more, or runs them under another name.
    Drop,
}

/// A plugin of which nothing runs any more.
pub struct Left {
    pub running: Running,
    /// Keys that were queued still.
    pub dropped: usize,
}

#[derive(Default)]
pub struct Leaving {
    tasks: JoinSet<Left>,
    /// By the plugins' names.
    entries: BTreeMap<String, Entry>,
}

impl Leaving {
    /// A plugin, whose file's entry was this, is to leave.
    pub fn begin(&mut self, shared: &Arc<Shared>, running: Running, queued: Queued, entry: Entry) {
        shared.change(Cause::Plugins, |hub, _| {
            hub.drain_plugin(running.id);
            if queued == Queued::Drop {
                hub.halt_plugin(running.id);
            }
        });
        let name = running.name().to_owned();
        let state = State::Leaving(running.id);
        self.entries.insert(name, Entry { state, ..entry });
        let shared = shared.clone();
        self.tasks.spawn(async move {
            let dropped = drain(&shared, &running).await;
            Left { running, dropped }
        });
    }

    /// The next one to take out of the hub. Waits for ever if there is none.
    pub async fn next(&mut self) -> Left {
        loop {
            match self.tasks.join_next().await {
                Some(Ok(left)) => {
                    self.entries.remove(left.running.name());
                    return left;
                }
                // It only looks and sleeps.
                Some(Err(panicked)) => std::panic::resume_unwind(panicked.into_panic()),
                None => std::future::pending().await,
            }
        }
    }

    /// Whether a plugin of this name has not left yet.
    pub fn has(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }
}

/// Waits until nothing runs any more. Says how many keys were queued still.
async fn drain(shared: &Shared, running: &Running) -> usize {
    let is_drained = async {
        while !shared.look(Cause::Plugins, |hub| {
            hub.is_plugin_drained(running.id, shared.now())
        }) {
            sleep(LOOK).await;
        }
    };
    tokio::pin!(is_drained);
    if timeout(DRAIN, &mut is_drained).await.is_err() {
        shared.change(Cause::Plugins, |hub, _| hub.halt_plugin(running.id));
        is_drained.await;
    }
    let status = shared.status();
    let mut seats = status.iter().filter(|seat| seat.name == running.name());
    seats.next().map_or(0, |seat| seat.queued + seat.held)
}
