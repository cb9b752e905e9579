//! The next reconcile sees what the one before has left: the fake cluster performs outcomes as an
//! API server would.

use std::time::Duration;

use pilothouse_sdk::testing::FakeCluster;
use pilothouse_sdk::{
    ActionResult, Apply, Children, Controller, Create, Delete, Effect, EffectVerb, Event, Failure,
    Finalizer, Host, Manifest, ObjectRef, Outcome, Patch, Request, Selection, Update, Verb,
};
use serde_json::{Value, json};

const SITES: &str = "example.com/v1/Site";

const CONFIG_MAPS: &str = "v1/ConfigMap";

fn key() -> ObjectRef {
    ObjectRef::new(SITES, "default", "a")
}

/// A manifest that allows everything for Sites and ConfigMaps.
fn manifest() -> Manifest {
    let verbs = || {
        [
            Verb::Apply,
            Verb::Create,
            Verb::Update,
            Verb::Patch,
            Verb::Delete,
        ]
    };
    Manifest::singleton("test", "1.0.0")
        .reads_whole(SITES)
        .reads_whole(CONFIG_MAPS)
        .writes(SITES, verbs())
        .writes_subresource(SITES, "status", verbs())
        .writes(CONFIG_MAPS, verbs())
        .keeps_children(CONFIG_MAPS)
}

fn site(spec: &Value) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Site",
        "metadata": {"namespace": "default", "name": "a", "uid": "u1", "resourceVersion": "7", "generation": 1},
        "spec": spec,
    })
}

/// A Site as a plugin would apply it.
fn applied(members: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "example.com/v1", "kind": "Site",
        "metadata": {"namespace": "default", "name": "a"},
    });
    for (name, value) in members.as_object().into_iter().flatten() {
        object[name] = value.clone();
    }
    object
}

fn config_map(name: &str, data: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": name}, "data": data,
    })
}

fn cluster() -> FakeCluster {
    FakeCluster::new(manifest())
}

/// Performs one action and returns the result of its first write.
fn act(cluster: &mut FakeCluster, action: impl Into<pilothouse_sdk::Action>) -> ActionResult {
    let results = performed(cluster, &Outcome::done().with(action));
    results.into_iter().next().expect("a result for the action")
}

fn apply(object: &Value) -> Apply {
    Apply::new(object).expect("JSON is JSON")
}

/// What became of each write of an outcome.
fn performed(cluster: &mut FakeCluster, outcome: &Outcome) -> Vec<ActionResult> {
    let effects = cluster.apply("default", "a", outcome).into_iter();
    effects.map(|effect| effect.outcome).collect()
}

fn done(result: &ActionResult) -> bool {
    matches!(result, ActionResult::Done(_))
}

fn shown(cluster: &FakeCluster) -> Value {
    cluster.object(&key()).cloned().unwrap_or_default()
}

#[test]
fn an_apply_changes_what_it_says_and_takes_away_what_it_no_longer_says() {
    let mut cluster = cluster().with(site(&json!({"theirs": 1})));
    let first = applied(&json!({"spec": {"ours": {"a": 1, "b": 2}, "list": [1, 2]}}));
    assert!(done(&act(&mut cluster, apply(&first))));
    let wanted = json!({"theirs": 1, "ours": {"a": 1, "b": 2}, "list": [1, 2]});
    assert_eq!(shown(&cluster)["spec"], wanted);
    assert_eq!(shown(&cluster)["metadata"]["generation"], 2);
    assert_eq!(act(&mut cluster, apply(&first)), ActionResult::Unchanged);

    let second = applied(&json!({"spec": {"ours": {"b": 3}}}));
    assert!(done(&act(&mut cluster, apply(&second))));
    let wanted = json!({"theirs": 1, "ours": {"b": 3}});
    assert_eq!(shown(&cluster)["spec"], wanted);
    assert!(done(&act(&mut cluster, apply(&applied(&json!({}))))));
    assert_eq!(shown(&cluster)["spec"], json!({"theirs": 1}));
}

#[test]
fn an_empty_object_is_no_claim_on_what_is_in_it() {
    let mut cluster = cluster().with(site(&json!({"selector": {"theirs": 1}})));
    let empty = applied(&json!({"spec": {"selector": {}, "more": {}}}));
    assert!(done(&act(&mut cluster, apply(&empty))));
    let both = json!({"selector": {"theirs": 1}, "more": {}});
    assert_eq!(shown(&cluster)["spec"], both);
    assert!(done(&act(&mut cluster, apply(&applied(&json!({}))))));
    assert_eq!(shown(&cluster)["spec"], json!({"selector": {"theirs": 1}}));
}

#[test]
fn owners_and_finalizers_are_merged_one_by_one() {
    let owner =
        |uid: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": uid});
    let mut theirs = site(&json!({}));
    theirs["metadata"]["ownerReferences"] = json!([owner("u2")]);
    let mut ours = config_map("o", &json!({}));
    ours["metadata"]["uid"] = "u3".into();
    let mut cluster = cluster().with(theirs).with(ours);
    let mut wanted = applied(&json!({}));
    wanted["metadata"]["ownerReferences"] = json!([owner("u3")]);
    assert!(done(&act(&mut cluster, apply(&wanted))));
    let owners = shown(&cluster)["metadata"]["ownerReferences"].clone();
    assert_eq!(owners, json!([owner("u2"), owner("u3")]));
    assert!(done(&act(&mut cluster, apply(&applied(&json!({}))))));
    let owners = shown(&cluster)["metadata"]["ownerReferences"].clone();
    assert_eq!(owners, json!([owner("u2")]));
}

#[test]
fn an_apply_takes_what_is_anothers_only_with_force() {
    let mut cluster = cluster().with(site(&json!({"replicas": 1})));
    let wanted = applied(&json!({"spec": {"replicas": 2}}));
    let refused = act(&mut cluster, apply(&wanted));
    assert!(
        matches!(&refused, ActionResult::Conflict(reason) if reason.contains(".spec.replicas")),
        "{refused:?}"
    );
    assert_eq!(shown(&cluster)["spec"]["replicas"], 1);
    assert!(done(&act(&mut cluster, apply(&wanted).force())));
    let wanted = applied(&json!({"spec": {"replicas": 3}}));
    assert!(
        done(&act(&mut cluster, apply(&wanted))),
        "now it is the plugin's"
    );
}

#[test]
fn an_apply_creates_what_is_not_there() {
    let mut cluster = cluster().at(Duration::from_secs(1_767_323_045));
    let wanted = applied(&json!({"spec": {"a": 1}, "status": {"ready": true}}));
    assert!(done(&act(&mut cluster, apply(&wanted))));
    let metadata = shown(&cluster)["metadata"].clone();
    assert_eq!(metadata["creationTimestamp"], "2026-01-02T03:04:05Z");
    assert_eq!(metadata["generation"], 1);
    assert!(metadata["uid"].is_string() && metadata["resourceVersion"].is_string());
    assert!(shown(&cluster).get("status").is_none(), "not by this way");
}

#[test]
fn status_is_written_through_its_subresource_alone() {
    let mut cluster = cluster().with(site(&json!({"a": 1})));
    let both = applied(&json!({"spec": {"b": 2}, "status": {"ready": true}}));
    assert!(done(&act(&mut cluster, apply(&both).subresource("status"))));
    assert_eq!(shown(&cluster)["spec"], json!({"a": 1}));
    assert_eq!(shown(&cluster)["status"], json!({"ready": true}));
    assert_eq!(shown(&cluster)["metadata"]["generation"], 1);

    let mut replacement = site(&json!({"c": 3}));
    replacement["metadata"]["resourceVersion"] =
        shown(&cluster)["metadata"]["resourceVersion"].clone();
    replacement["status"] = json!({"ready": false});
    let update = Update::new(&replacement).expect("JSON is JSON");
    assert!(done(&act(&mut cluster, update)));
    assert_eq!(shown(&cluster)["spec"], json!({"c": 3}));
    assert_eq!(shown(&cluster)["status"], json!({"ready": true}));
}

#[test]
fn the_status_of_what_is_not_there_is_not_found() {
    let status = applied(&json!({"status": {"ready": true}}));
    let result = act(&mut cluster(), apply(&status).subresource("status"));
    assert!(matches!(result, ActionResult::NotFound(_)), "{result:?}");
}

#[test]
fn an_object_with_finalizers_goes_with_the_last_of_them() {
    let mut cluster = cluster()
        .with(site(&json!({})))
        .at(Duration::from_secs(86_400));
    assert!(done(&act(&mut cluster, Finalizer::add(&key(), "x/f"))));
    let again = act(&mut cluster, Finalizer::add(&key(), "x/f"));
    assert_eq!(again, ActionResult::Unchanged);
    assert!(done(&act(&mut cluster, Delete::new(&key()))));
    assert_eq!(
        shown(&cluster)["metadata"]["deletionTimestamp"],
        "1970-01-02T00:00:00Z"
    );
    let late = act(&mut cluster, Finalizer::add(&key(), "x/g"));
    assert!(matches!(late, ActionResult::Invalid(_)), "{late:?}");
    assert!(done(&act(&mut cluster, Finalizer::remove(&key(), "x/f"))));
    assert!(cluster.object(&key()).is_none());
    let gone = act(&mut cluster, Finalizer::remove(&key(), "x/f"));
    assert_eq!(gone, ActionResult::Unchanged);
}

#[test]
fn a_delete_holds_for_the_object_that_was_meant() {
    let mut cluster = cluster().with(site(&json!({})));
    for precondition in [
        Delete::new(&key()).uid("u2"),
        Delete::new(&key()).resource_version("6"),
    ] {
        let result = act(&mut cluster, precondition);
        assert!(matches!(result, ActionResult::Conflict(_)), "{result:?}");
    }
    let delete = Delete::new(&key()).uid("u1").resource_version("7");
    assert!(done(&act(&mut cluster, delete)));
    assert!(cluster.object(&key()).is_none());
    let again = act(&mut cluster, Delete::new(&key()));
    assert!(done(&again), "what is gone is deleted");
}

#[test]
fn a_create_happens_once() {
    let mut cluster = cluster();
    let create = || Create::new(&config_map("a", &json!({}))).expect("JSON is JSON");
    assert!(done(&act(&mut cluster, create())));
    let again = act(&mut cluster, create());
    assert!(matches!(again, ActionResult::AlreadyExists(_)), "{again:?}");
}

#[test]
fn a_generated_name_is_the_same_on_every_try() {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "default", "generateName": "job-"},
    });
    let create = || Create::new(&object).expect("JSON is JSON");
    let mut cluster = cluster();
    let two = Outcome::done().with(create()).with(create());
    assert!(performed(&mut cluster, &two).iter().all(done), "two names");
    let again = performed(&mut cluster, &two);
    assert!(
        matches!(again[0], ActionResult::AlreadyExists(_)),
        "{again:?}"
    );
    assert_eq!(again[1], ActionResult::Skipped);

    let names: Vec<Value> = (&cluster as &dyn Host)
        .list(CONFIG_MAPS, None, &pilothouse_sdk::Filter::Everything)
        .expect("permitted");
    assert_eq!(names.len(), 2);
    for object in names {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        assert!(name.starts_with("job-") && name.len() == 12, "{name}");
    }
}

#[test]
fn an_update_is_of_the_version_that_was_seen_and_keeps_finalizers() {
    let mut stored = site(&json!({"a": 1}));
    stored["metadata"]["finalizers"] = json!(["x/f"]);
    let mut cluster = cluster().with(stored.clone());
    let update = |object: &Value| Update::new(object).expect("JSON is JSON");
    // The version in its body does not matter, as the plugin reads the object.
    let mut old = site(&json!({"b": 2}));
    old["metadata"]["resourceVersion"] = "6".into();
    let looked = cluster.reconcile::<Looks>("default", "a");
    assert_eq!(looked, Ok(Outcome::done()));
    stored["metadata"]["resourceVersion"] = "8".into();
    cluster = cluster.with(stored);
    let result = act(&mut cluster, update(&old));
    assert!(matches!(result, ActionResult::Conflict(_)), "{result:?}");
    assert!(done(&act(&mut cluster, update(&old))));
    assert_eq!(shown(&cluster)["spec"], json!({"b": 2}));
    assert_eq!(shown(&cluster)["metadata"]["finalizers"], json!(["x/f"]));
    assert_eq!(shown(&cluster)["metadata"]["uid"], "u1");
}

#[test]
fn a_patch_is_done_as_its_rfc_says() {
    let mut cluster = cluster().with(site(&json!({"a": {"b": 1, "c": 2}, "l": [1, 2]})));
    let merge = json!({"spec": {"a": {"b": null, "d": 3}}, "status": {"x": 1}});
    let patch = Patch::merge(&key(), &merge).expect("JSON is JSON");
    assert!(done(&act(&mut cluster, patch)));
    assert_eq!(shown(&cluster)["spec"]["a"], json!({"c": 2, "d": 3}));
    assert!(shown(&cluster).get("status").is_none());

    let json = |steps: Value| Patch::json(&key(), &steps).expect("JSON is JSON");
    let steps = json!([
        {"op": "test", "path": "/spec/a/c", "value": 2},
        {"op": "add", "path": "/spec/l/-", "value": 3},
        {"op": "remove", "path": "/spec/l/0"},
        {"op": "replace", "path": "/spec/a/c", "value": 4},
        {"op": "move", "from": "/spec/a/d", "path": "/spec/d~1e"},
        {"op": "copy", "from": "/spec/a/c", "path": "/spec/f"},
    ]);
    assert!(done(&act(&mut cluster, json(steps))));
    let wanted = json!({"a": {"c": 4}, "l": [2, 3], "d/e": 3, "f": 4});
    assert_eq!(shown(&cluster)["spec"], wanted);

    for steps in [
        json!([{"op": "test", "path": "/spec/f", "value": 5}]),
        json!([{"op": "remove", "path": "/spec/nothing"}]),
        json!([{"op": "add", "path": "/spec/l/9", "value": 1}]),
    ] {
        let result = act(&mut cluster, json(steps));
        assert!(matches!(result, ActionResult::Conflict(_)), "{result:?}");
    }
    let none = act(
        &mut cluster,
        json(json!([{"op": "append", "path": "/spec/f"}])),
    );
    assert!(matches!(none, ActionResult::Invalid(_)), "{none:?}");
    let absent = json!([{"op": "test", "path": "/spec/nothing", "value": null}]);
    assert!(
        done(&act(&mut cluster, json(absent))),
        "what is absent is null"
    );
    assert_eq!(shown(&cluster)["spec"], wanted, "all of it or nothing");
}

#[test]
fn children_that_are_no_longer_wanted_are_deleted() {
    let children = |names: &[&str]| {
        let objects = names
            .iter()
            .map(|name| config_map(name, &json!({"k": "v"})));
        Children::new(objects).expect("JSON is JSON")
    };
    let names = |cluster: &FakeCluster| -> Vec<String> {
        let all = ["x", "y", "z", "other"].into_iter();
        let is_there = |name: &&str| {
            let key = ObjectRef::new(CONFIG_MAPS, "default", name);
            cluster.object(&key).is_some()
        };
        all.filter(is_there).map(str::to_owned).collect()
    };
    let mut cluster = cluster().with(config_map("other", &json!({})));
    assert!(done(&act(&mut cluster, children(&["x", "y"]))));
    assert_eq!(names(&cluster), ["x", "y", "other"]);
    assert_eq!(
        act(&mut cluster, children(&["x", "y"])),
        ActionResult::Unchanged
    );
    let of_another_key = Outcome::done().with(children(&["z"]));
    cluster.apply("default", "b", &of_another_key);
    assert_eq!(
        performed(&mut cluster, &Outcome::done().with(children(&["x"]))).len(),
        2,
        "x is applied, and y deleted"
    );
    assert_eq!(names(&cluster), ["x", "z", "other"]);
    assert!(done(&act(&mut cluster, children(&[]))));
    assert_eq!(names(&cluster), ["z", "other"]);
}

#[test]
fn a_strangers_object_of_a_childs_name_is_left_alone() {
    let key = ObjectRef::new(CONFIG_MAPS, "default", "x");
    let theirs = config_map("x", &json!({"k": "theirs"}));
    let mut cluster = cluster().with(theirs);
    let children = Children::new([config_map("x", &json!({"k": "ours"}))]).expect("it is JSON");
    let ActionResult::Conflict(text) = act(&mut cluster, children.clone()) else {
        panic!("it is taken over");
    };
    let (said, label) = text.split_once("pilothouse.dev/children-of=").expect(&text);
    assert_eq!(
        said,
        "v1/ConfigMap default/x exists and is not a child of this key: delete it, give the child \
         another name, or make it a child of this key with the label "
    );
    performed(&mut cluster, &Outcome::done().with(Children::none()));
    let mut found = cluster.object(&key).expect("it is not deleted").clone();
    assert_eq!(found["data"], json!({"k": "theirs"}));

    found["metadata"]["labels"] = json!({"pilothouse.dev/children-of": label});
    let mut cluster = cluster.with(found);
    assert!(done(&act(&mut cluster, children)));
    performed(&mut cluster, &Outcome::done().with(Children::none()));
    assert!(cluster.object(&key).is_none(), "it was handed over");
}

#[test]
#[should_panic(
    expected = "the host refuses the outcome: action 1 (apply): denied: apply of v1/Secret"
)]
fn what_the_host_refuses_is_not_done() {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    act(&mut cluster(), apply(&secret));
}

/// Keeps a finalizer, a ConfigMap and a status for each Site, and removes the ConfigMap and the
/// finalizer when the Site is deleted.
struct Sites;

impl Controller for Sites {
    fn manifest() -> Manifest {
        Manifest::new("sites", "1.0.0", Selection::of(SITES))
            .reads_whole(SITES)
            .reads(CONFIG_MAPS, [".data"])
            .keeps_children(CONFIG_MAPS)
            .writes(SITES, [Verb::Patch])
            .writes_subresource(SITES, "status", [Verb::Apply])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let key = request.key();
        let Some(site) = request.object::<Value>()? else {
            return Ok(Outcome::done().with(Children::new::<Value>([])?));
        };
        if site["metadata"]["deletionTimestamp"].is_string() {
            return Ok(Outcome::done()
                .with(Children::new::<Value>([])?)
                .with(Finalizer::remove(key, "x/f")));
        }
        let page = host.get::<Value>(&key.of_kind(CONFIG_MAPS))?;
        let status = json!({
            "apiVersion": "example.com/v1", "kind": "Site",
            "metadata": {"namespace": key.namespace, "name": key.name},
            "status": {"ready": page.is_some(), "attempt": request.attempt},
        });
        Ok(Outcome::done()
            .with(Finalizer::add(key, "x/f"))
            .with(Children::new([config_map(&key.name, &site["spec"])])?)
            .with(Event::normal(key, "Reconciled", "Reconcile", "as wanted"))
            .with(Apply::new(&status)?.subresource("status")))
    }
}

#[test]
fn turns_follow_one_another_until_all_is_as_wanted() -> Result<(), Failure> {
    let mut cluster = FakeCluster::new(Sites::manifest()).with(site(&json!({"page": "hello"})));
    cluster.turn::<Sites>("default", "a")?;
    assert_eq!(
        shown(&cluster)["status"],
        json!({"ready": false, "attempt": 1})
    );
    cluster.turn::<Sites>("default", "a")?;
    assert_eq!(
        shown(&cluster)["status"],
        json!({"ready": true, "attempt": 1})
    );
    let page = cluster
        .object(&key().of_kind(CONFIG_MAPS))
        .expect("a child");
    assert_eq!(page["data"], json!({"page": "hello"}));

    let outcome = cluster.turn::<Sites>("default", "a")?;
    let results = performed(&mut cluster, &outcome);
    let event = ActionResult::Done(None);
    let nothing = || ActionResult::Unchanged;
    assert_eq!(results, [nothing(), nothing(), event, nothing()]);

    cluster.delete(&key());
    assert!(cluster.object(&key()).is_some(), "the finalizer keeps it");
    cluster.turn::<Sites>("default", "a")?;
    assert!(cluster.object(&key()).is_none());
    assert!(cluster.object(&key().of_kind(CONFIG_MAPS)).is_none());
    Ok(())
}

/// Applies without force, and logs the attempt and the previous results it was given.
struct Told;

impl Controller for Told {
    fn manifest() -> Manifest {
        manifest()
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let previous = request.previous.iter().map(|effect| &effect.outcome);
        let previous = format!("{:?}", previous.collect::<Vec<_>>());
        let attempt = request.attempt.to_string();
        host.info("told", &[("attempt", &attempt), ("previous", &previous)]);
        if request.attempt == 2 {
            return Err(Failure::retry("not yet"));
        }
        let object = applied(&json!({"spec": {"replicas": 2}}));
        let apply = Apply::new(&object)?;
        let is_last = request.attempt > 2;
        Ok(Outcome::done().with(if is_last { apply.force() } else { apply }))
    }
}

#[test]
fn a_turn_is_told_which_try_it_is_and_what_became_of_the_last() {
    let mut cluster = FakeCluster::new(manifest()).with(site(&json!({"replicas": 1})));
    let conflict = "[ActionResult::Conflict(\"conflict with another manager: .spec.replicas; with force an apply takes them over\")]";
    assert!(cluster.turn::<Told>("default", "a").is_ok());
    assert!(cluster.turn::<Told>("default", "a").is_err());
    assert!(cluster.turn::<Told>("default", "a").is_ok());
    assert!(cluster.turn::<Told>("default", "a").is_ok());
    let lines = cluster.lines();
    assert_eq!(lines[0], "INFO told attempt=1 previous=[]");
    assert_eq!(lines[1], format!("INFO told attempt=2 previous={conflict}"));
    assert_eq!(lines[2], format!("INFO told attempt=3 previous={conflict}"));
    assert!(lines[3].starts_with("INFO told attempt=1 previous=[ActionResult::Done"));
}

#[test]
fn a_test_says_which_try_it_is_and_what_became_of_the_last() {
    let cluster = FakeCluster::new(manifest()).attempt(3).previous([Effect {
        object: key(),
        verb: EffectVerb::Apply,
        outcome: ActionResult::Skipped,
    }]);
    assert!(cluster.reconcile::<Told>("default", "a").is_ok());
    assert_eq!(
        cluster.lines(),
        ["INFO told attempt=3 previous=[ActionResult::Skipped]"]
    );
}

#[test]
fn a_copy_of_a_childs_labels_is_no_child() {
    let children = |names: &[&str]| {
        let objects = names.iter().map(|name| config_map(name, &json!({})));
        Children::new(objects).expect("JSON is JSON")
    };
    let mut cluster = cluster();
    act(&mut cluster, children(&["x"]));
    let child = |name: &str| ObjectRef::new(CONFIG_MAPS, "default", name);
    let mut copy = config_map("copy", &json!({}));
    let original = cluster.object(&child("x"));
    copy["metadata"]["labels"] = original.expect("it is there")["metadata"]["labels"].clone();
    let mut cluster = cluster.with(copy);
    act(&mut cluster, children(&[]));
    assert!(cluster.object(&child("x")).is_none());
    assert!(cluster.object(&child("copy")).is_some());
}

#[test]
fn a_failure_stops_what_the_contract_says_and_nothing_else() {
    let mut guarded = config_map("a", &json!({}));
    guarded["metadata"]["finalizers"] = json!(["x/f"]);
    let there = config_map("there", &json!({}));
    let mut cluster = cluster().with(site(&json!({}))).with(guarded).with(there);
    let create = |name: &str| Create::new(&config_map(name, &json!({}))).expect("JSON is JSON");
    let touch = Patch::merge(&key(), &json!({"spec": {"a": 1}}));
    let outcome = Outcome::done()
        .with(Delete::new(&key()).uid("another"))
        .with(create("there"))
        .with(touch.expect("JSON is JSON"))
        .with(create("more"))
        .with(Delete::new(&key().of_kind(CONFIG_MAPS).named("x")))
        .stage()
        .with(Finalizer::remove(&key().of_kind(CONFIG_MAPS), "x/f"))
        .always()
        .with(create("status"))
        .retry("later");
    let results = performed(&mut cluster, &outcome);
    assert!(
        matches!(results[0], ActionResult::Conflict(_)),
        "{results:?}"
    );
    assert!(
        matches!(results[1], ActionResult::AlreadyExists(_)),
        "{results:?}"
    );
    assert_eq!(results[2], ActionResult::Skipped, "the same object");
    assert_eq!(results[3], ActionResult::Skipped, "after a failed create");
    assert!(done(&results[4]), "{results:?}");
    assert_eq!(results[5], ActionResult::Skipped, "a later stage");
    assert!(done(&results[6]), "{results:?}");
}

#[test]
fn an_outcome_that_asks_for_a_retry_counts_as_an_attempt() {
    let mut cluster = FakeCluster::new(manifest());
    cluster.apply("default", "a", &Outcome::done().retry("later"));
    assert!(cluster.turn::<Told>("default", "a").is_err());
    assert_eq!(cluster.lines(), ["INFO told attempt=2 previous=[]"]);
}

/// Does nothing. What it has seen counts for the outcome that a test performs next.
struct Looks;

impl Controller for Looks {
    fn manifest() -> Manifest {
        manifest()
    }

    fn reconcile(_: &Request, _: &dyn Host) -> Result<Outcome, Failure> {
        Ok(Outcome::done())
    }
}

/// A Site with this uid, resourceVersion and finalizers.
fn site_at(uid: &str, version: &str, finalizers: &[&str]) -> Value {
    let mut site = site(&json!({}));
    site["metadata"]["uid"] = uid.into();
    site["metadata"]["resourceVersion"] = version.into();
    site["metadata"]["finalizers"] = json!(finalizers);
    site
}

/// The result of an action of a reconcile that saw the Site with uid `u1` at version `7`, with the
/// finalizer `x/f`. Meanwhile it has become `now`.
fn after_a_look(
    manifest: Manifest,
    now: Value,
    action: impl Into<pilothouse_sdk::Action>,
) -> Result<ActionResult, Failure> {
    let cluster = FakeCluster::new(manifest).with(site_at("u1", "7", &["x/f"]));
    cluster.reconcile::<Looks>("default", "a")?;
    Ok(act(&mut cluster.with(now), action))
}

#[test]
fn a_delete_without_preconditions_is_of_what_the_turn_saw() -> Result<(), Failure> {
    let delete = || Delete::new(&key());
    for (now, delete, is_done) in [
        (("u1", "7"), delete(), true),
        (("u1", "8"), delete(), false),
        (("u1", "8"), delete().uid("u1"), true),
        (("u1", "8"), delete().resource_version("8"), true),
        (("u2", "7"), delete(), false),
        (("u2", "8"), delete().resource_version("8"), false),
        (("u2", "8"), delete().uid("u2"), true),
    ] {
        let result = after_a_look(manifest(), site_at(now.0, now.1, &["x/f"]), delete)?;
        let is_conflict = matches!(result, ActionResult::Conflict(_));
        assert_eq!((done(&result), is_conflict), (is_done, !is_done), "{now:?}");
    }
    let blind = Manifest::singleton("test", "1.0.0");
    let blind = blind.writes(SITES, [Verb::Delete]);
    let result = after_a_look(blind, site_at("u2", "8", &[]), delete())?;
    assert!(
        done(&result),
        "{result:?}: what is not read is deleted by name"
    );
    Ok(())
}

#[test]
fn a_finalizer_is_changed_only_where_there_are_those_that_the_turn_saw() -> Result<(), Failure> {
    let add = || Finalizer::add(&key(), "x/g");
    let remove = || Finalizer::remove(&key(), "x/f");
    for action in [add as fn() -> Finalizer, remove] {
        for (now, is_done) in [
            (site_at("u1", "8", &["x/f"]), true),
            (site_at("u2", "8", &["x/f"]), false),
            (site_at("u1", "8", &["x/f", "y/f"]), false),
            (site_at("u1", "8", &[]), false),
        ] {
            let result = after_a_look(manifest(), now.clone(), action())?;
            let is_conflict = matches!(result, ActionResult::Conflict(_));
            assert_eq!((done(&result), is_conflict), (is_done, !is_done), "{now}");
        }
    }
    let again = Finalizer::add(&key(), "x/f");
    let result = after_a_look(manifest(), site_at("u1", "8", &[]), again)?;
    assert_eq!(result, ActionResult::Unchanged, "as far as the turn saw");
    Ok(())
}

#[test]
fn a_child_that_has_changed_since_the_turn_is_not_deleted() -> Result<(), Failure> {
    let children = |names: &[&str]| {
        let objects = names.iter().map(|name| config_map(name, &json!({})));
        Children::new(objects).expect("JSON is JSON")
    };
    let mut cluster = cluster();
    assert!(done(&act(&mut cluster, children(&["x"]))));
    let x = ObjectRef::new(CONFIG_MAPS, "default", "x");
    let mut changed = cluster.object(&x).cloned().unwrap_or_default();
    changed["metadata"]["resourceVersion"] = "5000".into();
    cluster.reconcile::<Looks>("default", "a")?;
    let mut cluster = cluster.with(changed);
    let result = act(&mut cluster, children(&[]));
    assert!(matches!(result, ActionResult::Conflict(_)), "{result:?}");
    assert!(done(&act(&mut cluster, children(&[]))), "nothing was seen");
    Ok(())
}

/// Keeps three ConfigMaps with generated names.
struct Three;

impl Controller for Three {
    fn manifest() -> Manifest {
        manifest()
    }

    fn reconcile(_: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let all = &pilothouse_sdk::Filter::Everything;
        let have: Vec<Value> = host.list(CONFIG_MAPS, Some("default"), all)?;
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "default", "generateName": "one-"},
        });
        let create = Create::new(&object)?;
        let missing = (have.len()..3).map(|_| create.clone());
        Ok(missing.fold(Outcome::done(), Outcome::with))
    }
}

#[test]
fn a_generated_name_is_none_that_an_object_has_which_the_turn_has_read() -> Result<(), Failure> {
    let mut cluster = cluster();
    let names = |cluster: &FakeCluster| -> Vec<String> {
        let all: Vec<Value> = (cluster as &dyn Host)
            .list(CONFIG_MAPS, None, &pilothouse_sdk::Filter::Everything)
            .expect("permitted");
        let names = all.iter().map(|object| object["metadata"]["name"].as_str());
        names
            .map(|name| name.unwrap_or_default().to_owned())
            .collect()
    };
    cluster.turn::<Three>("default", "a")?;
    for _ in 0..5 {
        assert_eq!(names(&cluster).len(), 3);
        let second = names(&cluster).remove(1);
        cluster.delete(&ObjectRef::new(CONFIG_MAPS, "default", &second));
        cluster.turn::<Three>("default", "a")?;
    }
    assert_eq!(names(&cluster).len(), 3);
    Ok(())
}

#[test]
fn a_second_write_is_of_the_version_that_the_first_has_left() {
    let mut cluster = cluster().with(site(&json!({"a": 1})));
    let patch = Patch::merge(&key(), &json!({"spec": {"b": 2}}));
    let outcome = Outcome::done()
        .with(patch.expect("JSON is JSON"))
        .with(Update::new(&site(&json!({"c": 3}))).expect("JSON is JSON"));
    let results = performed(&mut cluster, &outcome);
    assert!(results.iter().all(done), "{results:?}");
    assert_eq!(shown(&cluster)["spec"], json!({"c": 3}));
}

#[test]
fn an_update_keeps_the_finalizers_that_the_outcome_itself_has_left() {
    let mut stored = site(&json!({"a": 1}));
    stored["metadata"]["finalizers"] = json!(["x/f"]);
    let mut cluster = cluster().with(stored.clone());
    stored["spec"] = json!({"b": 2});
    let outcome = Outcome::done()
        .with(Finalizer::remove(&key(), "x/f"))
        .with(Update::new(&stored).expect("JSON is JSON"));
    let results = performed(&mut cluster, &outcome);
    assert!(results.iter().all(done), "{results:?}");
    assert_eq!(shown(&cluster)["spec"], json!({"b": 2}));
    let left = shown(&cluster)["metadata"]["finalizers"].clone();
    assert!(left.as_array().is_none_or(Vec::is_empty), "{left}");
}

/// Patches its Site with a `metadata.resourceVersion`, whose value does not matter: the patch then
/// applies only to the version that the snapshot shows.
struct Guards;

impl Controller for Guards {
    fn manifest() -> Manifest {
        manifest()
    }

    fn reconcile(_: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let site = host.get::<Value>(&key())?;
        host.info(
            "saw",
            &[("spec", &site.unwrap_or_default()["spec"].to_string())],
        );
        let any = json!({"metadata": {"resourceVersion": "any"}});
        Ok(Outcome::done().with(Patch::merge(&key(), &any)?))
    }
}

#[test]
fn a_patch_that_names_a_version_is_of_the_one_that_the_turn_saw() -> Result<(), Failure> {
    let mut cluster = cluster().with(site(&json!({"a": 1})));
    let outcome = cluster.reconcile::<Guards>("default", "a")?;
    let results = performed(&mut cluster, &outcome);
    assert!(results.iter().all(done), "{results:?}");
    let outcome = cluster.reconcile::<Guards>("default", "a")?;
    let mut changed = site(&json!({"a": 2}));
    changed["metadata"]["resourceVersion"] = "5000".into();
    let mut cluster = cluster.with(changed);
    let results = performed(&mut cluster, &outcome);
    assert!(
        matches!(results[0], ActionResult::Conflict(_)),
        "{results:?}"
    );
    Ok(())
}

#[test]
fn a_patch_that_names_a_uid_is_of_the_object_that_has_it() -> Result<(), Failure> {
    for (now, is_done) in [(("u1", "8"), true), (("u2", "8"), false)] {
        let patch = json!({"metadata": {"uid": "u1", "labels": {"a": "b"}}});
        let patch = Patch::merge(&key(), &patch)?;
        let result = after_a_look(manifest(), site_at(now.0, now.1, &[]), patch)?;
        let is_conflict = matches!(result, ActionResult::Conflict(_));
        assert_eq!((done(&result), is_conflict), (is_done, !is_done), "{now:?}");
    }
    Ok(())
}

#[test]
fn a_refusal_quotes_the_object_only_to_a_plugin_that_reads_it_whole() {
    let manifest = Manifest::singleton("test", "1.0.0")
        .reads(SITES, [".metadata.labels"])
        .writes(SITES, [Verb::Apply]);
    let mut cluster = FakeCluster::new(manifest).with(site(&json!({"replicas": 1})));
    let wanted = applied(&json!({"spec": {"replicas": 2}}));
    let ActionResult::Conflict(reason) = act(&mut cluster, apply(&wanted)) else {
        panic!("another manager has the field");
    };
    assert!(reason.starts_with("HTTP 409 Conflict;"), "{reason}");
    assert!(!reason.contains("replicas"), "{reason}");
}

#[test]
fn an_object_that_a_test_edits_is_at_a_new_version() {
    let cluster = cluster().with(site(&json!({"a": 1})));
    let looked = cluster.reconcile::<Looks>("default", "a");
    assert_eq!(looked, Ok(Outcome::done()));
    let mut edited = shown(&cluster);
    edited["spec"] = json!({"a": 2});
    let mut cluster = cluster.with(edited);
    let stale = act(&mut cluster, Delete::new(&key()));
    assert!(matches!(stale, ActionResult::Conflict(_)), "{stale:?}");
    assert!(done(&act(&mut cluster, Delete::new(&key()))));
}
