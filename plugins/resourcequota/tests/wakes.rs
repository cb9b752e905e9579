//! Which changes run which quotas, and what several runs come to, by the host's own rules.

use std::time::Duration;

use pilothouse_sdk::testing::{Failing, FakeCluster, WriteError};
use pilothouse_sdk::{Controller, ObjectRef, Verb};
use resourcequota::ResourceQuotaController;
use serde_json::{Value, json};

const QUOTA: &str = "v1/ResourceQuota";
const POD: &str = "v1/Pod";
const START: Duration = Duration::from_secs(1_000_000);

fn quota(name: &str, limited: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"namespace": "default", "name": name}, "spec": {"hard": {limited: "10"}},
    })
}

fn object(kind: &str, namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": kind, "metadata": {"namespace": namespace, "name": name},
    })
}

fn cluster() -> FakeCluster {
    FakeCluster::new(ResourceQuotaController::manifest()).at(START)
}

/// The quotas that the host runs until none is due, each once. No run fails.
fn run(cluster: &mut FakeCluster) -> Vec<String> {
    let runs = cluster.run_due::<ResourceQuotaController>();
    let failed: Vec<_> = runs.iter().filter(|run| run.error.is_some()).collect();
    assert!(failed.is_empty(), "{failed:?}");
    let keys = runs.into_iter().filter_map(|run| run.key);
    let mut names: Vec<String> = keys.map(|key| key.name).collect();
    names.sort();
    names.dedup();
    names
}

fn used(cluster: &FakeCluster, name: &str) -> Value {
    let quota = cluster.object(&ObjectRef::new(QUOTA, "default", name));
    let used = quota.and_then(|quota| quota["status"]["used"].as_object().cloned());
    let amounts = used.map(|used| used.values().cloned().collect::<Vec<_>>());
    amounts
        .unwrap_or_default()
        .first()
        .cloned()
        .unwrap_or_default()
}

#[test]
fn a_change_runs_the_quotas_that_count_what_has_changed() {
    let mut cluster = cluster()
        .defining(POD, true)
        .defining("v1/Service", true)
        .with(quota("maps", "count/configmaps"))
        .with(quota("pods", "pods"))
        .with(quota("services", "services"))
        .with(object("ConfigMap", "default", "a"));
    assert_eq!(run(&mut cluster), ["maps", "pods", "services"]);
    assert_eq!(used(&cluster, "maps"), "1");
    assert_eq!(used(&cluster, "pods"), "0");

    let mut cluster = cluster.with(object("Pod", "default", "a"));
    assert_eq!(run(&mut cluster), ["pods"]);
    assert_eq!(used(&cluster, "pods"), "1");

    let mut cluster = cluster.with(object("Service", "default", "a"));
    assert_eq!(run(&mut cluster), ["services"]);

    let mut cluster = cluster.with(object("ConfigMap", "default", "b"));
    assert_eq!(run(&mut cluster), ["maps"]);
    assert_eq!(used(&cluster, "maps"), "2");

    let mut cluster = cluster.with(object("Pod", "other", "a"));
    assert_eq!(run(&mut cluster), [""; 0], "another namespace");

    cluster.delete(&ObjectRef::new(POD, "default", "a"));
    assert_eq!(run(&mut cluster), ["pods"]);
    assert_eq!(used(&cluster, "pods"), "0");
}

/// Upstream: `TestDiscoverySync`.
#[test]
fn a_kind_is_counted_when_it_is_defined() {
    let kind = "example.com/v1/Widget";
    let mut cluster = cluster().with(quota("a", "count/widgets.example.com"));
    run(&mut cluster);
    assert_eq!(used(&cluster, "a"), Value::Null);
    let mut cluster = cluster.defining(kind, true);
    assert_eq!(run(&mut cluster), ["a"]);
    assert_eq!(used(&cluster, "a"), "0");
    let mut cluster = cluster.with(json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"namespace": "default", "name": "w"},
    }));
    assert_eq!(run(&mut cluster), ["a"]);
    assert_eq!(used(&cluster, "a"), "1");
}

/// What the API server's admission does: it counts a pod, and stores it after that.
#[test]
fn what_is_let_in_stays_counted_until_it_is_seen_and_no_longer_than_the_period() {
    let mut cluster = cluster().with(quota("a", "pods"));
    run(&mut cluster);
    let mut admitted = quota("a", "pods");
    admitted["status"] = json!({"hard": {"pods": "10"}, "used": {"pods": "1"}});
    let mut cluster = cluster.with(admitted);
    assert_eq!(run(&mut cluster), ["a"]);
    assert_eq!(used(&cluster, "a"), "1");
    let mut cluster = cluster.with(object("Pod", "default", "a"));
    run(&mut cluster);
    assert_eq!(used(&cluster, "a"), "1");

    let mut admitted = quota("a", "pods");
    admitted["status"] = json!({"hard": {"pods": "10"}, "used": {"pods": "2"}});
    let mut cluster = cluster.with(admitted).at(START + Duration::from_secs(299));
    run(&mut cluster);
    assert_eq!(used(&cluster, "a"), "2");
    let mut cluster = cluster.at(START + Duration::from_secs(300));
    assert_eq!(run(&mut cluster), ["a"], "the pod never came");
    assert_eq!(used(&cluster, "a"), "1");
}

#[test]
fn without_a_period_nothing_is_counted_anew() {
    let config = json!({"recalculationSeconds": 0});
    let mut cluster = cluster().configured(&config).with(quota("a", "pods"));
    run(&mut cluster);
    let mut admitted = quota("a", "pods");
    admitted["status"] = json!({"hard": {"pods": "10"}, "used": {"pods": "1"}});
    let mut cluster = cluster.with(admitted).at(START * 2);
    run(&mut cluster);
    assert_eq!(used(&cluster, "a"), "1");
}

#[test]
fn a_pod_frees_what_it_used_when_its_grace_period_is_over() {
    let mut ending = object("Pod", "default", "a");
    ending["metadata"]["deletionTimestamp"] = json!("1970-01-12T13:46:40Z");
    ending["metadata"]["deletionGracePeriodSeconds"] = json!(30);
    ending["metadata"]["finalizers"] = json!(["example.com/stay"]);
    let mut cluster = cluster().with(quota("a", "pods")).with(ending);
    run(&mut cluster);
    assert_eq!(used(&cluster, "a"), "1");
    let mut cluster = cluster.at(START + Duration::from_secs(30));
    run(&mut cluster);
    assert_eq!(used(&cluster, "a"), "1", "the last moment");
    let mut cluster = cluster.at(START + Duration::from_millis(30_001));
    assert_eq!(run(&mut cluster), ["a"]);
    assert_eq!(used(&cluster, "a"), "0");
}

#[test]
fn what_could_not_be_written_is_written_later() {
    let refused = Failing::next(Verb::Patch, QUOTA, WriteError::Conflict).subresource("status");
    let mut cluster = cluster()
        .with(quota("a", "pods"))
        .with(object("Pod", "default", "a"))
        .failing(refused.after(1));
    run(&mut cluster);
    assert_eq!(used(&cluster, "a"), "1");
    cluster.delete(&ObjectRef::new(POD, "default", "a"));
    cluster.run_due::<ResourceQuotaController>();
    let mut cluster = cluster.at(START + Duration::from_secs(10));
    cluster.run_due::<ResourceQuotaController>();
    assert_eq!(used(&cluster, "a"), "0");
}

/// With as many pods as are counted in a second, the quota rests for a second.
#[test]
fn a_quota_of_many_pods_rests() {
    let many = (0..1_000).map(|number| object("Pod", "default", &format!("p{number}")));
    let mut cluster = many.fold(cluster().with(quota("a", "pods")), FakeCluster::with);
    run(&mut cluster);
    // The run that follows its own write.
    let mut cluster = cluster.at(START + Duration::from_millis(200));
    run(&mut cluster);
    cluster.delete(&ObjectRef::new(POD, "default", "p1"));
    let mut cluster = cluster.at(START + Duration::from_millis(250));
    assert_eq!(run(&mut cluster), [""; 0]);
    let mut cluster = cluster.at(START + Duration::from_millis(300));
    assert_eq!(run(&mut cluster), ["a"]);
    assert_eq!(used(&cluster, "a"), "999");
}

/// What pods use that are alike is worked out once, and remembered of no more than a thousand.
#[test]
fn each_pod_counts_by_its_own_deletion_whichever_others_are_like_it() {
    let asking = |name: &str, cpu: usize| {
        let mut pod = object("Pod", "default", name);
        let resources = json!({"requests": {"cpu": format!("{cpu}m")}});
        pod["spec"] = json!({"containers": [{"name": "main", "resources": resources}]});
        pod
    };
    let mut gone = asking("gone", 1_000);
    gone["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:01Z");
    gone["metadata"]["deletionGracePeriodSeconds"] = json!(1);
    gone["metadata"]["finalizers"] = json!(["example.com/stays"]);
    let cluster = cluster()
        .with(quota("a", "requests.cpu"))
        .with(quota("b", "count/pods"))
        .with(asking("alike", 1_000))
        .with(gone)
        .with(asking("like-those", 1_000));
    let others = (1..=1_100).map(|cpu| asking(&format!("p{cpu}"), cpu));
    let mut cluster = others.fold(cluster, FakeCluster::with);
    run(&mut cluster);
    // 1 + 2 + … + 1,100, and two of a whole one.
    assert_eq!(used(&cluster, "a"), "607550m");
    assert_eq!(used(&cluster, "b"), "1103");
}
