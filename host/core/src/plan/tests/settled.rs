//! Whether the host believes an outcome that says that it is settled.

use super::*;

/// Whether an outcome of this action counts as settled, and how many warnings there are.
fn is_settled(action: Action) -> (bool, usize) {
    let mut outcome = Outcome {
        stages: vec![stage(&[action])],
        ..Outcome::default()
    };
    outcome.follow_up.is_settled = true;
    let plan = Rig::new(&[object("a")]).plan_outcome(0, &outcome).unwrap();
    assert_eq!(plan.writes().count(), 1);
    (plan.is_settled(), plan.warnings().len())
}

fn body(name: &str, version: Option<&str>) -> String {
    let mut body = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": name}, "data": {"v": "new"},
    });
    if let Some(version) = version {
        body["metadata"]["resourceVersion"] = version.into();
    }
    body.to_string()
}

fn apply(version: Option<&str>) -> Action {
    Action::Apply {
        object: body("a", version),
        force: true,
        subresource: None,
    }
}

fn patch(patch_type: PatchType, body: &Value) -> Action {
    Action::Patch {
        kind: config_map(),
        key: ObjectKey::new("default", "a"),
        subresource: None,
        patch_type,
        body: body.to_string(),
    }
}

#[test]
fn an_outcome_is_settled_only_if_its_writes_are_of_one_state() {
    const BELIEVED: (bool, usize) = (true, 0);
    const DOUBTED: (bool, usize) = (false, 1);
    let version = object("a")["metadata"]["resourceVersion"].clone();
    let seen = version.as_str();
    let create = Action::Create {
        object: body("b", None),
        subresource: None,
    };
    assert_eq!(is_settled(create), BELIEVED);
    let update = Action::Update {
        object: body("a", None),
        subresource: None,
    };
    assert_eq!(is_settled(update), BELIEVED);
    assert_eq!(is_settled(apply(None)), DOUBTED);
    assert_eq!(is_settled(apply(seen)), BELIEVED);
    let value = json!({"data": {"v": "new"}});
    assert_eq!(is_settled(patch(PatchType::Merge, &value)), DOUBTED);
    let value = json!({"metadata": {"resourceVersion": version}, "data": {"v": "new"}});
    assert_eq!(is_settled(patch(PatchType::Merge, &value)), BELIEVED);
    let step = json!({"op": "add", "path": "/data", "value": {"v": "new"}});
    assert_eq!(is_settled(patch(PatchType::Json, &json!([step]))), DOUBTED);
    let test = json!({"op": "test", "path": "/metadata/resourceVersion", "value": version});
    let steps = json!([test, step]);
    assert_eq!(is_settled(patch(PatchType::Json, &steps)), BELIEVED);
}
