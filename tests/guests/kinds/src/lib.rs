//! For each ConfigMap and each Service labelled `kinds`: keeps a ServiceAccount, as a child, that
//! is named after the kind and the object. A ConfigMap or Service labelled `kinds=fail` fails.

use pilothouse_sdk::{Children, Controller, Failure, Host, Manifest, Outcome, Request, Selection};
use serde_json::{Value, json};

struct Kinds;

const CONFIG_MAP: &str = "v1/ConfigMap";

const SERVICE: &str = "v1/Service";

const SERVICE_ACCOUNT: &str = "v1/ServiceAccount";

impl Controller for Kinds {
    fn manifest() -> Manifest {
        Manifest::new("kinds", "1.0.0", Selection::of(CONFIG_MAP).labels("kinds"))
            .reconciles_also(Selection::of(SERVICE).labels("kinds"))
            .reads(CONFIG_MAP, [".metadata.labels"])
            .reads(SERVICE, [".metadata.labels"])
            .reads(SERVICE_ACCOUNT, [".metadata.labels"])
            .keeps_children(SERVICE_ACCOUNT)
    }

    fn reconcile(request: &Request, _: &dyn Host) -> Result<Outcome, Failure> {
        let key = request.key();
        let Some(object) = request.object::<Value>()? else {
            return Ok(Outcome::done().with(Children::new::<Value>([])?));
        };
        if object["metadata"]["labels"]["kinds"] == "fail" {
            return Err(Failure::Retry(format!("{key} is to fail")));
        }
        let kind = key.kind.trim_start_matches("v1/").to_lowercase();
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"namespace": key.namespace, "name": format!("{kind}-{}", key.name)},
        });
        Ok(Outcome::done().with(Children::new([account])?))
    }
}

pilothouse_sdk::register!(Kinds);
