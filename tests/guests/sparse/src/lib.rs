//! Keeps a Deployment of three replicas for each ConfigMap labelled `sparse`. Of the Deployment it
//! reads only the number of available replicas.

use pilothouse_sdk::{
    Apply, Controller, Failure, Host, Manifest, Outcome, Request, Selection, Verb,
};
use serde_json::{Value, json};

struct Sparse;

const CONFIG_MAP: &str = "v1/ConfigMap";

const DEPLOYMENT: &str = "apps/v1/Deployment";

impl Controller for Sparse {
    fn manifest() -> Manifest {
        let selection = Selection::of(CONFIG_MAP).labels("sparse");
        Manifest::new("sparse", "1.0.0", selection)
            .reads(CONFIG_MAP, [".metadata.labels"])
            .reads(DEPLOYMENT, [".status.availableReplicas"])
            .writes(DEPLOYMENT, [Verb::Apply])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let key = request.key();
        if request.object.is_none() {
            return Ok(Outcome::done());
        }
        host.get::<Value>(&key.of_kind(DEPLOYMENT))?;
        let labels = json!({"app": key.name});
        let container =
            json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}});
        let wanted = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"namespace": key.namespace, "name": key.name},
            "spec": {
                "replicas": 3,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        });
        Ok(Outcome::done().with(Apply::new(&wanted)?.force()))
    }
}

pilothouse_sdk::register!(Sparse);
