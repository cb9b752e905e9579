//! The controllers of Deployments and ReplicaSets without a host: a process of its own that follows
//! the cluster with kube-rs and calls the plugins' own code, linked in, for each key that a change
//! queues. What a controller does by hand that no host does it for: mapping of changes to keys,
//! waiting for the own writes, slow start, back-off.

mod caches;
mod keys;
mod writes;

use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::watcher;
use kube::{Api, Client};
use parking_lot::{Mutex, RwLock};
use pilothouse_sdk::{Controller, Failure, Next, Outcome, Request};
use tokio::sync::watch;

use caches::{Caches, View};
use keys::{Key, Queue};
use writes::{Budget, Writer};

pub const DEPLOYMENT: &str = "apps/v1/Deployment";
pub const REPLICA_SET: &str = "apps/v1/ReplicaSet";
pub const POD: &str = "v1/Pod";

/// How many keys of a controller may be under way at a time: as many as in the host.
const WORKERS: usize = 16;

/// Threads, as many as the host has by default on two cores.
const THREADS: usize = 3;

/// The longest time until a key that has failed runs again.
const MAX_BACK_OFF: Duration = Duration::from_secs(1);

type Reconcile = fn(&Request, &View<'_>) -> Result<Outcome, Failure>;

/// Runs until its standard input is closed. It prints a line when its caches are filled, and one
/// with the number of reconciles and of writes for each line that it reads.
pub fn serve(kubeconfig: &Path) -> Result<()> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(THREADS).enable_all().build()?;
    let process = runtime.block_on(Process::start(kubeconfig))?;
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        line?;
        let [reconciles, writes] =
            [&process.reconciles, &process.writer.sent].map(|count| count.load(Ordering::Relaxed));
        println!("{reconciles} {writes}");
        std::io::stdout().flush()?;
    }
    Ok(())
}

/// All that the controllers share.
struct Process {
    caches: RwLock<Caches>,
    /// How far the watch of each kind has come.
    seen: Seen,
    deployments: Queue,
    sets: Queue,
    writer: Writer,
    reconciles: AtomicU64,
}

struct Seen {
    deployments: watch::Sender<u64>,
    sets: watch::Sender<u64>,
    pods: watch::Sender<u64>,
}

impl Seen {
    fn of(&self, kind: &str) -> &watch::Sender<u64> {
        match kind {
            DEPLOYMENT => &self.deployments,
            REPLICA_SET => &self.sets,
            _ => &self.pods,
        }
    }
}

impl Process {
    /// Fills the caches, and then has both controllers work in the background.
    async fn start(kubeconfig: &Path) -> Result<Arc<Self>> {
        let kubeconfig = kube::config::Kubeconfig::read_from(kubeconfig)?;
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await?;
        let client = Client::try_from(config)?;
        let process = Arc::new(Self {
            caches: RwLock::default(),
            seen: Seen {
                deployments: watch::Sender::new(0),
                sets: watch::Sender::new(0),
                pods: watch::Sender::new(0),
            },
            deployments: Queue::default(),
            sets: Queue::default(),
            writer: Writer::new(client.clone()),
            reconciles: AtomicU64::new(0),
        });
        for kind in [DEPLOYMENT, REPLICA_SET, POD] {
            process.follow(kind, client.clone()).await?;
        }
        let reconcile: [(&'static str, Reconcile); 2] = [
            (DEPLOYMENT, |request, view| {
                deployment::DeploymentController::reconcile(request, view)
            }),
            (REPLICA_SET, |request, view| {
                replicaset::ReplicaSetController::reconcile(request, view)
            }),
        ];
        for (kind, reconcile) in reconcile {
            let budget = Arc::new(Mutex::new(Budget::default()));
            for _ in 0..WORKERS {
                let (process, budget) = (process.clone(), budget.clone());
                tokio::spawn(async move { process.work(kind, reconcile, &budget).await });
            }
        }
        Ok(process)
    }

    /// Fills the cache of a kind, and keeps it up to date in the background.
    async fn follow(self: &Arc<Self>, kind: &'static str, client: Client) -> Result<()> {
        let resource = ApiResource::from_gvk(&match kind.rsplit_once('/') {
            Some(("apps/v1", kind)) => GroupVersionKind::gvk("apps", "v1", kind),
            _ => GroupVersionKind::gvk("", "v1", "Pod"),
        });
        let api = Api::<DynamicObject>::all_with(client, &resource);
        let mut events = watcher(api, watcher::Config::default()).boxed();
        loop {
            let event = events.try_next().await?.context("a watch never ends")?;
            let is_filled = matches!(event, watcher::Event::InitDone);
            self.learn(kind, event)?;
            if is_filled {
                break;
            }
        }
        let process = self.clone();
        tokio::spawn(async move {
            loop {
                // An error is followed by another attempt.
                if let Some(Ok(event)) = events.next().await {
                    let learned = process.learn(kind, event);
                    learned.expect("the API server sends objects");
                }
            }
        });
        Ok(())
    }

    /// Puts a change into the cache, and queues the keys that it is about.
    fn learn(&self, kind: &'static str, event: watcher::Event<DynamicObject>) -> Result<()> {
        let (object, is_gone) = match event {
            watcher::Event::Apply(object) | watcher::Event::InitApply(object) => (object, false),
            watcher::Event::Delete(object) => (object, true),
            watcher::Event::Init | watcher::Event::InitDone => return Ok(()),
        };
        let version = object.metadata.resource_version.as_deref();
        let version: u64 = version.context("an object has a version")?.parse()?;
        let keys = keys::of(kind, &object);
        self.caches.write().change(kind, object, is_gone)?;
        self.seen.of(kind).send_replace(version);
        for key in keys {
            self.queue(key.kind).add(key);
        }
        Ok(())
    }

    fn queue(&self, kind: &str) -> &Queue {
        match kind {
            DEPLOYMENT => &self.deployments,
            _ => &self.sets,
        }
    }

    /// Takes one key after the other.
    async fn work(self: Arc<Self>, kind: &str, reconcile: Reconcile, budget: &Mutex<Budget>) {
        loop {
            let (key, mut memory) = self.queue(kind).next().await;
            let outcome = self.reconcile(&key, &memory, reconcile);
            self.reconciles.fetch_add(1, Ordering::Relaxed);
            let outcome = outcome.unwrap_or_else(|failure| {
                let text = match failure {
                    Failure::Retry(text) | Failure::Terminal(text) => text,
                };
                Outcome::done().retry(text)
            });
            assert!(outcome.confirm.is_empty(), "nothing is adopted here");
            let done = self.writer.carry_out(&self.caches, &outcome, budget).await;
            for (kind, version) in done.versions {
                let mut seen = self.seen.of(kind).subscribe();
                // The sender lives as long as the process.
                let _ = seen.wait_for(|seen| *seen >= version).await;
            }
            let again = match (done.has_failed, &outcome.next) {
                (false, Next::OnChange) => None,
                (false, Next::After(milliseconds)) => Some(Duration::from_millis(*milliseconds)),
                _ => Some(MAX_BACK_OFF.min(Duration::from_millis(5 << memory.failures.min(10)))),
            };
            let is_well = !done.has_failed && !matches!(outcome.next, Next::Retry(_));
            memory.failures = if is_well { 0 } else { memory.failures + 1 };
            (memory.previous, memory.memo) = (done.effects, outcome.memo);
            self.queue(kind).done(&key, memory);
            if let Some(after) = again {
                let process = self.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(after).await;
                    process.queue(key.kind).add(key);
                });
            }
        }
    }

    /// Calls the controller on the caches as they are.
    fn reconcile(
        &self,
        key: &Key,
        memory: &keys::Memory,
        reconcile: Reconcile,
    ) -> Result<Outcome, Failure> {
        let caches = self.caches.read();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let view = View {
            caches: &caches,
            now: now.unwrap_or_default(),
        };
        let key = key.object();
        let request = Request {
            object: caches.get(&key).map(str::to_owned),
            key: Some(key),
            attempt: memory.failures + 1,
            previous: memory.previous.clone(),
            memo: memory.memo.clone(),
            config: "{}".to_owned(),
        };
        reconcile(&request, &view)
    }
}
