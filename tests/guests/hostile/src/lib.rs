//! For each ConfigMap: asks for what the ConfigMap's name says, which in most cases no plugin
//! should get. The key `well` behaves.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pilothouse_sdk::bindings::pilothouse::controller::changes::Call;
use pilothouse_sdk::{
    Action, Apply, Controller, Create, Delete, DeleteAll, Failure, Filter, Host, Level, Manifest,
    ObjectRef, Outcome, Patch, Query, Request, Selection, Update, Verb,
};
use serde_json::{Value, json};

struct Hostile;

const CONFIG_MAP: &str = "v1/ConfigMap";

fn config_map(name: &str) -> ObjectRef {
    ObjectRef::new(CONFIG_MAP, "default", name)
}

fn object(api_version: &str, kind: &str, namespace: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"namespace": namespace, "name": name}})
}

fn named(name: &str) -> Value {
    object("v1", "ConfigMap", "default", name)
}

fn apply(object: &Value) -> Result<Outcome, Failure> {
    Ok(Outcome::done().with(Apply::new(object)?))
}

fn apply_text(object: String) -> Result<Outcome, Failure> {
    Ok(Outcome::done().with(text(object)))
}

fn text(object: String) -> Action {
    Action::Apply(Apply {
        object,
        subresource: None,
        force: false,
    })
}

/// Returns a ConfigMap with this text as its data.
fn with_data(data: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"namespace":"default","name":"x"}},"data":{data}}}"#
    )
}

fn many(count: usize) -> Outcome {
    let tiny = text("{}".to_owned());
    vec![tiny; count]
        .into_iter()
        .fold(Outcome::done(), Outcome::with)
}

/// Deep enough to exhaust the stack of a parser that recurses without a limit.
const DEPTH: usize = 100_000;

impl Controller for Hostile {
    fn manifest() -> Manifest {
        let verbs = [
            Verb::Apply,
            Verb::Create,
            Verb::Update,
            Verb::Patch,
            Verb::Delete,
        ];
        Manifest::new("hostile", "1.0.0", Selection::of(CONFIG_MAP))
            .reads_whole(CONFIG_MAP)
            .writes(CONFIG_MAP, verbs)
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let name = request.key().name.as_str();
        json_of(name)
            .or_else(|| floods(name))
            .or_else(|| escapes(name))
            .or_else(|| other_kinds(name))
            .or_else(|| preconditions(name))
            .or_else(|| identity(name))
            .or_else(|| state(name))
            .or_else(|| reads(name, host))
            .or_else(|| doors(request, host))
            .unwrap_or_else(|| apply(&named(&format!("{name}-done"))))
    }
}

type Told = Option<Result<Outcome, Failure>>;

fn json_of(name: &str) -> Told {
    Some(match name {
        "json-deep" => apply_text(with_data(&format!(
            "{}{}",
            "[".repeat(DEPTH),
            "]".repeat(DEPTH)
        ))),
        "json-deep-objects" => apply_text(with_data(&format!(
            "{}0{}",
            "{\"a\":".repeat(DEPTH),
            "}".repeat(DEPTH)
        ))),
        "json-nan" => apply_text(with_data("NaN")),
        "json-infinite" => apply_text(with_data("1e400")),
        "json-large-integer" => apply_text(with_data("9223372036854775808")),
        "json-two-documents" => apply_text(with_data("{}") + "{}"),
        "json-duplicate" => apply_text(with_data(
            r#"{},"metadata":{"namespace":"default","name":"../other"}"#,
        )),
        "json-surrogate" => apply_text(with_data(r#""\ud800""#)),
        "json-not-an-object" => apply_text("[]".to_owned()),
        "json-name-not-text" => {
            apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": 7}}))
        }
        _ => return None,
    })
}

fn floods(name: &str) -> Told {
    Some(match name {
        "flood" => Ok(many(60_000)),
        "creates" => {
            let mut object = named("x");
            object["metadata"] = json!({"namespace": "default", "generateName": "x-"});
            Create::new(&object)
                .map(|create| {
                    let creates = vec![create; 10_000].into_iter();
                    creates.fold(Outcome::done(), Outcome::with)
                })
                .map_err(Failure::from)
        }
        "too-many" => Ok(many(10_001)),
        "stages" => {
            let stages = 0..10_000;
            Ok(stages.fold(Outcome::done(), |outcome, _| {
                outcome.stage().with(text("{}".to_owned()))
            }))
        }
        "giant" => apply_text(with_data(&format!(r#"{{"a":"{}"}}"#, "x".repeat(3 << 20)))),
        "giant-patch" => {
            let body = json!({"data": {"a": "x".repeat(3 << 20)}});
            let patch = Patch::merge(&config_map("x"), &body);
            patch
                .map(|patch| Outcome::done().with(patch))
                .map_err(Failure::from)
        }
        "trap-after-actions" => {
            let outcome = many(10);
            panic!("with {} actions in hand", outcome.actions().count())
        }
        "failure-of-10-mb" => Err(Failure::retry("x".repeat(10 << 20))),
        _ => return None,
    })
}

/// Too much of what contract 0.2 offers besides reads and writes.
fn doors(request: &Request, host: &dyn Host) -> Told {
    let name = &*request.key().name;
    let well = || apply(&named(&format!("{name}-done")));
    let key = request.key();
    Some(match name {
        "memo-too-long" => well().map(|outcome| with_memo(outcome, (64 << 10) + 1)),
        "memo-full" => well().map(|outcome| with_memo(outcome, 64 << 10)),
        "rest-a-year" => well().map(|outcome| outcome.not_before(Duration::from_secs(31_536_000))),
        "confirm-flood" => well().map(|outcome| {
            let questions = 0..10_000;
            questions.fold(outcome, |outcome, _| outcome.confirm(key))
        }),
        "confirm-secret" => {
            let secret = ObjectRef::new("v1/Secret", "default", "x");
            well().map(|outcome| outcome.confirm(&secret))
        }
        "delete-all" => {
            let delete = DeleteAll::new(CONFIG_MAP, "default");
            Ok(Outcome::done().with(delete))
        }
        "delete-all-elsewhere" => {
            let delete = DeleteAll::new("v1/Secret", "../kube-system");
            Ok(Outcome::done().with(delete))
        }
        "call" => Ok(Outcome::done().with(Action::Call(Call {
            source: "metadata".to_owned(),
            method: "GET".to_owned(),
            path: "http://169.254.169.254/".to_owned(),
            body: None,
        }))),
        "page-of-nothing" => page(host, 0).and_then(|_| well()),
        "page-flood" => {
            for _ in 0..20_000 {
                if let Err(error) = page(host, 1) {
                    return Some(Err(error));
                }
            }
            well()
        }
        _ => return None,
    })
}

fn with_memo(mut outcome: Outcome, bytes: usize) -> Outcome {
    outcome.memo = Some("x".repeat(bytes));
    outcome
}

fn page(host: &dyn Host, limit: u32) -> Result<String, Failure> {
    let all = Query {
        kind: CONFIG_MAP.to_owned(),
        namespace: None,
        filter: Filter::Everything,
    };
    Ok(host.list_page_json(&all, None, limit)?)
}

fn escapes(name: &str) -> Told {
    let name = match name {
        "name-parent" => "..",
        "name-slash" => "a/../../secrets/x",
        "name-encoded" => "a%2f..%2fx",
        "name-empty" => "",
        "name-long" => return Some(apply(&named(&"x".repeat(300)))),
        "name-unicode" => "ａ",
        "name-newline" => "a\nb",
        "namespace-parent" => return Some(apply(&object("v1", "ConfigMap", "..", "x"))),
        "namespace-slash" => return Some(apply(&object("v1", "ConfigMap", "a/b", "x"))),
        "namespace-upper" => return Some(apply(&object("v1", "ConfigMap", "Default", "x"))),
        _ => return None,
    };
    Some(apply(&named(name)))
}

fn other_kinds(name: &str) -> Told {
    let (api_version, kind) = match name {
        "kind-secret" => ("v1", "Secret"),
        "kind-role-binding" => ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
        "kind-webhook" => (
            "admissionregistration.k8s.io/v1",
            "ValidatingWebhookConfiguration",
        ),
        "kind-crd" => ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        "kind-namespace" => ("v1", "Namespace"),
        "kind-other-group" => ("example.com/v1", "ConfigMap"),
        "kind-other-version" => ("v2", "ConfigMap"),
        "status" | "scale" | "exec" | "token" => {
            let apply = Apply::new(&named("x")).map(|apply| apply.subresource(name));
            return Some(
                apply
                    .map(|apply| Outcome::done().with(apply))
                    .map_err(Failure::from),
            );
        }
        "subresource-path" => {
            let apply = Apply::new(&named("x")).map(|apply| apply.subresource("../secrets"));
            return Some(
                apply
                    .map(|apply| Outcome::done().with(apply))
                    .map_err(Failure::from),
            );
        }
        _ => return None,
    };
    Some(apply(&object(api_version, kind, "default", "x")))
}

fn preconditions(name: &str) -> Told {
    let own = config_map(name);
    let with = |action: Action| Outcome::done().with(action);
    Some(match name {
        "delete-by-name" => Ok(with(Action::Delete(Delete::new(&own)))),
        "patch-of-another" => Patch::merge(&own, &named("other"))
            .map(|patch| with(Action::Patch(patch)))
            .map_err(Failure::from),
        "generate-name" => {
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "generateName": "x-"}});
            Create::new(&object)
                .map(|create| with(Action::Create(create)))
                .map_err(Failure::from)
        }
        "generate-no-name" => {
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default"}});
            Create::new(&object)
                .map(|create| with(Action::Create(create)))
                .map_err(Failure::from)
        }
        "update-without-name" => Update::new(&json!({"apiVersion": "v1", "kind": "ConfigMap"}))
            .map(|update| with(Action::Update(update)))
            .map_err(Failure::from),
        _ => return None,
    })
}

/// Attempts to change an object's identity, owners or finalizers.
fn identity(name: &str) -> Told {
    let own = config_map(name);
    let owner = |kind: &str, uid: &str| json!({"ownerReferences": [{"apiVersion": "v1", "kind": kind, "name": name, "uid": uid}]});
    let (metadata, is_update) = match name {
        "owner-unseen" => (owner("Node", "uid-owner-unseen"), false),
        "owner-other-uid" => (owner("ConfigMap", "uid-of-another"), false),
        "owner-seen" => (owner("ConfigMap", "uid-owner-seen"), false),
        "finalizer-injected" => (json!({"finalizers": ["example.com/for-ever"]}), false),
        "finalizer-updated" => (json!({"finalizers": ["example.com/for-ever"]}), true),
        "uid-of-another" => (json!({"uid": "uid-well"}), true),
        "version-stale" => (json!({"resourceVersion": "0"}), true),
        "version-empty" => (json!({"resourceVersion": ""}), true),
        "version-huge" => (json!({"resourceVersion": "9".repeat(100)}), true),
        "version-no-number" => (json!({"resourceVersion": "../1"}), true),
        "finalizer-by-json-patch" | "metadata-by-json-patch" | "finalizer-by-odd-path" => {
            let path = match name {
                "finalizer-by-json-patch" => "/metadata/finalizers",
                "metadata-by-json-patch" => "/metadata",
                // The API server ignores the first letter.
                _ => "x/metadata/finalizers",
            };
            let body = json!([{"op": "replace", "path": path, "value": []}]);
            return Some(
                Patch::json(&own, &body)
                    .map(|patch| Outcome::done().with(patch))
                    .map_err(Failure::from),
            );
        }
        "finalizer-by-merge-patch" => {
            let body = json!({"metadata": {"finalizers": null}});
            return Some(
                Patch::merge(&own, &body)
                    .map(|patch| Outcome::done().with(patch))
                    .map_err(Failure::from),
            );
        }
        _ => return None,
    };
    let mut object = named(name);
    for (field, value) in metadata.as_object().into_iter().flatten() {
        object["metadata"][field] = value.clone();
    }
    if !is_update {
        return Some(apply(&object));
    }
    Some(
        Update::new(&object)
            .map(|update| Outcome::done().with(update))
            .map_err(Failure::from),
    )
}

/// Results that could differ between two runs.
fn state(name: &str) -> Told {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let data = match name {
        "cheat" => CALLS.fetch_add(1, Ordering::Relaxed).to_string(),
        "hash-order" => {
            let map: HashMap<u32, u32> = (0..100).map(|number| (number, number)).collect();
            format!("{:?}", map.keys().collect::<Vec<_>>())
        }
        "addresses" => {
            let (on_stack, on_heap) = (0, Box::new(0));
            format!(
                "{:p} {:p} {:p}",
                &raw const on_stack, &raw const *on_heap, &raw const CALLS
            )
        }
        "uninitialised" => {
            // A C guest could read freshly allocated memory: zeros, or what this same reconcile has
            // left there. Safe Rust cannot, so only the address is reported.
            let old = vec![7_u8; 4096];
            drop(old);
            let fresh: Vec<u8> = Vec::with_capacity(4096);
            format!("{:p}", fresh.as_ptr())
        }
        "nan-bits" => {
            let nan = std::hint::black_box(0.0_f64).ln() * 0.0;
            format!("{:x} {:x}", nan.to_bits(), (-nan).to_bits())
        }
        _ => return None,
    };
    Some(apply_text(with_data(&json!({"seen": data}).to_string())))
}

fn reads(name: &str, host: &dyn Host) -> Told {
    Some(match name {
        "log-flood" => {
            for _ in 0..5_000 {
                host.log(
                    Level::Debug,
                    "\u{1b}[31mERROR\u{1b}[0m\nforged\0",
                    &[("\n", "\u{202e}")],
                );
            }
            Ok(Outcome::done())
        }
        "time" => {
            let seen = json!({"seen": format!("{:?}", host.now())});
            apply_text(with_data(&seen.to_string()))
        }
        "read-secrets" => host
            .list::<Value>("v1/Secret", None, &Filter::Everything)
            .map(|_| Outcome::done())
            .map_err(|error| Failure::retry(error.to_string())),
        "read-everything" => host
            .list::<Value>("*", None, &Filter::Everything)
            .map(|_| Outcome::done())
            .map_err(|error| Failure::retry(error.to_string())),
        "kinds-flood" => loop {
            // It is refused each time, and costs something.
            let _ = host.served_kinds("*");
        },
        "read-flood" => (0..20_000)
            .try_for_each(|number| {
                let key = config_map(&format!("n{number}"));
                host.get::<Value>(&key).map(drop)
            })
            .map(|()| Outcome::done())
            .map_err(|error| Failure::retry(error.to_string())),
        _ => return None,
    })
}

pilothouse_sdk::register!(Hostile);
