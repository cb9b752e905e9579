//! The fake cluster answers as the host does, so that a controller's tests find what is missing in
//! its manifest.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use pilothouse_sdk::testing::{FakeCluster, to_json};
use pilothouse_sdk::{
    Action, Apply, Children, Controller, Create, Delete, Event, Failure, Filter, Finalizer, Host,
    Manifest, Next, ObjectRef, Outcome, Patch, Read, Request, Selection, Verb,
};
use serde_json::{Value, json};

const PODS: &str = "v1/Pod";

fn manifest() -> Manifest {
    Manifest::new("test", "1.0.0", Selection::of(PODS))
        .reads(PODS, [".spec.nodeName"])
        .indexes("node", PODS, [".spec.nodeName"])
}

fn pod(namespace: &str, name: &str, app: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "uid": format!("uid-{name}"), "labels": {"app": app}},
        "spec": {"nodeName": format!("node-{name}"), "hostname": "h"},
    })
}

fn cluster() -> FakeCluster {
    let pods = [
        pod("b", "one", "web"),
        pod("a", "two", "web"),
        pod("a", "three", "db"),
    ];
    pods.into_iter()
        .fold(FakeCluster::new(manifest()), FakeCluster::with)
}

fn names(host: &dyn Host, namespace: Option<&str>, filter: &Filter) -> Vec<String> {
    let found: Vec<Value> = host
        .list(PODS, namespace, filter)
        .expect("pods can be listed");
    found
        .iter()
        .map(|pod| pod["metadata"]["name"].to_string().replace('"', ""))
        .collect()
}

#[test]
fn bookkeeping_is_neither_seen_nor_indexed() {
    let annotations = ".metadata.annotations";
    let manifest = Manifest::new("test", "1.0.0", Selection::of(PODS))
        .reads(PODS, [annotations])
        .indexes("annotation", PODS, [".metadata.annotations[*]"]);
    let mut pod = pod("a", "one", "web");
    pod["metadata"]["annotations"] = json!({
        "kubectl.kubernetes.io/last-applied-configuration": "{}", "example.com/owner": "me",
    });
    let cluster = FakeCluster::new(manifest).with(pod);
    let cluster: &dyn Host = &cluster;
    let by = |value: &str| names(cluster, None, &Filter::index("annotation", value));
    assert_eq!((by("me"), by("{}")), (vec!["one".to_owned()], vec![]));
    let all: Vec<Value> = cluster.list(PODS, None, &Filter::Everything).unwrap();
    assert_eq!(
        all[0]["metadata"]["annotations"],
        json!({"example.com/owner": "me"})
    );
}

#[test]
fn a_narrowed_read_shows_what_it_is_narrowed_to() {
    let read = Read::new(PODS, [".spec.nodeName"])
        .namespace("a")
        .labels("app=web")
        .field_selector("spec.nodeName=node-two");
    let manifest = Manifest::singleton("test", "1.0.0").reads_only(read);
    let all = [
        pod("b", "one", "web"),
        pod("a", "two", "web"),
        pod("a", "three", "db"),
        pod("a", "four", "web"),
    ];
    let cluster = all
        .into_iter()
        .fold(FakeCluster::new(manifest), FakeCluster::with);
    assert_eq!(names(&cluster, None, &Filter::Everything), ["two"]);
    let seen: &dyn Host = &cluster;
    let get = |namespace, name| seen.get::<Value>(&ObjectRef::new(PODS, namespace, name));
    assert!(get("a", "three").expect("permitted").is_none());
    assert!(get("b", "one").is_err(), "another namespace is denied");
    assert!(
        seen.list::<Value>(PODS, Some("b"), &Filter::Everything)
            .is_err()
    );
}

#[test]
fn a_list_is_ordered_and_filtered() {
    let cluster = cluster();
    assert_eq!(
        names(&cluster, None, &Filter::Everything),
        ["three", "two", "one"]
    );
    assert_eq!(
        names(&cluster, Some("a"), &Filter::Everything),
        ["three", "two"]
    );
    assert_eq!(
        names(&cluster, Some("a"), &Filter::match_labels([("app", "web")])),
        ["two"]
    );
    assert_eq!(
        names(&cluster, None, &Filter::index("node", "node-one")),
        ["one"]
    );
}

#[test]
fn a_selector_is_read_as_kubectl_writes_it_and_as_objects_hold_it() {
    let cluster = cluster();
    let selected = |filter: &Filter| names(&cluster, Some("a"), filter);
    assert_eq!(selected(&Filter::labels("app in (db)")), ["three"]);
    assert_eq!(selected(&Filter::labels("app notin (db)")), ["two"]);
    assert_eq!(selected(&Filter::labels("app")).len(), 2);
    assert!(selected(&Filter::labels("!app")).is_empty());
    let held = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["db"]}]});
    let held = Filter::label_selector(&held).expect("JSON is JSON");
    assert_eq!(selected(&held), ["three"]);
}

/// Makes a read that has no answer.
fn read_badly(read: impl FnOnce(&dyn Host) -> Result<(), Failure>) {
    let answer = read(&cluster());
    unreachable!("it is answered: {answer:?}");
}

#[test]
#[should_panic(
    expected = "the host stops the plugin: the manifest declares no index \"zone\" of v1/Pod"
)]
fn an_index_that_the_manifest_does_not_declare_ends_the_run() {
    let zone = Filter::index("zone", "z");
    read_badly(|host| host.list::<Value>(PODS, None, &zone).map(drop));
}

#[test]
#[should_panic(expected = "the host stops the plugin: label selector")]
fn a_selector_that_is_none_ends_the_run() {
    let broken = Filter::labels("app==,");
    read_badly(|host| host.list::<Value>(PODS, None, &broken).map(drop));
}

#[test]
#[should_panic(expected = "the host stops the plugin: \"Pod\" is not a kind")]
fn a_kind_that_is_none_ends_the_run() {
    let pod = ObjectRef::new("Pod", "a", "two");
    read_badly(|host| host.get::<Value>(&pod).map(drop));
}

#[test]
fn an_object_is_cut_down_to_the_manifests_fields() {
    let cluster = cluster();
    let cluster: &dyn Host = &cluster;
    let pod = ObjectRef::new(PODS, "b", "one");
    let found: Option<Value> = cluster.get(&pod).expect("a pod can be read");
    let metadata = json!({"namespace": "b", "name": "one", "uid": "uid-one"});
    assert_eq!(
        found,
        Some(json!({"metadata": metadata, "spec": {"nodeName": "node-one"}}))
    );
}

#[test]
fn a_view_says_whether_its_object_is_being_deleted() {
    let mut ending = pod("b", "one", "web");
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let cluster = cluster().with(ending);
    let cluster: &dyn Host = &cluster;
    let found: Option<Value> = cluster
        .get(&ObjectRef::new(PODS, "b", "one"))
        .expect("a pod can be read");
    let found = found.unwrap_or_default();
    assert_eq!(
        found["metadata"]["deletionTimestamp"],
        "2026-01-01T00:00:00Z"
    );
}

#[test]
fn what_the_manifest_does_not_read_is_denied() {
    let cluster = cluster();
    let cluster: &dyn Host = &cluster;
    let secret = cluster.get::<Value>(&ObjectRef::new("v1/Secret", "a", "b"));
    assert!(
        matches!(secret, Err(Failure::Terminal(message)) if message == "denied: v1/Secret is not among the manifest's reads")
    );
}

#[test]
fn an_object_of_another_shape_is_a_failure_and_names_it() {
    let cluster = cluster();
    let cluster: &dyn Host = &cluster;
    let found = cluster.get::<Vec<u8>>(&ObjectRef::new(PODS, "b", "one"));
    assert!(matches!(found, Err(Failure::Terminal(message)) if message.contains("v1/Pod b/one")));
}

/// Applies the object in its configuration and logs the time.
struct Applies;

impl Controller for Applies {
    fn manifest() -> Manifest {
        manifest().writes(PODS, [Verb::Apply])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let object: Value = request.configuration()?;
        host.info("turn", &[("seconds", &host.now().as_secs().to_string())]);
        Ok(Outcome::done()
            .with(Apply::new(&object)?)
            .requeue_after(Duration::from_secs(2)))
    }
}

#[test]
fn a_turn_is_given_its_configuration_and_time() {
    let cluster = FakeCluster::new(Applies::manifest())
        .configured(&pod("a", "b", "web"))
        .at(Duration::from_secs(7));
    let outcome = cluster
        .reconcile::<Applies>("a", "b")
        .expect("the write is declared");
    assert_eq!(outcome.next, Next::After(2_000));
    assert_eq!(
        to_json(&outcome.stages[0].actions[0]),
        json!({"apply": {"object": pod("a", "b", "web"), "force": false}})
    );
    assert_eq!(cluster.lines(), ["INFO turn seconds=7"]);
}

#[test]
fn a_line_can_be_of_every_level() {
    let cluster = cluster();
    let log: &dyn Host = &cluster;
    log.debug("d", &[("a", "b")]);
    log.info("i", &[]);
    log.warn("w", &[]);
    log.error("e", &[("a", "b"), ("c", "d")]);
    assert_eq!(
        cluster.lines(),
        ["DEBUG d a=b", "INFO i", "WARN w", "ERROR e a=b c=d"]
    );
}

#[test]
fn a_write_the_manifest_does_not_declare_fails_the_outcome() {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    let cluster = FakeCluster::new(Applies::manifest()).configured(&secret);
    let failure = cluster
        .reconcile::<Applies>("a", "b")
        .expect_err("Secrets are not declared");
    assert!(
        matches!(failure, Failure::Terminal(message) if message == "action 1 (apply): denied: apply of v1/Secret is not among the manifest's writes")
    );
}

#[test]
fn actions_are_compared_in_the_words_of_the_contract() -> Result<(), serde_json::Error> {
    let pod = ObjectRef::new(PODS, "a", "b");
    let object = json!({"kind": "v1/Pod", "namespace": "a", "name": "b"});
    let body: BTreeMap<&str, &str> = BTreeMap::from([("x", "y")]);
    let rows: [(Action, Value); 6] = [
        (
            Create::new(&body)?.subresource("eviction").into(),
            json!({"create": {"object": {"x": "y"}, "subresource": "eviction"}}),
        ),
        (
            Patch::merge(&pod, &body)?.into(),
            json!({"patch": {"object": object, "patch-type": "merge-patch", "body": {"x": "y"}}}),
        ),
        (
            Delete::new(&pod).uid("u").into(),
            json!({"delete": {"object": object, "uid": "u"}}),
        ),
        (
            Event::warning(&pod, "FailedCreate", "Create", "no").into(),
            json!({"event": {
                "object": object, "event-type": "warning", "reason": "FailedCreate", "action": "Create", "note": "no",
            }}),
        ),
        (
            Finalizer::remove(&pod, "f").into(),
            json!({"finalizer": {"object": object, "name": "f", "present": false}}),
        ),
        (
            Children::new([&body])?.into(),
            json!({"children": {"objects": [{"x": "y"}]}}),
        ),
    ];
    for (action, expected) in rows {
        assert_eq!(to_json(&action), expected);
    }
    Ok(())
}

/// Answers otherwise each time it runs, or reads something else, as its configuration says.
struct Fickle;

thread_local! {
    static RUNS: Cell<u32> = const { Cell::new(0) };
}

impl Controller for Fickle {
    fn manifest() -> Manifest {
        manifest()
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let run = RUNS.replace(RUNS.get() + 1);
        let config: Value = request.configuration()?;
        if config["reads"] == true {
            host.get::<Value>(&ObjectRef::new(PODS, "a", &run.to_string()))?;
            return Ok(Outcome::done());
        }
        Ok(Outcome::done().requeue_after(Duration::from_secs(u64::from(run))))
    }
}

#[test]
#[should_panic(expected = "is not pure: run twice on the same request and snapshot, it returned")]
fn a_controller_that_decides_otherwise_when_it_is_asked_again_fails_its_test() {
    drop(cluster().reconcile::<Fickle>("a", "b"));
}

#[test]
#[should_panic(expected = "is not pure: run twice on the same request and snapshot, it read")]
fn a_controller_that_reads_something_else_when_it_is_asked_again_fails_its_test() {
    let cluster = cluster().configured(&json!({"reads": true}));
    drop(cluster.reconcile::<Fickle>("a", "b"));
}

/// Goes on as if there were no Secrets when it may not read them.
struct Careless;

impl Controller for Careless {
    fn manifest() -> Manifest {
        manifest()
    }

    fn reconcile(_: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let secrets = "v1/Secret";
        let all: Vec<Value> = host
            .list(secrets, None, &Filter::Everything)
            .unwrap_or_default();
        assert!(all.is_empty());
        Ok(Outcome::done())
    }
}

#[test]
fn a_read_the_manifest_does_not_declare_fails_the_outcome() {
    let denied = "denied: v1/Secret is not among the manifest's reads";
    let failure = cluster().reconcile::<Careless>("a", "b");
    assert_eq!(failure, Err(Failure::terminal(denied)));
}
