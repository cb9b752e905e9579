//! Lists in pages, and the deletion of all objects of a namespace, in the fake cluster.

use std::num::NonZeroU32;

use pilothouse_sdk::testing::FakeCluster;
use pilothouse_sdk::{
    Controller, DeleteAll, Failure, Filter, Host, Manifest, ObjectRef, Outcome, Request, Selection,
    Verb,
};
use serde_json::{Value, json};

const CONFIG_MAP: &str = "v1/ConfigMap";

/// Deletes what is doomed in its key's namespace, if there is any.
struct Purge;

impl Controller for Purge {
    fn manifest() -> Manifest {
        Manifest::new("purge", "1.0.0", Selection::of(CONFIG_MAP).labels("purge"))
            .reads(CONFIG_MAP, [".metadata.labels"])
            .writes(CONFIG_MAP, [Verb::DeleteCollection])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let namespace = &*request.key().namespace;
        let doomed = Filter::labels("doomed");
        let size = NonZeroU32::MIN.saturating_add(1);
        let pages = host.pages::<Value>(CONFIG_MAP, Some(namespace), &doomed, size);
        let sizes = pages.map(|page| page.map(|page| page.len()));
        let sizes: Vec<usize> = sizes.collect::<Result<_, _>>()?;
        host.info("pages", &[("sizes", &format!("{sizes:?}"))]);
        if sizes.is_empty() {
            return Ok(Outcome::done());
        }
        Ok(Outcome::done().with(DeleteAll::new(CONFIG_MAP, namespace).labels("doomed")))
    }
}

fn config_map(namespace: &str, name: &str, label: &str) -> Value {
    let metadata = json!({"namespace": namespace, "name": name, "labels": {label: "true"}});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
}

/// Deletes all objects of a kind that have no namespace.
struct Raze;

impl Controller for Raze {
    fn manifest() -> Manifest {
        Manifest::singleton("raze", "1.0.0")
            .reads(CONFIG_MAP, [".data"])
            .writes(CONFIG_MAP, [Verb::DeleteCollection])
    }

    fn reconcile(_: &Request, _: &dyn Host) -> Result<Outcome, Failure> {
        Ok(Outcome::done().with(DeleteAll::new(CONFIG_MAP, "")))
    }
}

#[test]
fn without_a_namespace_nothing_that_has_one_is_deleted() {
    let mut cluster = FakeCluster::new(Raze::manifest()).with(config_map("default", "a", "x"));
    cluster.run_due::<Raze>();
    let left = ObjectRef::new(CONFIG_MAP, "default", "a");
    assert!(cluster.object(&left).is_some());
}

#[test]
fn all_objects_that_a_selector_selects_go_and_wake_who_has_read_them() {
    let doomed = ["b", "c", "d", "e"].map(|name| config_map("default", name, "doomed"));
    let cluster = FakeCluster::new(Purge::manifest()).with(config_map("default", "a", "purge"));
    let cluster = doomed.into_iter().fold(cluster, FakeCluster::with);
    let elsewhere = ObjectRef::new(CONFIG_MAP, "other", "b");
    let mut cluster = cluster.with(config_map("other", "b", "doomed"));
    let runs = cluster.run_due::<Purge>();
    assert!(runs.iter().all(|run| run.error.is_none()), "{runs:?}");
    assert_eq!(
        cluster.lines(),
        ["INFO pages sizes=[2, 2]", "INFO pages sizes=[]"]
    );
    let gone = ObjectRef::new(CONFIG_MAP, "default", "e");
    assert!(cluster.object(&gone).is_none() && cluster.object(&elsewhere).is_some());
}
