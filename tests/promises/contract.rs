//! The host answers as the cases of the contract (`wit/cases`) say. SDKs check their fakes against
//! the same cases.
#![allow(
    clippy::unwrap_used,
    reason = "clippy knows the tests of an integration test, but not its helpers"
)]

use std::path::Path;
use std::sync::Arc;

use pilothouse_core::{
    Action, Delete, DeleteAll, Event, Kind, Manifest, ObjectKey, Outcome, PatchType, Plugin,
    Reader, Request, RunError,
};
use pilothouse_tests::run_in_memory;
use serde_json::{Value, json};

fn cases(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit/cases");
    let text = std::fs::read_to_string(path.join(file)).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Returns the cases that the host answers differently, each with both answers.
fn disagreements(
    cases: &[Value],
    host: impl Fn(&Value) -> Result<(), String>,
) -> Vec<(String, String)> {
    let differs = |case: &Value| {
        let wanted = case["refused"].as_str().map(str::to_owned);
        let found = host(case).err();
        let report = format!("wanted {wanted:?}, found {found:?}");
        (wanted != found).then(|| (case["case"].to_string(), report))
    };
    cases.iter().filter_map(differs).collect()
}

#[test]
fn the_host_says_of_every_manifest_what_the_cases_say() {
    let cases = cases("manifests.json");
    assert!(cases.len() >= 50, "there are {} cases", cases.len());
    let found = disagreements(&cases, |case| {
        let read = Manifest::from_json(&document(&case["manifest"]).to_string());
        let checked = read.and_then(|manifest| manifest.validate());
        checked.map_err(|error| error.to_string())
    });
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn what_the_published_schema_refuses_the_host_refuses() {
    let schema = jsonschema::validator_for(&schema()).unwrap();
    let cases = cases("manifests.json");
    let mut refused = 0;
    for case in &cases {
        let errors: Vec<String> = schema
            .iter_errors(&document(&case["manifest"]))
            .map(|error| error.to_string())
            .collect();
        refused += usize::from(!errors.is_empty());
        assert!(
            errors.is_empty() || case["refused"].is_string(),
            "{}: {errors:?}",
            case["case"]
        );
    }
    assert!(refused >= 25, "the schema refuses only {refused}");
}

#[test]
fn the_published_schema_has_the_members_that_the_host_reads_and_no_others() {
    let schema = schema();
    let defs = &schema["$defs"];
    for (object, document, within) in [
        (&schema, document(&json!({})), ""),
        (&defs["reconciles"], json!({"kind": "v1/Pod"}), "reconciles"),
        (&defs["reads"], json!({"kind": "v1/Pod"}), "reads"),
        (
            &defs["index"],
            json!({"name": "a", "kind": "v1/Pod", "paths": []}),
            "indexes",
        ),
        (
            &defs["writes"],
            json!({"kind": "v1/Pod", "verbs": []}),
            "writes",
        ),
        (&defs["limits"], json!({}), "limits"),
    ] {
        let wrapped = |it: &Value| match within {
            "" => it.clone(),
            "limits" => json!({"name": "p", "version": "1", "singleton": true, within: it}),
            "reconciles" => json!({"name": "p", "version": "1", within: [it]}),
            _ => json!({"name": "p", "version": "1", "singleton": true, within: [it]}),
        };
        let mut unknown = document;
        unknown["unknown"] = json!(1);
        let error = Manifest::from_json(&wrapped(&unknown).to_string()).unwrap_err();
        let error = error.to_string();
        let (_, expected) = error.split_once("expected ").unwrap();
        let mut read: Vec<&str> = expected
            .split(['`', ',', ' '])
            .filter(|word| !["", "one", "of", "or"].contains(word))
            .collect();
        read.sort_unstable();
        let properties = object["properties"].as_object().unwrap();
        let mut published: Vec<&str> = properties.keys().map(String::as_str).collect();
        published.sort_unstable();
        assert_eq!(read, published, "{within}: {error}");
    }
}

#[test]
fn the_host_says_of_every_outcome_what_the_cases_say() {
    let cases = cases("actions.json");
    assert!(cases.len() >= 45, "there are {} cases", cases.len());
    let found = disagreements(&cases, |case| {
        let asks = Asks {
            manifest: Manifest::from_json(&document(&case["manifest"]).to_string()).unwrap(),
            actions: list(&case["actions"]).iter().map(action).collect(),
        };
        let objects = list(&case["objects"]);
        let has_run = run_in_memory(Arc::new(asks), &objects, &ObjectKey::singleton());
        let has_run = has_run.map_err(|error| {
            let error = error.to_string();
            error.trim_start_matches("outcome refused: ").to_owned()
        })?;
        assert!(has_run, "{}: the key runs", case["case"]);
        Ok(())
    });
    assert!(found.is_empty(), "{found:#?}");
}

/// A plugin that asks for the actions of a case.
struct Asks {
    manifest: Manifest,
    actions: Vec<Action>,
}

impl Plugin for Asks {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn reconcile(&self, _: &Request, _: &mut Reader) -> Result<Outcome, RunError> {
        Ok(Outcome::of(self.actions.clone()))
    }
}

/// Returns the elements of a list. An element with `times` and `of` stands for several equal ones.
fn list(value: &Value) -> Vec<Value> {
    let elements = value.as_array().into_iter().flatten();
    elements
        .flat_map(|element| match element["times"].as_u64() {
            Some(times) => vec![element["of"].clone(); usize::try_from(times).unwrap()],
            None => vec![element.clone()],
        })
        .collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn optional(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// The manifest of a case: a singleton that is called `p`, unless it says otherwise.
fn document(case: &Value) -> Value {
    let mut document = json!({"name": "p", "version": "1.0.0"});
    if case.get("reconciles").is_none() {
        document["singleton"] = true.into();
    }
    for (name, value) in case.as_object().unwrap() {
        document[name] = repeated(value);
    }
    document
}

/// The value with the elements of its lists repeated as [`list`] says.
fn repeated(value: &Value) -> Value {
    match value {
        Value::Array(_) => list(value).iter().map(repeated).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name.clone(), repeated(value)))
            .collect(),
        other => other.clone(),
    }
}

fn schema() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit/manifest.schema.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// An object, written as `v1/Pod default/a`.
fn object_ref(value: &Value) -> (Kind, ObjectKey) {
    let (kind, key) = value
        .as_str()
        .and_then(|text| text.split_once(' '))
        .unwrap();
    let (namespace, name) = key.split_once('/').unwrap();
    (kind.parse().unwrap(), ObjectKey::new(namespace, name))
}

fn action(value: &Value) -> Action {
    let (name, value) = value.as_object().unwrap().iter().next().unwrap();
    let object = || value["object"].to_string();
    let subresource = optional(&value["subresource"]);
    let on = || object_ref(&value["object"]);
    match name.as_str() {
        "apply" => Action::Apply {
            object: object(),
            subresource,
            force: value["force"] == true,
        },
        "create" => Action::Create {
            object: object(),
            subresource,
        },
        "update" => Action::Update {
            object: object(),
            subresource,
        },
        "patch" => {
            let (kind, key) = on();
            Action::Patch {
                kind,
                key,
                subresource,
                patch_type: match value["patch-type"].as_str() {
                    Some("json-patch") => PatchType::Json,
                    Some("merge-patch") => PatchType::Merge,
                    _ => PatchType::Strategic,
                },
                body: value["body"].to_string(),
            }
        }
        "delete" => {
            let (kind, key) = on();
            Action::Delete(Delete {
                kind,
                key,
                uid: None,
                resource_version: None,
                propagation: None,
                grace_period_seconds: None,
            })
        }
        "delete-all" => Action::DeleteAll(DeleteAll {
            kind: text(&value["kind"]).parse().unwrap(),
            namespace: text(&value["namespace"]),
            labels: optional(&value["labels"]),
            propagation: None,
        }),
        "event" => {
            let (kind, key) = on();
            Action::Event(Event {
                kind,
                key,
                is_warning: false,
                reason: text(&value["reason"]),
                action: text(&value["action"]),
                note: text(&value["note"]),
            })
        }
        "finalizer" => {
            let (kind, key) = on();
            Action::Finalizer {
                kind,
                key,
                name: text(&value["name"]),
                present: value["present"] == true,
            }
        }
        "children" => Action::Children {
            objects: list(&value["objects"])
                .iter()
                .map(Value::to_string)
                .collect(),
        },
        other => panic!("{other} is not an action"),
    }
}
