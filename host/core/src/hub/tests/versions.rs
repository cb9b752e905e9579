//! Plugins that are replaced, paused, quarantined, or not granted everything they ask for.

use super::*;
use crate::access::grants::{Granted, Grants};
use crate::hub::status::MAX_LISTED;
use crate::plan::unchanged::{Applied, AppliedState, ApplyTarget};
use crate::reads::error::ReadError;

fn fake(
    manifest: Manifest,
    behaviour: impl Fn(&Request, &mut Reader) -> Result<Outcome, RunError> + Send + Sync + 'static,
) -> Arc<dyn Plugin> {
    Arc::new(Fake {
        manifest,
        behaviour: Box::new(behaviour),
    })
}

fn fine(_: &Request, _: &mut Reader) -> Result<Outcome, RunError> {
    Ok(Outcome::default())
}

fn trap(_: &Request, _: &mut Reader) -> Result<Outcome, RunError> {
    Err(RunError::Trap("unreachable".into()))
}

fn failing(_: &Request, _: &mut Reader) -> Result<Outcome, RunError> {
    Err(Failure::Retry("not yet".into()).into())
}

fn version(version: &str) -> Manifest {
    Manifest {
        version: version.into(),
        ..manifest("a")
    }
}

/// A hub with one plugin and synced caches. The plugin has run for all of these services.
fn with_services(
    names: &[&str],
    behaviour: impl Fn(&Request, &mut Reader) -> Result<Outcome, RunError> + Send + Sync + 'static,
) -> (Rig, PluginId) {
    let mut rig = Rig::with(version("1.0.0"), behaviour);
    for name in names {
        rig.put(&service(), name, "");
    }
    rig.run();
    let id = rig.hub.last_plugin;
    (rig, id)
}

fn replace(rig: &mut Rig, id: PluginId, plugin: Arc<dyn Plugin>) {
    let settings = ControllerSettings::default();
    rig.hub.replace(id, plugin, &settings, rig.now).unwrap();
}

/// Grants the plugin another namespace than that of its keys.
fn move_elsewhere(rig: &mut Rig, id: PluginId) {
    let elsewhere = ControllerSettings {
        grants: Grants {
            namespaces: ["elsewhere".to_owned()].into(),
            ..Grants::as_requested()
        },
        ..ControllerSettings::default()
    };
    let plugin = rig.hub.controllers[&id].plugin();
    rig.hub.replace(id, plugin, &elsewhere, rig.now).unwrap();
}

#[test]
fn every_key_runs_on_the_new_version_and_none_on_two_at_once() {
    let (mut rig, id) = with_services(&["a", "b", "c"], fine);
    rig.put(&service(), "a", r#""changed":"yes""#);
    let old = rig.take().unwrap();
    replace(&mut rig, id, fake(version("2.0.0"), fine));
    // `a` is still running, on the old version.
    assert_eq!(rig.run(), ["b", "c"]);
    assert_eq!(rig.hub.status(rig.now)[0].version, "2.0.0");
    rig.finish(old.run());
    assert_eq!(rig.run(), ["a"]);
    assert_eq!(rig.run(), [""; 0]);
}

#[test]
fn what_an_old_version_read_wakes_nobody() {
    let reads_pod = |_: &Request, reader: &mut Reader| {
        reader
            .get(&pod(), &ObjectKey::new("default", "p"))
            .map_err(|error| RunError::Trap(error.to_string()))?;
        Ok(Outcome::default())
    };
    let (mut rig, id) = with_services(&["a"], reads_pod);
    rig.put(&service(), "a", r#""changed":"yes""#);
    let old = rig.take().unwrap();
    replace(&mut rig, id, fake(version("2.0.0"), fine));
    rig.finish(old.run());
    assert_eq!(rig.run(), ["a"]);
    rig.put(&pod(), "p", "");
    assert_eq!(rig.run(), [""; 0]);
}

#[test]
fn failures_are_remembered_across_versions() {
    let (mut rig, id) = with_services(&["a"], failing);
    replace(&mut rig, id, fake(version("2.0.0"), fine));
    let reconcile = rig.take().unwrap();
    assert!(
        reconcile.held.request.attempt > 1,
        "{}",
        reconcile.held.request.attempt
    );
}

#[test]
fn keys_of_another_kind_are_forgotten() {
    let (mut rig, id) = with_services(&["a"], failing);
    let mut other = version("2.0.0");
    other.reconciles = vec![Selection {
        kind: pod(),
        ..selection()
    }];
    rig.put(&pod(), "p", "");
    replace(&mut rig, id, fake(other, fine));
    assert_eq!(rig.run(), ["p"]);
}

#[test]
fn what_only_the_old_version_read_is_not_watched_any_more() {
    let (mut rig, id) = with_services(&["a"], fine);
    let mut less = version("2.0.0");
    less.reads.truncate(1);
    less.writes.clear();
    replace(&mut rig, id, fake(less, fine));
    let wanted = rig.hub.wanted();
    let kinds: Vec<String> = wanted
        .values()
        .map(|(informer_key, _)| informer_key.to_string())
        .collect();
    assert_eq!(kinds, ["v1/Service"]);
    assert_eq!(rig.run(), ["a"]);
}

#[test]
fn a_key_does_not_wait_for_a_write_that_nobody_watches_any_more() {
    let (mut rig, id) = with_services(&["a"], fine);
    rig.put(&service(), "a", r#""changed":"yes""#);
    let reconcile = rig.take().unwrap();
    let accepted = AcceptedWrite {
        kind: pod(),
        key: ObjectKey::new("default", "p"),
        trace: Trace::Version(ResourceVersion::new("999999")),
    };
    let executed = Executed {
        accepted: vec![accepted],
        ..Executed::default()
    };
    let writing = rig.ran(reconcile);
    rig.end(writing, executed);
    rig.put(&service(), "a", r#""changed":"again""#);
    assert!(rig.take().is_none(), "the pod is not to be seen yet");
    let mut less = version("2.0.0");
    less.reads.truncate(1);
    replace(&mut rig, id, fake(less, fine));
    assert_eq!(rig.run(), ["a"]);
}

#[test]
fn a_paused_plugin_runs_nothing_and_loses_nothing() {
    let (mut rig, id) = with_services(&["a"], fine);
    let paused = ControllerSettings {
        is_paused: true,
        ..ControllerSettings::default()
    };
    rig.hub.configure(id, &paused, rig.now);
    rig.put(&service(), "b", "");
    assert_eq!(rig.run(), [""; 0]);
    assert!(rig.hub.status(rig.now)[0].is_paused);
    assert!(rig.hub.is_drained(rig.now), "nobody waits for it to end");
    rig.hub
        .configure(id, &ControllerSettings::default(), rig.now);
    assert_eq!(rig.run(), ["b"]);
}

#[test]
fn a_version_that_breaks_on_everything_runs_nothing_until_its_quarantine_is_over() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let (mut rig, id) = with_services(&names, trap);
    let quarantined = rig.hub.quarantined(rig.now);
    assert_eq!(quarantined.len(), 1, "{quarantined:?}");
    assert_eq!(quarantined[0].0, id);
    assert_eq!(quarantined[0].1.reason, "trap: unreachable");
    rig.now += Duration::from_secs(29);
    rig.put(&service(), "g", "");
    assert_eq!(rig.run(), [""; 0]);
    rig.now += Duration::from_secs(1);
    assert!(!rig.run().is_empty(), "it is given another try");
    let again = rig.hub.quarantined(rig.now);
    assert_eq!(again[0].1.until - rig.now, Duration::from_secs(60));
}

#[test]
fn a_version_that_makes_the_host_panic_is_in_quarantine_at_once() {
    let panics =
        |_: &Request, _: &mut Reader| Err(RunError::HostPanic("index out of bounds".into()));
    let (rig, _) = with_services(&["a"], panics);
    assert_eq!(rig.hub.quarantined(rig.now).len(), 1);
}

#[test]
fn the_hub_says_when_a_quarantine_is_over() {
    let (mut rig, id) = with_services(&["a"], fine);
    rig.hub.put_in_quarantine(id, "it cheats", rig.now);
    rig.put(&service(), "a", r#""changed":"yes""#);
    let Next::Idle(due) = rig.hub.next(rig.now, 0) else {
        panic!("it is in quarantine");
    };
    assert_eq!(due, Some(rig.now + Duration::from_secs(30)));
}

#[test]
fn a_new_version_has_a_clean_record() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let (mut rig, id) = with_services(&names, trap);
    replace(&mut rig, id, fake(version("2.0.0"), fine));
    assert_eq!(rig.run(), names);
    assert!(rig.hub.quarantined(rig.now).is_empty());
}

#[test]
fn other_settings_end_a_quarantine_and_not_what_is_remembered_of_it() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let (mut rig, id) = with_services(&names, trap);
    assert_eq!(rig.hub.quarantined(rig.now).len(), 1);
    let plugin = rig.hub.controllers[&id].plugin();
    replace(&mut rig, id, plugin);
    assert!(!rig.run().is_empty());
    let again = rig.hub.quarantined(rig.now);
    assert_eq!(again[0].1.until - rig.now, Duration::from_secs(60));
}

#[test]
fn a_quarantine_ends_at_once_when_somebody_says_so() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let (mut rig, id) = with_services(&names, trap);
    rig.now += Duration::from_secs(5);
    assert_eq!(rig.run(), [""; 0]);
    rig.hub.pardon(id);
    assert!(rig.hub.quarantined(rig.now).is_empty());
    assert!(!rig.run().is_empty());
}

#[test]
fn without_quarantines_a_version_is_tried_however_often_it_breaks() {
    let settings = ControllerSettings {
        quarantine: false,
        ..ControllerSettings::default()
    };
    let mut rig = Rig::default();
    let id = rig.join_with(version("1.0.0"), &settings, trap);
    rig.sync(&service());
    rig.sync(&pod());
    for round in 0..8 {
        rig.put(&service(), "a", &format!(r#""round":"{round}""#));
        assert!(!rig.run().is_empty(), "round {round}");
        // A broken key is run again after ten seconds.
        rig.now += Duration::from_secs(11);
    }
    let other = fake(version("2.0.0"), trap);
    rig.hub.replace(id, other, &settings, rig.now).unwrap();
    for round in 0..8 {
        rig.put(&service(), "a", &format!(r#""again":"{round}""#));
        assert!(!rig.run().is_empty(), "round {round}");
        rig.now += Duration::from_secs(11);
    }
    assert!(rig.hub.quarantined(rig.now).is_empty());
}

#[test]
fn whether_a_running_version_can_be_quarantined_follows_its_settings() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let (mut rig, id) = with_services(&names, trap);
    assert_eq!(rig.hub.quarantined(rig.now).len(), 1);
    let without = ControllerSettings {
        quarantine: false,
        ..ControllerSettings::default()
    };
    rig.hub.configure(id, &without, rig.now);
    assert!(rig.hub.quarantined(rig.now).is_empty(), "it ends at once");
    // Longer than every back-off so far.
    rig.now += Duration::from_secs(1);
    assert_eq!(rig.run(), names);
    assert!(
        rig.hub.quarantined(rig.now).is_empty(),
        "however often it breaks"
    );
    rig.hub
        .configure(id, &ControllerSettings::default(), rig.now);
    rig.now += Duration::from_secs(1);
    rig.run();
    assert_eq!(rig.hub.quarantined(rig.now).len(), 1);
}

#[test]
fn what_began_on_the_old_settings_is_written_as_they_said() {
    let (mut rig, id) = with_services(&["a", "b"], fine);
    let own = ControllerSettings {
        field_manager: Some("helm".into()),
        user: Some("system:serviceaccount:a:b".into()),
        ..ControllerSettings::default()
    };
    rig.put(&service(), "a", r#""changed":"yes""#);
    let old = rig.take().unwrap();
    let plugin = rig.hub.controllers[&id].plugin();
    rig.hub.replace(id, plugin.clone(), &own, rig.now).unwrap();
    let written = |reconcile: &Reconcile| {
        let author = &reconcile.held.version.author;
        (author.field_manager.clone(), author.user.clone())
    };
    assert_eq!(written(&old), ("pilothouse.dev/a".into(), None));
    drop(old.run());
    let new = rig.take().unwrap();
    let as_own = ("helm".to_owned(), own.user.clone());
    assert_eq!(written(&new), as_own);
    assert_eq!(new.held.version.author.plugin, "a");

    // A refused replacement changes nothing.
    rig.put(&service(), "c", "");
    rig.hub.drain();
    let refused = rig
        .hub
        .replace(id, plugin, &ControllerSettings::default(), rig.now);
    assert_eq!(refused, Err(JoinError::Draining));
    assert_eq!(written(&rig.take().unwrap()), as_own);
}

#[test]
fn another_field_manager_has_applied_nothing_yet() {
    let (mut rig, id) = with_services(&["a"], fine);
    let as_manager = |rig: &mut Rig, manager: &str| {
        let settings = ControllerSettings {
            field_manager: Some(manager.into()),
            ..ControllerSettings::default()
        };
        let plugin = rig.hub.controllers[&id].plugin();
        rig.hub.replace(id, plugin, &settings, rig.now).unwrap();
        rig.hub.controllers[&id].applied()
    };
    let (one, two) = (as_manager(&mut rig, "one"), as_manager(&mut rig, "two"));
    assert!(
        !Arc::ptr_eq(&one, &two),
        "its fields are to be applied again"
    );
    assert!(Arc::ptr_eq(&two, &as_manager(&mut rig, "two")));
}

#[test]
fn an_old_versions_last_turns_do_not_count_against_the_new_one() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let (mut rig, id) = with_services(&names, fine);
    for name in names {
        rig.put(&service(), name, r#""changed":"yes""#);
    }
    let reconciles: Vec<Reconcile> = std::iter::from_fn(|| rig.take()).collect();
    assert_eq!(reconciles.len(), names.len());
    replace(&mut rig, id, fake(version("2.0.0"), fine));
    for reconcile in reconciles {
        assert!(!rig.finish(trapped(reconcile)).is_quarantined);
    }
    assert!(rig.hub.quarantined(rig.now).is_empty());
}

#[test]
fn what_is_not_granted_is_not_watched_and_a_read_of_it_is_answered_so() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = seen.clone();
    let reads_pod = move |_: &Request, reader: &mut Reader| {
        let answer = reader.get(&pod(), &ObjectKey::new("default", "p"));
        sees.lock()
            .unwrap()
            .push(answer.map(|found| found.map(str::to_owned)));
        Ok(Outcome::default())
    };
    let mut rig = Rig::with(version("1.0.0"), fine);
    let settings = ControllerSettings {
        grants: Grants::default(),
        ..ControllerSettings::default()
    };
    let id = rig.join_with(manifest("b"), &settings, reads_pod);
    rig.put(&service(), "a", "");
    rig.run();
    assert_eq!(
        *seen.lock().unwrap(),
        [Err(ReadError::NotGranted(pod()))],
        "it has no other answer"
    );
    let status = rig.hub.status(rig.now);
    assert_eq!(status[1].reads.len(), 1);
    assert_eq!(status[1].reconciles.denied_reads, 1);
    // Now it is granted, and its keys run again.
    let granted = ControllerSettings::default();
    let plugin = rig.hub.controllers[&id].plugin();
    rig.hub.replace(id, plugin, &granted, rig.now).unwrap();
    rig.run();
    assert_eq!(seen.lock().unwrap().last(), Some(&Ok(None)));
}

#[test]
fn keys_of_namespaces_that_are_taken_away_are_dropped_and_not_taken_for_gone() {
    let gone = Arc::new(Mutex::new(0));
    let counts = gone.clone();
    let counting = move |request: &Request, reader: &mut Reader| {
        let found = reader.get(&service(), &request.key.object);
        *counts.lock().unwrap() += usize::from(found.is_ok_and(|found| found.is_none()));
        Err(Failure::Retry("not yet".into()).into())
    };
    let (mut rig, id) = with_services(&["a", "b"], counting);
    move_elsewhere(&mut rig, id);
    let informer_key = |(id, (informer_key, _)): (InformerId, (InformerKey, Extent))| {
        (informer_key.namespace.is_some()).then_some(id)
    };
    let informers: Vec<InformerId> = rig
        .hub
        .wanted()
        .into_iter()
        .filter_map(informer_key)
        .collect();
    for informer in informers {
        let delta = Delta::Replace(Listing {
            resource_version: ResourceVersion::new("1000"),
            ..Listing::default()
        });
        rig.hub.apply(informer, delta, rig.now);
    }
    rig.now += Duration::from_secs(60);
    assert_eq!(rig.run(), [""; 0]);
    assert_eq!(*gone.lock().unwrap(), 0);
    assert!(rig.hub.is_drained(rig.now));
}

#[test]
fn an_action_that_is_not_granted_is_refused_and_a_fault() {
    let applies = |_: &Request, _: &mut Reader| {
        Ok(Outcome::of(vec![Action::Apply {
            object:
                r#"{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"p"}}"#
                    .into(),
            subresource: None,
            force: false,
        }]))
    };
    let mut rig = Rig::with(version("1.0.0"), fine);
    let settings = ControllerSettings {
        grants: Grants {
            what: Granted::OwnKind,
            ..Grants::default()
        },
        ..ControllerSettings::default()
    };
    rig.join_with(manifest("b"), &settings, applies);
    for name in ["a", "b", "c", "d", "e"] {
        rig.put(&service(), name, "");
    }
    rig.run();
    let status = &rig.hub.status(rig.now)[1];
    assert_eq!(status.reconciles.refused, 5);
    let quarantine = status.quarantine.as_ref().unwrap();
    assert!(
        quarantine.reason.contains("apply of v1/Pod")
            && quarantine.reason.contains("is not granted"),
        "{}",
        quarantine.reason
    );
}

#[test]
fn a_run_of_another_kinds_key_ends_without_a_trace() {
    let (mut rig, id) = with_services(&["a"], fine);
    rig.put(&service(), "a", r#""changed":"yes""#);
    let old = rig.take().unwrap();
    let mut other = version("2.0.0");
    other.reconciles = vec![Selection {
        kind: pod(),
        ..selection()
    }];
    replace(&mut rig, id, fake(other, fine));
    rig.finish(old.run());
    assert_eq!(rig.run(), [""; 0], "there is no pod of this name");
}

#[test]
fn keys_that_are_taken_away_while_the_cluster_cannot_be_reached_keep_nobody_waiting() {
    let (mut rig, id) = with_services(&["a"], fine);
    rig.put(&service(), "a", r#""changed":"yes""#);
    let reconcile = rig.take().unwrap();
    let writing = rig.ran(reconcile);
    rig.end(writing, unreachable());
    assert!(rig.hub.is_cut_off(id));
    move_elsewhere(&mut rig, id);
    for (informer, (informer_key, _)) in rig.hub.wanted() {
        let delta = Delta::Replace(Listing {
            resource_version: ResourceVersion::new("1000"),
            ..Listing::default()
        });
        assert_eq!(informer_key.namespace.as_deref(), Some("elsewhere"));
        rig.hub.apply(informer, delta, rig.now);
    }
    rig.now += Duration::from_secs(60);
    assert_eq!(rig.run(), [""; 0]);
    assert!(!rig.hub.is_cut_off(id), "nobody is left to try with");
}

#[test]
fn a_plugin_that_is_drained_runs_what_is_queued_and_nothing_new() {
    let (mut rig, id) = with_services(&["a", "b"], fine);
    rig.put(&service(), "a", r#""changed":"yes""#);
    rig.put(&service(), "b", r#""changed":"yes""#);
    rig.hub.drain_plugin(id);
    rig.put(&service(), "c", "");
    assert!(!rig.hub.is_plugin_drained(id, rig.now));
    assert_eq!(rig.run(), ["a", "b"]);
    assert!(rig.hub.is_plugin_drained(id, rig.now));
}

#[test]
fn a_plugin_that_is_halted_is_drained_once_nothing_runs() {
    let (mut rig, id) = with_services(&["a", "b"], fine);
    rig.put(&service(), "a", r#""changed":"yes""#);
    rig.put(&service(), "b", r#""changed":"yes""#);
    rig.hub.drain_plugin(id);
    let reconcile = rig.take().unwrap();
    rig.hub.halt_plugin(id);
    assert!(rig.take().is_none());
    assert!(!rig.hub.is_plugin_drained(id, rig.now));
    rig.finish(reconcile.run());
    assert!(rig.hub.is_plugin_drained(id, rig.now));
    assert_eq!(rig.run(), NONE);
}

#[test]
fn draining_one_plugin_leaves_the_others_alone() {
    let (mut rig, id) = with_services(&[], fine);
    rig.join(manifest("other"), fine);
    rig.hub.drain_plugin(id);
    rig.put(&service(), "a", "");
    assert_eq!(rig.run(), ["a"]);
}

#[test]
fn a_new_version_runs_a_gone_objects_key_that_failed_terminally() {
    let terminal = |request: &Request, reader: &mut Reader| match reader
        .get(&service(), &request.key.object)
        .unwrap()
    {
        Some(_) => Ok(Outcome::default()),
        None => Err(Failure::Terminal("cannot clean up".into()).into()),
    };
    let (mut rig, id) = with_services(&["a"], terminal);
    rig.remove(&service(), "a");
    assert_eq!(rig.run(), ["a (gone)"]);
    rig.now += Duration::from_secs(60);
    assert_eq!(rig.run(), [""; 0]);
    replace(&mut rig, id, fake(version("2.0.0"), fine));
    assert_eq!(rig.run(), ["a (gone)"]);
}

#[test]
fn a_new_version_runs_the_keys_that_wait_for_what_they_read_of_a_gone_object() {
    let lists = |_: &Request, reader: &mut Reader| {
        reader.list(&pod(), None, &ListFilter::Everything).unwrap();
        Ok(Outcome::default())
    };
    let (mut rig, id) = with_services(&["a"], lists);
    rig.put(&pod(), "x", "");
    rig.remove(&service(), "a");
    assert_eq!(rig.run(), ["a (gone)"]);
    replace(&mut rig, id, fake(version("2.0.0"), fine));
    assert_eq!(rig.run(), ["a (gone)"]);
}

#[test]
fn a_new_version_tries_broken_keys_at_once() {
    let (mut rig, id) = with_services(&["a"], failing);
    for _ in 0..crate::queue::BREAK_AFTER {
        rig.now += Duration::from_secs(3);
        rig.run();
    }
    assert_eq!(rig.hub.status(rig.now)[0].keys.broken.len(), 1);
    replace(&mut rig, id, fake(version("2.0.0"), fine));
    assert_eq!(rig.run(), ["a"]);
}

#[test]
fn of_many_broken_keys_the_first_are_listed_and_all_are_counted() {
    let names: Vec<String> = (0..2 * MAX_LISTED).map(|at| format!("s{at:02}")).collect();
    let services: Vec<&str> = names.iter().map(String::as_str).collect();
    let (mut rig, _) = with_services(&services, failing);
    for _ in 0..crate::queue::BREAK_AFTER {
        rig.now += Duration::from_secs(3);
        rig.run();
    }
    let status = &rig.hub.status(rig.now)[0];
    assert_eq!((status.keys.broken_keys, status.keys.failing), (40, 40));
    let listed = status
        .keys
        .broken
        .iter()
        .map(|broken| &*broken.key.object.name);
    assert!(listed.eq(services[..MAX_LISTED].iter().copied()));
}

#[test]
fn a_new_version_tries_a_gone_objects_broken_key_at_once() {
    let (mut rig, id) = with_services(&["a"], failing);
    rig.remove(&service(), "a");
    for _ in 0..crate::queue::BREAK_AFTER {
        rig.now += Duration::from_secs(3);
        rig.run();
    }
    assert_eq!(rig.hub.status(rig.now)[0].keys.broken.len(), 1);
    replace(&mut rig, id, fake(version("2.0.0"), fine));
    assert_eq!(rig.run(), ["a (gone)"]);
}

/// Lets the plugin's only ready key remember an apply of pod "x" at this version.
fn remember_apply(rig: &mut Rig, version: &str) -> Arc<Applied> {
    let reconcile = rig.take().unwrap();
    let applied = reconcile.held.version.applied.clone();
    let target = ApplyTarget {
        kind: pod(),
        key: ObjectKey::new("default", "x"),
        subresource: None,
    };
    applied.remember(
        target,
        1,
        AppliedState::new("p", None, Some(version.into()), None),
    );
    let executed = Executed {
        accepted: vec![AcceptedWrite {
            kind: pod(),
            key: ObjectKey::new("default", "x"),
            trace: Trace::Version(ResourceVersion::new(version)),
        }],
        ..Executed::default()
    };
    let writing = rig.ran(reconcile);
    rig.end(writing, executed);
    applied
}

#[test]
fn what_was_applied_before_the_server_went_back_in_time_is_forgotten() {
    let mut rig = Rig::with(manifest("p"), nothing);
    rig.put(&pod(), "x", "");
    rig.put(&service(), "web", "");
    let applied = remember_apply(&mut rig, "9");
    assert_eq!(applied.len(), 1);
    // The same state is listed again. A later change may be given version 9 once more.
    let id = rig.id(&pod());
    let json = r#"{"metadata":{"namespace":"default","name":"x","uid":"u","resourceVersion":"1","labels":{}}}"#;
    let listed = Object::parse(&pod(), json, &rig.hub.schema(id)).unwrap();
    let restored = Delta::Replace(Listing {
        objects: vec![listed],
        resource_version: ResourceVersion::new("1"),
        is_rollback: true,
        ..Listing::default()
    });
    rig.hub.apply(id, restored, rig.now);
    assert!(applied.is_empty());
}

#[test]
fn an_apply_of_what_is_gone_again_already_is_not_remembered() {
    let mut rig = Rig::with(manifest("p"), nothing);
    rig.put(&service(), "web", "");
    let bookmark = Delta::Bookmark(ResourceVersion::new("50"));
    let id = rig.id(&pod());
    rig.hub.apply(id, bookmark, rig.now);
    assert_eq!(remember_apply(&mut rig, "40").len(), 0, "it came and went");
    rig.put(&service(), "web", r#""again":"yes""#);
    assert_eq!(
        remember_apply(&mut rig, "60").len(),
        1,
        "it is still to come"
    );
}

/// A plugin whose keys apply pod "x" and see only the names of pods.
pub(super) fn applies_blindly() -> Rig {
    let mut blind = manifest("p");
    blind.reads[1].fields = vec![".metadata.name".into()];
    Rig::with(blind, |_, _| {
        let object = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"x"},"spec":{"a":1}}"#;
        Ok(Outcome::of(vec![Action::Apply {
            object: object.into(),
            subresource: None,
            force: false,
        }]))
    })
}

/// The watch brings pod "x" with these members.
fn bring(rig: &mut Rig, rest: &str) {
    rig.version += 1;
    let version = rig.version;
    let json = format!(
        r#"{{"metadata":{{"namespace":"default","name":"x","uid":"u","resourceVersion":"{version}"}},{rest}}}"#
    );
    let id = rig.id(&pod());
    let object = Object::parse(&pod(), &json, &rig.hub.schema(id)).unwrap();
    rig.hub.apply(id, Delta::Upsert(object), rig.now);
}

#[test]
fn drift_of_what_a_key_has_applied_wakes_it_though_it_sees_nothing_of_it() {
    let mut rig = applies_blindly();
    rig.put(&service(), "web", "");
    bring(&mut rig, r#""spec":{"a":1}"#);
    assert_eq!(rig.run(), ["web"]);
    bring(&mut rig, r#""spec":{"a":1},"status":{"ready":true}"#);
    assert_eq!(rig.run(), NONE, "the status is none of what it has applied");
    bring(&mut rig, r#""spec":{"a":2},"status":{"ready":true}"#);
    assert_eq!(rig.run(), ["web"]);
}

#[test]
fn drift_in_a_secret_wakes_who_has_applied_it_though_its_values_are_not_kept() {
    let secret = Kind::new("", "v1", "Secret");
    let mut blind = manifest("p");
    blind.reads[1] = ReadDeclaration::new(secret.clone(), vec![".metadata.name".into()]);
    blind.writes[0].kind = secret.clone();
    let mut rig = Rig::default();
    rig.join(blind, |_, _| {
        let object = r#"{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"default","name":"x"},"data":{"k":"dg=="}}"#;
        Ok(Outcome::of(vec![Action::Apply {
                object: object.into(),
                subresource: None,
                force: false,
            }]))
    });
    rig.sync(&service());
    rig.sync(&secret);
    rig.put(&service(), "web", "");
    rig.put(&secret, "x", "");
    assert_eq!(rig.run(), ["web"]);
    rig.put(&secret, "x", "");
    assert_eq!(rig.run(), ["web"], "its values may have changed");
}

#[test]
fn an_apply_of_its_own_wakes_nobody() {
    let mut rig = applies_blindly();
    rig.put(&service(), "web", "");
    bring(&mut rig, r#""spec":{"a":1}"#);
    let reconcile = rig.take().unwrap();
    let applied = reconcile.held.version.applied.clone();
    rig.finish(reconcile.run());
    let target = ApplyTarget {
        kind: pod(),
        key: ObjectKey::new("default", "x"),
        subresource: None,
    };
    let version = (rig.version + 1).to_string();
    applied.remember(target, 1, AppliedState::new("p", None, Some(version), None));
    bring(&mut rig, r#""spec":{"a":3}"#);
    assert_eq!(rig.run(), NONE);
    bring(&mut rig, r#""spec":{"a":4}"#);
    assert_eq!(rig.run(), ["web"]);
}

fn the_plugin(rig: &Rig) -> PluginId {
    let mut controllers = rig.hub.controllers.iter();
    let found = controllers.find(|(_, controller)| controller.name() == "p");
    *found.unwrap().0
}

/// Whether the writes of a running reconcile must stop after this was done to its plugin.
fn is_halted_by(tell: impl FnOnce(&mut Rig)) -> bool {
    let mut rig = Rig::with(manifest("p"), lists_pods);
    rig.put(&service(), "web", "");
    let reconcile = rig.take().unwrap();
    let writing = rig.ran(reconcile);
    tell(&mut rig);
    writing.held.halt.is_halted()
}

#[test]
fn who_pauses_a_plugin_or_takes_its_grants_stops_what_it_is_writing() {
    let with = |settings: ControllerSettings| {
        is_halted_by(|rig| rig.hub.configure(the_plugin(rig), &settings, rig.now))
    };
    let paused = ControllerSettings {
        is_paused: true,
        ..ControllerSettings::default()
    };
    assert!(with(paused));
    let narrower = ControllerSettings {
        grants: Grants::default(),
        ..ControllerSettings::default()
    };
    assert!(with(narrower));
    let weight = ControllerSettings {
        weight: 7,
        ..ControllerSettings::default()
    };
    assert!(!with(weight), "that is no reason");
    assert!(is_halted_by(|rig| rig.hub.halt_plugin(the_plugin(rig))));
    assert!(is_halted_by(|rig| rig.hub.put_in_quarantine(
        the_plugin(rig),
        "it broke",
        rig.now
    )));
}

#[test]
fn a_key_whose_writes_were_stopped_runs_again_when_the_plugin_does() {
    let mut rig = applies_blindly();
    rig.put(&service(), "web", "");
    let reconcile = rig.take().unwrap();
    let writing = rig.ran(reconcile);
    let paused = ControllerSettings {
        is_paused: true,
        ..ControllerSettings::default()
    };
    rig.hub.configure(the_plugin(&rig), &paused, rig.now);
    let ControlFlow::Break(finished) = writing.advance() else {
        panic!("it is halted");
    };
    rig.hub.finished(finished, rig.now);
    assert!(rig.take().is_none(), "it is paused");
    rig.hub
        .configure(the_plugin(&rig), &ControllerSettings::default(), rig.now);
    let reconcile = rig.take().unwrap();
    assert_eq!(
        reconcile.held.request.attempt, 1,
        "it is not the key's fault"
    );
    assert!(!reconcile.held.halt.is_halted());
}
