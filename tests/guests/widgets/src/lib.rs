//! For each Widget (`example.dev/v1`): reports its size in its status and, if it has a namespace,
//! keeps a ConfigMap of its name there.

use pilothouse_sdk::{
    Apply, Controller, Failure, Host, Kind, Manifest, Outcome, Projection, Request, Selection, Verb,
};
use serde::Deserialize;
use serde_json::{Value, json};

struct Widgets;

#[derive(Deserialize, Projection)]
#[projection(kind = "example.dev/v1/Widget")]
struct Widget {
    #[serde(default)]
    spec: Spec,
}

#[derive(Default, Deserialize, Projection)]
struct Spec {
    #[serde(default)]
    size: Value,
}

impl Controller for Widgets {
    fn manifest() -> Manifest {
        Manifest::new("widgets", "1.0.0", Selection::of(Widget::KIND))
            .reads_as::<Widget>()
            .writes("v1/ConfigMap", [Verb::Apply])
            .writes_subresource(Widget::KIND, "status", [Verb::Apply])
    }

    fn reconcile(request: &Request, _: &dyn Host) -> Result<Outcome, Failure> {
        let Some(found) = request.object::<Widget>()? else {
            return Ok(Outcome::done());
        };
        let size = found.spec.size;
        let mut metadata = json!({"name": request.key().name});
        if !request.key().namespace.is_empty() {
            metadata["namespace"] = json!(request.key().namespace);
        }
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"size": size.to_string()}});
        let status = Apply::status(request.key(), &json!({"observedSize": size}))?;
        let outcome = Outcome::done().with(status);
        if request.key().namespace.is_empty() {
            return Ok(outcome);
        }
        Ok(outcome.with(Apply::new(&config)?))
    }
}

pilothouse_sdk::register!(Widgets);
