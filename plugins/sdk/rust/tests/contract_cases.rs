//! The fake cluster refuses what the host refuses, with the same messages. The cases are in
//! `wit/cases`, and the host's tests run them, too.

use std::cell::RefCell;
use std::path::Path;

use pilothouse_sdk::testing::{FakeCluster, check_manifest};
use pilothouse_sdk::{
    Action, Apply, Children, Cluster, Controller, Create, Delete, Event, Failure, Finalizer, Index,
    Kind, Manifest, ObjectKey, Outcome, Patch, Read, Request, Selection, Subject, Update, Verb,
    Write, match_labels,
};
use serde_json::Value;

fn cases(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../wit/cases");
    let text = std::fs::read_to_string(path.join(file)).expect("the cases can be read");
    serde_json::from_str(&text).expect("the cases are JSON")
}

/// The names of the cases that gave another result than expected, each with both results.
fn disagreements(
    cases: &[Value],
    check: impl Fn(&Value) -> Result<(), String>,
) -> Vec<(String, String)> {
    let differs = |case: &Value| {
        let wanted = case["refused"].as_str().map(str::to_owned);
        let found = check(case).err();
        let report = format!("wanted {wanted:?}, found {found:?}");
        (wanted != found).then(|| (case["case"].to_string(), report))
    };
    cases.iter().filter_map(differs).collect()
}

#[test]
fn a_manifest_is_refused_when_the_host_refuses_it() {
    let cases = cases("manifests.json");
    assert!(cases.len() >= 50, "there are {} cases", cases.len());
    let found = disagreements(&cases, |case| check_manifest(&manifest(&case["manifest"])));
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn an_outcome_is_refused_when_the_host_refuses_it() {
    let cases = cases("actions.json");
    assert!(cases.len() >= 45, "there are {} cases", cases.len());
    let found = disagreements(&cases, |case| {
        let empty = FakeCluster::new(manifest(&case["manifest"]));
        let objects = list(&case["objects"]).into_iter();
        let cluster = objects.fold(empty, FakeCluster::with);
        let actions: Vec<Action> = list(&case["actions"]).iter().map(action).collect();
        ASKED.set(actions);
        match cluster.reconcile::<Asks>("", "") {
            Err(Failure::Terminal(reason)) => Err(reason),
            other => other.map(drop).map_err(|failure| failure.to_string()),
        }
    });
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
#[should_panic(expected = "the host refuses the manifest: the subject v1/Pod is not among")]
fn a_cluster_cannot_be_made_for_a_manifest_that_the_host_refuses() {
    let pods = Kind::core("v1", "Pod");
    drop(FakeCluster::new(Manifest::new(
        "p",
        "1.0.0",
        Selection::of(&pods),
    )));
}

thread_local! {
    static ASKED: RefCell<Vec<Action>> = const { RefCell::new(Vec::new()) };
}

/// A controller that returns the actions of the case being tested.
struct Asks;

impl Controller for Asks {
    fn manifest() -> Manifest {
        Manifest::new("p", "1.0.0", Subject::Singleton)
    }

    fn reconcile(_: &Request, _: &dyn Cluster) -> Result<Outcome, Failure> {
        let asked = ASKED.with_borrow(Clone::clone).into_iter();
        Ok(asked.fold(Outcome::done(), Outcome::with))
    }
}

/// The elements of a list. An element `{"times": n, "of": x}` stands for `n` times `x`.
fn list(value: &Value) -> Vec<Value> {
    let elements = value.as_array().into_iter().flatten();
    elements
        .flat_map(|element| match element["times"].as_u64() {
            Some(times) => vec![element["of"].clone(); usize::try_from(times).unwrap_or(0)],
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
    let text = text(value);
    let (api_version, kind) = text.rsplit_once('/').expect("a kind is version/Kind");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    Kind::new(group, version, kind)
}

fn key(value: &Value) -> ObjectKey {
    let text = text(value);
    let (namespace, name) = text.split_once('/').expect("a key is namespace/name");
    ObjectKey::new(namespace, name)
}

fn labels(value: &Value) -> Vec<pilothouse_sdk::LabelRequirement> {
    let labels = value.as_object().into_iter().flatten();
    match_labels(labels.map(|(name, value)| (name.clone(), text(value))))
}

fn verb(value: &Value) -> Verb {
    match value.as_str() {
        Some("apply") => Verb::Apply,
        Some("create") => Verb::Create,
        Some("update") => Verb::Update,
        Some("patch") => Verb::Patch,
        Some("delete") => Verb::Delete,
        other => panic!("{other:?} is not a verb"),
    }
}

fn manifest(value: &Value) -> Manifest {
    let name = value["name"].as_str().unwrap_or("p");
    let mut manifest = Manifest::new(name, "1.0.0", subject(&value["subject"]));
    manifest.reads = list(&value["reads"]).iter().map(read).collect();
    manifest.indexes = list(&value["indexes"]).iter().map(index).collect();
    manifest.writes = list(&value["writes"]).iter().map(write).collect();
    let limits = &value["limits"];
    manifest.limits.memory_bytes = limits["memory-bytes"].as_u64();
    manifest.limits.fuel = limits["fuel"].as_u64();
    manifest.limits.timeout = limits["timeout"].as_u64();
    let concurrency = limits["concurrency"].as_u64();
    manifest.limits.concurrency = concurrency.and_then(|number| u32::try_from(number).ok());
    manifest.config_schema = optional(&value["config-schema"]);
    manifest
}

fn subject(value: &Value) -> Subject {
    let Some(each) = value.get("each") else {
        return Subject::Singleton;
    };
    Subject::Each(Selection {
        kind: kind(&each["kind"]),
        labels: labels(&each["labels"]),
        fields: optional(&each["fields"]),
        namespaces: texts(&each["namespaces"]),
        companions: list(&each["companions"]).iter().map(kind).collect(),
    })
}

fn read(value: &Value) -> Read {
    Read {
        kind: kind(&value["kind"]),
        fields: texts(&value["fields"]),
        namespaces: texts(&value["namespaces"]),
        labels: labels(&value["labels"]),
        field_selector: optional(&value["field-selector"]),
    }
}

fn index(value: &Value) -> Index {
    Index {
        name: text(&value["name"]),
        kind: kind(&value["kind"]),
        paths: texts(&value["paths"]),
    }
}

fn write(value: &Value) -> Write {
    Write {
        kind: kind(&value["kind"]),
        subresource: optional(&value["subresource"]),
        verbs: list(&value["verbs"]).iter().map(verb).collect(),
        children: value["children"] == true,
    }
}

fn action(value: &Value) -> Action {
    let action = value.as_object().and_then(|members| members.iter().next());
    let (name, value) = action.expect("an action has a name");
    let object = || value["object"].to_string();
    let subresource = optional(&value["subresource"]);
    let on = || (kind(&value["kind"]), key(&value["key"]));
    match name.as_str() {
        "apply" => Action::Apply(Apply {
            object: object(),
            subresource,
            force: value["force"] == true,
        }),
        "create" => Action::Create(Create {
            object: object(),
            subresource,
        }),
        "update" => Action::Update(Update {
            object: object(),
            subresource,
        }),
        "patch" => {
            let (kind, key) = on();
            let body = &value["body"];
            let patch = match value["patch-type"].as_str() {
                Some("json-patch") => Patch::json(&kind, &key, body),
                Some("merge-patch") => Patch::merge(&kind, &key, body),
                _ => Patch::strategic(&kind, &key, body),
            };
            patch.expect("JSON is JSON").into()
        }
        "delete" => {
            let (kind, key) = on();
            Delete::new(&kind, &key).into()
        }
        "event" => {
            let (kind, key) = on();
            let text = |name: &str| text(&value[name]);
            Event::normal(&kind, &key, &text("reason"), &text("action"), &text("note")).into()
        }
        "finalizer" => {
            let (kind, key) = on();
            match value["present"] == true {
                true => Finalizer::add(&kind, &key, &text(&value["name"])).into(),
                false => Finalizer::remove(&kind, &key, &text(&value["name"])).into(),
            }
        }
        "children" => Children {
            objects: list(&value["objects"])
                .iter()
                .map(Value::to_string)
                .collect(),
        }
        .into(),
        other => panic!("{other} is not an action"),
    }
}
