//! What one list-watch finds out and all others of the same server should know: it has gone back in time.
//!
//! Each could find out by itself, unless the server has come further again before it asks: a kind that changes seldom may be left
//! with objects of the lost time for ever, and the host's own writes, made for kinds that know already, help the server along.

use tokio::sync::watch;

/// Heard by every list-watch of one server.
#[derive(Clone, Debug)]
pub(crate) struct Alarm(watch::Sender<()>);

impl Default for Alarm {
    fn default() -> Self {
        Self(watch::Sender::new(()))
    }
}

/// The alarm, and whether it has been raised since this list-watch last looked.
#[derive(Debug)]
pub(super) struct Listener {
    alarm: Alarm,
    raised: watch::Receiver<()>,
}

impl Listener {
    pub(super) fn new(alarm: Alarm) -> Self {
        let raised = alarm.0.subscribe();
        Self { alarm, raised }
    }

    /// Tells all others.
    pub(super) fn raise(&mut self) {
        self.alarm.0.send_replace(());
        self.raised.mark_unchanged();
    }

    /// Whether another one has raised it since this was last asked.
    pub(super) fn was_raised(&mut self) -> bool {
        let was_raised = self.raised.has_changed().unwrap_or(false);
        self.raised.mark_unchanged();
        was_raised
    }

    /// Waits until another one raises it. [`Listener::was_raised`] will say so, too.
    pub(super) async fn is_raised(&mut self) {
        if self.raised.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        self.raised.mark_changed();
    }
}
