//! Swaps, quarantines and rollbacks.

use super::*;

fn updated() -> World {
    let mut world = World::running("a", "1");
    world.write(FILE, "a", "2");
    world.load_all();
    assert_eq!(world.installed(), [("a", "2")]);
    world
}

#[test]
fn a_version_that_was_fit_is_kept_to_roll_back_to_and_another_is_not() {
    let mut world = updated();
    assert_eq!(world.entry(FILE).previous.as_deref(), Some("1"));
    let swapped = Notice::Swapped { plugin: "a".into() };
    assert!(world.told.contains(&swapped));
    world.unfit_to_return.insert("2".into());
    world.write(FILE, "a", "3");
    world.load_all();
    let previous = world.entry(FILE).previous;
    assert_eq!(previous.as_deref(), Some("1"), "the last that was fit");
}

#[test]
fn a_version_in_quarantine_is_rolled_back_and_its_file_is_not_tried_again() {
    let mut world = updated();
    world.quarantine("a", "trap");
    assert_eq!(world.installed(), [("a", "1")]);
    let problem = "running 1, NOT the file's 2: it was rolled back: trap";
    assert_eq!(world.entry(FILE).problem.as_deref(), Some(problem));
    assert_eq!(world.entry(FILE).previous, None);
    let rolled_back =
        |told: &Notice| matches!(told, Notice::RolledBack { restored, .. } if restored == "1");
    assert!(world.told.iter().any(rolled_back));
    world.write(FILE, "a", "2");
    world.load_all();
    assert_eq!(world.installed(), [("a", "1")], "it is the same version");
    assert_eq!(world.entry(FILE).problem.as_deref(), Some(problem));
    world.write(FILE, "a", "3");
    world.load_all();
    world.write(FILE, "a", "2");
    world.load_all();
    assert_eq!(world.installed(), [("a", "2")], "after another one");
}

#[test]
fn a_version_that_is_rolled_back_while_its_identity_may_read_nothing_does_not_return() {
    let mut world = World::running("a", "1");
    let identified = TestSettings {
        identity: Some("ns/robot".into()),
        ..TestSettings::default()
    };
    world.set(FILE, identified);
    world.write(FILE, "a", "2");
    world.load_all();
    world.is_forbidden = true;
    world.quarantine("a", "trap");
    world.drain_all();
    assert_eq!(world.installed(), []);
    world.is_forbidden = false;
    world.now += Duration::from_secs(600);
    world.rescan();
    assert_eq!(world.installed(), [("a", "1")]);
}

#[test]
fn without_an_earlier_version_a_quarantine_is_told_once() {
    let mut world = World::running("a", "1");
    world.quarantine("a", "trap");
    world.quarantine("a", "trap");
    assert_eq!(world.installed(), [("a", "1")]);
    let told = &world.told[1..];
    assert!(matches!(
        told,
        [
            Notice::QuarantineBegan { .. },
            Notice::Quarantined { seconds: 30, .. }
        ]
    ));
}

#[test]
fn an_earlier_version_that_may_not_run_does_not_come_back() {
    let mut world = updated();
    world.not_accepted.insert("1".into());
    world.quarantine("a", "trap");
    assert_eq!(world.installed(), [("a", "2")]);
    let last = world.told.len() - 2;
    assert!(matches!(
        world.told[last..],
        [Notice::CannotRollBack { .. }, Notice::Quarantined { .. }]
    ));
    assert_eq!(world.entry(FILE).previous.as_deref(), Some("1"));
    let pinned = TestSettings {
        pin: Some("2".into()),
        ..TestSettings::default()
    };
    world.set(FILE, pinned);
    let answer = world.command("a", CommandVerb::Rollback);
    let text = "the version before may not run: 1 is not named";
    assert_eq!(answer, Err(CommandError::Impossible(text.into())));
}

#[test]
fn a_version_that_comes_back_keeps_its_settings_if_the_current_ones_do_not_fit_it() {
    let mut world = World::running("a", "1");
    world.set(FILE, with_config(1));
    world.unfit.insert(("1".into(), 2));
    world.write(FILE, "a", "2");
    world.load_all();
    world.set(FILE, with_config(2));
    assert_eq!(world.hub[&1].terms.settings.config, "2");
    world.quarantine("a", "trap");
    assert_eq!(world.installed(), [("a", "1")]);
    assert_eq!(world.hub[&1].terms.settings.config, "1");
}

#[test]
fn an_operator_rolls_back_by_command_and_forward_again() {
    let mut world = updated();
    let answer = world.command("a", CommandVerb::Rollback);
    let text = "a goes back to version 1, until there is another file";
    assert_eq!(answer, Ok(text.into()));
    assert_eq!(world.installed(), [("a", "1")]);
    world.write(FILE, "a", "2");
    world.load_all();
    assert_eq!(world.installed(), [("a", "1")], "it is the same version");
    assert_eq!(world.entry(FILE).previous.as_deref(), Some("2"));
    world.command("a", CommandVerb::Rollback).unwrap();
    assert_eq!(world.installed(), [("a", "2")]);
}

#[test]
fn a_rollback_that_has_to_wait_is_made_when_it_can() {
    let mut world = updated();
    world.review_fails = true;
    world.quarantine("a", "trap");
    assert_eq!(world.installed(), [("a", "2")]);
    assert!(world.life.is_waiting());
    let told = world.told.len();
    world.event(LifecycleEvent::Tick);
    assert_eq!(world.told.len(), told, "a reason is told once");
    world.review_fails = false;
    world.event(LifecycleEvent::Tick);
    assert_eq!(world.installed(), [("a", "1")]);
    assert!(!world.life.is_waiting());
}

#[test]
fn a_newer_version_comes_before_a_rollback_that_waits() {
    let mut world = updated();
    world.review_fails = true;
    world.quarantine("a", "trap");
    world.write(FILE, "a", "3");
    world.review_fails = false;
    world.refuses = Some(JoinError::Draining);
    world.load_all();
    world.refuses = None;
    world.unfit_to_return.insert("2".into());
    world.event(LifecycleEvent::Tick);
    assert_eq!(world.installed(), [("a", "3")]);
    assert_eq!(world.entry(FILE).previous.as_deref(), Some("1"));
}
