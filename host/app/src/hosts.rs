//! Several hosts for one cluster: whether this one runs the plugins, or which part of them.
//!
//! Either one host leads and the others stand by ([`elector`], [`leader_duty`]), or all are members
//! and share plugins and keys ([`member`], [`member_duty`]). In both cases a thread with a
//! connection of its own keeps the Lease, so that neither plugins nor their requests can delay a
//! renewal; and a task makes the hub do what follows: run keys, once the caches were shown to be no
//! older than the server ([`takeover`]), or stop. Nothing here decides who runs what:
//! [`Election`](pilothouse_core::Election) and [`Sharing`](pilothouse_core::Sharing) do, and the
//! hub decides what a gain or a loss of duty means for each key.

mod clock;
mod elector;
mod leader_duty;
mod leases_of_group;
mod member;
mod member_duty;
mod standing;
mod takeover;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use pilothouse_cluster::ApiCluster;
use pilothouse_cluster::client::{Observer, RateLimits, WriteRight};
use pilothouse_cluster::connect::{Connection, Environment, Options};
use pilothouse_cluster::leases::{LeaseError, LeaseSelection, LeaseWatch, Leases};
use pilothouse_core::{Duties, ElectionSettings, Relinquish};
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, warn};

use crate::host_events::HostEvents;
use crate::metrics::HostsMetrics;
use crate::shared::{Cause, Shared};
use elector::Elector;
use leader_duty::LeaderDuty;
use member::Member;
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

/// The thread that keeps this host's Lease.
enum Keeper {
    Elector(Elector),
    Member(Member),
}

/// This host's part, before the hub follows it.
pub struct Begun {
    keeper: Keeper,
    parts: HostsParts,
}

impl Begun {
    /// Starts the thread that keeps the Lease.
    pub fn start(parts: HostsParts) -> anyhow::Result<Self> {
        let keeper = match parts.share {
            false => Keeper::Elector(Elector::start(parts.clone())?),
            true => Keeper::Member(Member::start(parts.clone())?),
        };
        Ok(Self { keeper, parts })
    }

    /// Until when this host may write.
    pub fn right(&self) -> Arc<WriteRight> {
        match &self.keeper {
            Keeper::Elector(elector) => elector.right(),
            Keeper::Member(member) => member.right(),
        }
    }

    /// Whether this host runs anything, and who does otherwise.
    pub fn standing(&self) -> Standing {
        match &self.keeper {
            Keeper::Elector(elector) => elector.standing(),
            Keeper::Member(member) => member.standing(),
        }
    }

    /// Makes the hub follow. From now on it runs nothing that is not this host's.
    pub fn follow(self, shared: Arc<Shared>, cluster: Arc<ApiCluster>) -> Hosts {
        drop(shared.change(Cause::Plugins, |hub, now| {
            hub.set_duties(Duties::none(), Relinquish::Stop, now)
        }));
        let parts = DutyParts {
            events: HostEvents::new(cluster.clone()),
            takeover: TakeOver {
                shared: shared.clone(),
                cluster,
                metrics: self.parts.metrics,
            },
            shared,
            identity: self.parts.identity,
        };
        match self.keeper {
            Keeper::Elector(elector) => {
                let duty = LeaderDuty::new(elector.standing(), parts);
                Hosts::Leader(elector, duty)
            }
            Keeper::Member(member) => {
                let duty = MemberDuty::new(&member, parts);
                Hosts::Member(member, duty)
            }
        }
    }
}

/// What it takes to make the hub follow.
struct DutyParts {
    shared: Arc<Shared>,
    takeover: TakeOver,
    events: HostEvents,
    /// This process among the hosts.
    identity: String,
}

/// This host's part among several.
pub enum Hosts {
    Leader(Elector, LeaderDuty),
    Member(Member, MemberDuty),
}

impl Hosts {
    /// Follows who runs what, for ever. Returns only on a fault.
    pub async fn keep(&self) -> anyhow::Error {
        match self {
            Self::Leader(elector, duty) => tokio::select! {
                error = elector.failed() => error,
                () = duty.keep() => unreachable!("it goes on for ever"),
            },
            Self::Member(member, duty) => tokio::select! {
                error = member.failed() => error,
                () = duty.keep() => unreachable!("it goes on for ever"),
            },
        }
    }

    /// Ends what this host runs, within `limit`. A member gives everything away on the way.
    pub async fn lay_down(&self, limit: Duration) {
        match self {
            Self::Leader(_, duty) => duty.lay_down(limit).await,
            Self::Member(member, _) => member.leave(limit).await,
        }
    }

    /// Gives the Lease back, so that others can take over at once. From now on nothing is written.
    pub async fn release(&self) {
        if let Self::Leader(elector, _) = self {
            elector.release().await;
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

/// The Leases, over a connection that nothing else uses. The configuration may be faulty for a
/// while, as a file that is being written.
async fn open(parts: &HostsParts) -> Leases {
    loop {
        match Connection::open(&parts.options, &Environment::of_process()).await {
            Ok(connection) => {
                let limits = RateLimits::default();
                let client = connection.client.with(limits, parts.observer.clone());
                let namespace = parts.namespace.as_ref().unwrap_or(&connection.namespace);
                // client-go's `NewFromKubeconfig`: half of the renew deadline, at least a second.
                let deadline = (parts.settings.renew_deadline / 2).max(Duration::from_secs(1));
                return Leases::new(client, namespace, deadline);
            }
            Err(error) => debug!(%error, "there is no connection for the Leases yet"),
        }
        sleep(parts.settings.retry_period).await;
    }
}

/// The time between two looks at whether something has happened in the hub.
const LOOK: Duration = Duration::from_millis(20);

/// How long what runs may take to end when it is to be given up. After that it writes nothing more.
const GRACE: Duration = Duration::from_millis(500);

/// The pause before a watch is opened again that has ended, or that could not be opened.
const WATCH_PAUSE: Duration = Duration::from_secs(1);

/// The time between two log lines about the same problem.
const REMINDER: Duration = Duration::from_secs(60);

/// Lets one log line through each [`REMINDER`].
#[derive(Default)]
struct Reminder(Mutex<Option<Instant>>);

impl Reminder {
    /// Whether a line may be logged now. Then it counts as logged.
    fn is_due(&self) -> bool {
        let mut said = self.0.lock();
        let is_due = said.is_none_or(|said| said.elapsed() >= REMINDER);
        if is_due {
            *said = Some(Instant::now());
        }
        is_due
    }
}

/// Opens watches of Leases. Without one everything works as well, only a few seconds later.
#[derive(Clone, Default)]
struct WatchOpener(Arc<Reminder>);

/// A watch that is being opened. `None` after a pause: it cannot be opened now.
type Opening = BoxFuture<'static, Option<LeaseWatch>>;

impl WatchOpener {
    /// Begins to open a watch.
    fn open(&self, leases: Leases, selection: LeaseSelection) -> Opening {
        let reminder = self.0.clone();
        Box::pin(async move {
            match timeout(WATCH_PAUSE * 5, leases.watch(&selection)).await {
                Ok(Ok(opened)) => return Some(opened),
                Ok(Err(error @ LeaseError::Refused(_))) if reminder.is_due() => {
                    warn!(%error, "cannot watch the Leases; a take-over takes a few seconds longer");
                }
                _ => {}
            }
            sleep(WATCH_PAUSE).await;
            None
        })
    }
}

/// The result of a future, if there is one. It goes on where it was, however often this is dropped.
async fn or_never<F: Future + Unpin>(future: &mut Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// Starts a thread for one future, which others cannot delay.
fn spawn<F: Future<Output = ()>>(
    name: &str,
    work: impl FnOnce() -> F + Send + 'static,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the thread that keeps the Lease")?;
    let run = move || runtime.block_on(work());
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.context("cannot start the thread that keeps the Lease")?;
    Ok(())
}
