//! Several hosts for one cluster: whether this one runs the plugins, or which part of them.
//!
//! Either one host leads and the others stand by ([`elector`], [`leader_duty`]), or all are members
//! and share plugins and keys ([`member`], [`member_duty`]). In both cases a thread with a
//! connection of its own keeps the Lease ([`keeper`]), so that neither plugins nor their requests
//! can delay a renewal; and a task makes the hub do what follows: run keys, once the caches were
//! shown to be no older than the server ([`takeover`]), or stop. Nothing here decides who runs
//! what: [`Election`](pilothouse_core::Election) and [`Sharing`](pilothouse_core::Sharing) do, and
//! the hub decides what a gain or a loss of duty means for each key.

mod clock;
mod duty;
mod elector;
mod keeper;
mod leader_duty;
mod lease_changes;
mod leases_of_group;
mod member;
mod member_duty;
mod problems;
mod standing;
mod takeover;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use pilothouse_cluster::ApiCluster;
use pilothouse_cluster::client::{Observer, WriteRight};
use pilothouse_cluster::connect::Options;
use pilothouse_core::{Duties, ElectionSettings, Relinquish};
use tokio::time::{Instant, timeout_at};
use tracing::warn;

use crate::host_events::HostEvents;
use crate::metrics::HostsMetrics;
use crate::shared::Shared;
use duty::DutyParts;
use keeper::Keeper;
use leader_duty::LeaderDuty;
use member::MemberLink;
use member_duty::MemberDuty;
pub use standing::{SharingState, Standing};
use takeover::TakeOver;

/// What this host's part is made of.
#[derive(Clone)]
pub struct HostsParts {
    pub options: Options,
    pub settings: ElectionSettings,
    /// Whether the hosts share the work; otherwise one leads.
    pub share: bool,
    /// The Lease's name, and the group's.
    pub name: String,
    /// The Leases' namespace; `None` for that of the configuration.
    pub namespace: Option<String>,
    /// This process among the hosts.
    pub identity: String,
    /// Counts the requests.
    pub observer: Arc<dyn Observer>,
    pub metrics: HostsMetrics,
}

/// This host's part, before the hub follows it.
pub struct Begun {
    keeper: Keeper,
    /// If the hosts share.
    member: Option<MemberLink>,
    parts: HostsParts,
}

impl Begun {
    /// Starts the thread that keeps the Lease.
    pub fn start(parts: HostsParts) -> anyhow::Result<Self> {
        let (keeper, member) = match parts.share {
            false => (elector::start(parts.clone())?, None),
            true => {
                let (keeper, member) = member::start(parts.clone())?;
                (keeper, Some(member))
            }
        };
        Ok(Self {
            keeper,
            member,
            parts,
        })
    }

    /// Until when this host may write.
    pub fn right(&self) -> Arc<WriteRight> {
        self.keeper.right()
    }

    /// Whether this host runs anything, and who does otherwise.
    pub fn standing(&self) -> Standing {
        self.keeper.standing()
    }

    /// Makes the hub follow. From now on it runs nothing that is not this host's.
    pub fn follow(self, shared: Arc<Shared>, cluster: Arc<ApiCluster>) -> Hosts {
        let parts = Arc::new(DutyParts {
            events: HostEvents::new(cluster.clone()),
            takeover: TakeOver {
                shared: shared.clone(),
                cluster,
                metrics: self.parts.metrics,
            },
            shared,
            identity: self.parts.identity,
            is_over: AtomicBool::default(),
        });
        // A member caches what it will run, a standby everything.
        let nothing = match self.member {
            None => Duties::Standby,
            Some(_) => Duties::none(),
        };
        parts.set(nothing, Relinquish::Stop);
        let duty = match self.member {
            None => Duty::Leader(LeaderDuty::new(self.keeper.standing(), parts.clone())),
            Some(member) => Duty::Member(MemberDuty::new(member, parts.clone())),
        };
        let keeper = self.keeper;
        Hosts {
            keeper,
            duty,
            parts,
        }
    }
}

/// This host's part among several.
pub struct Hosts {
    keeper: Keeper,
    duty: Duty,
    parts: Arc<DutyParts>,
}

enum Duty {
    Leader(LeaderDuty),
    Member(MemberDuty),
}

impl Hosts {
    /// Follows who runs what, for ever. Returns only on a fault.
    pub async fn keep(&self) -> anyhow::Error {
        let keep_duty = async {
            match &self.duty {
                Duty::Leader(duty) => duty.keep().await,
                Duty::Member(duty) => duty.keep().await,
            }
        };
        tokio::select! {
            error = self.keeper.failed() => error,
            () = keep_duty => unreachable!("it goes on for ever"),
        }
    }

    /// Ends what this host runs, within `limit`. Its Lease, and with it the right to write, lasts.
    pub async fn lay_down(&self, limit: Duration) {
        self.parts.lay_down(limit).await;
    }

    /// Gives everything back, so that others can take over at once, or gives up at this time. To be
    /// called when nothing is to be written any more.
    pub async fn release(&self, until: Instant) {
        if timeout_at(until, self.keeper.leave()).await.is_err() {
            warn!(
                "stopped before everything was given back; other hosts wait until the Lease expires"
            );
        }
    }
}

/// A name for this process that no other process has had: the machine's or the pod's, and a random
/// part, as in Kubernetes' own components.
pub fn identity(machine: &str) -> String {
    format!("{machine}_{:016x}{:016x}", random(), random())
}

fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The time between two looks at whether something has happened in the hub.
const LOOK: Duration = Duration::from_millis(20);

/// How long what runs may take to end when it is to be given up. After that it writes nothing more.
const GRACE: Duration = Duration::from_millis(500);

/// The result of a future, if there is one. It goes on where it was, however often this is dropped.
async fn or_never<F: Future + Unpin>(future: &mut Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
