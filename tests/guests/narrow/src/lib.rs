//! Writes down which pods it sees. It reads only pods labelled `app: web` in the namespaces `one`
//! and `two`, and only their metadata.

use pilothouse_sdk::{
    Apply, Controller, Failure, Filter, Host, Manifest, Outcome, Read, Request, Verb,
};
use serde_json::{Value, json};

struct Narrow;

const POD: &str = "v1/Pod";

impl Controller for Narrow {
    fn manifest() -> Manifest {
        let web = Read::new(POD, [".metadata.labels"])
            .namespace("two")
            .namespace("one")
            .labels("app=web");
        Manifest::singleton("narrow", "1.0.0")
            .reads_only(web)
            .writes("v1/ConfigMap", [Verb::Apply])
    }

    fn reconcile(_: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let pods: Vec<Value> = host.list(POD, None, &Filter::Everything)?;
        let name = |pod: &Value| {
            let metadata = &pod["metadata"];
            Some(format!(
                "{}/{}",
                metadata["namespace"].as_str()?,
                metadata["name"].as_str()?
            ))
        };
        let names: Vec<String> = pods.iter().filter_map(name).collect();
        let elsewhere = host.list::<Value>(POD, Some("three"), &Filter::Everything);
        let summary = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "one", "name": "summary"},
            "data": {"pods": names.join(" "), "elsewhere": elsewhere.is_err().to_string()},
        });
        Ok(Outcome::done().with(Apply::new(&summary)?))
    }
}

pilothouse_sdk::register!(Narrow);
