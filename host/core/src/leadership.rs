//! Leader election: one of several hosts leads, by client-go's rules for one Lease
//! (`k8s.io/client-go/tools/leaderelection`), so that a program that uses client-go and this host
//! can compete for the same Lease.
//!
//! Whether another holder's Lease has expired is judged only by the time, on this host's own
//! clock, for which it has not changed. The times inside the Lease are information for people. So
//! no clock that is wrong, or that jumps, does any harm.
//!
//! Differences from client-go, with reasons:
//! - The right to write ends one renew deadline after the last successful renewal was *sent*. In
//!   client-go the renew deadline begins a retry period after its answer. So between the end of the
//!   right and the earliest moment at which another host may lead, there is always the lease
//!   duration less the renew deadline: 5 s with the defaults.
//! - A host that has lost the Lease goes on as a standby and competes again. client-go's programs
//!   exit; here every write is checked against the right, so there is nothing to fear from going
//!   on, and the caches stay warm.
//! - A standby that is told of changes of the Lease (a watch) need not ask for it each period, and
//!   tries as soon as the Lease is released or has expired.
//! - A Lease is released, and taken when the watch has shown that it was released, without reading
//!   it first, on the precondition that it is in the state that was seen.

mod election;
mod lease_record;
mod settings;
#[cfg(test)]
mod tests;

pub use election::{Attempt, Election, ElectionNews, ElectionRequest, LeaseAnswer};
pub use lease_record::LeaseRecord;
pub use settings::{ElectionSettings, ElectionSettingsError};
