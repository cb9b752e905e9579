//! Keys that their own writes keep running.

use super::versions::applies_blindly;
use super::*;

/// Runs the next key as if it had written this object, and lets the watch show the write. Returns
/// `None` if no key was due, or the key is not found to loop.
pub(super) fn write_again(
    rig: &mut Rig,
    kind: &Kind,
    name: &str,
    labels: &str,
) -> Option<LoopingKey> {
    let reconcile = rig.take()?;
    let writing = rig.ran(reconcile);
    let version = (rig.version + 1).to_string();
    let accepted = vec![AcceptedWrite {
        kind: kind.clone(),
        key: ObjectKey::new("default", name),
        trace: Trace::Version(ResourceVersion::new(&version)),
    }];
    let executed = Executed {
        accepted,
        ..Executed::default()
    };
    let looping = rig.end(writing, executed).looping;
    rig.put(kind, name, labels);
    looping
}

/// How often a key runs in one second if it writes its own status each time.
fn runs_in_a_second(rig: &mut Rig) -> usize {
    let until = rig.now + Duration::from_secs(1);
    let mut runs = 0;
    while rig.now < until {
        let before = rig.version;
        write_again(rig, &service(), "web", &format!(r#""at":"{runs}""#));
        runs += usize::from(rig.version > before);
        rig.now += Duration::from_millis(1);
    }
    runs
}

#[test]
fn a_key_that_nothing_but_its_own_writes_runs_is_slowed_down_and_named() {
    let mut rig = Rig::with(manifest("p"), nothing);
    rig.put(&service(), "web", r#""at":"never""#);
    let mut named = Vec::new();
    for run in 0..11 {
        named.extend(write_again(
            &mut rig,
            &service(),
            "web",
            &format!(r#""at":"{run}""#),
        ));
    }
    let looping = LoopingKey {
        key: key_of("web"),
        runs: 10,
        field: "/metadata/labels/at".into(),
    };
    assert_eq!(named, std::slice::from_ref(&looping));
    assert_eq!(rig.hub.status(rig.now)[0].keys.looping, [looping]);
    let runs = runs_in_a_second(&mut rig);
    assert!((2..=8).contains(&runs), "{runs} in the first second");
    rig.now += Duration::from_secs(60);
    let runs = runs_in_a_second(&mut rig);
    assert!(runs <= 2, "{runs} in a later second");
}

#[test]
fn somebody_elses_change_runs_a_looping_key_at_once() {
    let mut rig = Rig::with(manifest("p"), nothing);
    rig.put(&service(), "web", "");
    for run in 0..20 {
        write_again(&mut rig, &service(), "web", &format!(r#""at":"{run}""#));
        rig.now += Duration::from_secs(2);
    }
    assert_eq!(rig.hub.status(rig.now)[0].keys.looping.len(), 1);
    write_again(&mut rig, &service(), "web", r#""at":"x""#);
    assert!(rig.take().is_none(), "it waits");
    rig.put(&service(), "web", r#""by":"another""#);
    assert_eq!(rig.run(), ["web"]);
    assert_eq!(rig.hub.status(rig.now)[0].keys.looping, []);
}

#[test]
fn a_watch_that_is_faster_than_the_answer_hides_no_loop() {
    let mut rig = Rig::with(manifest("p"), nothing);
    rig.put(&service(), "web", "");
    for run in 0..11 {
        let reconcile = rig.take().unwrap();
        let writing = rig.ran(reconcile);
        rig.put(&service(), "web", &format!(r#""at":"{run}""#));
        let accepted = vec![AcceptedWrite {
            kind: service(),
            key: ObjectKey::new("default", "web"),
            trace: Trace::Version(ResourceVersion::new(&rig.version.to_string())),
        }];
        let executed = Executed {
            accepted,
            ..Executed::default()
        };
        rig.end(writing, executed);
    }
    assert_eq!(rig.hub.status(rig.now)[0].keys.looping.len(), 1);
}

#[test]
fn a_key_that_writes_another_object_each_time_makes_headway() {
    let mut rig = Rig::with(manifest("p"), lists_pods);
    rig.put(&service(), "web", "");
    for run in 0..50 {
        let name = format!("x{run}");
        let named = write_again(&mut rig, &pod(), &name, r#""app":"web""#);
        assert_eq!(named, None, "run {run}");
    }
    assert_eq!(rig.run(), ["web"]);
    let counts = rig.hub.status(rig.now)[0].reconciles;
    assert_eq!(counts.self_triggered, 50);
}

#[test]
fn a_write_that_comes_to_rest_is_no_loop() {
    let mut rig = Rig::with(manifest("p"), nothing);
    for run in 0..20 {
        rig.put(&service(), "web", &format!(r#""wish":"{run}""#));
        write_again(&mut rig, &service(), "web", &format!(r#""done":"{run}""#));
        assert_eq!(rig.run(), ["web"], "it finds nothing more to do");
    }
    assert_eq!(rig.hub.status(rig.now)[0].keys.looping, []);
}

#[test]
fn a_key_that_its_own_writes_to_what_it_has_applied_run_is_slowed_down_too() {
    let mut rig = applies_blindly();
    rig.put(&pod(), "x", "");
    rig.put(&service(), "web", "");
    let mut runs = 0;
    for run in 0..50 {
        let before = rig.version;
        write_again(&mut rig, &pod(), "x", &format!(r#""at":"{run}""#));
        runs += usize::from(rig.version > before);
    }
    assert_eq!(runs, 11);
    assert_eq!(rig.hub.status(rig.now)[0].keys.looping.len(), 1);
}

#[test]
fn a_key_whose_writes_are_shown_one_by_one_is_slowed_down_as_well() {
    let mut rig = Rig::with(manifest("p"), lists_pods);
    rig.put(&service(), "web", "");
    let mut runs = 0;
    while rig.now < Duration::from_secs(10) {
        if let Some(reconcile) = rig.take() {
            let writing = rig.ran(reconcile);
            let accepted = |kind, name: &str, after: u64| AcceptedWrite {
                kind,
                key: ObjectKey::new("default", name),
                trace: Trace::Version(ResourceVersion::new(&(rig.version + after).to_string())),
            };
            let executed = Executed {
                accepted: vec![accepted(pod(), "x", 1), accepted(service(), "web", 2)],
                ..Executed::default()
            };
            rig.end(writing, executed);
            runs += 1;
            rig.put(&pod(), "x", &format!(r#""app":"web","at":"{runs}""#));
            assert!(rig.take().is_none(), "the other write is not shown yet");
            rig.now += Duration::from_millis(2);
            rig.put(&service(), "web", &format!(r#""at":"{runs}""#));
        }
        rig.now += Duration::from_millis(1);
    }
    assert!(runs <= 30, "{runs} runs in ten seconds");
}

#[test]
fn drift_of_what_a_looping_key_has_applied_runs_it_at_once() {
    let mut blind = manifest("p");
    blind.reads[1].fields = vec![".metadata.name".into()];
    let mut rig = Rig::with(blind, |_, _| {
        let object =
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"x"}}"#;
        let apply = Action::Apply {
            object: object.into(),
            subresource: None,
            force: false,
        };
        Ok(Outcome::of(vec![apply]))
    });
    rig.put(&pod(), "x", "");
    rig.put(&service(), "web", "");
    for run in 0..20 {
        write_again(&mut rig, &service(), "web", &format!(r#""at":"{run}""#));
        rig.now += Duration::from_secs(2);
    }
    write_again(&mut rig, &service(), "web", r#""at":"x""#);
    assert!(rig.take().is_none(), "it waits");
    rig.put(&pod(), "x", r#""by":"another""#);
    assert_eq!(rig.run(), ["web"]);
    assert_eq!(rig.hub.status(rig.now)[0].keys.looping, []);
}

#[test]
fn a_key_that_writes_many_objects_each_time_is_slowed_down_as_well() {
    for is_watch_faster in [false, true] {
        let mut rig = Rig::with(manifest("p"), lists_pods);
        rig.put(&service(), "web", "");
        for run in 0..11 {
            let reconcile = rig.take().unwrap();
            let writing = rig.ran(reconcile);
            let first = rig.version + 1;
            let show = |rig: &mut Rig| {
                (0..30).for_each(|number| {
                    let labels = format!(r#""app":"web","at":"{run}""#);
                    rig.put(&pod(), &format!("x{number}"), &labels);
                });
            };
            if is_watch_faster {
                show(&mut rig);
            }
            let accepted = |number: u64| AcceptedWrite {
                kind: pod(),
                key: ObjectKey::new("default", &format!("x{number}")),
                trace: Trace::Version(ResourceVersion::new(&(first + number).to_string())),
            };
            let executed = Executed {
                accepted: (0..30).map(accepted).collect(),
                ..Executed::default()
            };
            rig.end(writing, executed);
            if !is_watch_faster {
                show(&mut rig);
            }
        }
        assert_eq!(rig.hub.status(rig.now)[0].keys.looping.len(), 1);
        rig.put(&pod(), "y", r#""app":"web""#);
        assert_eq!(rig.run(), ["web"], "somebody else's change runs it at once");
    }
}
