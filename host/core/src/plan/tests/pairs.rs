//! Two actions on one object: the second is done to what the first has left, and neither is dropped
//! because of what the snapshot shows.

use super::*;

/// A server with one kind of object, which counts versions and checks preconditions as an API
/// server does.
struct Versioned {
    objects: Mutex<std::collections::BTreeMap<String, Value>>,
    last: Mutex<u64>,
}

impl Versioned {
    fn with(objects: &[Value]) -> Self {
        let named = objects.iter().map(|object| {
            let name = object["metadata"]["name"].as_str().unwrap();
            (name.to_owned(), object.clone())
        });
        Self {
            objects: Mutex::new(named.collect()),
            last: Mutex::new(7),
        }
    }

    fn get(&self, name: &str) -> Option<Value> {
        self.objects.lock().unwrap().get(name).cloned()
    }

    fn next(&self) -> String {
        let mut last = self.last.lock().unwrap();
        *last += 1;
        last.to_string()
    }

    /// Stores it, unless it is as it was. Its last finalizer takes an object along that is being
    /// deleted.
    fn store(&self, name: &str, mut new: Value) -> ActionResult {
        let mut objects = self.objects.lock().unwrap();
        let old = objects.get(name);
        let version = old.map(|old| old["metadata"]["resourceVersion"].clone());
        new["metadata"]["resourceVersion"] = version.clone().unwrap_or_default();
        if Some(&new) == old {
            return ActionResult::Done(version.and_then(|version| Some(version.as_str()?.into())));
        }
        let version = self.next();
        new["metadata"]["resourceVersion"] = version.as_str().into();
        let is_going = new["metadata"].get("deletionTimestamp").is_some();
        if is_going && finalizers(&new).is_empty() {
            objects.remove(name);
        } else {
            objects.insert(name.to_owned(), new);
        }
        ActionResult::Done(Some(version))
    }

    fn create(&self, name: &str, mut body: Value) -> ActionResult {
        body["metadata"]["uid"] = format!("born-{}", self.next()).into();
        self.store(name, body)
    }

    fn change(&self, write: &Write) -> ActionResult {
        let name = &*write.key.name;
        let live = self.get(name);
        let body = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        match (&write.operation, live) {
            (Operation::Create { .. }, Some(_)) => ActionResult::AlreadyExists(name.into()),
            (Operation::Create { object } | Operation::Apply { object, .. }, None) => {
                self.create(name, body(object))
            }
            (Operation::Delete { .. }, None) => ActionResult::Done(None),
            (_, None) => ActionResult::NotFound(name.into()),
            (Operation::Apply { object, .. }, Some(live)) => {
                let body = body(object);
                let wanted = &body["metadata"]["resourceVersion"];
                if !wanted.is_null() && *wanted != live["metadata"]["resourceVersion"] {
                    return ActionResult::Conflict("resourceVersion".into());
                }
                let mut new = live;
                for (field, value) in body["data"].as_object().into_iter().flatten() {
                    new["data"][field.as_str()] = value.clone();
                }
                self.store(name, new)
            }
            (Operation::Update { object }, Some(live)) => {
                let new = body(object);
                for precondition in ["uid", "resourceVersion"] {
                    let wanted = &new["metadata"][precondition];
                    if !wanted.is_null() && *wanted != live["metadata"][precondition] {
                        return ActionResult::Conflict(precondition.into());
                    }
                }
                self.store(name, new)
            }
            (
                Operation::Delete {
                    uid,
                    resource_version,
                    ..
                },
                Some(live),
            ) => {
                for (wanted, have) in [(uid, "uid"), (resource_version, "resourceVersion")] {
                    if wanted.is_some() && wanted.as_deref() != live["metadata"][have].as_str() {
                        return ActionResult::Conflict(have.into());
                    }
                }
                if finalizers(&live).is_empty() {
                    self.objects.lock().unwrap().remove(name);
                    return ActionResult::Done(None);
                }
                let mut new = live;
                new["metadata"]["deletionTimestamp"] = "now".into();
                self.store(name, new)
            }
            (
                Operation::Patch {
                    patch_type: PatchType::Json,
                    body: patch,
                },
                Some(live),
            ) => match json_patched(live, &body(patch)) {
                Some(new) => self.store(name, new),
                None => ActionResult::Conflict("a test has failed".into()),
            },
            (Operation::Patch { body: patch, .. }, Some(mut live)) => {
                let wanted = &body(patch)["metadata"]["resourceVersion"];
                if !wanted.is_null() && *wanted != live["metadata"]["resourceVersion"] {
                    return ActionResult::Conflict("resourceVersion".into());
                }
                for (field, value) in body(patch)["data"].as_object().unwrap() {
                    live["data"][field.as_str()] = value.clone();
                }
                self.store(name, live)
            }
            (Operation::Event { .. } | Operation::DeleteAll { .. }, _) => {
                unreachable!("none is asked for")
            }
        }
    }
    /// Does what the outcome with these actions is planned to do.
    fn does(&self, rig: &Rig, actions: &[Action]) -> Executed {
        drive(rig.execution(actions, Halt::default()), |write| {
            let result = self.change(write);
            let object = self.get(&write.key.name).map(|object| object.to_string());
            WriteAnswer {
                object,
                ..result.into()
            }
        })
    }
}

/// None if a test fails.
fn json_patched(mut object: Value, patch: &Value) -> Option<Value> {
    for step in patch.as_array().unwrap() {
        let path = step["path"].as_str().unwrap();
        let (parent, field) = path.rsplit_once('/').unwrap();
        let parent = object.pointer_mut(parent).unwrap();
        match step["op"].as_str().unwrap() {
            "test" if parent.get(field).unwrap_or(&Value::Null) != &step["value"] => return None,
            "test" => {}
            "add" => parent[field] = step["value"].clone(),
            other => panic!("{other}"),
        }
    }
    Some(object)
}

fn finalizers(object: &Value) -> Vec<&str> {
    let list = object["metadata"]["finalizers"].as_array();
    list.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

fn with_data(name: &str, value: &str) -> Value {
    let mut object = object(name);
    object["data"] = json!({"v": value});
    object
}

/// What the plugin says, without what only the server knows.
fn body(value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"v": value},
        "metadata": {"namespace": "default", "name": "a"}})
}

fn merge(value: &str) -> Action {
    Action::Patch {
        kind: config_map(),
        key: ObjectKey::new("default", "a"),
        subresource: None,
        patch_type: PatchType::Merge,
        body: json!({"data": {"v": value}}).to_string(),
    }
}

fn create(value: &str) -> Action {
    Action::Create {
        object: body(value).to_string(),
        subresource: None,
    }
}

/// Does these to an object that is there and has no finalizer, and whose own apply of "old" is
/// remembered.
fn after(actions: &[Action]) -> (Executed, Option<Value>) {
    let mut rig = Rig::new(&[with_data("a", "old")]);
    rig.manifest.writes[0].children = false;
    let remembered = Server {
        answers: vec![ActionResult::Done(Some("7".into()))].into(),
        ..Server::default()
    };
    rig.execute(&[apply(&body("old"))], &remembered);
    let server = Versioned::with(&[with_data("a", "old")]);
    let done = server.does(&rig, actions);
    (done, server.get("a"))
}

/// An action, and what it leaves of the object's `data.v`: none if it leaves no object.
fn each() -> Vec<(&'static str, Action, Option<&'static str>)> {
    vec![
        ("apply", apply(&body("old")), Some("old")),
        ("update", update(&body("old")), Some("old")),
        ("patch", merge("patched"), Some("patched")),
        ("finalizer", finalizer("x/y", true), Some("")),
        ("delete", delete("a"), None),
        ("create", create("created"), Some("created")),
    ]
}

#[test]
fn the_second_of_two_actions_is_done_to_what_the_first_has_left() {
    for (first, one, one_leaves) in each() {
        for (second, two, two_leaves) in each() {
            let (done, left) = after(&[one.clone(), two]);
            let what = format!("{first}, {second}: {done:?}, {left:?}");
            // What is there cannot be created; what is gone can only be made anew.
            let is_there = first != "delete";
            let fails = match second {
                "create" => is_there,
                "update" | "patch" | "finalizer" => !is_there,
                _ => false,
            } || first == "create";
            assert_eq!(done.failure.is_some(), fails, "{what}");
            if fails {
                continue;
            }
            let value = |leaves: Option<&'static str>, before: Option<&'static str>| match leaves {
                Some("") => before,
                other => other,
            };
            let wanted = value(two_leaves, value(one_leaves, Some("old")));
            let found = left
                .as_ref()
                .map(|left| left["data"]["v"].as_str().unwrap());
            // With the finalizer that the first has added it is only marked.
            let is_held = first == "finalizer" && second == "delete";
            if is_held {
                assert!(
                    left.unwrap()["metadata"]["deletionTimestamp"].is_string(),
                    "{what}"
                );
            } else {
                assert_eq!(found, wanted, "{what}");
            }
        }
    }
}

#[test]
fn several_finalizers_of_one_object_are_all_added() {
    let actions = [
        finalizer("x/y", true),
        finalizer("z/z", true),
        finalizer("x/y", false),
    ];
    let (done, left) = after(&actions);
    assert!(done.failure.is_none(), "{done:?}");
    assert_eq!(finalizers(&left.unwrap()), ["z/z"]);
}

#[test]
fn an_object_that_is_made_gets_its_finalizer_in_the_same_outcome() {
    let actions = [
        delete("a"),
        create("new"),
        finalizer("x/y", true),
        delete("a"),
    ];
    let (done, left) = after(&actions);
    assert!(done.failure.is_none(), "{done:?}");
    let left = left.unwrap();
    assert_eq!(finalizers(&left), ["x/y"]);
    assert!(left["metadata"]["deletionTimestamp"].is_string());
}

#[test]
fn a_finalizer_that_another_has_added_meanwhile_is_not_lost() {
    let rig = Rig::new(&[object("a")]);
    let mut live = object("a");
    live["metadata"]["finalizers"] = json!(["other/one"]);
    let server = Versioned::with(&[live]);
    let done = server.does(&rig, &[finalizer("x/y", true)]);
    assert!(matches!(done.effects[0].result, ActionResult::Conflict(_)));
    assert_eq!(finalizers(&server.get("a").unwrap()), ["other/one"]);
}

#[test]
fn a_finalizer_is_added_whatever_else_has_changed_meanwhile() {
    let rig = Rig::new(&[object("a")]);
    let mut live = with_data("a", "new");
    live["metadata"]["resourceVersion"] = "9".into();
    let server = Versioned::with(&[live]);
    let done = server.does(&rig, &[finalizer("x/y", true)]);
    assert!(done.failure.is_none());
    assert_eq!(finalizers(&server.get("a").unwrap()), ["x/y"]);
}

#[test]
fn a_patch_that_names_a_version_is_of_the_one_that_the_outcome_itself_has_left() {
    let guard = Action::Patch {
        kind: config_map(),
        key: ObjectKey::new("default", "a"),
        subresource: None,
        patch_type: PatchType::Merge,
        body: json!({"metadata": {"resourceVersion": "any"}}).to_string(),
    };
    let rig = Rig::new(&[object("a")]);
    let server = Server {
        answers: vec![ActionResult::Done(Some("9".into()))].into(),
        ..Server::default()
    };
    rig.execute(&[merge("patched"), guard], &server);
    let seen = server.seen.lock().unwrap();
    let Operation::Patch { body, .. } = &seen[1].operation else {
        panic!("{seen:?}");
    };
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["metadata"]["resourceVersion"], "9");
}

#[test]
fn an_update_keeps_the_finalizers_that_the_outcome_itself_has_left() {
    let stored = |finalizers: Value| {
        let mut stored = with_data("a", "old");
        if !finalizers.is_null() {
            stored["metadata"]["finalizers"] = finalizers;
        }
        stored
    };
    for (before, present, wanted) in [
        (stored(Value::Null), true, vec!["x/y"]),
        (stored(json!(["z/z"])), true, vec!["z/z", "x/y"]),
        (stored(json!(["x/y"])), false, vec![]),
        (stored(json!(["z/z", "x/y"])), false, vec!["z/z"]),
    ] {
        let mut copy = before.clone();
        copy["data"]["v"] = "new".into();
        for new in [body("new"), copy] {
            let rig = Rig::new(std::slice::from_ref(&before));
            let server = Versioned::with(std::slice::from_ref(&before));
            let done = server.does(&rig, &[finalizer("x/y", present), update(&new)]);
            assert!(done.failure.is_none(), "{before} {new}");
            let left = server.get("a").unwrap();
            assert_eq!(finalizers(&left), wanted, "{before} {new}");
            assert_eq!(left["data"]["v"], "new");
        }
    }
}

#[test]
fn an_update_of_what_the_outcome_has_made_keeps_its_finalizers() {
    let rig = Rig::new(&[]);
    let server = Versioned::with(&[]);
    let mut made = body("old");
    made["metadata"]["finalizers"] = json!(["x/y"]);
    let create = Action::Create {
        object: made.to_string(),
        subresource: None,
    };
    let done = server.does(&rig, &[create, update(&body("new"))]);
    assert!(done.failure.is_none());
    assert_eq!(finalizers(&server.get("a").unwrap()), ["x/y"]);
}

#[test]
fn an_update_after_another_action_overwrites_nothing_that_was_not_seen() {
    for (first, one, _) in each() {
        let mut live = with_data("a", "another's");
        live["metadata"]["resourceVersion"] = "9".into();
        let rig = Rig::new(&[with_data("a", "old")]);
        let server = Versioned::with(std::slice::from_ref(&live));
        *server.last.lock().unwrap() = 9;
        let done = server.does(&rig, &[one, update(&body("new"))]);
        assert!(done.failure.is_some(), "{first}");
        assert_eq!(server.get("a"), Some(live), "{first}");
    }
}

#[test]
fn what_is_deleted_applied_and_replaced_is_made_anew() {
    let actions = [delete("a"), apply(&body("one")), update(&body("two"))];
    let (done, left) = after(&actions);
    assert!(done.failure.is_none(), "{done:?}");
    assert_eq!(left.unwrap()["data"]["v"], "two");
}
