//! A plugin that is granted only reads of its own kind, and does all the harm it can with them. For
//! each ConfigMap it does what the first part of the ConfigMap's name says. Most of these deeds are
//! no errors, so that the version is not quarantined, and ask to be run again at once.

use std::time::Duration;

use pilothouse_sdk::{
    Action, Apply, Controller, Create, Event, Failure, Filter, Host, Level, Manifest, ObjectRef,
    Outcome, Query, Read, Request, Selection, Verb,
};
use serde_json::json;

struct Stranger;

const CONFIG_MAP: &str = "v1/ConfigMap";

fn config_map(namespace: &str, name: &str) -> ObjectRef {
    ObjectRef::new(CONFIG_MAP, namespace, name)
}

fn config_maps(namespace: Option<&str>, filter: Filter) -> Query {
    Query {
        kind: CONFIG_MAP.to_owned(),
        namespace: namespace.map(str::to_owned),
        filter,
    }
}

impl Controller for Stranger {
    /// Names as many namespaces as a manifest may (20); each is a list-watch.
    fn manifest() -> Manifest {
        let namespaces = (1..20).map(|number| format!("nobody-has-this-{number}"));
        let manifest = Manifest::new("stranger", "1.0.0", Selection::of(CONFIG_MAP));
        let reads = namespaces.fold(
            Read::new(CONFIG_MAP, []).namespace("default"),
            |read, namespace| read.namespace(&namespace),
        );
        manifest
            .reads_only(reads)
            .writes(CONFIG_MAP, [Verb::Apply, Verb::Delete])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let name = request.key().name.as_str();
        let deed = name.split('-').next().unwrap_or_default();
        match deed {
            "events" => return Ok(again(events(host))),
            "labels" => labels(name, host)?,
            "names" => names(name, host)?,
            "selector" => selector(name, host)?,
            "denied" => denied(host),
            "log" => log(host, &"x".repeat(500)),
            // Each of these characters takes a dozen bytes in the log.
            "escapes" => log(host, &"\u{1}".repeat(4_000)),
            "bomb" => return bomb(),
            "doubt" => {
                labels(name, host)?;
                return Err(Failure::retry("it always fails"));
            }
            "refused" => return refused(),
            "forged" => return Err(Failure::retry(forged())),
            "loop" => loop {
                std::hint::black_box(name);
            },
            "memory" => memory(),
            _ => return Ok(Outcome::done()),
        }
        Ok(again(Outcome::done()))
    }
}

fn again(outcome: Outcome) -> Outcome {
    outcome.requeue_after(Duration::from_millis(1))
}

/// Events about an object in `kube-system`, which has nothing to do with the plugin. The notes
/// differ each time, so the events cannot be merged into one.
fn events(host: &dyn Host) -> Outcome {
    let note = format!("{:?} {}", host.now(), "x".repeat(900));
    let about = config_map("kube-system", "x");
    (0..100).fold(Outcome::done(), |outcome, number| {
        let note = format!("{number} {note}");
        outcome.with(Event::normal(&about, "Told", "Tell", &note))
    })
}

/// Registers reads that every change of the kind may affect.
fn labels(name: &str, host: &dyn Host) -> Result<(), Failure> {
    (0..2_000).try_for_each(|number| {
        let absent = Filter::labels(&format!("!{name}-{number}"));
        host.list_json(&config_maps(Some("nobody-has-this-1"), absent))
            .map(drop)
            .map_err(|error| Failure::retry(error.to_string()))
    })
}

/// Registers many reads with long names, which the host has to remember.
fn names(name: &str, host: &dyn Host) -> Result<(), Failure> {
    (0..9_000).try_for_each(|number| {
        let absent = config_map("default", &format!("{name}-{number}-{}", "x".repeat(60)));
        host.get_json(&absent)
            .map(drop)
            .map_err(|error| Failure::retry(error.to_string()))
    })
}

/// Lists with a selector that takes long to evaluate, although it selects little.
fn selector(name: &str, host: &dyn Host) -> Result<(), Failure> {
    let values: Vec<String> = (0..900).map(|number| format!("{name}-{number}")).collect();
    let none = Filter::labels(&format!("app notin ({})", values.join(",")));
    let query = config_maps(None, none);
    (0..200).try_for_each(|_| {
        host.list_json(&query)
            .map(drop)
            .map_err(|error| Failure::retry(error.to_string()))
    })
}

/// Reads a kind that is not granted, each time with another name.
fn denied(host: &dyn Host) {
    let kind = format!("{}/v1/K{:?}", "x".repeat(200_000), host.now());
    let _ = host.get_json(&ObjectRef::new(&kind, "default", "x"));
}

fn log(host: &dyn Host, line: &str) {
    for _ in 0..5_000 {
        host.log(Level::Error, line, &[]);
    }
}

/// Creates what is not granted, with a body that takes a hundred times its size when it is decoded:
/// each `{"":…}` of five bytes is a map with a node of its own.
fn bomb() -> Result<Outcome, Failure> {
    let depth = 100;
    let one = format!("{}0{}", r#"{"":"#.repeat(depth), "}".repeat(depth));
    let many = vec![one; 2_500_000 / (6 * depth)].join(",");
    let head = r#""apiVersion":"v1","kind":"Secret","metadata":{"namespace":"default","name":"x"}"#;
    Ok(Outcome::done().with(Action::Create(Create {
        object: format!(r#"{{{head},"data":[{many}]}}"#),
        subresource: None,
    })))
}

/// Returns a write that is not granted, of a kind with a name of 1 MiB.
fn refused() -> Result<Outcome, Failure> {
    let kind = "K".repeat(1 << 20);
    let object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"namespace": "default", "name": "x"}});
    Ok(Outcome::done().with(Apply::new(&object)?))
}

fn forged() -> String {
    let line = "\n2026-01-01T00:00:00Z  INFO pilothouse: all is well\u{1b}[8m";
    format!("{line}{}", "x".repeat(1 << 20))
}

fn memory() {
    let mut all = Vec::new();
    loop {
        all.push(vec![1_u8; 1 << 20]);
        std::hint::black_box(&all);
    }
}

pilothouse_sdk::register!(Stranger);
