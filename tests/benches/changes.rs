//! `make bench`: the plugin `endpoints` at a hundred changes a second. Pods of many Services turn
//! ready and not ready; the time from when a watch shows such a change until another one shows the
//! Endpoints that follow from it, and what each write costs the host.
//!
//! With `PILOTHOUSE_RIVAL`, a program that is given `--kubeconfig FILE` and does the same, both are
//! measured in turns on one API server, and compared.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pilothouse_tests::{
    Api, Change, Fan, Host, Server, all_of, cpu_of, follow, memory_of, name_of, path_of,
    plugin_directory,
};
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

const NAMESPACE: &str = "default";
const SERVICES: usize = 200;
const PODS_EACH: usize = 10;

const CHANGES_A_SECOND: u32 = 100;
const CHANGES: usize = 3_000;

/// How often each side is measured, in turns.
const ROUNDS: usize = 2;

/// How long the next Endpoints may take.
const PATIENCE: Duration = Duration::from_secs(60);

const RIVAL: &str = "PILOTHOUSE_RIVAL";

fn main() -> Result<()> {
    // `cargo test` also runs the benches, to check that they build.
    if std::env::args().any(|argument| argument == "--test") {
        return Ok(());
    }
    tokio::runtime::Runtime::new()?.block_on(run())
}

/// Who writes the Endpoints.
enum Side {
    Host(Box<Host>),
    Rival(Child),
}

impl Side {
    async fn start(rival: Option<&str>, kubeconfig: &Path) -> Result<Self> {
        let Some(program) = rival else {
            let plugins = plugin_directory(&["endpoints"]);
            let host = Host::ready(plugins.path(), kubeconfig).await?;
            return Ok(Self::Host(Box::new(host)));
        };
        let mut command = Command::new(program);
        command.arg("--kubeconfig").arg(kubeconfig);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(Stdio::null()).kill_on_drop(true).spawn();
        let child = child.with_context(|| format!("{RIVAL} is {program:?}"));
        Ok(Self::Rival(child?))
    }

    /// The CPU time used so far, and the resident memory in bytes.
    fn used(&self) -> Result<(Duration, u64)> {
        match self {
            Self::Host(host) => Ok((host.cpu()?, host.memory()?)),
            Self::Rival(child) => {
                let process = child.id().context("it has ended")?;
                Ok((cpu_of(process)?, memory_of(process)?))
            }
        }
    }

    async fn end(self) -> Result<()> {
        match self {
            Self::Host(host) => host.terminate().await.map(drop),
            Self::Rival(mut child) => Ok(child.kill().await?),
        }
    }
}

/// What one side took.
struct Figures {
    p50: f64,
    p99: f64,
    /// Of CPU time for each write.
    each: f64,
    mib: f64,
}

async fn run() -> Result<()> {
    println!(
        "changes: {CHANGES_A_SECOND} pods a second turn ready or not, in {SERVICES} Services of \
         {PODS_EACH} pods"
    );
    let server = Server::start().await?;
    let mut world = World::create(&server.api).await?;
    let rival = std::env::var(RIVAL).ok();
    for _ in 0..ROUNDS {
        let host = measure(&server, &mut world, None).await?;
        if let Some(rival) = &rival {
            let rival = measure(&server, &mut world, Some(rival)).await?;
            println!(
                "  host to rival: p50 {:.2}, p99 {:.2}, CPU for each write {:.2}, memory {:.2}",
                host.p50 / rival.p50,
                host.p99 / rival.p99,
                host.each / rival.each,
                host.mib / rival.mib
            );
        }
    }
    server.stop().await
}

async fn measure(server: &Server, world: &mut World, rival: Option<&str>) -> Result<Figures> {
    let side = Side::start(rival, server.kubeconfig()).await?;
    world.until_current().await?;
    let began = side.used()?;
    let (mut times, writes) = world.change().await?;
    let ended = side.used()?;
    side.end().await?;
    times.sort_unstable();
    let at = |percent: usize| {
        let time = times.get((times.len() - 1) * percent / 100);
        time.copied().unwrap_or_default().as_secs_f64() * 1000.0
    };
    let cpu = ended.0.saturating_sub(began.0).as_secs_f64() * 1000.0;
    let figures = Figures {
        p50: at(50),
        p99: at(99),
        each: cpu / writes as f64,
        mib: ended.1 as f64 / f64::from(1 << 20),
    };
    println!(
        "  {}: p50 {:.1} ms, p99 {:.1} ms; {writes} writes, {:.2} ms of CPU for each; {:.0} MiB",
        rival.map_or("host", |_| "rival"),
        figures.p50,
        figures.p99,
        figures.each,
        figures.mib
    );
    Ok(figures)
}

/// The Services, and what is known of the first pod of each, which is the one that changes.
struct World {
    api: Api,
    changes: UnboundedReceiver<(Instant, Change)>,
    _watching: JoinSet<anyhow::Error>,
    /// Whether the pod is ready, as it was last said to be, and as its Endpoints show it.
    said: Vec<bool>,
    shown: Vec<Option<bool>>,
    /// The changes under way, by Service.
    due: BTreeMap<usize, Seen>,
    writes: usize,
}

/// When watches have shown a pod's change, and the Endpoints that follow from it. Two watches may
/// show them in either order.
#[derive(Default)]
struct Seen {
    pod: Option<Instant>,
    endpoints: Option<Instant>,
}

impl World {
    async fn create(api: &Api) -> Result<Self> {
        all_of((0..SERVICES).map(|number| create_service(api, number))).await?;
        let pods = (0..SERVICES * PODS_EACH).map(|number| create_pod(api, number));
        all_of(pods).await?;
        let mut watching = JoinSet::new();
        let mut fan = Fan::default();
        let mut told = fan.receiver();
        for resource in ["endpoints", "pods"] {
            let (api, fan) = (api.clone(), fan.clone());
            watching.spawn(async move {
                let collection = path_of(NAMESPACE, resource, "");
                match follow(api, resource, collection, fan).await {
                    Ok(never) => match never {},
                    Err(error) => error,
                }
            });
        }
        let (sender, changes) = tokio::sync::mpsc::unbounded_channel();
        watching.spawn(async move {
            while let Some(change) = told.recv().await {
                if sender.send((Instant::now(), change)).is_err() {
                    break;
                }
            }
            anyhow::Error::msg("nobody listens")
        });
        Ok(Self {
            api: api.clone(),
            changes,
            _watching: watching,
            said: vec![true; SERVICES],
            shown: vec![None; SERVICES],
            due: BTreeMap::new(),
            writes: 0,
        })
    }

    /// Waits until all Endpoints are as they should be.
    async fn until_current(&mut self) -> Result<()> {
        let is_current = |world: &Self| {
            let mut both = world.said.iter().zip(&world.shown);
            both.all(|(said, shown)| Some(*said) == *shown)
        };
        while !is_current(self) {
            let change = timeout(PATIENCE, self.changes.recv()).await;
            let change = change.context("not all Services have their Endpoints")?;
            self.learn(change.context("the watches go on")?);
        }
        Ok(())
    }

    /// Makes all changes. Returns how long each took, and how often Endpoints were written.
    async fn change(&mut self) -> Result<(Vec<Duration>, usize)> {
        self.writes = 0;
        let mut times = Vec::with_capacity(CHANGES);
        let mut ticks = interval(Duration::from_secs(1) / CHANGES_A_SECOND);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut number, mut sending) = (0, JoinSet::new());
        let mut heard = Instant::now();
        while times.len() < CHANGES {
            ensure!(
                heard.elapsed() < PATIENCE,
                "{} of {CHANGES} changes have led to nothing",
                CHANGES - times.len()
            );
            tokio::select! {
                _ = ticks.tick() => if number < CHANGES {
                    let service = number % SERVICES;
                    // One that is behind is not changed again: its time would be that of the next.
                    if !self.due.contains_key(&service) {
                        let is_ready = !self.said[service];
                        self.said[service] = is_ready;
                        self.due.insert(service, Seen::default());
                        let api = self.api.clone();
                        sending.spawn(async move { set_ready(&api, service, is_ready).await });
                        number += 1;
                    }
                },
                Some(change) = self.changes.recv() => {
                    heard = Instant::now();
                    times.extend(self.learn(change));
                }
                Some(sent) = sending.join_next() => sent??,
            }
        }
        Ok((times, self.writes))
    }

    /// Takes what a watch has shown. Returns how long it took if it completes a change.
    fn learn(&mut self, (at, change): (Instant, Change)) -> Option<Duration> {
        let name = name_of(&change.object);
        let number: usize = name.rsplit_once('-')?.1.parse().ok()?;
        if change.resource == "endpoints" {
            self.writes += 1;
            let shown = is_ready(&change.object["subsets"]);
            *self.shown.get_mut(number)? = shown;
        }
        let said = *self.said.get(number)?;
        let seen = self.due.get_mut(&number)?;
        if change.resource == "endpoints" && self.shown[number] == Some(said) {
            seen.endpoints.get_or_insert(at);
        }
        // The first pod of a Service has the Service's number.
        let ready = &change.object["status"]["conditions"][0]["status"];
        if change.resource == "pods" && (*ready == "True") == said {
            seen.pod.get_or_insert(at);
        }
        let (since, until) = (seen.pod?, seen.endpoints?);
        self.due.remove(&number);
        Some(until.saturating_duration_since(since))
    }
}

/// Whether Endpoints show that all pods are ready, or that all but one are; else none.
fn is_ready(subsets: &Value) -> Option<bool> {
    let count = |member: &str| {
        let addresses = subsets[0][member].as_array();
        addresses.map_or(0, Vec::len)
    };
    match (count("addresses"), count("notReadyAddresses")) {
        (PODS_EACH, 0) => Some(true),
        (ready, 1) if ready + 1 == PODS_EACH => Some(false),
        _ => None,
    }
}

async fn create_service(api: &Api, number: usize) -> Result<()> {
    let name = format!("web-{number}");
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80}]},
    });
    let path = path_of(NAMESPACE, "services", "");
    api.create(&path, &service).await.map(drop)
}

/// Creates a pod that is ready, of the Service with this number modulo their count.
async fn create_pod(api: &Api, number: usize) -> Result<()> {
    let app = format!("web-{}", number % SERVICES);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("pod-{number}"), "labels": {"app": app}},
        "spec": {
            "nodeName": "node", "containers": pilothouse_tests::containers("example.dev/web:1"),
        },
    });
    let path = path_of(NAMESPACE, "pods", "");
    api.create(&path, &pod).await?;
    set_ready(api, number, true).await
}

async fn set_ready(api: &Api, number: usize, is_ready: bool) -> Result<()> {
    let ip = format!("10.1.{}.{}", number / 250, number % 250 + 1);
    let ready = json!({"type": "Ready", "status": if is_ready { "True" } else { "False" }});
    let status = json!({"status": {
        "phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [ready],
    }});
    let path = path_of(NAMESPACE, "pods", &format!("pod-{number}"));
    api.merge(&format!("{path}/status"), &status)
        .await
        .map(drop)
}
