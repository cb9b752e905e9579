//! The fake cluster refuses what the host refuses, with the same messages. The cases are in
//! `wit/cases`, and the host's tests run them, too.

use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

use pilothouse_sdk::testing::{FakeCluster, check_manifest};
use pilothouse_sdk::{
    Action, Apply, Children, Controller, Create, Delete, DeleteAll, Event, Failure, Finalizer,
    Host, Index, Manifest, ObjectRef, Outcome, Patch, Read, Request, Selection, Update, Verb,
    Write,
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
    let said: Vec<Value> = cases.into_iter().filter(can_be_said).collect();
    assert!(said.len() >= 70, "{} cases can be said", said.len());
    let found = disagreements(&said, |case| check_manifest(&manifest(&case["manifest"])));
    assert!(found.is_empty(), "{found:#?}");
}

/// Whether the SDK's types can say it: they have no unknown members, no other verbs, no negative
/// limits and no sources.
fn can_be_said(case: &Value) -> bool {
    let refused = case["refused"].as_str().unwrap_or_default();
    let unsaid = [
        "unknown field",
        "unknown variant",
        "invalid value",
        "sources",
    ];
    !unsaid.iter().any(|what| refused.contains(what))
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
#[should_panic(expected = "the host refuses the manifest: the reconciled kind v1/Pod is not among")]
fn a_cluster_cannot_be_made_for_a_manifest_that_the_host_refuses() {
    let pods = Selection::of("v1/Pod");
    drop(FakeCluster::new(Manifest::new("p", "1.0.0", pods)));
}

thread_local! {
    static ASKED: RefCell<Vec<Action>> = const { RefCell::new(Vec::new()) };
}

/// A controller that returns the actions of the case being tested.
struct Asks;

impl Controller for Asks {
    fn manifest() -> Manifest {
        Manifest::singleton("p", "1.0.0")
    }

    fn reconcile(_: &Request, _: &dyn Host) -> Result<Outcome, Failure> {
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

/// An object, written as `v1/Pod default/a`.
fn object_ref(value: &Value) -> ObjectRef {
    let text = text(value);
    let (kind, key) = text.split_once(' ').expect("a kind and a key");
    let (namespace, name) = key.split_once('/').expect("a key is namespace/name");
    ObjectRef::new(kind, namespace, name)
}

/// A selector, as text.
fn labels(value: &Value) -> String {
    match value {
        Value::Object(_) => value.to_string(),
        _ => text(value),
    }
}

fn verb(value: &Value) -> Verb {
    match value.as_str() {
        Some("apply") => Verb::Apply,
        Some("create") => Verb::Create,
        Some("update") => Verb::Update,
        Some("patch") => Verb::Patch,
        Some("delete") => Verb::Delete,
        Some("deletecollection") => Verb::DeleteCollection,
        other => panic!("{other:?} is not a verb"),
    }
}

/// The manifest of a case: a singleton that is called `p`, unless it says otherwise.
fn manifest(value: &Value) -> Manifest {
    let name = value["name"].as_str().unwrap_or("p");
    let mut manifest = Manifest::singleton(name, "1.0.0");
    manifest.reconciles = list(&value["reconciles"]).iter().map(selection).collect();
    manifest.singleton = match &value["singleton"] {
        Value::Null => value.get("reconciles").is_none(),
        said => *said == true,
    };
    manifest.reads = list(&value["reads"]).iter().map(read).collect();
    manifest.indexes = list(&value["indexes"]).iter().map(index).collect();
    manifest.writes = list(&value["writes"]).iter().map(write).collect();
    let limits = &value["limits"];
    manifest.limits.memory_bytes = limits["memoryBytes"].as_u64();
    manifest.limits.fuel = limits["fuel"].as_u64();
    let timeout = limits["timeoutMilliseconds"].as_u64();
    manifest.limits.timeout = timeout.map(Duration::from_millis);
    let concurrency = limits["concurrency"].as_u64();
    manifest.limits.concurrency = concurrency.and_then(|number| u32::try_from(number).ok());
    manifest.config_schema = value.get("configSchema").cloned();
    manifest
}

fn selection(value: &Value) -> Selection {
    Selection {
        kind: text(&value["kind"]),
        optional: value["optional"] == true,
        labels: labels(&value["labels"]),
        field_selector: optional(&value["fieldSelector"]),
        namespaces: texts(&value["namespaces"]),
        also_enqueued_by: texts(&value["alsoEnqueuedBy"]),
    }
}

fn read(value: &Value) -> Read {
    Read {
        kind: text(&value["kind"]),
        optional: value["optional"] == true,
        fields: texts(&value["fields"]),
        namespaces: texts(&value["namespaces"]),
        labels: labels(&value["labels"]),
        field_selector: optional(&value["fieldSelector"]),
        except: texts(&value["except"]),
    }
}

fn index(value: &Value) -> Index {
    Index {
        name: text(&value["name"]),
        kind: text(&value["kind"]),
        paths: texts(&value["paths"]),
    }
}

fn write(value: &Value) -> Write {
    Write {
        kind: text(&value["kind"]),
        optional: value["optional"] == true,
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
    let on = || object_ref(&value["object"]);
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
            let body = &value["body"];
            let patch = match value["patch-type"].as_str() {
                Some("json-patch") => Patch::json(&on(), body),
                Some("merge-patch") => Patch::merge(&on(), body),
                _ => Patch::strategic(&on(), body),
            };
            patch.expect("JSON is JSON").into()
        }
        "delete" => Delete::new(&on()).into(),
        "delete-all" => {
            let mut all = DeleteAll::new(&text(&value["kind"]), &text(&value["namespace"]));
            all.labels = value["labels"].as_str().map(str::to_owned);
            all.into()
        }
        "event" => {
            let text = |name: &str| text(&value[name]);
            Event::normal(&on(), &text("reason"), &text("action"), &text("note")).into()
        }
        "finalizer" => match value["present"] == true {
            true => Finalizer::add(&on(), &text(&value["name"])).into(),
            false => Finalizer::remove(&on(), &text(&value["name"])).into(),
        },
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
