//! What an outcome has confirmed, in the fake cluster.

use pilothouse_sdk::testing::FakeCluster;
use pilothouse_sdk::{
    Controller, Delete, Failure, Filter, Host, Manifest, ObjectRef, Outcome, Request, Selection,
    Verb,
};
use serde_json::{Value, json};

const CLAIM: &str = "v1/PersistentVolumeClaim";
const POD: &str = "v1/Pod";

/// Deletes a claim that no Pod uses.
struct Tidy;

impl Controller for Tidy {
    fn manifest() -> Manifest {
        Manifest::new("tidy", "1.0.0", Selection::of(CLAIM))
            .reads(CLAIM, [".metadata.labels"])
            .reads(POD, [".spec.volumes"])
            .indexes(
                "claim",
                POD,
                [".spec.volumes[*].persistentVolumeClaim.claimName"],
            )
            .writes(CLAIM, [Verb::Delete])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let key = request.key();
        let users = Filter::index("claim", &key.name);
        let pods: Vec<Value> = host.list(POD, Some(&key.namespace), &users)?;
        if request.object.is_none() || !pods.is_empty() {
            return Ok(Outcome::done());
        }
        let outcome = Outcome::done().with(Delete::new(key));
        Ok(outcome.confirm_list(POD, Some(&key.namespace), &users))
    }
}

fn claim() -> Value {
    let metadata = json!({"namespace": "default", "name": "a"});
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata})
}

fn pod(claim: &str) -> Value {
    let metadata = json!({"namespace": "default", "name": "p", "uid": "u"});
    let volume = json!({"name": "data", "persistentVolumeClaim": {"claimName": claim}});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"volumes": [volume]}})
}

#[test]
fn what_the_server_confirms_is_done() {
    for cluster in [
        FakeCluster::new(Tidy::manifest()).with(claim()),
        FakeCluster::new(Tidy::manifest())
            .with(claim())
            .with_unseen(pod("another")),
    ] {
        let mut cluster = cluster;
        cluster.run_due::<Tidy>();
        let claim = ObjectRef::new(CLAIM, "default", "a");
        assert!(cluster.object(&claim).is_none());
    }
}

#[test]
fn what_the_server_contradicts_is_not_done_and_the_key_runs_again() {
    let cluster = FakeCluster::new(Tidy::manifest()).with(claim());
    // Only what is there when the kinds are listed is seen.
    let mut cluster = cluster.with_unseen(pod("a"));
    let runs = cluster.run_due::<Tidy>();
    assert!(runs.iter().all(|run| run.error.is_none()), "{runs:?}");
    let claim = ObjectRef::new(CLAIM, "default", "a");
    assert!(cluster.object(&claim).is_some());
}

#[test]
fn a_turn_does_nothing_that_the_server_contradicts_either() -> Result<(), Failure> {
    let cluster = FakeCluster::new(Tidy::manifest()).with(claim());
    cluster.reconcile::<Tidy>("default", "a")?;
    let mut cluster = cluster.with_unseen(pod("a"));
    let wanted = cluster.turn::<Tidy>("default", "a")?;
    assert_eq!(wanted.actions().count(), 1);
    let claim = ObjectRef::new(CLAIM, "default", "a");
    assert!(cluster.object(&claim).is_some());
    let wanted = cluster.turn::<Tidy>("default", "a")?;
    assert_eq!(wanted.actions().count(), 0, "it sees the pod now");
    Ok(())
}

#[test]
fn what_is_unseen_is_so_before_the_first_run_as_well() {
    let cluster = FakeCluster::new(Tidy::manifest()).with(claim());
    let mut changed = claim();
    changed["metadata"]["labels"] = json!({"changed": "true"});
    let cluster = cluster.with_unseen(changed);
    let key = ObjectRef::new(CLAIM, "default", "a");
    let host: &dyn Host = &cluster;
    let seen = host.get::<Value>(&key).unwrap().unwrap();
    assert!(seen["metadata"]["labels"].is_null());
    let on_server = cluster.object(&key).unwrap();
    assert_eq!(on_server["metadata"]["labels"]["changed"], "true");
}
