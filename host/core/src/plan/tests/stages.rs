//! What is begun after a failure, and what is not.

use super::*;

fn no() -> ActionResult {
    ActionResult::Forbidden("no".into())
}

fn done() -> ActionResult {
    ActionResult::Done(None)
}

fn create(name: &str) -> Action {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": name}});
    Action::Create {
        object: object.to_string(),
        subresource: None,
    }
}

fn patch(name: &str, value: &str) -> Action {
    Action::Patch {
        kind: config_map(),
        key: ObjectKey::new("default", name),
        subresource: None,
        patch_type: PatchType::Merge,
        body: json!({"data": {"v": value}}).to_string(),
    }
}

/// Executes the stages with a server that refuses the writes to the object `bad`.
fn with_bad(stages: &[Stage]) -> Executed {
    let rig = Rig::new(&[object("a"), object("b"), object("bad")]).evicting();
    let execution = rig.execution_of(stages, Halt::default());
    drive(execution, |write| match &*write.key.name {
        "bad" => no().into(),
        _ => done().into(),
    })
}

#[test]
fn a_failure_stops_every_later_stage_but_those_that_are_begun_always() {
    let stages = [
        stage(&[delete("bad"), delete("a")]),
        stage(&[delete("b")]),
        always(&[patch("a", "status"), patch("bad", "status")]),
        stage(&[patch("b", "after")]),
        always(&[patch("b", "status")]),
    ];
    let executed = with_bad(&stages);
    let skipped = ActionResult::Skipped;
    assert_eq!(
        results(&executed),
        [no(), done(), skipped.clone(), done(), no(), skipped, done()]
    );
    assert_eq!(executed.failure.unwrap().message, "action 1: no");
}

#[test]
fn after_a_create_that_failed_no_other_create_of_its_stage_is_begun() {
    let stages = [
        stage(&[create("bad"), create("c"), delete("a")]),
        always(&[create("d")]),
    ];
    let executed = with_bad(&stages);
    assert_eq!(
        results(&executed),
        [no(), ActionResult::Skipped, done(), done()]
    );
}

#[test]
fn an_eviction_that_is_refused_stops_no_other_and_no_create() {
    let evict = |name: &str| Action::Create {
        object: json!({"apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"namespace": "default", "name": name}})
        .to_string(),
        subresource: Some("eviction".into()),
    };
    let stages = [stage(&[evict("bad"), evict("a"), create("c")])];
    assert_eq!(results(&with_bad(&stages)), [no(), done(), done()]);
}

#[test]
fn what_depends_on_a_write_of_its_object_that_was_left_out_is_left_out_too() {
    let stages = [stage(&[create("bad"), create("c"), patch("c", "v")])];
    let executed = with_bad(&stages);
    let skipped = ActionResult::Skipped;
    assert_eq!(results(&executed), [no(), skipped.clone(), skipped]);
}

#[test]
fn a_create_that_was_left_out_for_its_object_stops_no_other_create() {
    let stages = [stage(&[patch("bad", "v"), create("bad"), create("c")])];
    let executed = with_bad(&stages);
    assert_eq!(
        results(&executed),
        [no(), ActionResult::Skipped, done()],
        "it has not failed"
    );
}

#[test]
fn children_are_deleted_only_when_all_that_are_wanted_have_been_applied() {
    let children = |names: &[&str]| Action::Children {
        objects: names
            .iter()
            .map(|name| {
                json!({"apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"namespace": "default", "name": name}})
                .to_string()
            })
            .collect(),
    };
    let writes = Rig::new(&[]).writes(children(&["old"]));
    let Operation::Apply { object: old, .. } = &writes[0].operation else {
        panic!("{writes:?}");
    };
    let rig = Rig::new(&[serde_json::from_str(old).unwrap()]);
    for (wanted, is_pruned) in [(["c", "d"], true), (["c", "bad"], false)] {
        let sent = Mutex::new(vec![]);
        let execution = rig.execution(&[children(&wanted)], Halt::default());
        let executed = drive(execution, |write| {
            sent.lock().unwrap().push(write.key.name.to_string());
            let is_bad = &*write.key.name == "bad";
            if is_bad { no() } else { done() }.into()
        });
        let sent = sent.into_inner().unwrap();
        assert_eq!(sent.len(), if is_pruned { 3 } else { 2 }, "{sent:?}");
        assert_eq!(sent.contains(&"old".to_owned()), is_pruned);
        let last = executed.effects.last().unwrap();
        assert_eq!((&*last.key.name, last.verb), ("old", EffectVerb::Delete));
        assert_eq!(last.result == ActionResult::Skipped, !is_pruned);
    }
}

#[test]
fn each_write_has_an_effect_with_the_name_that_was_derived() {
    let generated = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "default", "generateName": "job-"}});
    let create = Action::Create {
        object: generated.to_string(),
        subresource: None,
    };
    let rig = Rig::new(&[object("a")]);
    let actions = [create, finalizer("x/y", true), event("a"), delete("a")];
    let executed = rig.execute(&actions, &Server::default());
    let verbs: Vec<_> = executed.effects.iter().map(|effect| effect.verb).collect();
    let (create, delete) = (EffectVerb::Create, EffectVerb::Delete);
    assert_eq!(
        verbs,
        [create, EffectVerb::Finalizer, EffectVerb::Event, delete]
    );
    let name = &executed.effects[0].key.name;
    assert!(name.starts_with("job-") && name.len() == 12, "{name}");
    assert_eq!(&*executed.effects[2].key.name, "a", "what it is about");
    let declared = &rig.manifest.writes[0].kind;
    let effects = &executed.effects;
    assert!(
        effects
            .iter()
            .all(|effect| Arc::ptr_eq(&effect.kind.kind, &declared.kind)),
        "kept for each key, the kinds are shared"
    );
}

#[test]
fn an_outcome_has_a_thousand_stages() {
    let rig = Rig::new(&[]);
    assert!(
        rig.plan_after(0, &vec![Stage::default(); MAX_STAGES])
            .is_ok()
    );
    let error = rig.plan_after(0, &vec![Stage::default(); MAX_STAGES + 1]);
    assert_eq!(
        error.unwrap_err().to_string(),
        "1001 stages; an outcome has at most 1000"
    );
}

#[test]
fn actions_are_counted_and_numbered_through_all_stages() {
    let rig = Rig::new(&[]);
    let stages = [stage(&[delete("a")]), stage(&[delete("a"), create("")])];
    let error = rig.plan_after(0, &stages).unwrap_err().to_string();
    assert!(error.starts_with("action 3 (create): "), "{error}");
    let half = vec![delete("a"); MAX_ACTIONS / 2];
    let mut stages = vec![stage(&half), stage(&half)];
    assert!(rig.plan_after(0, &stages).is_ok());
    stages.push(stage(&[delete("a")]));
    assert_eq!(
        rig.plan_after(0, &stages).unwrap_err(),
        PlanError::TooMany(MAX_ACTIONS + 1)
    );
}

#[test]
fn creates_that_all_fail_from_one_on_are_soon_given_up() {
    const GOOD: usize = 36;
    let rig = Rig::new(&[]);
    let creates: Vec<Action> = (0..500).map(|n| create(&format!("c-{n}"))).collect();
    let sent = Mutex::new(0);
    let execution = rig.execution(&creates, Halt::default());
    let executed = drive(execution, |_| {
        let mut sent = sent.lock().unwrap();
        *sent += 1;
        if *sent > GOOD { no() } else { done() }.into()
    });
    let sent = sent.into_inner().unwrap();
    assert!(
        (GOOD + 1..=GOOD + Execution::MAX_WINDOW).contains(&sent),
        "{sent}"
    );
    let failed = |effect: &&Effect| effect.result.error().is_some();
    assert_eq!(executed.effects.iter().filter(failed).count(), sent - GOOD);
    let rig_of_bad = rig.execution(&creates, Halt::default());
    let executed = drive(rig_of_bad, |_| no().into());
    assert_eq!(
        executed.effects.iter().filter(failed).count(),
        1,
        "one that fails at first is tried alone"
    );
}

#[test]
fn the_failure_that_is_reported_does_not_depend_on_the_order_of_the_answers() {
    let answer = |write: &Write| match &*write.key.name {
        "x1" => no(),
        "x2" => ActionResult::Busy("later".into(), std::time::Duration::from_secs(2)),
        "x3" => ActionResult::Busy("later".into(), std::time::Duration::from_secs(9)),
        _ => done(),
    };
    let actions: Vec<Action> = ["a", "b", "c", "d", "x1", "x2", "x3"].map(delete).into();
    let mut failures = vec![];
    for is_reversed in [false, true] {
        let mut execution = Rig::new(&[]).execution(&actions, Halt::default());
        let mut pending = VecDeque::new();
        let executed = loop {
            match execution.advance() {
                ControlFlow::Continue((begun, under_way)) => {
                    pending.extend(begun);
                    let next: PendingWrite = pending.pop_front().unwrap();
                    let is_bad = next.write().key.name.starts_with('x');
                    let next = if is_reversed && is_bad {
                        pending.push_front(next);
                        pending.pop_back().unwrap()
                    } else {
                        next
                    };
                    let answer = answer(next.write());
                    execution = under_way.answered(next, answer.into());
                }
                ControlFlow::Break(executed) => break executed,
            }
        };
        failures.push(executed.failure.unwrap());
    }
    assert_eq!(failures[0], failures[1]);
    assert_eq!(failures[0].message, "action 6: later");
    assert_eq!(
        failures[0].retry_after,
        Some(std::time::Duration::from_secs(9))
    );
}
