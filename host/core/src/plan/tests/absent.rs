//! Actions on optional kinds that the cluster does not serve.

use super::*;

/// The reason of each step that is not sent, and the verb of each that is.
fn steps(rig: &Rig, actions: &[Action]) -> Vec<String> {
    let plan = rig.plan(actions).unwrap();
    let steps = plan.stages.iter().flat_map(|stage| &stage.steps);
    let said = steps.map(|step| match &step.what {
        What::Known(result) => result.error().unwrap_or_default().to_owned(),
        What::Send { .. } => format!("{:?} {}", step.verb, step.key),
    });
    said.collect()
}

/// A rig in whose cluster there are no ConfigMaps of the other version.
fn rig() -> Rig {
    let mut rig = Rig::new(&[]).of_two_versions();
    rig.manifest.writes[1].children = true;
    let grants = Grants {
        absent: [other_version()].into(),
        ..Grants::as_requested()
    };
    rig.permissions = Permissions::of(&rig.manifest, &grants);
    rig.is_of_two_versions = false;
    rig
}

fn of_other_version(name: &str) -> String {
    let mut object = object(name);
    object["apiVersion"] = "v2".into();
    object.to_string()
}

fn apply(object: &Value) -> Action {
    Action::Apply {
        object: object.to_string(),
        subresource: None,
        force: false,
    }
}

const NOT_SERVED: &str = "v2/ConfigMap is optional, and the cluster does not serve it";

#[test]
fn a_write_to_an_absent_kind_fails_and_the_others_are_sent() {
    let absent = || of_other_version("a");
    let key = ObjectKey::new("default", "a");
    let actions = [
        Action::Apply {
            object: absent(),
            subresource: None,
            force: false,
        },
        Action::Update {
            object: absent(),
            subresource: None,
        },
        Action::Finalizer {
            kind: other_version(),
            key: key.clone(),
            name: "example.com/f".into(),
            present: true,
        },
        Action::Delete(Delete {
            kind: other_version(),
            key,
            uid: None,
            resource_version: None,
            propagation: None,
            grace_period_seconds: None,
        }),
        apply(&object("b")),
    ];
    let found = steps(&rig(), &actions);
    let is_not_served = |said: &String| said.contains(NOT_SERVED);
    assert!(found[..4].iter().all(is_not_served), "{found:?}");
    assert_eq!(found[4..], ["Apply default/b"]);
}

#[test]
fn children_of_an_absent_kind_fail_and_keep_the_others_from_being_deleted() {
    let objects = vec![of_other_version("a"), object("b").to_string()];
    let rig = rig();
    let found = steps(&rig, &[Action::Children { objects }]);
    assert_eq!(found.len(), 2);
    assert!(found[0].contains(NOT_SERVED), "{found:?}");
    assert_eq!(found[1], "Apply default/b");
}

#[test]
fn what_is_not_permitted_is_refused_though_its_kind_is_absent() {
    let mut rig = rig();
    rig.manifest.writes[1].verbs = vec![Verb::Create];
    let grants = Grants {
        absent: [other_version()].into(),
        ..Grants::as_requested()
    };
    rig.permissions = Permissions::of(&rig.manifest, &grants);
    let action = Action::Apply {
        object: of_other_version("a"),
        subresource: None,
        force: false,
    };
    let refused = rig.plan(&[action]).unwrap_err().to_string();
    assert!(
        refused.contains("apply of v2/ConfigMap is not among"),
        "{refused}"
    );
}
