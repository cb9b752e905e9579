//! The smallest controller: for each ConfigMap with the label `hello: "true"` it writes another
//! ConfigMap with a greeting.

use pilothouse_sdk::{
    Apply, Controller, Failure, Host, Manifest, Outcome, Request, Selection, Verb,
};
use serde_json::{Value, json};

struct Hello;

impl Controller for Hello {
    fn manifest() -> Manifest {
        let config_map = "v1/ConfigMap";
        Manifest::new(
            "hello-rust",
            env!("CARGO_PKG_VERSION"),
            Selection::of(config_map).labels("hello=true"),
        )
        .reads(config_map, [".data.who"])
        .writes(config_map, [Verb::Apply])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let key = request.key();
        let Some(source) = request.object::<Value>()? else {
            // The ConfigMap is gone. Its greeting names it as owner, so the garbage collector
            // deletes the greeting.
            return Ok(Outcome::done());
        };
        let who = source["data"]["who"].as_str().unwrap_or("world");
        host.info("greeting", &[("who", who)]);

        let greeting = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "namespace": key.namespace,
                "name": format!("{}-greeting", key.name),
                "ownerReferences": [request.owner_reference()?],
            },
            "data": {"greeting": format!("Hello, {who}!")},
        });
        Ok(Outcome::done().with(Apply::new(&greeting)?))
    }
}

pilothouse_sdk::register!(Hello);

#[cfg(test)]
mod tests {
    use pilothouse_sdk::testing::{FakeCluster, to_json};

    use super::*;

    fn greeting(data: &Value) -> Value {
        let source = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "default", "name": "a", "uid": "1", "labels": {"hello": "true"}},
            "data": data,
        });
        let cluster = FakeCluster::new(Hello::manifest()).with(source);
        let outcome = cluster
            .reconcile::<Hello>("default", "a")
            .expect("it greets");
        to_json(&outcome.stages[0].actions[0])["apply"]["object"].clone()
    }

    #[test]
    fn it_greets_whom_the_source_names_and_the_world_otherwise() {
        assert_eq!(
            greeting(&json!({"who": "moon"}))["data"]["greeting"],
            "Hello, moon!"
        );
        assert_eq!(greeting(&json!({}))["data"]["greeting"], "Hello, world!");
    }

    #[test]
    fn the_greeting_goes_with_its_source() {
        let metadata = &greeting(&json!({}))["metadata"];
        assert_eq!(metadata["name"], "a-greeting");
        assert_eq!(metadata["ownerReferences"][0]["uid"], "1");
    }

    #[test]
    fn a_source_that_is_gone_needs_nothing() {
        let outcome = FakeCluster::new(Hello::manifest()).reconcile::<Hello>("default", "a");
        assert_eq!(outcome, Ok(Outcome::done()));
    }
}
