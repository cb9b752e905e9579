//! Keeps a Deployment of three replicas for each ConfigMap labelled `sparse`. Of the Deployment it
//! reads only the number of available replicas.

use pilothouse_sdk::{
    Apply, Cluster, Controller, Failure, Kind, LabelRequirement, Manifest, Outcome, Request,
    Selection, Verb,
};
use serde_json::{Value, json};

struct Sparse;

fn config_map() -> Kind {
    Kind::core("v1", "ConfigMap")
}

fn deployment() -> Kind {
    Kind {
        group: "apps".to_owned(),
        version: "v1".to_owned(),
        kind: "Deployment".to_owned(),
    }
}

impl Controller for Sparse {
    fn manifest() -> Manifest {
        let selection =
            Selection::of(&config_map()).require(LabelRequirement::Exists("sparse".to_owned()));
        Manifest::new("sparse", "1.0.0", selection)
            .reads(&config_map(), [".metadata.labels"])
            .reads(&deployment(), [".status.availableReplicas"])
            .writes(&deployment(), [Verb::Apply])
    }

    fn reconcile(request: &Request, cluster: &dyn Cluster) -> Result<Outcome, Failure> {
        let key = &request.key;
        if cluster.get::<Value>(&config_map(), key)?.is_none() {
            return Ok(Outcome::done());
        }
        cluster.get::<Value>(&deployment(), key)?;
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
