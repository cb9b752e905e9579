//! The steps of the demonstration. Each says what was done, and waits for what the plugins must
//! make of it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::Method;
use pilothouse_tests::{Api, PLAN, name_of, path_of};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::world::{NAME, NAMESPACE, World};

/// How long it is quiet before each step, so that whoever watches can read along.
const PAUSE: Duration = Duration::from_millis(600);

/// How long a step may take. It takes milliseconds, unless the machine is very busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a rollout of five pods promises by default: a quarter more, rounded up, and a quarter less,
/// rounded down.
const SIZE: usize = 5;
const MOST_PODS: usize = 7;
const LEAST_READY: usize = 4;

const OLD: &str = "example.dev/web:1";
const NEW: &str = "example.dev/web:2";

pub struct Story<'a> {
    api: &'a Api,
    world: World,
    began: Instant,
    /// When the last thing was done.
    done: Instant,
}

impl<'a> Story<'a> {
    pub fn new(api: &'a Api, world: World) -> Self {
        let now = Instant::now();
        Self {
            api,
            world,
            began: now,
            done: now,
        }
    }

    /// Goes through all steps.
    ///
    /// # Errors
    ///
    /// What must follow a step was not seen, or a promise was broken.
    pub async fn tell(&mut self) -> Result<()> {
        self.create_service().await?;
        self.create_deployment().await?;
        self.scale().await?;
        self.roll().await
    }

    /// Prints the Endpoints whenever they change, until the API server does not answer any more.
    pub async fn go_on(&mut self) -> Result<()> {
        loop {
            if let Ok(change) = timeout(Duration::from_secs(1), self.world.change()).await
                && change?.resource == "endpoints"
                && let Some(shown) = addresses(&self.world, None)
            {
                println!("          -> {shown}");
            }
            self.api.request_text(Method::GET, "/readyz").await?;
        }
    }

    async fn create_service(&mut self) -> Result<()> {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}});
        self.create("nodes", &node).await?;
        self.says("Service web is created, for pods with the label app=web")
            .await;
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": NAME},
            "spec": {"selector": {"app": NAME}, "ports": [{"port": 80, "targetPort": 8080}]},
        });
        self.create("services", &service).await?;
        self.sees("empty Endpoints", |world| addresses(world, Some(0)))
            .await
    }

    async fn create_deployment(&mut self) -> Result<()> {
        self.says("Deployment web is created: 3 pods of version 1")
            .await;
        self.create("deployments", &deployment()).await?;
        self.sees("a ReplicaSet of 3 pods", |world| set(world, OLD, 3))
            .await?;
        self.sees("3 pods", |world| pods(world, 3)).await?;
        self.sees("Endpoints of 3 pods", |world| addresses(world, Some(3)))
            .await?;
        self.sees("a complete Deployment", |world| complete(world, 3))
            .await
    }

    async fn scale(&mut self) -> Result<()> {
        self.says("it is scaled to 5").await;
        let path = format!("{}/scale", path_of(NAMESPACE, "deployments", NAME));
        self.api
            .merge(&path, &json!({"spec": {"replicas": SIZE}}))
            .await?;
        self.sees("a ReplicaSet of 5 pods", |world| set(world, OLD, SIZE))
            .await?;
        self.sees("5 pods", |world| pods(world, SIZE)).await?;
        self.sees("Endpoints of 5 pods", |world| addresses(world, Some(SIZE)))
            .await?;
        self.sees("a complete Deployment", |world| complete(world, SIZE))
            .await
    }

    async fn roll(&mut self) -> Result<()> {
        self.says("its image becomes that of version 2").await;
        let path = path_of(NAMESPACE, "deployments", NAME);
        let patch = json!({"spec": {"template": {"spec": {"containers": containers(NEW)}}}});
        self.api.merge(&path, &patch).await?;
        self.sees("another ReplicaSet", |world| {
            world
                .set(NEW)
                .map(|set| format!("ReplicaSet {} is created", name_of(set)))
        })
        .await?;
        timeout(PATIENCE, self.follow_rollout())
            .await
            .context("the rollout does not end")??;
        self.sees("an empty old ReplicaSet", |world| set(world, OLD, 0))
            .await?;
        self.sees("a complete Deployment", |world| complete(world, SIZE))
            .await
    }

    /// Prints which pods the Service has, until it has none of the old ones, and checks that it
    /// always had enough and that there were never too many.
    async fn follow_rollout(&mut self) -> Result<()> {
        let (mut least, mut most, mut last) = (SIZE, SIZE, (SIZE, 0));
        while last != (0, SIZE) {
            let count = versions(&self.world).context("the Endpoints are gone")?;
            if count != last {
                let (old, new) = count;
                self.shows(&format!(
                    "Endpoints web: {old} pods of version 1, {new} of version 2"
                ));
                last = count;
            }
            least = least.min(count.0 + count.1);
            most = most.max(self.world.pods().len());
            if last != (0, SIZE) {
                self.world.change().await?;
            }
        }
        ensure!(least >= LEAST_READY, "the Service had only {least} pods");
        ensure!(most <= MOST_PODS, "there were {most} pods");
        self.shows(&format!(
            "never fewer than {LEAST_READY} ready ({least} seen), never more than {MOST_PODS} \
             pods ({most} seen)"
        ));
        Ok(())
    }

    async fn create(&self, resource: &str, object: &Value) -> Result<()> {
        let path = path_of(NAMESPACE, resource, "");
        self.api.create(&path, object).await.map(drop)
    }

    /// Prints what is being done, after a pause.
    async fn says(&mut self, what: &str) {
        sleep(PAUSE).await;
        self.done = Instant::now();
        println!("{:7.2}s  {what}", self.began.elapsed().as_secs_f64());
    }

    fn shows(&self, what: &str) {
        println!(
            "          -> {what}   (after {} ms)",
            self.done.elapsed().as_millis()
        );
    }

    /// Waits until `look` has something to say about the world, and prints it.
    async fn sees(&mut self, wanted: &str, look: impl Fn(&World) -> Option<String>) -> Result<()> {
        let seen = async {
            loop {
                if let Some(seen) = look(&self.world) {
                    return anyhow::Ok(seen);
                }
                self.world.change().await?;
            }
        };
        let seen = timeout(PATIENCE, seen).await;
        let seen = seen.with_context(|| format!("{wanted}: not seen within {PATIENCE:?}"))??;
        self.shows(&seen);
        Ok(())
    }
}

/// The Deployment, whose pods take a moment to turn ready, so that the rollout can be watched.
fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": NAME},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": NAME}},
            "template": {
                "metadata": {
                    "labels": {"app": NAME},
                    "annotations": {format!("{PLAN}ready-after"): "400"},
                },
                "spec": {"containers": containers(OLD)},
            },
        },
    })
}

fn containers(image: &str) -> Value {
    json!([{"name": NAME, "image": image}])
}

/// How many pods the Service has of the old image, and of the new one.
fn versions(world: &World) -> Option<(usize, usize)> {
    let addresses = world.addresses()?;
    let new = world.set(NEW).map(name_of);
    let is_new = |pod: &str| new.as_ref().is_some_and(|set| pod.starts_with(set));
    let new = addresses.iter().filter(|(_, pod)| is_new(pod)).count();
    Some((addresses.len() - new, new))
}

/// What the Endpoints are if they have so many addresses, or any number.
fn addresses(world: &World, wanted: Option<usize>) -> Option<String> {
    let found = world.addresses()?;
    let ips: Vec<&str> = found.iter().map(|(ip, _)| *ip).collect();
    let shown = match ips.as_slice() {
        [] => "nobody".to_owned(),
        ips => ips.join(" "),
    };
    let is_wanted = wanted.is_none_or(|wanted| wanted == ips.len());
    is_wanted.then(|| format!("Endpoints web: {shown}"))
}

/// The name of the ReplicaSet of this image, if it wants so many pods.
fn set(world: &World, image: &str, wanted: usize) -> Option<String> {
    let set = world
        .set(image)
        .filter(|set| set["spec"]["replicas"] == wanted)?;
    Some(format!("ReplicaSet {} wants {wanted} pods", name_of(set)))
}

/// How many pods there are, if it is so many.
fn pods(world: &World, wanted: usize) -> Option<String> {
    let is_wanted = world.pods().len() == wanted;
    is_wanted.then(|| format!("{wanted} pods are there"))
}

/// Says so if the Deployment's status is of its present spec, and all of so many pods are available
/// and of the present template.
fn complete(world: &World, wanted: usize) -> Option<String> {
    let deployment = world.get("deployments", NAME)?;
    let status = &deployment["status"];
    let counts = [
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
    ];
    let is_complete = status["observedGeneration"] == deployment["metadata"]["generation"]
        && counts.iter().all(|count| status[count] == wanted);
    is_complete.then(|| format!("Deployment web: {wanted} of {wanted} pods available"))
}
