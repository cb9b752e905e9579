//! A controller with many versions, names and behaviours. A test changes them by overwriting the
//! texts below in the file's bytes.
//!
//! For each ConfigMap labelled `fickle` it applies another one, `NAME-seen`, whose data say which
//! version of the plugin has seen which version of the object.

use std::hint::black_box;
use std::time::Duration;

use pilothouse_sdk::{
    Apply, Controller, Failure, Host, Manifest, Outcome, Request, Selection, Verb,
};
use serde_json::{Map, Value, json};

/// Padded with spaces, so that longer names fit.
static NAME: &str = "fickle-name=fickle    ";
static VERSION: &str = "fickle-version=1.0.0";
static BEHAVIOUR: &str = "fickle-does=nothing-bad";
/// The JSON schema of its configuration. Without a text after the `=` there is no schema.
static SCHEMA: [u8; 1024] = padded(b"fickle-schema=");

/// Returns the text, padded with spaces.
const fn padded<const N: usize>(text: &[u8]) -> [u8; N] {
    let mut padded = [b' '; N];
    padded.split_at_mut(text.len()).0.copy_from_slice(text);
    padded
}

struct Fickle;

/// Returns the text after the `=`. `black_box` keeps the compiler from evaluating it when it
/// builds.
fn value(text: &'static str) -> &'static str {
    let text = black_box(text);
    text.split_once('=').map_or("", |(_, value)| value)
}

fn schema() -> Option<Value> {
    match value(BEHAVIOUR).trim_end() {
        "slow-schema" => return Some(chained(40, |one| json!({"allOf": [one, one]}))),
        "deep-schema" => {
            let deeper = |one| json!({"allOf": [one], "unevaluatedProperties": false});
            return Some(chained(3000, deeper));
        }
        _ => {}
    }
    let text = std::str::from_utf8(&SCHEMA).unwrap_or_default();
    serde_json::from_str(value(text)).ok()
}

/// Returns a schema with a chain of definitions. Each refers to the one before it in the form that
/// `link` returns.
fn chained(length: usize, link: impl Fn(Value) -> Value) -> Value {
    let before = |number: usize| json!({"$ref": format!("#/$defs/{}", number - 1)});
    let links = (1..=length).map(|number| (number.to_string(), link(before(number))));
    let mut links: Map<String, Value> = links.collect();
    links.insert("0".into(), json!({"minProperties": 1}));
    json!({"$ref": format!("#/$defs/{length}"), "$defs": links})
}

const CONFIG_MAP: &str = "v1/ConfigMap";

impl Controller for Fickle {
    fn manifest() -> Manifest {
        let subject = Selection::of(CONFIG_MAP).labels("fickle=true");
        let manifest = Manifest::new(value(NAME).trim_end(), value(VERSION), subject)
            .reads(CONFIG_MAP, [".metadata", ".data"])
            .reads("v1/Pod", [".metadata.labels"])
            .writes(CONFIG_MAP, [Verb::Apply]);
        let manifest = match value(BEHAVIOUR).trim_end() {
            "asks-more" => manifest.reads("v1/Service", [".spec"]),
            _ => manifest,
        };
        match schema() {
            Some(schema) => manifest.config_schema(&schema),
            None => manifest,
        }
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        match value(BEHAVIOUR).trim_end() {
            "trap" => panic!("as told"),
            "loop" => loop {
                black_box(0);
            },
            "denied" => return denied(request),
            _ => {}
        }
        let Some(subject) = request.object::<Value>()? else {
            return Ok(Outcome::done());
        };
        let config: Value = serde_json::from_str(&request.config).unwrap_or_default();
        match value(BEHAVIOUR).trim_end() {
            "reads-own" => return Ok(Outcome::done()),
            "burns" => return Ok(burn(&config)),
            _ => {}
        }
        let pods = host.get::<Value>(&request.key().of_kind("v1/Pod"));
        if value(BEHAVIOUR).trim_end() == "reads-two" {
            return Ok(Outcome::done());
        }
        let seen = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "namespace": request.key().namespace,
                "name": format!("{}-seen", request.key().name),
            },
            "data": {
                "version": value(VERSION),
                "of": subject["metadata"]["resourceVersion"],
                "greeting": config["greeting"].as_str().unwrap_or_default(),
                "pods": if pods.is_ok() { "readable" } else { "denied" },
            },
        });
        Ok(Outcome::done().with(Apply::new(&seen)?))
    }
}

/// Computes for as many rounds as the configuration says, and again a second later.
fn burn(config: &Value) -> Outcome {
    let mut number = 1_u64;
    for _ in 0..config["rounds"].as_u64().unwrap_or_default() {
        number = black_box(
            number
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1),
        );
    }
    Outcome::done().requeue_after(Duration::from_secs(1))
}

/// Returns a write that the manifest does not ask for.
fn denied(request: &Request) -> Result<Outcome, Failure> {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"namespace": request.key().namespace, "name": "stolen"},
    });
    Ok(Outcome::done().with(Apply::new(&secret)?))
}

pilothouse_sdk::register!(Fickle);
