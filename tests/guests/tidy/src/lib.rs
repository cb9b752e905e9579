//! Deletes each ConfigMap labelled `tidy` whose name no Service of its namespace has as its
//! `externalName`, once the API server has confirmed that there is none.

use pilothouse_sdk::{
    Controller, Delete, Failure, Filter, Host, Manifest, Outcome, Request, Selection, Verb,
};
use serde_json::Value;

const CONFIG_MAP: &str = "v1/ConfigMap";
const SERVICE: &str = "v1/Service";

struct Tidy;

impl Controller for Tidy {
    fn manifest() -> Manifest {
        let selection = Selection::of(CONFIG_MAP).labels("tidy");
        Manifest::new("tidy", "1.0.0", selection)
            .reads(CONFIG_MAP, [".metadata.labels"])
            .reads(SERVICE, [".spec.externalName"])
            .indexes("uses", SERVICE, [".spec.externalName"])
            .writes(CONFIG_MAP, [Verb::Delete])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let key = request.key();
        let users = Filter::index("uses", &key.name);
        let found: Vec<Value> = host.list(SERVICE, Some(&key.namespace), &users)?;
        if request.object.is_none() || !found.is_empty() {
            return Ok(Outcome::done());
        }
        let outcome = Outcome::done().with(Delete::new(key)).confirm(key);
        Ok(outcome.confirm_list(SERVICE, Some(&key.namespace), &users))
    }
}

pilothouse_sdk::register!(Tidy);
