//! What a plugin's keys run on at one moment.

use super::installed::InstalledVersion;
use crate::cache::snapshot::Snapshot;
use crate::queue::Time;

/// What a plugin's keys run on: the present version, the present caches, and the time.
#[derive(Clone, Copy)]
pub(super) struct Present<'a> {
    pub installed: &'a InstalledVersion,
    pub snapshot: &'a Snapshot,
    pub now: Time,
}
