//! The thread that keeps this host's Lease, as the rest of the host sees it, and as it sees itself.
//! What it does there, the [`elector`](super::elector) and the [`member`](super::member) say.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use pilothouse_cluster::client::{RateLimits, WriteRight};
use pilothouse_cluster::connect::{Connection, Environment};
use pilothouse_cluster::leases::Leases;
use pilothouse_core::Time;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::debug;

use super::standing::{Standing, StandingState};
use super::{HostsParts, clock};

/// The thread, to be asked and told.
pub(super) struct Keeper {
    standing: Standing,
    right: Arc<WriteRight>,
    /// Tells the thread to give everything back and to end. So does its drop.
    leave: watch::Sender<bool>,
    /// Closed when the thread ends.
    ended: watch::Receiver<()>,
}

/// What the thread says, and hears.
pub(super) struct Publisher {
    right: Arc<WriteRight>,
    standing: watch::Sender<StandingState>,
    leave: watch::Receiver<bool>,
    /// Dropped however the thread ends.
    _end: watch::Sender<()>,
}

impl Keeper {
    /// Starts a thread for this work alone, which others cannot delay. It goes on until it is told
    /// to leave.
    pub fn start<F: Future<Output = ()>>(
        name: &str,
        parts: HostsParts,
        work: impl FnOnce(HostsParts, Leases, Publisher) -> F + Send + 'static,
    ) -> anyhow::Result<Self> {
        let right = Arc::new(WriteRight::none(parts.settings.slack(), clock::now));
        let (publisher, standing) = Standing::new(right.clone());
        let (leave, told_to_leave) = watch::channel(false);
        let (end, ended) = watch::channel(());
        let publisher = Publisher {
            right: right.clone(),
            standing: publisher,
            leave: told_to_leave,
            _end: end,
        };
        let run = move |runtime: Runtime| {
            runtime.block_on(async {
                let leases = open(&parts).await;
                work(parts, leases, publisher).await;
            });
        };
        spawn(name, run).context("cannot start the thread that keeps the Lease")?;
        Ok(Self {
            standing,
            right,
            leave,
            ended,
        })
    }

    /// Whether this host runs anything, and who does otherwise.
    pub fn standing(&self) -> Standing {
        self.standing.clone()
    }

    /// Until when this host may write.
    pub fn right(&self) -> Arc<WriteRight> {
        self.right.clone()
    }

    /// Waits until the thread ends, which happens only by a fault before it is told to leave.
    pub async fn failed(&self) -> anyhow::Error {
        self.ended().await;
        if *self.leave.borrow() {
            std::future::pending::<()>().await;
        }
        anyhow::anyhow!("the thread that keeps the Lease has died; see the log above")
    }

    async fn ended(&self) {
        while self.ended.clone().changed().await.is_ok() {}
    }

    /// Tells the thread to leave, and waits until it has ended.
    pub async fn leave(&self) {
        self.leave.send_replace(true);
        self.ended().await;
    }
}

impl Publisher {
    /// From now on this host may write until this time; with `None`, not at all.
    pub fn set_right(&self, right: Option<Time>) {
        self.right.set(right);
    }

    /// Changes the standing. Those who follow it hear of it if that makes a difference.
    pub fn tell(&self, change: impl FnOnce(&mut StandingState)) {
        self.standing.send_if_modified(|state| {
            let before = state.clone();
            change(state);
            *state != before
        });
    }

    /// Waits until this host is to leave. Returns once.
    pub async fn leaving(&mut self) {
        if self.standing.borrow().is_leaving {
            std::future::pending::<()>().await;
        }
        // An error: the host is ending, and has dropped the sender.
        let _ = self.leave.wait_for(|leave| *leave).await;
        self.tell(|state| state.is_leaving = true);
    }
}

fn spawn(name: &str, run: impl FnOnce(Runtime) + Send + 'static) -> std::io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(move || run(runtime)).map(drop)
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
