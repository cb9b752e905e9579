//! Namespaces from run to run, by the host's own rules.

use pilothouse_sdk::testing::{Failing, FakeCluster, WriteError};
use pilothouse_sdk::{Controller, ObjectRef, Verb};
use root_ca_certificate_publisher::RootCaCertificatePublisher;
use serde_json::{Value, json};

fn authority(text: &str) -> String {
    format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
}

fn namespace(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": name}, "status": {"phase": "Active"},
    })
}

fn config_map(namespace: &str) -> ObjectRef {
    ObjectRef::new("v1/ConfigMap", namespace, "kube-root-ca.crt")
}

fn cluster() -> FakeCluster {
    let config = json!({"rootCA": authority("a")});
    FakeCluster::new(RootCaCertificatePublisher::manifest()).configured(&config)
}

/// Runs what is due, and returns whose keys that were.
fn run(cluster: &mut FakeCluster) -> Vec<String> {
    let runs = cluster.run_due::<RootCaCertificatePublisher>();
    let keys = runs.into_iter().filter_map(|run| run.key);
    let mut names: Vec<String> = keys.map(|key| key.name).collect();
    names.sort();
    names.dedup();
    names
}

fn data(cluster: &FakeCluster, namespace: &str) -> Value {
    let found = cluster.object(&config_map(namespace));
    found.map_or(Value::Null, |found| found["data"].clone())
}

#[test]
fn a_config_map_that_is_changed_or_deleted_is_put_right() {
    let mut cluster = cluster().with(namespace("one")).with(namespace("two"));
    assert_eq!(run(&mut cluster), ["one", "two"]);
    let wanted = json!({"ca.crt": authority("a")});
    assert_eq!(data(&cluster, "one"), wanted);

    let mut changed = cluster.object(&config_map("two")).cloned().unwrap();
    changed["data"]["more"] = "x".into();
    let mut cluster = cluster.with(changed);
    assert_eq!(run(&mut cluster), ["two"]);
    assert_eq!(data(&cluster, "two"), wanted);

    cluster.delete(&config_map("one"));
    assert_eq!(run(&mut cluster), ["one"]);
    assert_eq!(data(&cluster, "one"), wanted);
}

#[test]
fn another_config_map_runs_nothing() {
    let mut cluster = cluster().with(namespace("one"));
    run(&mut cluster);
    let other = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "one", "name": "other"}, "data": {"a": "b"},
    });
    let mut cluster = cluster.with(other);
    assert_eq!(run(&mut cluster), [""; 0]);
}

/// With another configuration the host runs all keys.
#[test]
fn another_authority_is_written_everywhere() {
    let mut cluster = cluster().with(namespace("one")).with(namespace("two"));
    run(&mut cluster);
    let mut cluster = cluster.configured(&json!({"rootCA": authority("b")}));
    for name in ["one", "two"] {
        cluster
            .turn::<RootCaCertificatePublisher>("", name)
            .unwrap();
        assert_eq!(data(&cluster, name), json!({"ca.crt": authority("b")}));
    }
}

#[test]
fn a_namespace_that_turns_out_to_be_terminating_ends_the_attempts() {
    let refused = Failing::next(Verb::Create, "v1/ConfigMap", WriteError::Forbidden).always();
    let mut cluster = cluster().with(namespace("one")).failing(refused);
    run(&mut cluster);
    assert_eq!(data(&cluster, "one"), Value::Null);
    let mut terminating = namespace("one");
    terminating["status"]["phase"] = "Terminating".into();
    let mut cluster = cluster.with(terminating);
    let runs = cluster.run_due::<RootCaCertificatePublisher>();
    assert!(runs.iter().all(|run| run.error.is_none()), "{runs:?}");
}
