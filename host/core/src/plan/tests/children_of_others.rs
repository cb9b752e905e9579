//! A `children` action keeps its hands off objects that are not the key's children.

use super::*;

/// An object as a plugin wants it.
fn wanted(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": name}})
}

fn children(names: &[&str]) -> Action {
    Action::Children {
        objects: names.iter().map(|name| wanted(name).to_string()).collect(),
    }
}

/// An object with the label of the children of the rig's key.
fn labelled(name: &str) -> Value {
    let mut object = object(name);
    let label = children::label("p", &SubjectKey::singleton());
    object["metadata"]["labels"] = json!({ children::LABEL: label });
    object
}

/// The metadata of the only write, which is an apply.
fn applied_metadata(rig: &Rig, action: Action) -> Value {
    let writes = rig.writes(action);
    let [write] = &writes[..] else {
        panic!("{writes:?}");
    };
    let Operation::Apply { object, .. } = &write.operation else {
        panic!("{writes:?}");
    };
    let object: Value = serde_json::from_str(object).unwrap();
    object["metadata"].clone()
}

#[test]
fn an_object_of_a_childs_name_without_the_keys_label_is_a_conflict() {
    let mut of_another_key = object("a");
    of_another_key["metadata"]["labels"] = json!({children::LABEL: "another-key"});
    for stranger in [object("a"), of_another_key] {
        let mut old = labelled("old");
        old["metadata"]["annotations"] = json!({children::ANNOTATION: "p "});
        let rig = Rig::new(&[stranger, old]);
        let executed = rig.execute(&[children(&["a", "b"])], &Server::default());
        let results = results(&executed);
        let label = children::label("p", &SubjectKey::singleton());
        let conflict = format!(
            "v1/ConfigMap default/a exists and is not a child of this key: delete it, give the child another name, or make it a child of this key with the label pilothouse.dev/children-of={label}"
        );
        assert_eq!(
            results,
            [
                ActionResult::Conflict(conflict.clone()),
                ActionResult::Done(None),
                ActionResult::Skipped
            ],
            "the other child is applied, and nothing is deleted"
        );
        let failure = executed.failure.unwrap().message;
        assert!(failure.contains(&conflict), "{failure}");
    }
}

#[test]
fn a_stranger_that_has_been_given_the_keys_label_is_taken_over() {
    let rig = Rig::new(&[labelled("a")]);
    let metadata = applied_metadata(&rig, children(&["a"]));
    assert_eq!(metadata["annotations"][children::ANNOTATION], "p ");
}

#[test]
fn a_stranger_whose_finalizers_a_child_lacks_is_a_conflict_and_refuses_nothing() {
    let rig = Rig::new(&[object("a")]);
    let mut child = wanted("a");
    child["metadata"]["finalizers"] = json!(["example.com/f"]);
    let objects = vec![child.to_string()];
    let executed = rig.execute(&[Action::Children { objects }], &Server::default());
    let results = results(&executed);
    assert!(
        matches!(results[..], [ActionResult::Conflict(_)]),
        "{results:?}"
    );
}

#[test]
fn a_child_that_the_snapshot_does_not_show_is_only_created() {
    let metadata = applied_metadata(&Rig::new(&[]), children(&["a"]));
    assert_eq!(metadata["resourceVersion"], "1", "no object has it");
}

#[test]
fn a_child_that_cannot_be_created_is_said_to_be_unseen() {
    let server = Server {
        status: Some("HTTP 409 Conflict".into()),
        ..Server::default()
    };
    *server.answers.lock().unwrap() = vec![ActionResult::Conflict("modified".into())];
    let executed = Rig::new(&[]).execute(&[children(&["a"])], &server);
    let said = "v1/ConfigMap default/a is not created: there is one that the snapshot does not show yet, or the child names a uid";
    assert_eq!(results(&executed), [ActionResult::Conflict(said.into())]);
    assert!(executed.failure.unwrap().message.ends_with(said));
}

#[test]
fn a_child_that_the_snapshot_shows_is_applied_to_that_object_alone() {
    let metadata = applied_metadata(&Rig::new(&[labelled("a")]), children(&["a"]));
    assert_eq!(metadata["uid"], "uid-a");
    assert!(metadata.get("resourceVersion").is_none());
}

#[test]
fn a_child_that_an_earlier_action_has_written_is_applied_as_that_has_left_it() {
    let mut own = labelled("a");
    own["metadata"]["annotations"] = json!({children::ANNOTATION: "p "});
    for (have, first) in [(vec![], apply(&wanted("a"))), (vec![own], delete("a"))] {
        let rig = Rig::new(&have);
        let plan = rig.plan(&[first, children(&["a"])]).unwrap();
        let Operation::Apply { object, .. } = &plan.writes().nth(1).unwrap().operation else {
            panic!("{plan:?}");
        };
        let object: Value = serde_json::from_str(object).unwrap();
        let metadata = &object["metadata"];
        assert!(metadata.get("uid").is_none() && metadata.get("resourceVersion").is_none());
    }
}

#[test]
fn a_child_that_was_created_is_not_applied_again() {
    let action = children(&["a"]);
    let rig = Rig::new(&[]);
    let created = rig.writes(action.clone()).remove(0);
    let Operation::Apply { object, .. } = created.operation else {
        panic!("{created:?}");
    };
    let mut stored: Value = serde_json::from_str(&object).unwrap();
    stored["metadata"]["uid"] = "u".into();
    stored["metadata"]["resourceVersion"] = "8".into();
    let execution = rig.execution(std::slice::from_ref(&action), Halt::default());
    let accepted = ActionResult::Done(Some("8".into()));
    drive(execution, |_| accepted.clone().into());
    let later = Rig {
        applied: rig.applied.clone(),
        ..Rig::new(&[stored])
    };
    assert!(later.writes(action).is_empty());
}
