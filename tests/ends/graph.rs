//! Owners and dependents: chains, fans, circles and whatever chance makes of them.

use anyhow::Result;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::actor::{Actor, Thing};
use crate::facts::{FOREGROUND, HOLD, ORPHAN};
use crate::scenario::{Stage, object, pod_spec};

const POLICIES: [&str; 3] = ["Background", "Foreground", "Orphan"];

/// The kinds of a graph, each as often as it comes.
const RESOURCES: [&str; 10] = [
    "configmaps",
    "configmaps",
    "configmaps",
    "secrets",
    "secrets",
    "secrets",
    "gadgets",
    "gadgets",
    "pods",
    "beacons",
];

/// A graph is made, and then so many things happen to it.
pub async fn play(stage: &mut Stage) -> Result<()> {
    let count = 4 + stage.random.below(6);
    let shape = stage.random.below(4);
    for number in 0..count {
        let owners = owners_of(stage, shape);
        thing(stage, &format!("o{number}"), owners).await?;
    }
    if stage.random.percent(30) {
        close_a_circle(stage).await?;
    }
    for number in 0..5 + stage.random.below(8) {
        stage.rest(250).await;
        act(stage, number).await?;
    }
    Ok(())
}

/// The owners of the next object: the last one (a chain), the first one (a fan), or some.
fn owners_of(stage: &mut Stage, shape: u64) -> Vec<Thing> {
    match shape {
        0 => stage.things.last().cloned().into_iter().collect(),
        1 => stage.things.first().cloned().into_iter().collect(),
        _ => some(stage),
    }
}

/// Up to three of the things.
fn some(stage: &mut Stage) -> Vec<Thing> {
    let mut some: Vec<Thing> = Vec::new();
    for _ in 0..stage.random.below(4) {
        let one = stage.one();
        some.extend(one.filter(|one| !some.iter().any(|other| other.uid == one.uid)));
    }
    some
}

/// References to these owners. One in ten is not as it should be; then the object blocks nobody,
/// as it may have to stay for ever.
fn references(stage: &mut Stage, resource: &str, owners: &[Thing]) -> Vec<Value> {
    let odd = (!owners.is_empty() && stage.random.percent(10)).then(|| odd_reference(stage));
    let may_block = resource != "beacons" && odd.is_none();
    let mut references = Vec::new();
    for owner in owners {
        let blocks = may_block && stage.random.percent(60);
        references.push(owner.reference(blocks));
    }
    references.extend(odd);
    references
}

fn odd_reference(stage: &mut Stage) -> Value {
    let missing = format!("missing-{}", stage.random.below(1_000_000));
    match stage.random.below(4) {
        0 => json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": "missing", "uid": missing,
        }),
        1 => json!({
            "apiVersion": "unknown.group/v1", "kind": "Unknown", "name": "missing", "uid": missing,
        }),
        2 => {
            let mut wrong = stage.stranger.reference(false);
            wrong["name"] = "another".into();
            wrong
        }
        _ => stage.stranger.reference(false),
    }
}

/// Creates an object with these owners, and perhaps with finalizers.
async fn thing(stage: &mut Stage, name: &str, owners: Vec<Thing>) -> Result<Option<Thing>> {
    let resource = *stage.random.one_of(&RESOURCES).expect("there are some");
    let references = references(stage, resource, &owners);
    let finalizers: &[&str] = match stage.random.below(20) {
        0..3 => &[HOLD],
        3..6 if resource == "pods" => &[],
        3 => &[ORPHAN],
        4 => &[FOREGROUND],
        5 => &[HOLD, ORPHAN],
        _ => &[],
    };
    let name = match resource {
        "beacons" => format!("{}-{name}", stage.namespace),
        _ => name.to_owned(),
    };
    let spec = spec(resource);
    stage
        .create(resource, &name, &references, finalizers, &spec)
        .await
}

fn spec(resource: &str) -> Value {
    match resource {
        "pods" => pod_spec(None, &[]),
        _ => Value::Null,
    }
}

/// The first things name a later one as their owner.
async fn close_a_circle(stage: &mut Stage) -> Result<()> {
    let (Some(first), Some(last)) = (stage.things.first(), stage.things.last()) else {
        return Ok(());
    };
    if first.resource == "beacons" || last.uid == first.uid {
        return Ok(());
    }
    let (first, owner) = (first.clone(), last.reference(true));
    stage.foreground_left = 1;
    let circle = |owners: &mut Vec<Value>| owners.push(owner.clone());
    stage.actor.change_owners(&first, circle).await.map(drop)
}

async fn act(stage: &mut Stage, number: u64) -> Result<()> {
    let Some(thing) = stage.one() else {
        return Ok(());
    };
    match stage.random.below(10) {
        0..3 => delete(stage, &thing).await,
        3 => replace(stage, &thing).await,
        4 => adopt_as_it_goes(stage, &thing).await,
        5 => leave_as_it_goes(stage, &thing).await,
        6 => bear_as_it_goes(stage, &thing, number).await,
        7 => touch(stage, &thing).await,
        8 => delete_again(stage, &thing).await,
        _ => stage.actor.stop_holding(&thing).await.map(drop),
    }
}

fn policy(stage: &mut Stage) -> Value {
    let mut policy = *stage.random.one_of(&POLICIES).expect("there are some");
    if policy == "Foreground" {
        match stage.foreground_left.checked_sub(1) {
            Some(left) => stage.foreground_left = left,
            None => policy = "Background",
        }
    }
    json!({"propagationPolicy": policy})
}

async fn delete(stage: &mut Stage, thing: &Thing) -> Result<()> {
    let policy = policy(stage);
    stage.actor.delete(thing, &policy).await.map(drop)
}

/// It is deleted, and another one comes in its place: same name, another uid.
async fn replace(stage: &mut Stage, thing: &Thing) -> Result<()> {
    delete(stage, thing).await?;
    stage.rest(30).await;
    let owners = some(stage);
    let references = references(stage, thing.resource, &owners);
    let (resource, spec) = (thing.resource, spec(thing.resource));
    let replaced = stage.create(resource, &thing.name, &references, &[], &spec);
    replaced.await.map(drop)
}

/// Does one thing while another is done, in an order that chance decides.
async fn at_once(
    stage: &mut Stage,
    going: &Thing,
    other: impl Future<Output = Result<()>>,
) -> Result<()> {
    let policy = policy(stage);
    let (early, late) = (stage.random.milliseconds(15), stage.random.milliseconds(15));
    let actor = stage.actor.clone();
    let goes = async {
        sleep(early).await;
        actor.delete(going, &policy).await.map(drop)
    };
    let other = async {
        sleep(late).await;
        other.await
    };
    let (gone, done) = tokio::join!(goes, other);
    gone.and(done)
}

fn change_owners<Change: Fn(&mut Vec<Value>)>(
    stage: &Stage,
    thing: &Thing,
    change: Change,
) -> impl Future<Output = Result<()>> + use<Change> {
    let (actor, thing): (Actor, Thing) = (stage.actor.clone(), thing.clone());
    async move { actor.change_owners(&thing, change).await.map(drop) }
}

/// An owner goes, and at this moment a dependent gets another one.
async fn adopt_as_it_goes(stage: &mut Stage, dependent: &Thing) -> Result<()> {
    let (Some(going), Some(coming)) = (owner_of(stage, dependent), stage.one()) else {
        return Ok(());
    };
    if coming.uid == dependent.uid {
        return Ok(());
    }
    let reference = coming.reference(false);
    let other = change_owners(stage, dependent, move |owners| {
        if !owners.iter().any(|one| one["uid"] == reference["uid"]) {
            owners.push(reference.clone());
        }
    });
    at_once(stage, &going, other).await
}

/// An owner goes, and at this moment a dependent gives one up: this or another.
async fn leave_as_it_goes(stage: &mut Stage, dependent: &Thing) -> Result<()> {
    let Some(going) = owner_of(stage, dependent) else {
        return Ok(());
    };
    let number = stage.random.below(3);
    let other = change_owners(stage, dependent, move |owners| {
        let length = owners.len().max(1);
        let index = usize::try_from(number).unwrap_or(0) % length;
        if index < owners.len() {
            owners.remove(index);
        }
    });
    at_once(stage, &going, other).await
}

/// It goes, and at this moment it gets a dependent.
async fn bear_as_it_goes(stage: &mut Stage, going: &Thing, number: u64) -> Result<()> {
    let mut owners = vec![going.clone()];
    owners.extend(some(stage));
    owners.dedup_by(|one, other| one.uid == other.uid);
    let resource = match stage.random.percent(50) {
        true => "configmaps",
        false => "gadgets",
    };
    let references: Vec<Value> = owners[..1.max(owners.len() / 2)]
        .iter()
        .map(|owner| owner.reference(number.is_multiple_of(2)))
        .collect();
    let object = object(
        resource,
        &format!("late{number}"),
        &references,
        &[],
        &Value::Null,
    );
    let (actor, namespace) = (stage.actor.clone(), stage.namespace.clone());
    let mut born = None;
    let other = async {
        born = actor.create(resource, &namespace, &object).await?;
        Ok(())
    };
    at_once(stage, going, other).await?;
    stage.things.extend(born);
    Ok(())
}

/// One of the owners that it has now; itself if it has none that is known.
fn owner_of(stage: &mut Stage, dependent: &Thing) -> Option<Thing> {
    let facts = stage.world.get(&dependent.namespace, &dependent.uid)?;
    let owners = facts.owners.iter();
    let owners = owners.filter_map(|owner| {
        let mut things = stage.things.iter();
        things.find(|thing| thing.uid == owner.uid).cloned()
    });
    let owners: Vec<Thing> = owners.collect();
    stage.random.one_of(&owners).cloned()
}

/// It changes a few times, while perhaps it is being collected.
async fn touch(stage: &mut Stage, thing: &Thing) -> Result<()> {
    for number in 0..6 {
        let labels = json!({"labels": {"touched": format!("{number}")}});
        stage
            .actor
            .change(thing, |_, _| Some(labels.clone()))
            .await?;
        stage.rest(20).await;
    }
    Ok(())
}

/// It is deleted twice, the second time perhaps in another way.
async fn delete_again(stage: &mut Stage, thing: &Thing) -> Result<()> {
    delete(stage, thing).await?;
    if !matches!(thing.resource, "configmaps" | "secrets" | "gadgets") {
        return Ok(());
    }
    stage.rest(60).await;
    delete(stage, thing).await
}
