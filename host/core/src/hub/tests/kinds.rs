//! A plugin that reconciles several kinds.

use super::*;

/// Services and pods, both reconciled.
fn two_kinds(name: &str) -> Manifest {
    Manifest {
        reconciles: vec![of_kind(service()), of_kind(pod())],
        ..manifest(name)
    }
}

fn of_kind(kind: Kind) -> Selection {
    Selection {
        kind,
        ..selection()
    }
}

/// A rig with one plugin that reconciles services and pods.
fn rig(
    behaviour: impl Fn(&Request, &mut Reader) -> Result<Outcome, RunError> + Send + Sync + 'static,
) -> Rig {
    Rig::with(two_kinds("p"), behaviour)
}

/// Runs everything that can run now. Returns kinds and names in the order of the runs.
fn run(rig: &mut Rig) -> Vec<String> {
    let mut keys = Vec::new();
    while let Some(reconcile) = rig.take() {
        let held = reconcile.held();
        let gone = if held.is_gone { " (gone)" } else { "" };
        keys.push(format!("{} {}{gone}", held.kind(), held.object().name));
        rig.finish(reconcile.run());
    }
    keys
}

#[test]
fn objects_of_one_name_and_two_kinds_have_a_key_each() {
    let mut rig = rig(|request, reader| {
        let kind = request.key.kind.as_deref().unwrap();
        reader.get(kind, &request.key.object).unwrap();
        Ok(Outcome::default())
    });
    rig.put(&service(), "a", "");
    rig.put(&pod(), "a", "");
    assert_eq!(run(&mut rig), ["v1/Service a", "v1/Pod a"]);
    rig.put(&pod(), "a", r#""x":"1""#);
    assert_eq!(run(&mut rig), ["v1/Pod a"]);
    rig.remove(&service(), "a");
    assert_eq!(run(&mut rig), ["v1/Service a (gone)"]);
    let recorded = rig.hub.status(rig.now)[0].keys.recorded_reads;
    assert_eq!(recorded, 0, "a change of it wakes it anyway");
}

#[test]
fn a_key_is_woken_by_the_object_of_its_name_that_is_of_another_kind() {
    let mut rig = rig(|request, reader| {
        if request.key.kind.as_deref() == Some(&pod()) {
            reader.get(&service(), &request.key.object).unwrap();
        }
        Ok(Outcome::default())
    });
    rig.put(&pod(), "a", "");
    run(&mut rig);
    rig.put(&service(), "a", "");
    let mut woken = run(&mut rig);
    woken.sort_unstable();
    assert_eq!(woken, ["v1/Pod a", "v1/Service a"]);
}

#[test]
fn each_kind_has_its_own_selection() {
    let mut manifest = two_kinds("p");
    manifest.reconciles[1].labels = LabelSelector {
        requirements: vec![Requirement::Equals("app".into(), "web".into())],
    };
    let mut rig = Rig::with(manifest, nothing);
    rig.put(&service(), "a", "");
    rig.put(&pod(), "a", "");
    assert_eq!(run(&mut rig), ["v1/Service a"]);
    rig.put(&pod(), "a", r#""app":"web""#);
    assert_eq!(run(&mut rig), ["v1/Pod a"]);
    rig.put(&pod(), "a", "");
    assert_eq!(run(&mut rig), ["v1/Pod a (gone)"]);
}

#[test]
fn a_resync_goes_through_every_kind_and_runs_each_key_once() {
    let mut rig = Rig::default();
    let settings = ControllerSettings {
        resync: Some(Duration::from_secs(60)),
        ..ControllerSettings::default()
    };
    rig.join_with(two_kinds("p"), &settings, nothing);
    rig.sync(&service());
    rig.sync(&pod());
    for name in ["b", "a"] {
        rig.put(&service(), name, "");
        rig.put(&pod(), name, "");
    }
    run(&mut rig);
    rig.now += Duration::from_secs(120);
    let first = rig.take().unwrap();
    assert_eq!(
        (&*first.held().kind(), &*first.held().object().name),
        ("v1/Pod", "a")
    );
    rig.finish(first.run());
    assert_eq!(rig.hub.status(rig.now)[0].keys.queued, 3);
    rig.put(&service(), "a", r#""x":"1""#);
    let rest = ["v1/Service a", "v1/Pod b", "v1/Service b"];
    assert_eq!(run(&mut rig), rest, "what has changed runs first, and once");
}

#[test]
fn a_companion_wakes_the_keys_of_the_kinds_that_name_it() {
    let mut manifest = two_kinds("p");
    manifest.reconciles[0].companions = vec![pod()];
    let mut rig = Rig::with(manifest, nothing);
    rig.put(&pod(), "left", "");
    let mut woken = run(&mut rig);
    woken.sort_unstable();
    assert_eq!(woken, ["v1/Pod left", "v1/Service left (gone)"]);
}

#[test]
fn a_version_with_other_kinds_forgets_the_keys_of_those_that_are_gone() {
    let fails = |_: &Request, _: &mut Reader| Err(RunError::Trap("no".into()));
    let mut rig = Rig::default();
    let plugin = |reconciles, behaviour: Box<Behaviour>| {
        let manifest = Manifest {
            reconciles,
            ..manifest("p")
        };
        Arc::new(Fake {
            manifest,
            behaviour,
        })
    };
    let settings = ControllerSettings {
        quarantine: false,
        ..ControllerSettings::default()
    };
    let both = vec![of_kind(service()), of_kind(pod())];
    let id = rig
        .hub
        .join(plugin(both, Box::new(fails)), &settings, rig.now);
    let id = id.unwrap();
    rig.sync(&service());
    rig.sync(&pod());
    rig.put(&service(), "a", "");
    rig.put(&pod(), "a", "");
    // A fetch of what a failing key has read ends some of these rounds.
    for _ in 0..12 {
        run(&mut rig);
        rig.now += Duration::from_secs(60);
    }
    let broken = |rig: &Rig| -> Vec<SubjectKey> {
        let broken = &rig.hub.status(rig.now)[0].keys.broken;
        broken.iter().map(|broken| broken.key.clone()).collect()
    };
    assert_eq!(broken(&rig), [key_of_kind(pod(), "a"), key_of("a")]);
    for (kind, key) in [(pod(), key_of_kind(pod(), "a")), (service(), key_of("a"))] {
        let only = plugin(vec![of_kind(kind.clone())], Box::new(fails));
        rig.hub.replace(id, only, &settings, rig.now).unwrap();
        let left: Vec<SubjectKey> = broken(&rig);
        let is_kept = kind == pod();
        assert_eq!(left, is_kept.then_some(key).into_iter().collect::<Vec<_>>());
        assert_eq!(run(&mut rig), [format!("{kind} a")]);
    }
}

#[test]
fn a_key_that_runs_while_its_kind_goes_is_not_run_again() {
    let mut rig = rig(nothing);
    rig.put(&service(), "a", "");
    rig.put(&pod(), "a", "");
    let running = rig.take().unwrap();
    assert_eq!(running.held().kind(), "v1/Service");
    let only_pods = Manifest {
        reconciles: vec![of_kind(pod())],
        ..manifest("p")
    };
    let version = Arc::new(Fake {
        manifest: only_pods,
        behaviour: Box::new(nothing),
    });
    let settings = ControllerSettings::default();
    rig.hub.replace(1, version, &settings, rig.now).unwrap();
    rig.put(&service(), "a", r#""x":"1""#);
    rig.finish(running.run());
    assert_eq!(run(&mut rig), ["v1/Pod a"]);
    assert_eq!(rig.hub.status(rig.now)[0].keys.running, 0);
}

#[test]
fn a_write_that_is_not_shown_yet_holds_the_key_of_its_kind_alone() {
    let mut rig = rig(nothing);
    rig.put(&service(), "a", "");
    let reconcile = rig.take().unwrap();
    let writing = rig.ran(reconcile);
    let accepted = AcceptedWrite {
        kind: pod(),
        key: ObjectKey::new("default", "x"),
        trace: Trace::Version(ResourceVersion::new("1000")),
    };
    let executed = Executed {
        accepted: vec![accepted],
        ..Executed::default()
    };
    rig.end(writing, executed);
    rig.put(&service(), "a", r#""x":"1""#);
    rig.put(&pod(), "a", "");
    assert_eq!(run(&mut rig), ["v1/Pod a"]);
    assert_eq!(rig.hub.status(rig.now)[0].keys.held, 1);
}
