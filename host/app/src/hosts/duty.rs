//! What it takes to make the hub follow who runs what, and to end that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pilothouse_core::{Duties, Hub, Relinquish};
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

use super::takeover::TakeOver;
use super::{GRACE, LOOK};
use crate::host_events::HostEvents;
use crate::shared::{Cause, Shared};

/// See the module's documentation.
pub(super) struct DutyParts {
    pub shared: Arc<Shared>,
    pub takeover: TakeOver,
    pub events: HostEvents,
    /// This process among the hosts.
    pub identity: String,
    /// Whether this host runs nothing any more, whatever it is given.
    pub is_over: AtomicBool,
}

impl DutyParts {
    /// From now on the hub runs this.
    pub fn set(&self, duties: Duties, how: Relinquish) {
        let duties = match self.is_over.load(Ordering::SeqCst) {
            true => Duties::Standby,
            false => duties,
        };
        let set = |hub: &mut Hub, now| hub.set_duties(duties, how, now);
        drop(self.shared.change(Cause::Plugins, set));
        self.shared.change_extents();
    }

    /// Ends what runs, within `limit`. Nothing runs afterwards, and nothing is under way.
    pub async fn lay_down(&self, limit: Duration) {
        self.is_over.store(true, Ordering::SeqCst);
        let until = Instant::now() + limit;
        for (how, patience) in [(Relinquish::Finish, GRACE), (Relinquish::Stop, limit)] {
            self.set(Duties::Standby, how);
            let patience = patience.min(until.saturating_duration_since(Instant::now()));
            if timeout(patience, self.finished()).await.is_ok() {
                return;
            }
        }
        warn!("stopped while requests were under way");
    }

    async fn finished(&self) {
        while self.shared.read(Cause::Status, Hub::has_unfinished) {
            sleep(LOOK).await;
        }
    }
}
