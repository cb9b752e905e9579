//! For each ConfigMap labelled `ledger=true`: copies its `data.wish` to the ConfigMaps
//! `NAME-first` and, in a second stage, `NAME-second`, each with the version of the plugin that has
//! written it. Has the server confirm the object before it writes anything: so there are two
//! answers that it waits for after it has decided what to write.

use std::hint::black_box;

use pilothouse_sdk::{
    Apply, Controller, Failure, Host, Manifest, Outcome, Request, Selection, Verb,
};
use serde_json::{Value, json};

/// A test writes another version over it in the file's bytes.
static VERSION: &str = "ledger-version=1.0.0";

struct Ledger;

const CONFIG_MAP: &str = "v1/ConfigMap";

/// `black_box` keeps the compiler from evaluating it when it builds.
fn version() -> &'static str {
    let text = black_box(VERSION);
    text.split_once('=').map_or("", |(_, version)| version)
}

impl Controller for Ledger {
    fn manifest() -> Manifest {
        let selection = Selection::of(CONFIG_MAP).labels("ledger=true");
        Manifest::new("ledger", version(), selection)
            .reads(CONFIG_MAP, [".metadata.labels", ".data"])
            .writes(CONFIG_MAP, [Verb::Apply])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let Some(object) = request.object::<Value>()? else {
            return Ok(Outcome::done());
        };
        let key = request.key();
        let wish = &object["data"]["wish"];
        let copy = |suffix: &str| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"namespace": key.namespace, "name": format!("{}-{suffix}", key.name)},
                "data": {"wish": wish, "by": version()},
            })
        };
        let (first, second) = (copy("first"), copy("second"));
        let is_there = |copy: &Value| -> Result<bool, Failure> {
            let name = copy["metadata"]["name"].as_str().unwrap_or_default();
            let found: Option<Value> = host.get(&key.named(name))?;
            Ok(found.is_some_and(|found| found["data"] == copy["data"]))
        };
        if is_there(&first)? && is_there(&second)? {
            return Ok(Outcome::done());
        }
        let outcome = Outcome::done().confirm(key).with(Apply::new(&first)?);
        Ok(outcome.stage().with(Apply::new(&second)?))
    }
}

pilothouse_sdk::register!(Ledger);
