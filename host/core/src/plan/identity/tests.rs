use serde_json::json;

use super::*;
use crate::access::scope::{KindScope, Scope};
use crate::cache::snapshot::{InformerId, Snapshot};
use crate::cache::{Cache, Delta, Listing};
use crate::model::informer_key::InformerKey;

fn config_map() -> Kind {
    Kind::new("", "v1", "ConfigMap")
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

/// The reader of a plugin that reads ConfigMaps, with these in its snapshot.
fn reader(objects: &[Value]) -> Reader {
    let mut cache = Cache::new(InformerKey::all(config_map()));
    let parse =
        |object: &Value| Object::parse(&config_map(), &object.to_string(), cache.schema()).unwrap();
    let objects = objects.iter().map(parse).collect();
    cache.apply(Delta::Replace(Listing {
        objects,
        ..Listing::default()
    }));
    let scope = Scope {
        kinds: [(config_map(), KindScope::whole(InformerId::first_at(0)))].into(),
        ..Scope::default()
    };
    let snapshot = Snapshot {
        sequence: 0,
        informers: Arc::new([cache].into_iter().collect()),
    };
    Reader::new(snapshot, Arc::new(scope), 0)
}

fn object(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata":
        {"namespace": "default", "name": name, "uid": format!("uid-{name}"), "resourceVersion": "7"}})
}

/// `a`, with a finalizer and with an owner that the plugin does not see.
fn kept() -> Value {
    let mut object = object("a");
    object["metadata"]["finalizers"] = json!(["example.com/mine"]);
    object["metadata"]["ownerReferences"] = json!([gone_owner()]);
    object
}

fn gone_owner() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "gone", "uid": "u"})
}

fn owner(name: &str, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid})
}

/// The result for a body with this metadata, of the object `a`.
fn settled(how: Use, fields: Value, is_written: bool) -> Result<Value, String> {
    settled_as("a", how, fields, is_written)
}

fn settled_as(name: &str, how: Use, fields: Value, is_written: bool) -> Result<Value, String> {
    let reader = reader(&[kept(), object("b")]);
    let shown = Shown::of(&reader, &config_map(), &key(name));
    let mut body = Value::Object([("metadata".to_owned(), fields)].into_iter().collect());
    let before = Before {
        is_written,
        ..Before::default()
    };
    settle(&mut body, how, &key(name), &shown, before, &reader)
        .map_err(|error| error.to_string())?;
    Ok(body["metadata"].take())
}

#[test]
fn an_update_is_of_the_version_that_was_seen_whatever_it_says() {
    let finalizers = json!(["example.com/mine"]);
    for version in [
        json!("3"),
        json!("0"),
        json!(""),
        json!("9".repeat(60)),
        json!("x"),
        json!(7),
    ] {
        let fields = json!({"resourceVersion": version, "finalizers": finalizers});
        let settled = settled(Use::Update, fields, false).unwrap();
        assert_eq!(
            (&settled["resourceVersion"], &settled["uid"]),
            (&json!("7"), &json!("uid-a"))
        );
    }
    let settled = settled(Use::Update, json!({ "finalizers": finalizers }), false).unwrap();
    assert_eq!(
        (&settled["resourceVersion"], &settled["uid"]),
        (&json!("7"), &json!("uid-a"))
    );
}

#[test]
fn an_apply_or_a_patch_has_a_version_only_if_it_asks_for_one() {
    for how in [Use::Apply, Use::Patch] {
        let careful = settled(how, json!({"resourceVersion": "3"}), false).unwrap();
        assert_eq!(careful["resourceVersion"], "7");
        let careless = settled(how, json!({}), false).unwrap();
        assert!(careless.get("resourceVersion").is_none());
    }
}

#[test]
fn what_this_outcome_has_written_is_at_no_version_that_is_known() {
    let fields = json!({"resourceVersion": "7", "finalizers": ["example.com/mine"]});
    let settled = settled(Use::Update, fields, true).unwrap();
    assert!(settled.get("resourceVersion").is_none());
    assert!(settled.get("uid").is_none());
}

#[test]
fn the_uid_of_another_object_is_refused() {
    for how in [Use::Apply, Use::Patch, Use::Update] {
        let error = settled(how, json!({"uid": "uid-b"}), false).unwrap_err();
        let wanted = r#"body is of uid "uid-b", but the action is for uid uid-a"#;
        let is_update = how == Use::Update && error.contains("finalizers");
        assert!(error == wanted || is_update, "{how:?}: {error}");
    }
    assert!(settled(Use::Patch, json!({"uid": "uid-a"}), false).is_ok());
}

#[test]
fn what_is_created_has_no_uid_and_no_version_yet() {
    let fields = json!({"uid": "uid-b", "resourceVersion": "7", "finalizers": ["example.com/new"]});
    let settled = settled_as("new", Use::Create, fields, false).unwrap();
    assert_eq!(settled, json!({"finalizers": ["example.com/new"]}));
}

#[test]
fn an_owner_is_one_that_the_plugin_sees_or_that_was_there_before() {
    let cases = [
        (owner("b", "uid-b"), true),
        (gone_owner(), true),
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "u"}),
            false,
        ),
        (owner("b", "uid-a"), false),
        (owner("b", ""), false),
        (owner("c", "uid-c"), false),
        (
            json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}),
            false,
        ),
        (
            json!({"apiVersion": "v2", "kind": "ConfigMap", "name": "b", "uid": "uid-b"}),
            true,
        ),
        (json!("b"), false),
    ];
    for (owner, is_fine) in cases {
        for how in [Use::Apply, Use::Patch] {
            let result = settled(how, json!({"ownerReferences": [owner]}), false);
            assert_eq!(result.is_ok(), is_fine, "{how:?} {owner}: {result:?}");
        }
        let is_seen = owner["uid"] == "uid-b";
        let fields = json!({"ownerReferences": [owner]});
        let created = settled_as("new", Use::Create, fields, false);
        assert_eq!(created.is_ok(), is_seen, "create {owner}: {created:?}");
    }
    assert!(settled(Use::Apply, json!({"ownerReferences": {}}), false).is_err());
}

#[test]
fn only_a_finalizer_action_changes_the_finalizers_of_what_exists() {
    let mine = json!({"finalizers": ["example.com/mine"]});
    let more = json!({"finalizers": ["example.com/mine", "example.com/more"]});
    let cases = [
        (Use::Apply, json!({}), true),
        (Use::Apply, json!({"finalizers": []}), true),
        (Use::Apply, mine.clone(), true),
        (Use::Apply, more.clone(), false),
        (Use::Update, json!({}), true),
        (Use::Update, json!({"finalizers": null}), false),
        (Use::Update, mine.clone(), true),
        (Use::Update, more.clone(), false),
        (Use::Patch, json!({}), true),
        (Use::Patch, mine, false),
        (Use::Patch, json!({"finalizers": null}), false),
    ];
    for (how, fields, is_fine) in cases {
        let result = settled(how, fields.clone(), false);
        assert_eq!(result.is_ok(), is_fine, "{how:?} {fields}: {result:?}");
    }
    assert!(
        settled_as("new", Use::Apply, more, false).is_ok(),
        "it is born with them"
    );
}

#[test]
fn of_what_the_plugin_does_not_read_nothing_is_known() {
    let reader = Reader::new(Snapshot::default(), Arc::default(), 0);
    let shown = Shown::of(&reader, &config_map(), &key("a"));
    let settle = |how, fields| {
        let mut body = json!({ "metadata": fields });
        settle(
            &mut body,
            how,
            &key("a"),
            &shown,
            Before::default(),
            &reader,
        )
        .map(|()| body["metadata"].take())
    };
    let fields = json!({"uid": "u", "resourceVersion": "3"});
    assert_eq!(settle(Use::Update, fields.clone()), Ok(fields));
    let finalizers = json!({"finalizers": ["example.com/more"]});
    assert!(settle(Use::Apply, finalizers.clone()).is_err());
    assert!(settle(Use::Create, finalizers).is_ok());
}

#[test]
fn a_strategic_patch_cannot_go_around() {
    let reader = reader(&[kept()]);
    let shown = Shown::of(&reader, &config_map(), &key("a"));
    for mut body in [
        json!({"$patch": "replace", "metadata": {}}),
        json!({"metadata": {"$patch": "replace"}}),
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/mine"]}}),
        json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": "u"}]}}),
        json!({"metadata": null}),
        json!({"metadata": []}),
    ] {
        let result = settle(
            &mut body,
            Use::Patch,
            &key("a"),
            &shown,
            Before::default(),
            &reader,
        );
        assert!(result.is_err(), "{body}");
    }
}

#[test]
fn a_json_patch_stays_away_from_finalizers_and_owners() {
    let cases = [
        ("add", "/metadata/finalizers", false),
        ("add", "/metadata/finalizers/-", false),
        ("remove", "/metadata/ownerReferences/0", false),
        ("replace", "/metadata", false),
        ("replace", "", false),
        ("test", "/metadata/finalizers", true),
        ("add", "/metadata/managedFields", false),
        ("replace", "x/metadata/finalizers", false),
        ("replace", "metadata/finalizers", false),
        ("remove", "x", false),
        ("add", "/metadata/labels/finalizers", true),
        ("add", "/metadata/finalizersx", true),
        ("replace", "/spec/replicas", true),
    ];
    for (op, path, is_fine) in cases {
        let result = check_json_patch(&json!([{"op": op, "path": path, "value": 1}]));
        assert_eq!(result.is_ok(), is_fine, "{op} {path}: {result:?}");
    }
    let moved = json!([{"op": "move", "from": "/metadata/finalizers", "path": "/data/a"}]);
    assert!(check_json_patch(&moved).is_err());
}

#[test]
fn an_update_that_says_nothing_of_finalizers_leaves_them() {
    let settled = settled(Use::Update, json!({}), false).unwrap();
    assert_eq!(settled["finalizers"], json!(["example.com/mine"]));
}

#[test]
fn nobody_says_which_fields_are_whose() {
    for how in [Use::Apply, Use::Create, Use::Patch, Use::Update] {
        let settled = settled(how, json!({"managedFields": [{}]}), false).unwrap();
        assert!(settled.get("managedFields").is_none(), "{how:?}");
    }
}

#[test]
fn a_json_patch_reads_nothing_that_the_plugin_does_not() {
    let shown = |names: &[&str]| matches!(names, ["spec", "a", ..]);
    let check = |step: Value| check_json_patch_reads(&json!([step]), shown).is_ok();
    for (op, from, is_fine) in [
        ("copy", "/spec/a", true),
        ("copy", "/spec/a/0/b", true),
        ("copy", "/spec", false),
        ("copy", "", false),
        ("copy", "/data/password", false),
        ("move", "/data/password", false),
    ] {
        let step = json!({"op": op, "from": from, "path": "/metadata/labels/x"});
        assert_eq!(check(step), is_fine, "{op} {from}");
    }
    let last_applied = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration";
    let below = "/metadata/managedFields/0/fieldsV1/f:data/f:password";
    for path in [
        "",
        "/metadata",
        "/metadata/annotations",
        last_applied,
        below,
    ] {
        let copy = json!({"op": "copy", "from": path, "path": "/spec/a"});
        let test = json!({"op": "test", "path": path, "value": {}});
        for step in [copy, test] {
            let result = check_json_patch_reads(&json!([step]), |_| true);
            assert!(result.is_err(), "{path}: it is in no view");
        }
    }
    for (path, is_fine) in [
        ("/spec/a", true),
        ("/metadata/resourceVersion", true),
        ("/metadata/uid", true),
        ("/metadata", false),
        ("/data/password", false),
    ] {
        let step = json!({"op": "test", "path": path, "value": "x"});
        assert_eq!(check(step), is_fine, "test {path}");
    }
    assert!(check(
        json!({"op": "replace", "path": "/data/x", "value": 1})
    ));
}
