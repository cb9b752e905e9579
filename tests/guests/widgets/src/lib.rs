//! For each Widget (`example.dev/v1`): reports its size in its status and keeps a ConfigMap of its name.

use pilothouse_sdk::{
    Apply, Cluster, Controller, Failure, Kind, Manifest, Outcome, Request, Selection, Verb,
};
use serde_json::{Value, json};

struct Widgets;

fn widget() -> Kind {
    Kind::new("example.dev", "v1", "Widget")
}

impl Controller for Widgets {
    fn manifest() -> Manifest {
        Manifest::new("widgets", "1.0.0", Selection::of(&widget()))
            .reads(&widget(), [".spec.size"])
            .writes(&Kind::core("v1", "ConfigMap"), [Verb::Apply])
            .writes_subresource(&widget(), "status", [Verb::Apply])
    }

    fn reconcile(request: &Request, cluster: &dyn Cluster) -> Result<Outcome, Failure> {
        let Some(found) = cluster.get::<Value>(&widget(), &request.key)? else {
            return Ok(Outcome::done());
        };
        let size = &found["spec"]["size"];
        let metadata = json!({"namespace": request.key.namespace, "name": request.key.name});
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"size": size.to_string()}});
        let status = json!({"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": metadata, "status": {"observedSize": size}});
        Ok(Outcome::done()
            .with(Apply::new(&config)?)
            .with(Apply::new(&status)?.subresource("status")))
    }
}

pilothouse_sdk::register!(Widgets);
