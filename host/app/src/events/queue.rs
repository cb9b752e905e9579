//! The Events that wait to be written: a bounded queue for each plugin, and the turns of the
//! plugins.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use pilothouse_core::{ActionResult, TakenEvent};
use tokio::sync::Notify;
use tracing::{Instrument, Span};

/// The most Events of a plugin that wait. With the texts' limits this is some 2 MiB.
pub const MAX_QUEUED: usize = 1_000;

/// The most plugins whose Events are written at the same time. Each takes a connection.
const MAX_WRITERS: usize = 8;

/// The Events that wait to be written.
#[derive(Default)]
pub struct EventQueue {
    waiting: Mutex<Waiting>,
    /// Notified whenever there may be something to write, or the queue is closed.
    changed: Notify,
}

#[derive(Default)]
struct Waiting {
    /// The plugins with Events that wait or are being written.
    plugins: HashMap<Arc<str>, PluginEvents>,
    /// The plugins of which something waits and nothing is being written, in the order of their
    /// turns.
    turns: VecDeque<Arc<str>>,
    is_closed: bool,
}

#[derive(Default)]
struct PluginEvents {
    batches: VecDeque<Batch>,
    /// The number of Events in `batches`, and in the batch that is being written.
    count: usize,
    is_being_written: bool,
}

/// The Events of one reconcile.
struct Batch {
    events: Vec<TakenEvent>,
    /// The reconcile's, so that the log names it.
    span: Span,
}

impl EventQueue {
    /// Adds the Events of a reconcile. Returns the number of those that were dropped because too
    /// many wait: the last ones.
    pub fn add(&self, plugin: &str, mut events: Vec<TakenEvent>) -> usize {
        if events.is_empty() {
            return 0;
        }
        let recorded = events.len();
        let mut waiting = self.waiting.lock();
        let waiting = &mut *waiting;
        let plugin: Arc<str> = plugin.into();
        let queue = waiting.plugins.entry(plugin.clone()).or_default();
        events.truncate(MAX_QUEUED - queue.count);
        let dropped = recorded - events.len();
        if !events.is_empty() {
            if queue.batches.is_empty() && !queue.is_being_written {
                waiting.turns.push_back(plugin);
            }
            queue.count += events.len();
            let span = Span::current();
            queue.batches.push_back(Batch { events, span });
            self.changed.notify_one();
        }
        dropped
    }

    /// Lets [`write`](Self::write) end once everything is written.
    pub fn close(&self) {
        self.waiting.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// The number of Events that wait, with all of the batches that are being written.
    pub fn count(&self) -> usize {
        let waiting = self.waiting.lock();
        waiting.plugins.values().map(|queue| queue.count).sum()
    }

    /// Writes Events with `send` until the queue is closed and empty, and gives `note` the result
    /// of each. After one that cannot reach the cluster, the others of its reconcile are dropped.
    pub async fn write<F: Future<Output = ActionResult>>(
        &self,
        send: impl Fn(TakenEvent) -> F,
        note: impl Fn(&str, ActionResult),
    ) {
        let mut writing = FuturesUnordered::new();
        loop {
            while writing.len() < MAX_WRITERS
                && let Some((plugin, batch)) = self.take()
            {
                let (send, note) = (&send, &note);
                let span = batch.span.clone();
                let turn = async move {
                    let count = batch.events.len();
                    for event in batch.events {
                        let result = send(event).await;
                        let is_lost = matches!(result, ActionResult::Unavailable(_));
                        note(&plugin, result);
                        if is_lost {
                            break;
                        }
                    }
                    (plugin, count)
                };
                writing.push(turn.instrument(span));
            }
            if self.is_finished() {
                return;
            }
            tokio::select! {
                Some((plugin, count)) = writing.next() => self.turn_ended(plugin, count),
                () = self.changed.notified() => {}
            }
        }
    }

    /// The plugin whose turn it is, and the oldest of its batches.
    fn take(&self) -> Option<(Arc<str>, Batch)> {
        let mut waiting = self.waiting.lock();
        let plugin = waiting.turns.pop_front()?;
        let queue = waiting.plugins.get_mut(&plugin)?;
        let batch = queue.batches.pop_front()?;
        queue.is_being_written = true;
        Some((plugin, batch))
    }

    /// A plugin's batch of this number of Events is written or dropped.
    fn turn_ended(&self, plugin: Arc<str>, count: usize) {
        let mut waiting = self.waiting.lock();
        let waiting = &mut *waiting;
        let Some(queue) = waiting.plugins.get_mut(&plugin) else {
            return;
        };
        queue.is_being_written = false;
        queue.count -= count;
        if queue.batches.is_empty() {
            waiting.plugins.remove(&plugin);
        } else {
            waiting.turns.push_back(plugin);
        }
    }

    fn is_finished(&self) -> bool {
        let waiting = self.waiting.lock();
        waiting.is_closed && waiting.plugins.is_empty()
    }
}

#[cfg(test)]
mod tests;
