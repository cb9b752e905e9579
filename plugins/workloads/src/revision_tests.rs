use pilothouse_sdk::testing::FakeCluster;
use pilothouse_sdk::{Manifest, Selection};

use super::*;

/// A template as the API server of 1.34 returns it, of upstream's compatibility test.
fn template() -> Value {
    json!({
        "metadata": {"annotations": {"test": "value"}, "labels": {"app": "foo"}},
        "spec": {
            "containers": [{
                "image": "test", "imagePullPolicy": "Always", "name": "test", "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }],
            "dnsPolicy": "ClusterFirst", "restartPolicy": "Always",
            "schedulerName": "default-scheduler", "securityContext": {},
            "terminationGracePeriodSeconds": 30,
        },
    })
}

fn revision(name: &str, number: i64, created: Option<&str>) -> Revision {
    let object = json!({
        "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{name}"),
            "creationTimestamp": created},
        "revision": number,
    });
    serde_json::from_value(object).expect("a revision")
}

fn names(revisions: &[Revision]) -> Vec<&str> {
    revisions.iter().map(Revision::name).collect()
}

#[test]
fn a_hash_is_that_of_kubernetes() {
    let data = template_patch(&template());
    assert_eq!(hash(&data, 0), "776999688b");
    let mut old = template();
    old["metadata"]["creationTimestamp"] = Value::Null;
    assert_eq!(hash(&template_patch(&old), 0), "c77f6d978");
    assert_ne!(hash(&data, 1), hash(&data, 0));
}

#[test]
fn data_is_hashed_as_go_writes_it() {
    let value = json!({"b": "a<b>&\u{2028}\n\"", "a": [1, null, true, 0.5]});
    let wanted = r#"{"a":[1,null,true,0.5],"b":"a\u003cb\u003e\u0026\u2028\n\""}"#;
    assert_eq!(go_json(&value), wanted);
}

#[test]
fn a_template_is_restored_as_it_was_recorded() {
    let recorded = Revision {
        data: template_patch(&template()),
        ..Revision::default()
    };
    assert_eq!(recorded.data["spec"]["template"]["$patch"], "replace");
    assert_eq!(recorded.template(), Some(template()));
    assert_eq!(Revision::default().template(), None);
}

#[test]
fn a_null_member_is_no_difference_in_meaning() {
    let mut old = template();
    old["metadata"]["creationTimestamp"] = Value::Null;
    let old = Revision {
        data: template_patch(&old),
        ..Revision::default()
    };
    let data = template_patch(&template());
    assert_ne!(old.data, data);
    assert!(old.means(&data));
    let mut other = template();
    other["spec"]["dnsPolicy"] = "None".into();
    assert!(!old.means(&template_patch(&other)));
}

/// `TestSortControllerRevisions`.
#[test]
fn revisions_are_sorted_by_number_then_age_then_name() {
    let (early, late) = (Some("2020-01-01T00:00:00Z"), Some("2021-01-01T00:00:00Z"));
    let mut revisions = [
        revision("d", 2, late),
        revision("c", 1, late),
        revision("b", 1, late),
        revision("z", 1, early),
        revision("y", 1, None),
        revision("a", 3, None),
    ];
    sort(&mut revisions);
    assert_eq!(names(&revisions), ["y", "z", "b", "c", "d", "a"]);
    assert_eq!(next_number(&revisions), 4);
    assert_eq!(next_number(&[]), 1);
}

#[test]
fn the_oldest_that_are_not_live_are_surplus() {
    let revisions = ["a", "b", "c", "d", "e"].map(|name| revision(name, 1, None));
    let live = BTreeSet::from(["b", "e"]);
    let surplus = |limit| {
        let surplus = surplus(&revisions, &live, limit).into_iter();
        surplus.map(Revision::name).collect::<Vec<_>>()
    };
    assert_eq!(surplus(1), ["a", "c"]);
    assert_eq!(surplus(0), ["a", "c", "d"]);
    assert_eq!(surplus(3), Vec::<&str>::new());
    assert_eq!(surplus(-1), Vec::<&str>::new());
}

#[test]
fn a_name_has_room_for_the_hash() {
    assert_eq!(name("web", "abc"), "web-abc");
    assert_eq!(name(&"w".repeat(300), "abc").len(), 227);
}

/// A cluster whose plugin reads ControllerRevisions, with these.
fn cluster(revisions: impl IntoIterator<Item = Value>) -> FakeCluster {
    let manifest =
        Manifest::new("history", "0.1.0", Selection::of(Revision::KIND)).reads_as::<Revision>();
    revisions
        .into_iter()
        .fold(FakeCluster::new(manifest), FakeCluster::with)
}

fn stored(name: &str, data: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {"namespace": "default", "name": name}, "data": data, "revision": 1,
    })
}

fn placed(data: &Value, collisions: i32, revisions: Vec<Value>) -> Placed {
    let owner = ObjectRef::new("apps/v1/StatefulSet", "default", "web");
    let new = NewRevision {
        owner: &owner,
        owner_uid: "u1",
        labels: &BTreeMap::from([("app".to_owned(), "web".to_owned())]),
        annotations: &BTreeMap::from([("note".to_owned(), "one".to_owned())]),
        data,
        revision: 7,
    };
    let placed = new.place(&cluster(revisions), collisions);
    placed.unwrap_or_else(|failure| panic!("{failure:?}"))
}

/// `TestRealHistory_CreateControllerRevision`.
#[test]
fn a_new_revision_is_owned_labelled_and_named_by_its_hash() {
    let data = json!({"a": 1});
    let placed = placed(&data, 0, vec![]);
    let create = placed.create.expect("a revision is created");
    let object: Value = serde_json::from_str(&create.object).expect("JSON");
    let hash = hash(&data, 0);
    let wanted = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {
            "namespace": "default", "name": format!("web-{hash}"),
            "labels": {"app": "web", HASH_LABEL: hash}, "annotations": {"note": "one"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "u1",
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "data": {"a": 1},
        "revision": 7,
    });
    assert_eq!(object, wanted);
    assert_eq!(placed.collisions, 0);
}

/// `TestRealHistory_CreateControllerRevision`, with collisions.
#[test]
fn the_collision_count_goes_up_for_each_name_that_is_taken() {
    let (data, other) = (json!({"a": 1}), json!({"a": 2}));
    let taken = |collisions| stored(&name("web", &hash(&data, collisions)), &other);
    let found = placed(&data, 0, vec![taken(0), taken(1)]);
    assert!(found.create.is_some());
    assert_eq!(
        (found.collisions, found.name),
        (2, name("web", &hash(&data, 2)))
    );

    let same = stored(&name("web", &hash(&data, 1)), &data);
    let found = placed(&data, 0, vec![taken(0), same]);
    assert!(found.create.is_none());
    assert_eq!(
        (found.collisions, found.name),
        (1, name("web", &hash(&data, 1)))
    );
}

/// `TestRealHistory_ListControllerRevisions`.
#[test]
fn revisions_of_another_controller_are_not_listed() {
    let owned = |name: &str, uid: &str| {
        let mut object = stored(name, &json!({}));
        object["metadata"]["labels"] = json!({"app": "web"});
        object["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": uid,
            "controller": true,
        }]);
        object
    };
    let mut orphan = owned("orphan", "u2");
    orphan["metadata"]["ownerReferences"][0]["controller"] = false.into();
    let unlabelled = stored("unlabelled", &json!({}));
    let all = [
        owned("ours", "u1"),
        owned("theirs", "u2"),
        orphan,
        unlabelled,
    ];
    let selector = json!({"matchLabels": {"app": "web"}});
    let found = list(&cluster(all), "default", "u1", &selector);
    let found = found.unwrap_or_else(|failure| panic!("{failure:?}"));
    assert_eq!(names(&found), ["orphan", "ours"]);
}
