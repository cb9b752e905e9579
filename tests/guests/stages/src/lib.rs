//! For each ConfigMap labelled `stages`: an outcome of several stages, as its `data.do` says. What
//! it says in a stage that is always begun is the condition `Done` of the Service with the
//! ConfigMap's name, whose status nobody else writes.

use std::collections::BTreeMap;

use pilothouse_sdk::{
    ActionResult, Apply, Controller, Create, Delete, Effect, EffectVerb, Failure, Filter, Host,
    Manifest, Outcome, Patch, Request, Selection, Verb,
};
use serde::Deserialize;
use serde_json::{Value, json};

/// How many objects `create` creates.
const CREATES: usize = 500;

struct Stages;

const CONFIG_MAP: &str = "v1/ConfigMap";
const SERVICE: &str = "v1/Service";

#[derive(Deserialize)]
struct Named {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

impl Controller for Stages {
    fn manifest() -> Manifest {
        let selection = Selection::of(CONFIG_MAP).labels("stages");
        Manifest::new("stages", "1.0.0", selection)
            .reads(CONFIG_MAP, [".data", ".metadata.labels"])
            .writes(
                CONFIG_MAP,
                [Verb::Apply, Verb::Create, Verb::Patch, Verb::Delete],
            )
            .writes_subresource(SERVICE, "status", [Verb::Apply])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let Some(task) = request.object::<Value>()? else {
            return Ok(Outcome::done());
        };
        match task["data"]["do"].as_str().unwrap_or_default() {
            "sweep" => sweep(request, host),
            "create" => create(request, host),
            "create-in-sequence" => in_sequence(request, host),
            "twice" => twice(request),
            "retry" => {
                let status = status(request, "False", &format!("attempt {}", request.attempt))?;
                Ok(Outcome::done().with(status).retry("no quota"))
            }
            _ => Ok(Outcome::done()),
        }
    }
}

pilothouse_sdk::register!(Stages);

/// Deletes all objects with the key's name as their label `sweep`. The one called `stuck` cannot be
/// deleted: the precondition does not hold.
fn sweep(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
    let key = request.key();
    let labelled = Filter::match_labels([("sweep", &*key.name)]);
    let found: Vec<Named> = host.list(CONFIG_MAP, Some(&key.namespace), &labelled)?;
    let deletes = found.iter().map(|found| {
        let delete = Delete::new(&key.named(&found.metadata.name));
        if found.metadata.name == "stuck" {
            delete.uid("of-another")
        } else {
            delete
        }
    });
    let swept = Apply::new(&object(request, &format!("{}-swept", request.key().name)))?;
    let deletes = deletes.fold(Outcome::done(), Outcome::with);
    Ok(deletes.stage().with(swept))
}

/// Creates the objects with derived names that are missing. The second attempt says in the status
/// what became of the first one's creates.
fn create(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
    let key = request.key();
    let labels = [("made-by", &*key.name)];
    let made = Filter::match_labels(labels);
    let made: Vec<Named> = host.list(CONFIG_MAP, Some(&key.namespace), &made)?;
    let metadata = json!({
        "namespace": request.key().namespace,
        "generateName": format!("{}-", request.key().name),
        "labels": BTreeMap::from(labels),
    });
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    let create = Create::new(&object)?;
    let creates = vec![create; CREATES.saturating_sub(made.len())].into_iter();
    let outcome = creates.fold(Outcome::done(), Outcome::with);
    if request.attempt > 2 {
        return Ok(outcome);
    }
    let said = what_became(&request.previous, &request.key().name);
    Ok(outcome.always().with(status(request, "False", &said)?))
}

/// For benchmarks: the same creates, each in a stage of its own, so one after the other.
fn in_sequence(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
    let outcome = create(request, host)?;
    let creates = outcome.stages.into_iter().flat_map(|stage| stage.actions);
    let sequence = creates.fold(Outcome::done(), |outcome, create| {
        outcome.stage().with(create)
    });
    Ok(sequence)
}

/// The number of creates for each result, and whether all have a derived name.
fn what_became(previous: &[Effect], prefix: &str) -> String {
    let creates = || {
        let effects = previous.iter();
        effects.filter(|effect| effect.verb == EffectVerb::Create)
    };
    let (mut done, mut forbidden, mut skipped) = (0, 0, 0);
    for create in creates() {
        match create.outcome {
            ActionResult::Done(_) => done += 1,
            ActionResult::Forbidden(_) => forbidden += 1,
            ActionResult::Skipped => skipped += 1,
            _ => {}
        }
    }
    let is_derived = |effect: &Effect| effect.object.name.len() == prefix.len() + "-01234567".len();
    let is_named = creates().all(is_derived);
    format!("{done} done, {forbidden} forbidden, {skipped} skipped, named: {is_named}")
}

/// Two patches of one object in one stage: the second holds only after the first. There are others
/// that may be sent beside them.
fn twice(request: &Request) -> Result<Outcome, Failure> {
    let others = (0..4).map(|number| format!("{}-other-{number}", request.key().name));
    let others = others.map(|name| Ok(Apply::new(&object(request, &name))?));
    let others = others.collect::<Result<Vec<Apply>, Failure>>()?;
    let key = request.key();
    let target = key.named(&format!("{}-target", key.name));
    let first = Patch::merge(&target, &json!({"data": {"step": "one"}}))?;
    let second = json!([
        {"op": "test", "path": "/data/step", "value": "one"},
        {"op": "replace", "path": "/data/step", "value": "two"},
    ]);
    let second = Patch::json(&target, &second)?;
    let outcome = others.into_iter().fold(Outcome::done(), Outcome::with);
    Ok(outcome.with(first).with(second))
}

fn object(request: &Request, name: &str) -> Value {
    let metadata = json!({"namespace": request.key().namespace, "name": name});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
}

fn status(request: &Request, is_done: &str, message: &str) -> Result<Apply, Failure> {
    let condition = json!({
        "type": "Done",
        "status": is_done,
        "reason": "Tested",
        "message": message,
        "lastTransitionTime": "2020-01-01T00:00:00Z",
    });
    let metadata = json!({"namespace": request.key().namespace, "name": request.key().name});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata,
        "status": {"conditions": [condition]}});
    Ok(Apply::new(&service)?.subresource("status").force())
}
