//! Cluster roles from run to run, by the host's own rules.

use clusterrole_aggregation::ClusterRoleAggregation;
use pilothouse_sdk::testing::FakeCluster;
use pilothouse_sdk::{Controller, ObjectRef};
use serde_json::{Value, json};

fn role(name: &str, labels: &Value, verbs: &[&str]) -> Value {
    let rules = verbs
        .iter()
        .map(|verb| json!({"verbs": [verb], "resources": ["pods"]}));
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": name, "labels": labels}, "rules": rules.collect::<Vec<_>>(),
    })
}

fn combined(name: &str, labels: &Value, of: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": name, "labels": labels},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {of: "yes"}}]},
    })
}

/// The verbs of the rules of a role, after all that is due has run. Nothing fails.
fn verbs(cluster: &mut FakeCluster, name: &str) -> Vec<String> {
    let runs = cluster.run_due::<ClusterRoleAggregation>();
    assert!(runs.iter().all(|run| run.error.is_none()), "{runs:?}");
    let key = ObjectRef::new("rbac.authorization.k8s.io/v1/ClusterRole", "", name);
    let role = cluster.object(&key).cloned().unwrap_or_default();
    let rules = role["rules"].as_array().cloned().unwrap_or_default();
    let verbs = rules.iter().filter_map(|rule| rule["verbs"][0].as_str());
    verbs.map(str::to_owned).collect()
}

#[test]
fn the_rules_follow_the_roles_that_are_selected() {
    let cluster = FakeCluster::new(ClusterRoleAggregation::manifest());
    let mut cluster = cluster
        .with(combined("all", &json!({}), "to-all"))
        .with(role("a", &json!({"to-all": "yes"}), &["get"]))
        .with(role("b", &json!({}), &["list"]));
    assert_eq!(verbs(&mut cluster, "all"), ["get"]);

    let mut cluster = cluster.with(role("b", &json!({"to-all": "yes"}), &["list"]));
    assert_eq!(verbs(&mut cluster, "all"), ["get", "list"]);
    let mut cluster = cluster.with(role("a", &json!({"to-all": "yes"}), &["get", "watch"]));
    assert_eq!(verbs(&mut cluster, "all"), ["get", "watch", "list"]);
    let mut cluster = cluster.with(role("a", &json!({}), &["get", "watch"]));
    assert_eq!(verbs(&mut cluster, "all"), ["list"]);
    let mut cluster = cluster.with(role("b", &json!({}), &["list"]));
    assert_eq!(verbs(&mut cluster, "all"), [""; 0]);
}

#[test]
fn a_role_may_aggregate_what_another_has_aggregated() {
    let cluster = FakeCluster::new(ClusterRoleAggregation::manifest());
    let mut cluster = cluster
        .with(combined("admin", &json!({}), "to-admin"))
        .with(combined("edit", &json!({"to-admin": "yes"}), "to-edit"))
        .with(role("a", &json!({"to-edit": "yes"}), &["get"]));
    assert_eq!(verbs(&mut cluster, "admin"), ["get"]);
    assert_eq!(verbs(&mut cluster, "edit"), ["get"]);
}

#[test]
fn rules_that_somebody_changes_are_put_right() {
    let cluster = FakeCluster::new(ClusterRoleAggregation::manifest());
    let mut cluster = cluster
        .with(combined("all", &json!({}), "to-all"))
        .with(role("a", &json!({"to-all": "yes"}), &["get"]));
    assert_eq!(verbs(&mut cluster, "all"), ["get"]);
    let mut changed = combined("all", &json!({}), "to-all");
    changed["rules"] = json!([{"verbs": ["delete"], "resources": ["pods"]}]);
    let mut cluster = cluster.with(changed);
    assert_eq!(verbs(&mut cluster, "all"), ["get"]);
}
