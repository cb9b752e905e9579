//! Tells all list-watches of a server when one of them finds that the server was rolled back.
//!
//! Each could find out by itself, but not if the server has come further again before it probes.
//! The host's own writes, for kinds that already know of the rollback, bring the server further. A
//! kind that changes seldom could then keep objects of the lost time for ever.

use tokio::sync::watch;

/// The alarm shared by all list-watches of one server.
#[derive(Clone, Debug)]
pub(crate) struct Alarm(watch::Sender<()>);

impl Default for Alarm {
    fn default() -> Self {
        Self(watch::Sender::new(()))
    }
}

/// One list-watch's end of the alarm. It remembers whether the alarm was raised since the last
/// check.
#[derive(Debug)]
pub(crate) struct Listener {
    alarm: Alarm,
    raised: watch::Receiver<()>,
}

impl Listener {
    pub(crate) fn new(alarm: Alarm) -> Self {
        let raised = alarm.0.subscribe();
        Self { alarm, raised }
    }

    /// Raises the alarm for all other listeners.
    pub(crate) fn raise(&mut self) {
        self.alarm.0.send_replace(());
        self.raised.mark_unchanged();
    }

    /// Returns whether another list-watch has raised the alarm since this was last called.
    pub(crate) fn was_raised(&mut self) -> bool {
        let was_raised = self.raised.has_changed().unwrap_or(false);
        self.raised.mark_unchanged();
        was_raised
    }

    /// Waits until another list-watch raises the alarm. [`Listener::was_raised`] still returns true
    /// after that.
    pub(crate) async fn is_raised(&mut self) {
        if self.raised.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        self.raised.mark_changed();
    }
}
