//! `make bench`: five thousand pods of Deployments and ReplicaSets. The time, CPU time and memory
//! until all of them are ready, and until all Deployments are rolled out once more: by a host with
//! the two plugins, and by the same two controllers without a host (`native`), in turns.

mod costs;
mod native;
mod side;
mod turns;

use std::time::Duration;

use anyhow::{Context, Error, Result, ensure};
use futures::future::try_join_all;
use futures::stream::{self, StreamExt, TryStreamExt};
use pilothouse_tests::{
    Api, Change, Doings, Fan, Host, Kubelets, Server, What, containers, follow, name_of, path_of,
    plugin_directory,
};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

use side::{Side, Usage};

const DEPLOYMENTS: usize = 100;
/// ReplicaSets without a Deployment.
const SETS: usize = 400;
const PODS_EACH: usize = 10;
const NODES: usize = 20;
const NAMESPACE: &str = "default";

/// How many requests are under way at a time while objects are created or changed.
const AT_ONCE: usize = 16;

/// How often a change of one Deployment is followed when all are at rest.
const CHANGES: usize = 200;

/// How often each side is measured, in turns.
const ROUNDS: usize = 2;

const OLD: &str = "example.dev/web:1";
const NEW: &str = "example.dev/web:2";

const ALL_PLUGINS: [&str; 8] = [
    "cronjob",
    "daemonset",
    "deployment",
    "endpoints",
    "job",
    "replicaset",
    "replicationcontroller",
    "statefulset",
];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    // `cargo test` also runs the benches, to check that they build.
    if arguments.iter().any(|argument| argument == "--test") {
        return Ok(());
    }
    if let (Some("native"), Some(kubeconfig)) =
        (arguments.get(1).map(String::as_str), arguments.get(2))
    {
        return native::serve(kubeconfig.as_ref());
    }
    tokio::runtime::Runtime::new()?.block_on(compare())?;
    costs::print()
}

/// What one side took for all of it.
#[derive(Default)]
struct Figures {
    settling: Usage,
    rolling: Usage,
    /// From a change of a Deployment until its status says that it was seen.
    changes: Vec<Duration>,
}

async fn compare() -> Result<()> {
    let pods = (DEPLOYMENTS + SETS) * PODS_EACH;
    println!(
        "workloads: {pods} pods in {} ReplicaSets and {DEPLOYMENTS} Deployments, from nothing; \
         then a rollout of the Deployments",
        DEPLOYMENTS + SETS
    );
    let (mut host, mut native) = (Figures::default(), Figures::default());
    for round in 1..=ROUNDS {
        let server = Server::start().await?;
        measure(&server, Side::native(&server).await?, &mut native).await?;
        server.stop().await?;
        let server = Server::start().await?;
        let plugins = plugin_directory(&["deployment", "replicaset"]);
        let running = Host::ready(plugins.path(), server.kubeconfig()).await?;
        let side = Side::Host(Box::new(running));
        measure(&server, side, &mut host).await?;
        if round == ROUNDS {
            loaded(&server, &ALL_PLUGINS).await?;
            loaded(&server, &["endpoints"]).await?;
        }
        server.stop().await?;
    }
    for (what, host, native) in [
        ("from nothing", host.settling, native.settling),
        ("rollout", host.rolling, native.rolling),
    ] {
        println!("  host to native, {what}: {}", host.to(&native));
    }
    let [host, native] = [host.changes, native.changes].map(percentiles);
    let ratio = |of: usize| host[of].as_secs_f64() / native[of].as_secs_f64();
    println!(
        "  host to native, one change: p50 {:.2}, p99 {:.2}",
        ratio(0),
        ratio(1)
    );
    Ok(())
}

/// Lets one side do all of it on an empty cluster, prints what it took and adds it to the figures.
async fn measure(server: &Server, side: Side, figures: &mut Figures) -> Result<()> {
    let (mut world, keepers) = World::of(&server.api);
    let work = async {
        let began = side.reading().await?;
        world.create_all().await?;
        world.until_complete(OLD).await?;
        let settling = side.reading().await?.since(&began);
        println!("  {}, from nothing: {settling}", side.name());
        let began = side.reading().await?;
        world.roll_all().await?;
        world.until_complete(NEW).await?;
        let rolling = side.reading().await?.since(&began);
        println!("  {}, rollout: {rolling}", side.name());
        world.check_pods().await?;
        let changes = world.follow_changes().await?;
        let [p50, p99] = percentiles(changes.clone());
        println!(
            "  {}, one change: p50 {p50:.1?}, p99 {p99:.1?}",
            side.name()
        );
        figures.settling.add(&settling);
        figures.rolling.add(&rolling);
        figures.changes.extend(changes);
        Ok(())
    };
    let done = tokio::select! {
        done = work => done,
        error = keepers => Err(error),
    };
    done.with_context(|| side.log())
}

/// Prints the memory of a host with these plugins, on the cluster as it is.
async fn loaded(server: &Server, plugins: &[&str]) -> Result<()> {
    let directory = plugin_directory(plugins);
    let host = Host::ready(directory.path(), server.kubeconfig()).await?;
    for plugin in plugins {
        let is_idle = |plugin: &Value| {
            let keys = &plugin["keys"];
            plugin["state"] == "running" && keys["queued"] == 0 && keys["running"] == 0
        };
        host.eventually(&format!("{plugin}.wasm"), "idle", is_idle)
            .await?;
    }
    let mib = host.memory()? as f64 / f64::from(1 << 20);
    println!("  a host with {}: {mib:.0} MiB", plugins.join(", "));
    Ok(())
}

/// The median and the 99th percentile.
fn percentiles(mut times: Vec<Duration>) -> [Duration; 2] {
    times.sort_unstable();
    let last = times.len().saturating_sub(1);
    [50, 99].map(|percent| times.get(last * percent / 100).copied().unwrap_or_default())
}

/// The Deployments and ReplicaSets of a cluster, as their watches tell them.
struct World {
    api: Api,
    changes: UnboundedReceiver<Change>,
}

impl World {
    /// The world, and what must be awaited beside it: the watches, and a kubelet with a scheduler.
    fn of(api: &Api) -> (Self, impl Future<Output = Error>) {
        let (mut of_pods, mut of_owners) = (Fan::default(), Fan::default());
        let (told, changes) = (of_pods.receiver(), of_owners.receiver());
        let follow = |resource, fan: &Fan| {
            let collection = path_of(NAMESPACE, resource, "");
            follow(api.clone(), resource, collection, fan.clone())
        };
        let follows = [
            follow("nodes", &of_pods),
            follow("pods", &of_pods),
            follow("deployments", &of_owners),
            follow("replicasets", &of_owners),
        ];
        let kubelets = Kubelets::new(api.clone(), Doings::default(), 1).run(told);
        let keepers = async {
            tokio::select! {
                Err(error) = try_join_all(follows) => error,
                never = kubelets => match never {},
            }
        };
        let api = api.clone();
        (Self { api, changes }, keepers)
    }

    async fn create_all(&self) -> Result<()> {
        let nodes = (0..NODES).map(|number| {
            let name = format!("node-{number}");
            let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
            ("nodes", node)
        });
        let deployments = (0..DEPLOYMENTS).map(|number| {
            let deployment = owner("Deployment", &format!("web-{number}"));
            ("deployments", deployment)
        });
        let sets = (0..SETS).map(|number| {
            let set = owner("ReplicaSet", &format!("set-{number}"));
            ("replicasets", set)
        });
        let all = nodes.chain(deployments).chain(sets);
        let creates = stream::iter(all).map(async |(resource, object)| {
            let path = path_of(NAMESPACE, resource, "");
            self.api.create(&path, &object).await.map(drop)
        });
        creates.buffer_unordered(AT_ONCE).try_collect().await
    }

    async fn roll_all(&self) -> Result<()> {
        let patch = json!({"spec": {"template": {"spec": {"containers": containers(NEW)}}}});
        let patches = stream::iter(0..DEPLOYMENTS).map(async |number| {
            let path = path_of(NAMESPACE, "deployments", &format!("web-{number}"));
            self.api.merge(&path, &patch).await.map(drop)
        });
        patches.buffer_unordered(AT_ONCE).try_collect().await
    }

    /// Waits until all Deployments have their pods, of this image, and all ReplicaSets.
    async fn until_complete(&mut self, image: &str) -> Result<()> {
        let mut missing = DEPLOYMENTS;
        // The ReplicaSets of no Deployment are complete after the first time, and stay so.
        missing += if image == OLD { SETS } else { 0 };
        let mut complete = std::collections::BTreeSet::new();
        while complete.len() < missing {
            let change = self.changes.recv().await.context("the watches go on")?;
            let name = name_of(&change.object);
            if change.what == What::Deleted || !is_complete(&change, image) {
                complete.remove(&name);
            } else {
                complete.insert(name);
            }
        }
        Ok(())
    }

    /// Fails unless there are as many pods as there should be.
    async fn check_pods(&self) -> Result<()> {
        let pods = self.api.get(&path_of(NAMESPACE, "pods", "")).await?;
        let pods = pods.context("pods are served")?;
        let all = pods["items"].as_array().into_iter().flatten();
        let count = all
            .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
            .count();
        let wanted = (DEPLOYMENTS + SETS) * PODS_EACH;
        ensure!(
            count == wanted,
            "there are {count} pods instead of {wanted}"
        );
        Ok(())
    }

    /// Changes the spec of one Deployment after the other, and takes the times until its status is
    /// of it.
    async fn follow_changes(&mut self) -> Result<Vec<Duration>> {
        let mut times = Vec::with_capacity(CHANGES);
        for number in 0..CHANGES {
            let name = format!("web-{}", number % DEPLOYMENTS);
            let limit = 20 + number / DEPLOYMENTS;
            let patch = json!({"spec": {"revisionHistoryLimit": limit}});
            let began = Instant::now();
            let path = path_of(NAMESPACE, "deployments", &name);
            let changed = self.api.merge(&path, &patch).await?;
            let generation = &changed["metadata"]["generation"];
            loop {
                let change = self.changes.recv().await.context("the watches go on")?;
                let object = &change.object;
                if name_of(object) == name && object["status"]["observedGeneration"] == *generation
                {
                    break;
                }
            }
            times.push(began.elapsed());
        }
        Ok(times)
    }
}

/// True if a change leaves a Deployment, or a ReplicaSet without one, with all its pods.
fn is_complete(change: &Change, image: &str) -> bool {
    let (object, status) = (&change.object, &change.object["status"]);
    let counts: &[&str] = match change.resource {
        "deployments" => &[
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
        ],
        _ => &["replicas", "readyReplicas", "availableReplicas"],
    };
    object["metadata"]["ownerReferences"].is_null()
        && object["spec"]["template"]["spec"]["containers"][0]["image"] == image
        && status["observedGeneration"] == object["metadata"]["generation"]
        && counts.iter().all(|count| status[count] == PODS_EACH)
}

fn owner(kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
        "spec": {
            "replicas": PODS_EACH, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}}, "spec": {"containers": containers(OLD)},
            },
        },
    })
}
