//! First runs and resyncs, which are not queued.

use proptest::prelude::*;

use super::*;

fn names(from: usize, to: usize) -> Vec<String> {
    (from..to).map(|number| format!("s{number:04}")).collect()
}

/// Lists these objects for a plugin in one list, in order.
fn listed(rig: &mut Rig, names: &[String], labels: &str) {
    let objects = names.iter();
    let objects: Vec<Object> = objects
        .map(|name| rig.object(&service(), name, labels))
        .collect();
    let delta = Delta::Replace(Listing {
        objects,
        resource_version: ResourceVersion::new(&rig.version.to_string()),
        ..Listing::default()
    });
    let id = rig.id(&service());
    rig.hub.apply(id, delta, rig.now);
}

fn with_listed(names: &[String]) -> (Rig, PluginId) {
    let mut rig = Rig::default();
    let id = rig.join(manifest("p"), nothing);
    listed(&mut rig, names, "");
    rig.sync(&pod());
    (rig, id)
}

/// Runs the next key and returns its name.
fn run_one(rig: &mut Rig) -> Option<String> {
    let reconcile = rig.take()?;
    let name = reconcile.held.request.key.object.name.to_string();
    rig.finish(reconcile.run());
    Some(name)
}

fn run_in_order(rig: &mut Rig) -> Vec<String> {
    std::iter::from_fn(|| run_one(rig)).collect()
}

fn replace(rig: &mut Rig, id: PluginId) {
    let plugin = rig.hub.controllers[&id].plugin();
    let settings = ControllerSettings::default();
    rig.hub.replace(id, plugin, &settings, rig.now).unwrap();
}

#[test]
fn first_runs_count_as_queued_and_take_no_place_in_the_queue() {
    let (mut rig, id) = with_listed(&names(0, 100));
    let status = rig.hub.status(rig.now).remove(0);
    assert_eq!(status.keys.queued, 100);
    assert_eq!(status.keys.depth, BTreeMap::from([(NORMAL, 0), (LOW, 100)]));
    assert_eq!(rig.hub.controllers[&id].queued(), 0);
    assert_eq!(run_in_order(&mut rig), names(0, 100));
    assert_eq!(rig.hub.status(rig.now)[0].keys.queued, 0);
    assert!(matches!(rig.hub.next(rig.now, 0), Next::Idle(None)));
}

#[test]
fn first_runs_have_low_priority_and_wait_since_the_plugin_joined() {
    let (mut rig, _) = with_listed(&names(0, 2));
    rig.now += Duration::from_secs(3);
    rig.put(&service(), "changed", "");
    let reconcile = rig.take().unwrap();
    assert_eq!(
        (
            &*reconcile.held.request.key.object.name,
            reconcile.held.priority
        ),
        ("changed", NORMAL)
    );
    let reconcile = rig.take().unwrap();
    assert_eq!(
        (
            &*reconcile.held.request.key.object.name,
            reconcile.held.priority
        ),
        ("s0000", LOW)
    );
    assert_eq!(reconcile.waited(), Duration::from_secs(3));
}

#[test]
fn a_subject_that_has_run_for_a_change_has_had_its_first_run() {
    let (mut rig, _) = with_listed(&names(0, 4));
    assert_eq!(run_one(&mut rig).unwrap(), "s0000");
    rig.put(&service(), "s0002", r#""changed":"yes""#);
    rig.put(&service(), "s0000", r#""changed":"yes""#);
    assert_eq!(run_in_order(&mut rig), ["s0002", "s0000", "s0001", "s0003"]);
}

#[test]
fn a_subject_that_went_before_its_first_run_runs_once() {
    let (mut rig, _) = with_listed(&names(0, 3));
    rig.remove(&service(), "s0001");
    assert_eq!(run_in_order(&mut rig), ["s0001", "s0000", "s0002"]);
}

#[test]
fn a_new_version_begins_with_the_subjects_that_the_last_had_not_come_to() {
    let (mut rig, id) = with_listed(&names(0, 4));
    assert_eq!(run_one(&mut rig).unwrap(), "s0000");
    assert_eq!(run_one(&mut rig).unwrap(), "s0001");
    replace(&mut rig, id);
    assert_eq!(run_in_order(&mut rig), ["s0002", "s0003", "s0000", "s0001"]);
}

#[test]
fn the_last_subjects_have_their_turn_however_often_versions_change() {
    let (mut rig, id) = with_listed(&names(0, 4));
    let mut ran = BTreeSet::new();
    for _ in 0..4 {
        ran.insert(run_one(&mut rig).unwrap());
        replace(&mut rig, id);
    }
    assert_eq!(ran.len(), 4, "{ran:?}");
}

#[test]
fn a_key_that_asked_again_with_low_priority_comes_after_all_first_runs() {
    let fails_first = |request: &Request, _: &mut Reader| match request.attempt {
        1 if &*request.key.object.name == "s0000" => {
            Err(RunError::Failure(Failure::Retry("not yet".into())))
        }
        _ => Ok(Outcome::default()),
    };
    let mut rig = Rig::default();
    rig.join(manifest("p"), fails_first);
    listed(&mut rig, &names(0, 4), "");
    rig.sync(&pod());
    assert_eq!(run_one(&mut rig).unwrap(), "s0000");
    rig.now += Duration::from_secs(1);
    assert_eq!(run_in_order(&mut rig), ["s0001", "s0002", "s0003", "s0000"]);
}

#[test]
fn a_plugin_that_leaves_finishes_its_first_runs() {
    let (mut rig, id) = with_listed(&names(0, 3));
    assert_eq!(run_one(&mut rig).unwrap(), "s0000");
    rig.hub.drain_plugin(id);
    assert!(!rig.hub.is_plugin_drained(id, rig.now));
    assert_eq!(run_in_order(&mut rig), ["s0001", "s0002"]);
    assert!(rig.hub.is_plugin_drained(id, rig.now));
}

#[test]
fn others_have_the_hub_while_a_sweep_passes_over_what_is_not_selected() {
    let mut rig = Rig::default();
    let mut of_some = manifest("p");
    of_some.reconciles = vec![Selection {
        labels: LabelSelector {
            requirements: vec![Requirement::Equals("app".into(), "web".into())],
        },
        ..selection()
    }];
    rig.join(of_some, nothing);
    rig.sync(&pod());
    listed(&mut rig, &names(0, 2_500), "");
    rig.put(&service(), "z", r#""app":"web""#);
    assert_eq!(run_one(&mut rig).unwrap(), "z");
    for _ in 0..2 {
        assert!(matches!(rig.hub.next(rig.now, 0), Next::Idle(Some(at)) if at == rig.now));
    }
    assert!(matches!(rig.hub.next(rig.now, 0), Next::Idle(None)));
}

#[derive(Clone, Debug)]
enum Event {
    Put(usize),
    Remove(usize),
    Run,
    Replace,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => (0..12usize).prop_map(Event::Put),
        1 => (0..12usize).prop_map(Event::Remove),
        4 => Just(Event::Run),
        1 => Just(Event::Replace),
    ]
}

proptest! {
    /// Checks the promise of a sweep by counting: each existing subject runs once for the last
    /// version, and once more for each change after it ran.
    #[test]
    fn every_subject_runs_once_for_each_version_and_again_only_for_a_change(
        events in proptest::collection::vec(event(), 0..60),
    ) {
        let (mut rig, id) = with_listed(&names(0, 8));
        let all = names(0, 12);
        let mut there: BTreeSet<String> = names(0, 8).into_iter().collect();
        // The subjects that must run, and the keys of deleted ones that a new version may run once
        // more.
        let mut owed = there.clone();
        let mut gone = BTreeSet::new();
        let mut allowed: BTreeSet<String> = BTreeSet::new();
        // Keys that were queued when the last version was installed count twice until they have
        // run.
        let (mut serial, mut twice) = (0, 0);
        for event in events {
            match event {
                Event::Put(number) => {
                    serial += 1;
                    rig.put(&service(), &all[number], &format!(r#""n":"{serial}""#));
                    there.insert(all[number].clone());
                    owed.insert(all[number].clone());
                }
                Event::Remove(number) => {
                    if there.remove(&all[number]) {
                        gone.insert(all[number].clone());
                        rig.remove(&service(), &all[number]);
                        owed.insert(all[number].clone());
                    }
                }
                Event::Run => match run_one(&mut rig) {
                    Some(name) => {
                        let was_to_run = owed.remove(&name) | allowed.remove(&name);
                        prop_assert!(was_to_run, "{name} was not to run");
                    }
                    None => prop_assert!(owed.is_empty(), "{owed:?}"),
                },
                Event::Replace => {
                    replace(&mut rig, id);
                    twice = rig.hub.controllers[&id].queued();
                    owed.extend(there.iter().cloned());
                    allowed.extend(gone.iter().cloned());
                }
            }
            let queued = rig.hub.status(rig.now)[0].keys.queued;
            let expected = owed.len()..=owed.len() + allowed.len() + twice;
            prop_assert!(expected.contains(&queued), "{queued} of {owed:?}, {allowed:?}");
        }
        while let Some(name) = run_one(&mut rig) {
            let was_to_run = owed.remove(&name) | allowed.remove(&name);
            prop_assert!(was_to_run, "{name} was not to run");
        }
        prop_assert!(owed.is_empty(), "{owed:?}");
    }
}
