//! For each ConfigMap labelled `actions`: does what its `data.do` says, which is one kind of action
//! each, to other ConfigMaps of the same namespace.

use std::collections::BTreeMap;
use std::time::Duration;

use pilothouse_sdk::{
    ActionResult, Apply, Children, Controller, Create, Delete, Effect, Event, Failure, Filter,
    Finalizer, Host, Manifest, ObjectRef, Outcome, Patch, Request, Selection, Update, Verb,
};
use serde::Deserialize;
use serde_json::{Value, json};

/// The time between two steps of `count`.
const STEP: Duration = Duration::from_millis(200);

const FINALIZER: &str = "example.dev/actions";

struct Actions;

/// A ConfigMap that says what to do.
#[derive(Deserialize)]
struct Source {
    metadata: Metadata,
    data: Task,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    deletion_timestamp: Option<String>,
}

/// `data`, whose values are all strings.
#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
enum Task {
    /// Creates an object whose name the host derives.
    Create,
    /// Replaces `target`. With `version`, claims that the target has this outdated resourceVersion.
    /// With `uid`, first tries to delete a target that has this uid.
    Update {
        target: String,
        value: String,
        version: Option<String>,
        uid: Option<String>,
    },
    JsonPatch {
        target: String,
        value: String,
    },
    /// Sets `value` and removes `drop`.
    MergePatch {
        target: String,
        value: String,
    },
    Delete {
        target: String,
    },
    Event,
    /// Records so many Events, which say so, and sets `value` in `target`.
    Tell {
        target: String,
        value: String,
        events: String,
    },
    /// Keeps a finalizer on the object until the guest has cleaned up.
    Finalizer,
    /// Keeps one object for each of these names, which are separated by commas.
    Children {
        children: String,
    },
    /// Counts in another object, one step at a time.
    Count {
        until: String,
    },
    /// Writes down the names of the objects whose `data.owner` is the name of the key.
    List,
}

/// The ConfigMap in which it counts.
#[derive(Deserialize)]
struct Count {
    data: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Named {
    metadata: Name,
}

#[derive(Deserialize)]
struct Name {
    name: String,
}

const CONFIG_MAP: &str = "v1/ConfigMap";

impl Controller for Actions {
    fn manifest() -> Manifest {
        let selection = Selection::of(CONFIG_MAP).labels("actions");
        Manifest::new("actions", "1.0.0", selection)
            .reads_whole(CONFIG_MAP)
            .indexes("owner", CONFIG_MAP, [".data.owner"])
            .writes(CONFIG_MAP, [Verb::Create, Verb::Update, Verb::Patch])
            .keeps_children(CONFIG_MAP)
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let Some(source) = request.object::<Source>()? else {
            // The task is gone with the object. Of all tasks only `children` leaves objects to
            // remove.
            return keep(request, &[]);
        };
        match &source.data {
            Task::Create => create(request),
            Task::Update {
                target,
                value,
                version,
                uid,
            } => match uid {
                Some(uid) if request.attempt == 1 => delete_other(request, target, uid),
                _ => update(request, host, target, value, version.as_deref()),
            },
            Task::JsonPatch { target, value } => {
                let body = json!([{"op": "replace", "path": "/data/value", "value": value}]);
                Ok(Outcome::done().with(Patch::json(&beside(request, target), &body)?))
            }
            Task::MergePatch { target, value } => {
                let body = json!({"data": {"value": value, "drop": null}});
                Ok(Outcome::done().with(Patch::merge(&beside(request, target), &body)?))
            }
            Task::Delete { target } => delete(request, target),
            Task::Event => Ok(Outcome::done().with(Event::normal(
                request.key(),
                "Tested",
                "Test",
                "as it was told",
            ))),
            Task::Tell {
                target,
                value,
                events,
            } => tell(request, target, value, number(events)?),
            Task::Finalizer => finalize(request, source.metadata.deletion_timestamp.is_some()),
            Task::Children { children } => keep(request, &children.split(',').collect::<Vec<_>>()),
            Task::Count { until } => count(request, host, number(until)?),
            Task::List => list(request, host),
        }
    }
}

/// Asks for the same object in every reconcile, until it hears that the object exists.
fn create(request: &Request) -> Result<Outcome, Failure> {
    if let [
        Effect {
            outcome: ActionResult::AlreadyExists(_),
            ..
        },
    ] = &*request.previous
    {
        return report(request, "report", &json!({"previous": "already-exists"}));
    }
    let metadata = json!({"namespace": request.key().namespace, "generateName": format!("{}-made-", request.key().name)});
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    Ok(Outcome::done().with(Create::new(&object)?))
}

/// Replaces the object that the snapshot shows, and writes into it how the previous attempt ended.
fn update(
    request: &Request,
    host: &dyn Host,
    target: &str,
    value: &str,
    version: Option<&str>,
) -> Result<Outcome, Failure> {
    let target = host.get::<Value>(&beside(request, target))?;
    let Some(mut target) = target.filter(|target| target["data"]["value"] != value) else {
        return Ok(Outcome::done());
    };
    target["data"]["value"] = value.into();
    if let Some(version) = version {
        target["metadata"]["resourceVersion"] = version.into();
    }
    if let [
        Effect {
            outcome: ActionResult::Conflict(_),
            ..
        },
    ] = &*request.previous
    {
        target["data"]["previous"] = "conflict".into();
    }
    Ok(Outcome::done().with(Update::new(&target)?))
}

fn delete_other(request: &Request, target: &str, uid: &str) -> Result<Outcome, Failure> {
    let mut delete = Delete::new(&beside(request, target));
    delete.uid = Some(uid.to_owned());
    Ok(Outcome::done().with(delete))
}

/// The report comes in a later stage than the deletion, so it is written only if the deletion
/// succeeded.
fn delete(request: &Request, target: &str) -> Result<Outcome, Failure> {
    let delete = Delete::new(&beside(request, target));
    let outcome = Outcome::done().with(delete).stage();
    Ok(outcome.with(reported(request, "report", &json!({}))?))
}

fn finalize(request: &Request, is_ending: bool) -> Result<Outcome, Failure> {
    if !is_ending {
        let add = Finalizer::add(request.key(), FINALIZER);
        return Ok(Outcome::done().with(add));
    }
    let remove = Finalizer::remove(request.key(), FINALIZER);
    let cleaned = report(request, "cleaned", &json!({}))?;
    Ok(cleaned.stage().with(remove))
}

fn keep(request: &Request, names: &[&str]) -> Result<Outcome, Failure> {
    let children = names.iter().map(|name| {
        object(
            request,
            name,
            &json!({"child-of": request.key().name.as_str()}),
        )
    });
    Ok(Outcome::done().with(Children::new(children)?))
}

/// Counts one more when a step has passed. The guest's own write wakes the key too early; only the
/// requeue brings the next step.
fn count(request: &Request, host: &dyn Host, until: u128) -> Result<Outcome, Failure> {
    let key = beside(request, &format!("{}-count", request.key().name));
    let count = host.get::<Count>(&key)?;
    let data = count.map(|count| count.data).unwrap_or_default();
    let read = |name: &str| data.get(name).map_or(Ok(0), |text| number(text));
    let (so_far, at, now) = (read("count")?, read("at")?, host.now().as_millis());
    if so_far >= until {
        return Ok(Outcome::done());
    }
    if now < at + STEP.as_millis() {
        return Ok(Outcome::done().requeue_after(STEP));
    }
    let data = json!({"count": (so_far + 1).to_string(), "at": now.to_string()});
    Ok(report(request, "count", &data)?.requeue_after(STEP))
}

fn list(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
    let owned = Filter::index("owner", &request.key().name);
    let found: Vec<Named> = host.list(CONFIG_MAP, Some(&request.key().namespace), &owned)?;
    let names: Vec<String> = found.into_iter().map(|found| found.metadata.name).collect();
    report(request, "found", &json!({"names": names.join(",")}))
}

/// Applies a ConfigMap whose name is the key's name and this suffix.
fn report(request: &Request, suffix: &str, data: &Value) -> Result<Outcome, Failure> {
    Ok(Outcome::done().with(reported(request, suffix, data)?))
}

fn reported(request: &Request, suffix: &str, data: &Value) -> Result<Apply, Failure> {
    let name = format!("{}-{suffix}", request.key().name);
    Ok(Apply::new(&object(request, &name, data))?)
}

fn object(request: &Request, name: &str, data: &Value) -> Value {
    let metadata = json!({"namespace": request.key().namespace, "name": name});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
}

fn tell(request: &Request, target: &str, value: &str, events: u128) -> Result<Outcome, Failure> {
    let event = |number| {
        let note = format!("{value} {number}");
        Event::normal(request.key(), "Told", "Tell", &note)
    };
    let body = json!({"data": {"value": value}});
    let patch = Patch::merge(&beside(request, target), &body)?;
    Ok((0..events)
        .map(event)
        .fold(Outcome::done(), Outcome::with)
        .with(patch))
}

fn beside(request: &Request, name: &str) -> ObjectRef {
    request.key().named(name)
}

fn number(text: &str) -> Result<u128, Failure> {
    text.parse()
        .map_err(|_| Failure::terminal(format!("{text:?} is not a number")))
}

pilothouse_sdk::register!(Actions);
