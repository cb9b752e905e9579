//! The host answers as the cases of the contract (`wit/cases`) say. SDKs check their fakes against
//! the same cases.
#![allow(
    clippy::unwrap_used,
    reason = "clippy knows the tests of an integration test, but not its helpers"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_core::{
    Action, Delete, Event, IndexDeclaration, Kind, LabelSelector, Limits, Manifest, ObjectKey,
    Outcome, PatchType, Plugin, ReadDeclaration, Reader, Request, Requirement, RunError, Selection,
    Subject, Verb, WriteDeclaration,
};
use pilothouse_tests::run_in_memory;
use serde_json::Value;

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
        let checked = manifest(&case["manifest"]).validate();
        checked.map_err(|error| error.to_string())
    });
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn the_host_says_of_every_outcome_what_the_cases_say() {
    let cases = cases("actions.json");
    assert!(cases.len() >= 45, "there are {} cases", cases.len());
    let found = disagreements(&cases, |case| {
        let asks = Asks {
            manifest: manifest(&case["manifest"]),
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

fn texts(value: &Value) -> Vec<String> {
    list(value).iter().map(text).collect()
}

fn kind(value: &Value) -> Kind {
    let (api_version, kind) = value
        .as_str()
        .and_then(|text| text.rsplit_once('/'))
        .unwrap();
    Kind::from_api_version(api_version, kind)
}

fn key(value: &Value) -> ObjectKey {
    let (namespace, name) = value
        .as_str()
        .and_then(|text| text.split_once('/'))
        .unwrap();
    ObjectKey::new(namespace, name)
}

fn labels(value: &Value) -> LabelSelector {
    let labels = value.as_object().into_iter().flatten();
    LabelSelector {
        requirements: labels
            .map(|(name, value)| Requirement::Equals(name.clone(), text(value)))
            .collect(),
    }
}

fn verb(value: &Value) -> Verb {
    let verbs = [
        Verb::Apply,
        Verb::Create,
        Verb::Update,
        Verb::Patch,
        Verb::Delete,
    ];
    let mut verbs = verbs.into_iter();
    verbs.find(|verb| *value == verb.as_str()).unwrap()
}

fn manifest(value: &Value) -> Manifest {
    let limits = &value["limits"];
    let concurrency = limits["concurrency"].as_u64();
    Manifest {
        name: value["name"].as_str().unwrap_or("p").to_owned(),
        version: "1.0.0".into(),
        subject: value.get("subject").map_or(Subject::Singleton, subject),
        reads: list(&value["reads"]).iter().map(read).collect(),
        indexes: list(&value["indexes"]).iter().map(index).collect(),
        writes: list(&value["writes"]).iter().map(write).collect(),
        limits: Limits {
            memory_bytes: limits["memory-bytes"].as_u64(),
            fuel: limits["fuel"].as_u64(),
            timeout: limits["timeout"].as_u64().map(Duration::from_millis),
            concurrency: concurrency.map(|number| u32::try_from(number).unwrap()),
        },
        config_schema: optional(&value["config-schema"]),
    }
}

fn subject(value: &Value) -> Subject {
    let each = &value["each"];
    Subject::Each(Selection {
        kind: kind(&each["kind"]),
        labels: labels(&each["labels"]),
        fields: optional(&each["fields"]),
        namespaces: texts(&each["namespaces"]),
        companions: list(&each["companions"]).iter().map(kind).collect(),
    })
}

fn read(value: &Value) -> ReadDeclaration {
    ReadDeclaration {
        kind: kind(&value["kind"]),
        fields: texts(&value["fields"]),
        namespaces: texts(&value["namespaces"]),
        labels: labels(&value["labels"]),
        field_selector: optional(&value["field-selector"]),
    }
}

fn index(value: &Value) -> IndexDeclaration {
    IndexDeclaration {
        name: text(&value["name"]),
        kind: kind(&value["kind"]),
        paths: texts(&value["paths"]),
    }
}

fn write(value: &Value) -> WriteDeclaration {
    WriteDeclaration {
        kind: kind(&value["kind"]),
        subresource: optional(&value["subresource"]),
        verbs: list(&value["verbs"]).iter().map(verb).collect(),
        children: value["children"] == true,
    }
}

fn action(value: &Value) -> Action {
    let (name, value) = value.as_object().unwrap().iter().next().unwrap();
    let object = || value["object"].to_string();
    let subresource = optional(&value["subresource"]);
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
        "patch" => Action::Patch {
            kind: kind(&value["kind"]),
            key: key(&value["key"]),
            subresource,
            patch_type: match value["patch-type"].as_str() {
                Some("json-patch") => PatchType::Json,
                Some("merge-patch") => PatchType::Merge,
                _ => PatchType::Strategic,
            },
            body: value["body"].to_string(),
        },
        "delete" => Action::Delete(Delete {
            kind: kind(&value["kind"]),
            key: key(&value["key"]),
            uid: None,
            resource_version: None,
            propagation: None,
            grace_period_seconds: None,
        }),
        "event" => Action::Event(Event {
            kind: kind(&value["kind"]),
            key: key(&value["key"]),
            is_warning: false,
            reason: text(&value["reason"]),
            action: text(&value["action"]),
            note: text(&value["note"]),
        }),
        "finalizer" => Action::Finalizer {
            kind: kind(&value["kind"]),
            key: key(&value["key"]),
            name: text(&value["name"]),
            present: value["present"] == true,
        },
        "children" => Action::Children {
            objects: list(&value["objects"])
                .iter()
                .map(Value::to_string)
                .collect(),
        },
        other => panic!("{other} is not an action"),
    }
}
