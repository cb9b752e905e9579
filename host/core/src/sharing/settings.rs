//! The times of a member.

use std::time::Duration;

/// The times of a member. The defaults are those of Kubernetes' leader election, and mean the
/// same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharingSettings {
    /// A member whose Lease has not changed for so long is gone. Only whole seconds count: the
    /// Lease has no others.
    pub lease_duration: Duration,
    /// How long after its last successful renewal was sent a member may still write.
    pub renew_deadline: Duration,
    /// The time between two renewals, and between two lists of the group while no watch reports
    /// its changes.
    pub retry_period: Duration,
}

impl Default for SharingSettings {
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// Why a member cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SharingError {
    /// A member would write after another host has taken its shards.
    #[error("the lease duration, in whole seconds, must be longer than the renew deadline")]
    LongDeadline,
    /// A single renewal that comes late would end the right to write.
    #[error("the renew deadline must be longer than 1.2 times the retry period")]
    LongRetry,
    /// The host would ask without a pause.
    #[error("the retry period must be longer than 0")]
    NoRetry,
    /// The names of its Leases are made of these two.
    #[error(
        "{0:?} cannot be part of a Lease's name: use at most 100 of a-z, 0-9 and '-', and none \
         but letters and digits at its ends"
    )]
    BadName(String),
}

impl SharingSettings {
    /// Checks what client-go's `NewLeaderElector` checks.
    pub fn check(&self) -> Result<(), SharingError> {
        if self.whole_lease_duration() <= self.renew_deadline {
            return Err(SharingError::LongDeadline);
        }
        if self.renew_deadline <= self.retry_period.mul_f64(1.2) {
            return Err(SharingError::LongRetry);
        }
        if self.retry_period.is_zero() {
            return Err(SharingError::NoRetry);
        }
        Ok(())
    }

    /// The lease duration as the Lease states it.
    pub(super) fn whole_lease_duration(&self) -> Duration {
        Duration::from_secs(self.lease_duration.as_secs())
    }

    /// From the end of a member's right to write until the earliest moment at which another member
    /// may delete its Lease. Clocks may differ in speed, and a write may be on its way, for this
    /// long.
    pub fn slack(&self) -> Duration {
        self.whole_lease_duration()
            .saturating_sub(self.renew_deadline)
    }

    /// For how long an answer is awaited: half of the renew deadline, as client-go's programs do.
    pub(super) fn timeout(&self) -> Duration {
        self.renew_deadline / 2
    }
}

/// Checks a part of a Lease's name.
pub(super) fn check_name(name: &str) -> Result<(), SharingError> {
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    let is_good = bytes.len() <= 100
        && is_end(bytes.first())
        && is_end(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-');
    is_good
        .then_some(())
        .ok_or_else(|| SharingError::BadName(name.to_owned()))
}
