//! For each ConfigMap labelled `tally`: keeps a ConfigMap `NAME-tally` with the number of objects
//! of each kind, of all that the cluster serves, that are labelled `of=NAME`; under `kinds`, the
//! kinds of `example.dev`; and under `unavailable`, those of all kinds that cannot be read. Once
//! the ConfigMap is labelled `tally=sweep`, deletes those objects.
//!
//! For one labelled `tally=spin` it asks for the kinds without end.

use std::collections::BTreeMap;

use pilothouse_sdk::{
    Apply, Controller, Delete, Failure, Filter, Host, Manifest, ObjectRef, Outcome, Request,
    Selection, Verb,
};
use serde::Deserialize;
use serde_json::{Value, json};

struct Tally;

const CONFIG_MAP: &str = "v1/ConfigMap";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    api_version: String,
    kind: String,
    metadata: Name,
}

#[derive(Deserialize)]
struct Name {
    #[serde(default)]
    namespace: String,
    name: String,
}

impl Found {
    fn kind(&self) -> String {
        format!("{}/{}", self.api_version, self.kind)
    }

    fn object(&self) -> ObjectRef {
        ObjectRef::new(&self.kind(), &self.metadata.namespace, &self.metadata.name)
    }
}

impl Controller for Tally {
    fn manifest() -> Manifest {
        let selection = Selection::of(CONFIG_MAP).labels("tally");
        Manifest::new("tally", "1.0.0", selection)
            .reads(CONFIG_MAP, [".metadata.labels"])
            .writes(CONFIG_MAP, [Verb::Apply])
            .reads("*", [".metadata.labels"])
            .indexes("of", "*", [".metadata.labels.of"])
            .writes("*", [Verb::Delete])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let key = request.key();
        let Some(object) = request.object::<Value>()? else {
            return Ok(Outcome::done());
        };
        let wish = &object["metadata"]["labels"]["tally"];
        if wish == "spin" {
            loop {
                host.kinds("*")?;
            }
        }
        let found: Vec<Found> = host.list("*", None, &Filter::index("of", &key.name))?;
        let kinds = host.kinds("*")?;
        let unavailable = kinds.iter().filter(|kind| kind.unavailable.is_some());
        let unavailable: Vec<&str> = unavailable
            .filter(|kind| kind.verbs.iter().any(|verb| verb == "watch"))
            .map(|kind| kind.kind.as_str())
            .collect();
        let own: Vec<String> = host
            .kinds("example.dev/*")?
            .into_iter()
            .map(|it| it.kind)
            .collect();
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for object in &found {
            *counts.entry(object.kind().replace('/', ".")).or_default() += 1;
        }
        let mut data = json!({"kinds": own.join(" "), "unavailable": unavailable.join(" ")});
        for (kind, count) in counts {
            data[kind] = count.to_string().into();
        }
        let tally = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": key.namespace, "name": format!("{}-tally", key.name)},
            "data": data,
        });
        let outcome = Outcome::done().with(Apply::new(&tally)?);
        if wish != "sweep" {
            return Ok(outcome);
        }
        let deletes = found.iter().map(|found| Delete::new(&found.object()));
        Ok(deletes.fold(outcome, Outcome::with))
    }
}

pilothouse_sdk::register!(Tally);
