//! Writes down which pods it sees. It reads only pods labelled `app: web` in the namespaces `one`
//! and `two`, and only their metadata.

use pilothouse_sdk::{
    Apply, Cluster, Controller, Failure, Filter, Kind, Manifest, Outcome, Read, Request, Subject,
    Verb,
};
use serde_json::{Value, json};

struct Narrow;

fn pod() -> Kind {
    Kind::core("v1", "Pod")
}

impl Controller for Narrow {
    fn manifest() -> Manifest {
        let web = Read::new(&pod(), [".metadata.labels"])
            .in_namespace("two")
            .in_namespace("one")
            .label("app", "web");
        Manifest::new("narrow", "1.0.0", Subject::Singleton)
            .reads_only(web)
            .writes(&Kind::core("v1", "ConfigMap"), [Verb::Apply])
    }

    fn reconcile(_: &Request, cluster: &dyn Cluster) -> Result<Outcome, Failure> {
        let pods: Vec<Value> = cluster.list(&pod(), None, &Filter::Everything)?;
        let name = |pod: &Value| {
            let metadata = &pod["metadata"];
            Some(format!(
                "{}/{}",
                metadata["namespace"].as_str()?,
                metadata["name"].as_str()?
            ))
        };
        let names: Vec<String> = pods.iter().filter_map(name).collect();
        let elsewhere = cluster.list::<Value>(&pod(), Some("three"), &Filter::Everything);
        let summary = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "one", "name": "summary"},
            "data": {"pods": names.join(" "), "elsewhere": elsewhere.is_err().to_string()},
        });
        Ok(Outcome::done().with(Apply::new(&summary)?))
    }
}

pilothouse_sdk::register!(Narrow);
