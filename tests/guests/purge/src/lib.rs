//! For each ConfigMap labelled `purge`: deletes all ConfigMaps of its namespace whose label
//! `doomed` has its name as value, and then says so in the ConfigMap `NAME-done`.

use pilothouse_sdk::{
    Apply, Controller, DeleteAll, Failure, Host, Manifest, Outcome, Request, Selection, Verb,
};
use serde_json::{Value, json};

const CONFIG_MAP: &str = "v1/ConfigMap";

struct Purge;

impl Controller for Purge {
    fn manifest() -> Manifest {
        let selection = Selection::of(CONFIG_MAP).labels("purge");
        Manifest::new("purge", "1.0.0", selection)
            .reads(CONFIG_MAP, [".metadata.labels"])
            .writes(CONFIG_MAP, [Verb::Apply, Verb::DeleteCollection])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let key = request.key();
        if request.object::<Value>()?.is_none() {
            return Ok(Outcome::done());
        }
        let done = key.named(&format!("{}-done", key.name));
        if host.get::<Value>(&done)?.is_some() {
            return Ok(Outcome::done());
        }
        let doomed = format!("doomed={}", key.name);
        let delete = DeleteAll::new(CONFIG_MAP, &key.namespace).labels(&doomed);
        let done = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": done.namespace, "name": done.name},
        });
        Ok(Outcome::done()
            .with(delete)
            .stage()
            .with(Apply::new(&done)?))
    }
}

pilothouse_sdk::register!(Purge);
