//! The times of an election.

use std::time::Duration;

/// client-go's `JitterFactor`: after a failed attempt a standby waits one to 2.2 retry periods.
pub(super) const JITTER_FACTOR: f64 = 1.2;

/// The times of an election. The defaults are those of Kubernetes' own components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElectionSettings {
    /// For how long a standby that sees no renewal waits before it takes the Lease. Only whole
    /// seconds count: the Lease has no others.
    pub lease_duration: Duration,
    /// How long after its last successful renewal a leader may still write.
    pub renew_deadline: Duration,
    /// The time between two attempts to acquire or to renew.
    pub retry_period: Duration,
}

impl Default for ElectionSettings {
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// Times with which two hosts could lead at once, or none for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElectionSettingsError {
    /// The Lease states its duration in whole seconds.
    #[error("the lease duration must be 1 s or more")]
    ShortLease,
    /// A leader would write after another host has taken the Lease.
    #[error("the lease duration, in whole seconds, must be longer than the renew deadline")]
    LongDeadline,
    /// A single renewal that comes late would end the leadership.
    #[error("the renew deadline must be longer than 1.2 times the retry period")]
    LongRetry,
    /// The host would ask without a pause.
    #[error("the retry period must be longer than 0")]
    NoRetry,
}

impl ElectionSettings {
    /// Checks what client-go's `NewLeaderElector` checks.
    pub fn check(&self) -> Result<(), ElectionSettingsError> {
        if self.lease_seconds() < 1 {
            return Err(ElectionSettingsError::ShortLease);
        }
        if self.whole_duration() <= self.renew_deadline {
            return Err(ElectionSettingsError::LongDeadline);
        }
        if self.renew_deadline <= self.retry_period.mul_f64(JITTER_FACTOR) {
            return Err(ElectionSettingsError::LongRetry);
        }
        if self.retry_period.is_zero() {
            return Err(ElectionSettingsError::NoRetry);
        }
        Ok(())
    }

    /// The lease duration as the Lease states it.
    pub(super) fn lease_seconds(&self) -> u64 {
        self.lease_duration.as_secs()
    }

    /// The lease duration as the Lease states it.
    pub(crate) fn whole_duration(&self) -> Duration {
        Duration::from_secs(self.lease_seconds())
    }

    /// For how long an answer is awaited: half of the renew deadline, as client-go's programs do.
    pub(crate) fn timeout(&self) -> Duration {
        self.renew_deadline / 2
    }

    /// From the end of the right to write until another host may have the Lease, or may delete it.
    /// Clocks may differ in speed, and a write may be on its way, for this long.
    pub fn slack(&self) -> Duration {
        self.whole_duration().saturating_sub(self.renew_deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// client-go's `TestLeaderElectionConfigValidation`.
    #[test]
    fn times_that_let_two_lead_or_nobody_are_refused() {
        let check = |lease: Duration, deadline: Duration, retry: Duration| {
            let settings = ElectionSettings {
                lease_duration: lease,
                renew_deadline: deadline,
                retry_period: retry,
            };
            settings.check()
        };
        assert_eq!(ElectionSettings::default().check(), Ok(()));
        let refused = [
            (
                SECOND / 2,
                SECOND / 4,
                SECOND / 10,
                ElectionSettingsError::ShortLease,
            ),
            (
                SECOND * 10,
                SECOND * 10,
                SECOND,
                ElectionSettingsError::LongDeadline,
            ),
            // The Lease would say 10 s.
            (
                SECOND * 21 / 2,
                SECOND * 41 / 4,
                SECOND,
                ElectionSettingsError::LongDeadline,
            ),
            (
                SECOND * 15,
                SECOND * 12,
                SECOND * 10,
                ElectionSettingsError::LongRetry,
            ),
            (
                SECOND * 15,
                SECOND * 10,
                Duration::ZERO,
                ElectionSettingsError::NoRetry,
            ),
        ];
        for (lease, deadline, retry, error) in refused {
            assert_eq!(
                check(lease, deadline, retry),
                Err(error),
                "{lease:?} {deadline:?}"
            );
        }
    }
}
