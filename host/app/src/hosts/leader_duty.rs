//! Makes the hub run keys while this host leads, and only then.

use std::sync::Arc;

use pilothouse_core::{Duties, Relinquish};
use tokio::sync::Mutex;
use tracing::warn;

use super::duty::DutyParts;
use super::or_never;
use super::standing::{Standing, StandingState};

/// See the module's documentation.
pub struct LeaderDuty {
    parts: Arc<DutyParts>,
    standing: Mutex<Standing>,
}

impl LeaderDuty {
    pub(super) fn new(standing: Standing, parts: Arc<DutyParts>) -> Self {
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
        self.parts.set(Duties::All, Relinquish::Finish);
        self.tell("became leader");
    }

    fn stop(&self, state: &StandingState) {
        self.parts.set(Duties::Standby, Relinquish::Stop);
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
}
