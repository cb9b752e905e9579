//! The fake cluster answers as the host does, so that a controller's tests find what is missing in
//! its manifest.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use pilothouse_sdk::testing::{FakeCluster, to_json};
use pilothouse_sdk::{
    Action, Apply, Children, Cluster, Controller, Create, Delete, Event, Failure, Filter,
    Finalizer, Kind, LabelRequirement, Manifest, ObjectKey, Outcome, Patch, Read, Request,
    Selection, Subject, Verb,
};
use serde_json::{Value, json};

fn pods() -> Kind {
    Kind::core("v1", "Pod")
}

fn manifest() -> Manifest {
    Manifest::new("test", "1.0.0", Selection::of(&pods()))
        .reads(&pods(), [".spec.nodeName"])
        .indexes("node", &pods(), [".spec.nodeName"])
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

fn names(cluster: &dyn Cluster, namespace: Option<&str>, filter: &Filter) -> Vec<String> {
    let found: Vec<Value> = cluster
        .list(&pods(), namespace, filter)
        .expect("pods can be listed");
    found
        .iter()
        .map(|pod| pod["metadata"]["name"].to_string().replace('"', ""))
        .collect()
}

#[test]
fn bookkeeping_is_neither_seen_nor_indexed() {
    let annotations = ".metadata.annotations";
    let manifest = Manifest::new("test", "1.0.0", Selection::of(&pods()))
        .reads(&pods(), [annotations])
        .indexes("annotation", &pods(), [".metadata.annotations[*]"]);
    let mut pod = pod("a", "one", "web");
    pod["metadata"]["annotations"] = json!({
        "kubectl.kubernetes.io/last-applied-configuration": "{}", "example.com/owner": "me",
    });
    let cluster = FakeCluster::new(manifest).with(pod);
    let cluster: &dyn Cluster = &cluster;
    let by = |value: &str| names(cluster, None, &Filter::index("annotation", value));
    assert_eq!((by("me"), by("{}")), (vec!["one".to_owned()], vec![]));
    let all: Vec<Value> = cluster.list(&pods(), None, &Filter::Everything).unwrap();
    assert_eq!(
        all[0]["metadata"]["annotations"],
        json!({"example.com/owner": "me"})
    );
}

#[test]
fn a_narrowed_read_shows_what_it_is_narrowed_to() {
    let read = Read::new(&pods(), [".spec.nodeName"])
        .in_namespace("a")
        .label("app", "web")
        .matching("spec.nodeName=node-two");
    let manifest = Manifest::new("test", "1.0.0", Subject::Singleton).reads_only(read);
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
    let seen: &dyn Cluster = &cluster;
    let get = |namespace, name| seen.get::<Value>(&pods(), &ObjectKey::new(namespace, name));
    assert!(get("a", "three").expect("permitted").is_none());
    assert!(get("b", "one").is_err(), "another namespace is denied");
    assert!(
        seen.list::<Value>(&pods(), Some("b"), &Filter::Everything)
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
fn every_label_requirement_is_honoured() {
    let cluster = cluster();
    let selected = |requirement| names(&cluster, Some("a"), &Filter::Labels(vec![requirement]));
    let app = || "app".to_owned();
    assert_eq!(
        selected(LabelRequirement::OneOf((app(), vec!["db".to_owned()]))),
        ["three"]
    );
    assert_eq!(
        selected(LabelRequirement::NoneOf((app(), vec!["db".to_owned()]))),
        ["two"]
    );
    assert_eq!(selected(LabelRequirement::Exists(app())).len(), 2);
    assert!(selected(LabelRequirement::Absent(app())).is_empty());
}

#[test]
fn an_object_is_cut_down_to_the_manifests_fields() {
    let cluster = cluster();
    let cluster: &dyn Cluster = &cluster;
    let key = ObjectKey::new("b", "one");
    let found: Option<Value> = cluster.get(&pods(), &key).expect("a pod can be read");
    let metadata = json!({"namespace": "b", "name": "one", "uid": "uid-one"});
    assert_eq!(
        found,
        Some(json!({"metadata": metadata, "spec": {"nodeName": "node-one"}}))
    );

    let part = |pointer| cluster.get_part::<String>(&pods(), &key, pointer);
    assert_eq!(part("/spec/nodeName"), Ok(Some("node-one".to_owned())));
    assert_eq!(
        part("/spec/hostname"),
        Ok(None),
        "not among the manifest's fields"
    );
    assert!(
        matches!(part("spec"), Err(Failure::Terminal(_))),
        "not a JSON Pointer"
    );
}

#[test]
fn what_the_manifest_does_not_read_is_denied() {
    let cluster = cluster();
    let cluster: &dyn Cluster = &cluster;
    let secret = cluster.get::<Value>(&Kind::core("v1", "Secret"), &ObjectKey::new("a", "b"));
    assert!(
        matches!(secret, Err(Failure::Terminal(message)) if message == "denied: v1/Secret is not among the manifest's reads")
    );
    let by_zone = cluster.list::<Value>(&pods(), None, &Filter::index("zone", "z"));
    assert!(matches!(by_zone, Err(Failure::Terminal(message)) if message.contains("zone")));
}

#[test]
fn an_object_of_another_shape_is_a_failure_and_names_it() {
    let cluster = cluster();
    let cluster: &dyn Cluster = &cluster;
    let found = cluster.get::<Vec<u8>>(&pods(), &ObjectKey::new("b", "one"));
    assert!(matches!(found, Err(Failure::Terminal(message)) if message.contains("v1 Pod b/one")));
}

/// Applies the object in its configuration and logs the time.
struct Applies;

impl Controller for Applies {
    fn manifest() -> Manifest {
        manifest().writes(&pods(), [Verb::Apply])
    }

    fn reconcile(request: &Request, cluster: &dyn Cluster) -> Result<Outcome, Failure> {
        let object: Value = request.configuration()?;
        cluster.info("turn", &[("seconds", &cluster.now().as_secs().to_string())]);
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
    assert_eq!(outcome.requeue_after, Some(2_000));
    assert_eq!(
        to_json(&outcome.actions[0]),
        json!({"apply": {"object": pod("a", "b", "web"), "force": false}})
    );
    assert_eq!(cluster.lines(), ["INFO turn seconds=7"]);
}

#[test]
fn a_line_can_be_of_every_level() {
    let cluster = cluster();
    let log: &dyn Cluster = &cluster;
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
    let key = ObjectKey::new("a", "b");
    let kind = json!({"group": "", "version": "v1", "kind": "Pod"});
    let place = json!({"namespace": "a", "name": "b"});
    let body: BTreeMap<&str, &str> = BTreeMap::from([("x", "y")]);
    let rows: [(Action, Value); 6] = [
        (
            Create::new(&body)?.subresource("eviction").into(),
            json!({"create": {"object": {"x": "y"}, "subresource": "eviction"}}),
        ),
        (
            Patch::merge(&pods(), &key, &body)?.into(),
            json!({"patch": {"kind": kind, "key": place, "patch-type": "merge-patch", "body": {"x": "y"}}}),
        ),
        (
            Delete::new(&pods(), &key).uid("u").into(),
            json!({"delete": {"kind": kind, "key": place, "uid": "u"}}),
        ),
        (
            Event::warning(&pods(), &key, "FailedCreate", "Create", "no").into(),
            json!({"event": {
                "kind": kind, "key": place, "event-type": "warning", "reason": "FailedCreate", "action": "Create", "note": "no",
            }}),
        ),
        (
            Finalizer::remove(&pods(), &key, "f").into(),
            json!({"finalizer": {"kind": kind, "key": place, "name": "f", "present": false}}),
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

    fn reconcile(request: &Request, cluster: &dyn Cluster) -> Result<Outcome, Failure> {
        let run = RUNS.replace(RUNS.get() + 1);
        let config: Value = request.configuration()?;
        if config["reads"] == true {
            let key = ObjectKey::new("a", &run.to_string());
            cluster.get::<Value>(&pods(), &key)?;
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

    fn reconcile(_: &Request, cluster: &dyn Cluster) -> Result<Outcome, Failure> {
        let secrets = Kind::core("v1", "Secret");
        let all: Vec<Value> = cluster
            .list(&secrets, None, &Filter::Everything)
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
