//! What is said of requests about Leases that fail.

use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_cluster::leases::LeaseError;
use tokio::time::Instant;

/// The time between two log lines about the same problem.
pub(super) const REMINDER: Duration = Duration::from_secs(60);

/// Lets one log line through each [`REMINDER`].
#[derive(Default)]
pub(super) struct Reminder(Mutex<Option<Instant>>);

impl Reminder {
    /// Whether a line may be logged now. Then it counts as logged.
    pub fn is_due(&self) -> bool {
        let mut said = self.0.lock();
        let is_due = said.is_none_or(|said| said.elapsed() >= REMINDER);
        if is_due {
            *said = Some(Instant::now());
        }
        is_due
    }

    /// The problem is over: the next one is logged at once.
    pub fn forget(&self) {
        *self.0.lock() = None;
    }
}

/// What the host must be allowed to do with Leases, and the command that prints the role.
pub(super) struct Needs {
    pub verbs: &'static str,
    pub command: &'static str,
}

/// What is wrong, and what helps.
pub(super) fn remedy(error: &LeaseError, needs: &Needs, namespace: &str) -> String {
    match error {
        LeaseError::Refused(refused) if refused.code() == Some(403) => {
            let Needs { verbs, command } = needs;
            format!("{refused}; the host needs {verbs} of leases in {namespace} (see {command})")
        }
        LeaseError::Absent => format!(
            "there is no namespace {namespace} for the Lease; name one with --leader-elect-resource-namespace"
        ),
        error => error.to_string(),
    }
}
