//! For each ConfigMap labelled `optional`: keeps a ConfigMap `NAME-count` with the number of
//! Gadgets (`example.dev/v1`) in the namespace, whether or not the cluster serves that kind. For
//! one labelled `optional=make` it also applies a Gadget of its name.

use pilothouse_sdk::{
    Apply, Controller, Failure, Filter, Host, Manifest, Outcome, Request, Selection, Verb,
};
use serde_json::{Value, json};

struct Optional;

const CONFIG_MAP: &str = "v1/ConfigMap";

const GADGET: &str = "example.dev/v1/Gadget";

impl Controller for Optional {
    fn manifest() -> Manifest {
        let selection = Selection::of(CONFIG_MAP).labels("optional");
        Manifest::new("optional", "1.0.0", selection)
            .reads(CONFIG_MAP, [".metadata.labels"])
            .writes(CONFIG_MAP, [Verb::Apply])
            .reads(GADGET, [".metadata.labels"])
            .writes(GADGET, [Verb::Apply])
            .optional(GADGET)
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let key = request.key();
        let Some(object) = request.object::<Value>()? else {
            return Ok(Outcome::done());
        };
        let gadgets: Vec<Value> = host.list(GADGET, Some(&key.namespace), &Filter::Everything)?;
        let count = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": key.namespace, "name": format!("{}-count", key.name)},
            "data": {"gadgets": gadgets.len().to_string()},
        });
        let outcome = Outcome::done().with(Apply::new(&count)?);
        if object["metadata"]["labels"]["optional"] != "make" {
            return Ok(outcome);
        }
        let gadget = json!({
            "apiVersion": "example.dev/v1", "kind": "Gadget",
            "metadata": {"namespace": key.namespace, "name": key.name},
        });
        Ok(outcome.with(Apply::new(&gadget)?))
    }
}

pilothouse_sdk::register!(Optional);
