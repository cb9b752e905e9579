//! Makes the hub run keys while this host leads, and only then.

use std::time::Duration;

use pilothouse_core::{Duties, Hub, Relinquish};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

use super::standing::{Standing, StandingState};
use super::{DutyParts, GRACE, LOOK, or_never};
use crate::shared::Cause;

/// See the module's documentation.
pub struct LeaderDuty {
    parts: DutyParts,
    standing: Mutex<Standing>,
}

impl LeaderDuty {
    pub(super) fn new(standing: Standing, parts: DutyParts) -> Self {
        let standing = Mutex::new(standing);
        Self { parts, standing }
    }

    /// Follows the standing, for ever.
    pub(super) async fn keep(&self) {
        let mut standing = self.standing.lock().await;
        let mut term = None;
        let mut taking_over = None;
        loop {
            let state = standing.seen();
            let present = state.leads.then_some(state.term);
            if term.is_some() && present != term {
                self.stop(&state);
                taking_over = None;
            }
            if present.is_some() && present != term {
                self.begin();
                taking_over = Some(Box::pin(self.parts.takeover.complete()));
            }
            term = present;
            tokio::select! {
                () = standing.changed() => {}
                () = or_never(&mut taking_over) => taking_over = None,
            }
        }
    }

    fn begin(&self) {
        self.set(Duties::All, Relinquish::Finish);
        self.tell("became leader");
    }

    fn stop(&self, state: &StandingState) {
        self.set(Duties::none(), Relinquish::Stop);
        if !state.is_leaving {
            let reason = state.why_idle();
            warn!(
                reason,
                "this host leads no more; what was running is stopped"
            );
        }
        self.tell("stopped leading");
    }

    /// As client-go's electors tell it.
    fn tell(&self, what: &str) {
        let note = format!("{} {what}", self.parts.identity);
        self.parts.events.tell("LeaderElection", note);
    }

    fn set(&self, duties: Duties, how: Relinquish) {
        let set = |hub: &mut Hub, now| hub.set_duties(duties, how, now);
        drop(self.parts.shared.change(Cause::Plugins, set));
    }

    /// Ends what runs, within `limit`. Nothing runs afterwards, and nothing is under way.
    pub(super) async fn lay_down(&self, limit: Duration) {
        let until = Instant::now() + limit;
        for (how, patience) in [(Relinquish::Finish, GRACE), (Relinquish::Stop, limit)] {
            self.set(Duties::none(), how);
            let patience = patience.min(until.saturating_duration_since(Instant::now()));
            if timeout(patience, self.finished()).await.is_ok() {
                return;
            }
        }
        warn!("stopped while requests were under way");
    }

    async fn finished(&self) {
        let is_finished = |hub: &Hub| hub.unfinished().is_empty();
        while !self.parts.shared.read(Cause::Status, is_finished) {
            sleep(LOOK).await;
        }
    }
}
