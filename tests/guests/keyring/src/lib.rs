//! For each Secret: applies a ConfigMap of the same name with the length of the base64 text in
//! the Secret's `key`.

use pilothouse_sdk::{
    Apply, Controller, Failure, Host, Manifest, Outcome, Request, Selection, Verb,
};
use serde_json::{Value, json};

struct Keyring;

const SECRET: &str = "v1/Secret";

impl Controller for Keyring {
    fn manifest() -> Manifest {
        Manifest::new("keyring", "1.0.0", Selection::of(SECRET))
            .reads(SECRET, [".data.key"])
            .writes("v1/ConfigMap", [Verb::Apply])
    }

    fn reconcile(request: &Request, _: &dyn Host) -> Result<Outcome, Failure> {
        let Some(found) = request.object::<Value>()? else {
            return Ok(Outcome::done());
        };
        let length = found["data"]["key"].as_str().map_or(0, str::len);
        let note = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": request.key().namespace, "name": request.key().name},
            "data": {"length": length.to_string()},
        });
        Ok(Outcome::done().with(Apply::new(&note)?))
    }
}

pilothouse_sdk::register!(Keyring);
