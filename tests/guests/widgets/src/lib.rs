//! For each Widget (`example.dev/v1`): reports its size in its status and, if it has a namespace,
//! keeps a ConfigMap of its name there.

use pilothouse_sdk::{
    Apply, Controller, Failure, Host, Manifest, Outcome, Request, Selection, Verb,
};
use serde_json::{Value, json};

struct Widgets;

const WIDGET: &str = "example.dev/v1/Widget";

impl Controller for Widgets {
    fn manifest() -> Manifest {
        Manifest::new("widgets", "1.0.0", Selection::of(WIDGET))
            .reads(WIDGET, [".spec.size"])
            .writes("v1/ConfigMap", [Verb::Apply])
            .writes_subresource(WIDGET, "status", [Verb::Apply])
    }

    fn reconcile(request: &Request, _: &dyn Host) -> Result<Outcome, Failure> {
        let Some(found) = request.object::<Value>()? else {
            return Ok(Outcome::done());
        };
        let size = &found["spec"]["size"];
        let mut metadata = json!({"name": request.key().name});
        if !request.key().namespace.is_empty() {
            metadata["namespace"] = json!(request.key().namespace);
        }
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"size": size.to_string()}});
        let status = json!({"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": metadata, "status": {"observedSize": size}});
        let outcome = Outcome::done().with(Apply::new(&status)?.subresource("status"));
        if request.key().namespace.is_empty() {
            return Ok(outcome);
        }
        Ok(outcome.with(Apply::new(&config)?))
    }
}

pilothouse_sdk::register!(Widgets);
