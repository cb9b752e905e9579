//! Writes the Events of plugins aside, so that no key waits for them.
//!
//! As in client-go, whose broadcaster (`tools/record`) has a queue of 1,000 for each controller:
//! what does not fit is dropped, and what waits when the process dies is lost. The Events of a
//! plugin are written in order, one after the other. Plugins have their turns side by side, so that
//! one that records many does not delay those of another.

mod queue;

use std::sync::Arc;

use pilothouse_cluster::ApiCluster;
use pilothouse_core::{Finished, TakenEvent};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;
use tracing::warn;

use crate::metrics::Metrics;
use queue::EventQueue;
pub use queue::MAX_QUEUED;

/// Takes the Events of reconciles.
pub struct Events {
    queue: EventQueue,
    metrics: Arc<Metrics>,
}

impl Events {
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            queue: EventQueue::default(),
            metrics,
        }
    }

    /// Queues the Events of a reconcile, and counts those that are not granted.
    pub fn take(&self, finished: &mut Finished) {
        let events = finished.take_events();
        let plugin = finished.held().plugin_name();
        let unwritten = self.metrics.unwritten();
        for denied in &finished.executed().denied_events {
            unwritten.note(plugin, denied);
        }
        unwritten.dropped(plugin, self.queue.add(plugin, events));
    }

    async fn write(&self, cluster: &ApiCluster) {
        let send = async |event: TakenEvent| {
            let answer = cluster.write(&event.author, &event.write).await;
            answer.result
        };
        let note = |plugin: &str, result| self.metrics.unwritten().note(plugin, &result);
        self.queue.write(send, note).await;
    }
}

/// The task that writes the Events.
pub struct EventWriter {
    events: Arc<Events>,
    task: JoinHandle<()>,
}

impl EventWriter {
    pub fn start(events: Arc<Events>, cluster: Arc<ApiCluster>) -> Self {
        let task = {
            let events = events.clone();
            tokio::spawn(async move { events.write(&cluster).await })
        };
        Self { events, task }
    }

    /// Waits until the task ends, which happens only when it panics.
    pub async fn ended(&mut self) -> Result<(), JoinError> {
        (&mut self.task).await
    }

    /// Writes what is queued until the deadline. Call it when no reconcile is running any more.
    pub async fn drain(mut self, deadline: Instant) {
        self.events.queue.close();
        drop(tokio::time::timeout_at(deadline, &mut self.task).await);
        let events = self.events.queue.count();
        if events > 0 {
            warn!(events, "stopped before all Events were written");
        }
    }
}
