//! What the server has lately answered to the probes of all its list-watches, so that one probe
//! does for all of them while nothing is written.
//!
//! A list-watch need not send the probe that its silence makes due if another one has sent one
//! since it last looked, and was told the very version at which this list-watch knows the server to
//! have been. Then nothing has been written since, and nothing has gone back.
//!
//! - Versions are compared for equality, and with what the list-watch itself was told (a list, a
//!   bookmark, a probe of its own). So nothing need be known of which kinds are stored together:
//!   aggregated servers, and kinds with an etcd of their own (`--etcd-servers-overrides`), are at
//!   other versions and keep their own probes. Two storages at which nothing is written, and that
//!   are at the same number by chance, would be taken for one until either moves.
//! - Within one storage the own probe would have been told the same, or something newer. So no
//!   rollback is overlooked that it would have found: what is older does not equal.
//! - Each list-watch looks as often as it would probe, and believes only probes that were sent
//!   since it last looked. So after any moment the first one that looks twice has a probe from
//!   after that moment.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_core::ResourceVersion;
use tokio::time::Instant;

/// Most versions that are remembered: more storages than a server has.
const REMEMBERED: usize = 16;

/// Shared by all list-watches of one server.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProbeAnswers(Arc<Mutex<VecDeque<(ResourceVersion, Instant)>>>);

impl ProbeAnswers {
    /// A probe that was sent at this time has found the server at this version.
    pub(crate) fn add(&self, version: ResourceVersion, sent: Instant) {
        let mut answers = self.0.lock();
        answers.retain(|(have, _)| *have != version);
        answers.push_back((version, sent));
        if answers.len() > REMEMBERED {
            answers.pop_front();
        }
    }

    /// True if a probe that was sent after this time has found the server at this version.
    pub(crate) fn has(&self, version: &ResourceVersion, since: Instant) -> bool {
        let answers = self.0.lock();
        let mut answers = answers.iter();
        answers.any(|(have, sent)| have == version && *sent > since)
    }
}
