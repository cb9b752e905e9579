//! A small story in a namespace of its own, told by a seed: objects are created, change and are
//! deleted at random moments, and in the end nobody holds anything any more.

use std::time::Duration;

use anyhow::{Result, bail};
use pilothouse_tests::Random;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::actor::{Actor, Thing};
use crate::ending::shortcomings;
use crate::facts::HOLD;
use crate::kinds::KindOf;
use crate::world::World;
use crate::{claims, graph};

/// How long it may take until all is as it must be, while watches go on to fail.
const SETTLED: Duration = Duration::from_secs(150);

/// What the acts of a story share.
pub struct Stage {
    pub actor: Actor,
    pub world: World,
    pub random: Random,
    pub namespace: String,
    /// An object of another namespace, which stays.
    pub stranger: Thing,
    /// All that was created here and is not known to be gone.
    pub things: Vec<Thing>,
    /// How many more deletions may be in the foreground. In a circle whose references block, one:
    /// two members that somebody deletes so wait for each other for ever, also upstream.
    pub foreground_left: usize,
}

/// Lives through the story of this seed. Returns the namespace, in which all is well then.
pub async fn live(
    actor: Actor,
    world: World,
    stranger: Thing,
    namespace: String,
    seed: u64,
) -> Result<String> {
    let mut random = Random(seed);
    let is_of_claims = random.percent(45);
    let object = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
    });
    actor.api.create("/api/v1/namespaces", &object).await?;
    let mut stage = Stage {
        actor,
        world,
        random,
        namespace,
        stranger,
        things: Vec::new(),
        foreground_left: usize::MAX,
    };
    match is_of_claims {
        true => claims::play(&mut stage).await?,
        false => graph::play(&mut stage).await?,
    }
    stage.settle().await?;
    Ok(stage.namespace)
}

impl Stage {
    pub async fn rest(&mut self, milliseconds: u64) {
        sleep(self.random.milliseconds(milliseconds)).await;
    }

    /// Creates an object with these owners and finalizers.
    pub async fn create(
        &mut self,
        resource: &'static str,
        name: &str,
        owners: &[Value],
        finalizers: &[&str],
        spec: &Value,
    ) -> Result<Option<Thing>> {
        let object = object(resource, name, owners, finalizers, spec);
        let namespace = self.namespace.clone();
        let created = self.actor.create(resource, &namespace, &object).await?;
        self.things.extend(created.clone());
        Ok(created)
    }

    /// One of the things, at random.
    pub fn one(&mut self) -> Option<Thing> {
        self.random.one_of(&self.things).cloned()
    }

    /// Waits until all is as it must be.
    async fn settle(&mut self) -> Result<()> {
        let deadline = Instant::now() + SETTLED;
        loop {
            let is_idle = finish(&self.actor, &self.world, &self.namespace).await?;
            let wrong = shortcomings(&self.world, &self.namespace);
            if is_idle && wrong.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("{} after {SETTLED:?}: {wrong:#?}", self.namespace);
            }
            sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Takes away what others hold of a story, and ends the pods that are being deleted. True: there
/// was nothing to do.
pub async fn finish(actor: &Actor, world: &World, namespace: &str) -> Result<bool> {
    let mut is_idle = true;
    for facts in world.of_story(namespace) {
        let thing = Thing::of(&facts);
        if facts.has(HOLD) {
            is_idle = false;
            actor.stop_holding(&thing).await?;
        }
        let is_on_node = facts.pod.as_ref().is_some_and(|pod| pod.has_node);
        if facts.is_dying && is_on_node {
            is_idle = false;
            let at_once = json!({"gracePeriodSeconds": 0});
            actor.delete(&thing, &at_once).await?;
        }
    }
    Ok(is_idle)
}

/// An object as it is created. `spec`: that of a pod or a claim.
pub fn object(
    resource: &str,
    name: &str,
    owners: &[Value],
    finalizers: &[&str],
    spec: &Value,
) -> Value {
    let kind = KindOf::of(resource);
    let mut object = json!({
        "apiVersion": kind.api_version, "kind": kind.kind,
        "metadata": {"name": name, "ownerReferences": owners, "finalizers": finalizers},
    });
    if spec.is_object() {
        object["spec"] = spec.clone();
    }
    object
}

/// The spec of a pod with these volumes.
pub fn pod_spec(node: Option<&str>, volumes: &[Value]) -> Value {
    json!({
        "nodeName": node, "volumes": volumes, "terminationGracePeriodSeconds": 30,
        "containers": [{"name": "container", "image": "pause"}],
    })
}
