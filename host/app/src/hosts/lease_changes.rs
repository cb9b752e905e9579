//! The changes of Leases, as a watch reports them. Without one everything works as well, only a few
//! seconds later.

use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;
use pilothouse_cluster::leases::{LeaseChange, LeaseError, LeaseSelection, LeaseWatch, Leases};
use tokio::time::{sleep, timeout};
use tracing::warn;

use super::problems::Reminder;

/// The pause before a watch is opened again that has ended, or that could not be opened.
const PAUSE: Duration = Duration::from_secs(1);

/// See the module's documentation.
pub(super) struct LeaseChanges {
    leases: Leases,
    selection: LeaseSelection,
    watch: Watch,
}

enum Watch {
    Opening(BoxFuture<'static, LeaseWatch>),
    Open(LeaseWatch),
}

/// What a watch has shown.
pub(super) enum Seen {
    /// It has begun. First come all Leases that there are.
    Began,
    /// A Lease is like this.
    Is(Box<Lease>),
    /// A Lease was deleted.
    Gone,
    /// It has ended. Another one is opened.
    Ended,
}

impl LeaseChanges {
    pub fn new(leases: Leases, selection: LeaseSelection) -> Self {
        let opening = open(leases.clone(), selection.clone(), Duration::ZERO);
        Self {
            leases,
            selection,
            watch: Watch::Opening(Box::pin(opening)),
        }
    }

    /// What is seen next. May be dropped and called again at any time.
    pub async fn next(&mut self) -> Seen {
        let seen = match &mut self.watch {
            Watch::Opening(opening) => {
                self.watch = Watch::Open(opening.await);
                return Seen::Began;
            }
            Watch::Open(watch) => watch.next().await,
        };
        match seen {
            Some(LeaseChange::Is(lease)) => Seen::Is(lease),
            Some(LeaseChange::Gone(_)) => Seen::Gone,
            None => {
                let opening = open(self.leases.clone(), self.selection.clone(), PAUSE);
                self.watch = Watch::Opening(Box::pin(opening));
                Seen::Ended
            }
        }
    }
}

/// Opens a watch after this pause, as soon as that is possible.
async fn open(leases: Leases, selection: LeaseSelection, pause: Duration) -> LeaseWatch {
    let reminder = Reminder::default();
    sleep(pause).await;
    loop {
        match timeout(PAUSE * 5, leases.watch(&selection)).await {
            Ok(Ok(opened)) => return opened,
            Ok(Err(error @ LeaseError::Refused(_))) if reminder.is_due() => {
                warn!(%error, "cannot watch the Leases; a take-over takes a few seconds longer");
            }
            _ => {}
        }
        sleep(PAUSE).await;
    }
}
