//! Claims, and pods that use them: each pod names the claim or has it made for itself.

use anyhow::Result;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::actor::Thing;
use crate::scenario::{Stage, object, pod_spec};

const CLAIMS: &str = "persistentvolumeclaims";

/// The claim of the story. There is one at a time, so that the host's questions are about it.
const NAME: &str = "p0-data";

/// Pods and a claim come and go, and in the end perhaps all pods go.
pub async fn play(stage: &mut Stage) -> Result<()> {
    if stage.random.percent(60) {
        claim(stage, &[]).await?;
    }
    for number in 0..6 + stage.random.below(8) {
        act(stage, number).await?;
        stage.rest(250).await;
    }
    if stage.random.percent(60) {
        for pod in pods(stage) {
            end(stage, &pod).await?;
        }
    }
    Ok(())
}

async fn act(stage: &mut Stage, number: u64) -> Result<()> {
    match stage.random.below(11) {
        0 | 1 => claim(stage, &[]).await,
        2 => pod(stage, number).await.map(drop),
        3 => pod_with_own_claim(stage).await,
        4..6 => delete_claim(stage).await,
        6 => use_as_it_goes(stage, number).await,
        7 => bind_as_it_goes(stage).await,
        8 => succeed(stage).await,
        _ => match one_pod(stage) {
            Some(pod) => end(stage, &pod).await,
            None => Ok(()),
        },
    }
}

fn pods(stage: &Stage) -> Vec<Thing> {
    let pods = stage.things.iter().filter(|one| one.resource == "pods");
    pods.cloned().collect()
}

fn one_pod(stage: &mut Stage) -> Option<Thing> {
    let pods = pods(stage);
    stage.random.one_of(&pods).cloned()
}

/// The claim that was created last.
fn last_claim(stage: &Stage) -> Option<Thing> {
    let mut things = stage.things.iter().rev();
    things.find(|one| one.resource == CLAIMS).cloned()
}

async fn claim(stage: &mut Stage, owners: &[Value]) -> Result<()> {
    let spec = claim_spec();
    stage
        .create(CLAIMS, NAME, owners, &[], &spec)
        .await
        .map(drop)
}

fn claim_spec() -> Value {
    json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}})
}

fn using() -> Value {
    json!({"name": "volume", "persistentVolumeClaim": {"claimName": NAME}})
}

/// A pod with a node, or without one, that names the claim.
async fn pod(stage: &mut Stage, number: u64) -> Result<Option<Thing>> {
    let node = stage.random.percent(60).then_some("node");
    let spec = pod_spec(node, &[using()]);
    let name = format!("p{}", 1 + number % 3);
    stage.create("pods", &name, &[], &[], &spec).await
}

/// A pod, and the claim that the ephemeral volume controller would make for it.
async fn pod_with_own_claim(stage: &mut Stage) -> Result<()> {
    let node = stage.random.percent(60).then_some("node");
    let template = json!({"spec": claim_spec()});
    let volume = json!({"name": "data", "ephemeral": {"volumeClaimTemplate": template}});
    let spec = pod_spec(node, &[volume]);
    let Some(pod) = stage.create("pods", "p0", &[], &[], &spec).await? else {
        return Ok(());
    };
    let mut owner = pod.reference(true);
    owner["controller"] = true.into();
    claim(stage, &[owner]).await
}

async fn delete_claim(stage: &mut Stage) -> Result<()> {
    match last_claim(stage) {
        Some(claim) => stage.actor.delete(&claim, &json!({})).await.map(drop),
        None => Ok(()),
    }
}

/// A pod that uses the claim comes while the claim is deleted.
async fn use_as_it_goes(stage: &mut Stage, number: u64) -> Result<()> {
    let Some(claim) = last_claim(stage) else {
        return Ok(());
    };
    let name = format!("q{number}");
    let spec = pod_spec(Some("node"), &[using()]);
    let object = object("pods", &name, &[], &[], &spec);
    let wait = stage.random.milliseconds(15);
    let (actor, namespace) = (&stage.actor, &stage.namespace);
    let comes = async {
        sleep(wait).await;
        actor.create("pods", namespace, &object).await
    };
    let options = json!({});
    let (goes, comes) = tokio::join!(actor.delete(&claim, &options), comes);
    let come = comes?;
    stage.things.extend(come);
    goes.map(drop)
}

/// A pod gets its node while the claim is deleted.
async fn bind_as_it_goes(stage: &mut Stage) -> Result<()> {
    let (Some(claim), Some(pod)) = (last_claim(stage), one_pod(stage)) else {
        return Ok(());
    };
    let wait = stage.random.milliseconds(15);
    let actor = &stage.actor;
    let bound = async {
        sleep(wait).await;
        actor.bind(&pod).await
    };
    let options = json!({});
    let (goes, bound) = tokio::join!(actor.delete(&claim, &options), bound);
    goes.map(drop).and(bound)
}

/// A pod's containers have ended. It still uses its claims.
async fn succeed(stage: &mut Stage) -> Result<()> {
    let Some(pod) = one_pod(stage) else {
        return Ok(());
    };
    stage.actor.succeed(&pod).await
}

/// A pod is deleted. If it has a node, it is gone when its kubelet says so.
async fn end(stage: &mut Stage, pod: &Thing) -> Result<()> {
    stage.actor.delete(pod, &json!({})).await?;
    if stage.random.percent(60) {
        stage.rest(150).await;
        let at_once = json!({"gracePeriodSeconds": 0});
        stage.actor.delete(pod, &at_once).await?;
    }
    Ok(())
}
