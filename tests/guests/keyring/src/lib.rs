//! For each Secret: applies a ConfigMap of the same name with the length of the base64 text in
//! the Secret's `key`.

use pilothouse_sdk::{
    Apply, Cluster, Controller, Failure, Kind, Manifest, Outcome, Request, Selection, Verb,
};
use serde_json::{Value, json};

struct Keyring;

fn secret() -> Kind {
    Kind::core("v1", "Secret")
}

impl Controller for Keyring {
    fn manifest() -> Manifest {
        Manifest::new("keyring", "1.0.0", Selection::of(&secret()))
            .reads(&secret(), [".data.key"])
            .writes(&Kind::core("v1", "ConfigMap"), [Verb::Apply])
    }

    fn reconcile(request: &Request, cluster: &dyn Cluster) -> Result<Outcome, Failure> {
        let Some(found) = cluster.get::<Value>(&secret(), &request.key)? else {
            return Ok(Outcome::done());
        };
        let length = found["data"]["key"].as_str().map_or(0, str::len);
        let note = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": request.key.namespace, "name": request.key.name},
            "data": {"length": length.to_string()},
        });
        Ok(Outcome::done().with(Apply::new(&note)?))
    }
}

pilothouse_sdk::register!(Keyring);
