//! A controller that reads, indexes and deletes objects of whatever kind.

use pilothouse_sdk::testing::FakeCluster;
use pilothouse_sdk::{
    Controller, Delete, Failure, Filter, Host, Manifest, ObjectRef, Outcome, Request, Selection,
    Verb,
};
use serde::Deserialize;
use serde_json::{Value, json};

const LEASES: &str = "example.com/v1/Lease";

/// Deletes whatever belongs to a Lease that is gone: its label says to which.
struct Sweeper;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Of {
    api_version: String,
    kind: String,
    metadata: Name,
}

#[derive(Deserialize)]
struct Name {
    #[serde(default)]
    namespace: String,
    name: String,
}

impl Controller for Sweeper {
    fn manifest() -> Manifest {
        Manifest::new("sweeper", "1.0.0", Selection::of(LEASES))
            .reads(LEASES, [".spec"])
            .reads("*", [".metadata.labels"])
            .indexes("lease", "*", [".metadata.labels.lease"])
            .writes("*", [Verb::Delete])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        if request.object::<Value>()?.is_some() {
            return Ok(Outcome::done());
        }
        let name = &request.key().name;
        let left: Vec<Of> = host.list("*", None, &Filter::index("lease", name))?;
        let deletes = left.iter().map(|of| {
            let kind = format!("{}/{}", of.api_version, of.kind);
            Delete::new(&ObjectRef::new(
                &kind,
                &of.metadata.namespace,
                &of.metadata.name,
            ))
        });
        Ok(deletes.fold(Outcome::done(), Outcome::with))
    }
}

fn object(kind: &str, name: &str, lease: &str) -> Value {
    let (api_version, kind) = kind.rsplit_once('/').expect("a kind");
    json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"namespace": "default", "name": name, "labels": {"lease": lease}},
    })
}

#[test]
fn a_pattern_finds_objects_of_every_kind_and_they_are_deleted_by_their_own() {
    let lease = json!({
        "apiVersion": "example.com/v1", "kind": "Lease",
        "metadata": {"namespace": "default", "name": "a"}, "spec": {},
    });
    let mut cluster = FakeCluster::new(Sweeper::manifest())
        .with(lease)
        .with(object("v1/ConfigMap", "one", "a"))
        .with(object("apps/v1/Deployment", "two", "a"))
        .with(object("apps/v1/Deployment", "other", "b"));
    cluster.run_due::<Sweeper>();
    let kinds = ["v1/ConfigMap", "apps/v1/Deployment", "apps/v1/Deployment"];
    let objects = kinds.into_iter().zip(["one", "two", "other"]);
    let objects: Vec<ObjectRef> = objects
        .map(|(kind, name)| ObjectRef::new(kind, "default", name))
        .collect();
    assert!(objects.iter().all(|of| cluster.object(of).is_some()));
    cluster.delete(&ObjectRef::new(LEASES, "default", "a"));
    cluster.run_due::<Sweeper>();
    let left: Vec<bool> = objects
        .iter()
        .map(|of| cluster.object(of).is_some())
        .collect();
    assert_eq!(left, [false, false, true]);
    // A kind that is defined later is found, too.
    let mut cluster = cluster.with(object("later.com/v1/Thing", "late", "a"));
    cluster.run_due::<Sweeper>();
    let late = ObjectRef::new("later.com/v1/Thing", "default", "late");
    assert!(
        cluster.object(&late).is_none(),
        "the key that read `*` was woken"
    );
}

#[test]
fn the_kinds_are_those_that_are_defined() {
    let cluster = FakeCluster::new(Sweeper::manifest()).defining("example.com/v1/Lease", true);
    let kinds = |cluster: &FakeCluster| -> Vec<String> {
        let host: &dyn Host = cluster;
        let kinds = host.kinds("*").unwrap().into_iter();
        kinds.map(|served| served.kind).collect()
    };
    assert_eq!(kinds(&cluster), [LEASES]);
    let cluster = cluster.defining("v1/Node", false);
    assert_eq!(kinds(&cluster), ["v1/Node", LEASES]);
    let host: &dyn Host = &cluster;
    let node = &host.kinds("v1/Node").unwrap()[0];
    assert!(!node.namespaced && node.resource == "nodes");
    let cluster = cluster.undefining("v1/Node");
    assert_eq!(kinds(&cluster), [LEASES]);
    let cluster = cluster.defining("example.com/v1beta1/Lease", true);
    let host: &dyn Host = &cluster;
    let leases = host.kinds("*").unwrap();
    assert_eq!((leases.len(), &*leases[0].kind), (1, LEASES));
    assert_eq!(leases[0].versions, ["v1", "v1beta1"]);
}
