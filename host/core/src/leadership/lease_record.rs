//! What a Lease says about the election.

use std::time::Duration;

/// What a Lease says (client-go's `LeaderElectionRecord`). Two records that differ in anything are
/// two states: then the holder has renewed, or there is another holder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseRecord {
    /// Who holds the Lease; empty if it is free.
    pub holder: String,
    /// For how many seconds after its last change it counts as held.
    pub duration_seconds: u64,
    /// How often the holder has changed.
    pub transitions: u64,
    /// When the holder acquired it, by the holder's clock, as in the Lease. Information only.
    pub acquire_time: String,
    /// When the holder renewed it last, by the holder's clock, as in the Lease. Information only,
    /// but each renewal changes it.
    pub renew_time: String,
}

impl LeaseRecord {
    pub(super) fn duration(&self) -> Duration {
        Duration::from_secs(self.duration_seconds)
    }
}
