//! Keys of every kind of a pattern.

use super::*;

/// A plugin that reconciles every kind but `Noise`.
fn of_all(name: &str) -> Manifest {
    let mut manifest = reads_all(name);
    manifest.reconciles = vec![Selection {
        kind: any(),
        ..selection()
    }];
    manifest.reads = vec![ReadDeclaration {
        except: vec![kind("Noise")],
        ..ReadDeclaration::new(any(), vec![".metadata.labels".into()])
    }];
    manifest
}

/// A rig with that plugin. Nothing of these kinds is listed yet.
fn rig_of_all(kinds: &[Kind]) -> Rig {
    let mut rig = Rig::default();
    rig.join_with(of_all("p"), &settings(), |_, _| Ok(Outcome::default()));
    rig.serve(kinds);
    rig.widen(10);
    rig
}

#[test]
fn the_objects_of_every_kind_have_keys_which_run_when_all_kinds_are_listed() {
    let mut rig = rig_of_all(&[kind("A"), kind("B"), kind("Noise")]);
    let watched = ["example.com/v1/A", "example.com/v1/B"];
    assert_eq!(rig.watched_kinds(), watched, "nobody had to ask");
    rig.list(&kind("A"), &["x"]);
    assert!(rig.run().is_empty(), "B is to be listed, too");
    rig.list(&kind("B"), &["x", "y"]);
    let swept = rig.hub.status(rig.now)[0].keys.queued;
    assert_eq!(swept, 3, "each is counted once");
    assert_eq!(rig.run(), ["x", "y"]);
    assert_eq!(rig.hub.status(rig.now)[0].reconciles.success, 3);
    rig.put(&kind("B"), "z", "");
    assert_eq!(rig.run(), ["z"]);
    rig.put(&kind("B"), "z", r#""a":"b""#);
    assert_eq!(rig.run(), ["z"]);
    rig.remove(&kind("B"), "z");
    assert_eq!(rig.run(), ["z (gone)"]);
    assert!(rig.run().is_empty());
}

#[test]
fn a_kind_that_is_not_listed_in_ten_seconds_holds_no_other_kinds_keys() {
    let mut rig = rig_of_all(&[kind("A"), kind("B")]);
    rig.list(&kind("A"), &["x"]);
    rig.now += Duration::from_secs(9);
    assert!(rig.run().is_empty());
    rig.now += Duration::from_secs(1);
    assert_eq!(rig.run(), ["x"]);
    rig.list(&kind("B"), &["y"]);
    assert_eq!(rig.run(), ["y"], "it is listed at last");
}

#[test]
fn a_kind_that_is_defined_later_brings_its_own_keys_and_runs_no_others() {
    let mut rig = rig_of_all(&[kind("B")]);
    rig.list(&kind("B"), &["b"]);
    assert_eq!(rig.run(), ["b"]);
    for (name, object) in [("A", "a"), ("C", "c")] {
        rig.serve(&[kind("A"), kind("B"), kind("C")]);
        rig.widen(10);
        rig.list(&kind(name), &[object]);
    }
    assert_eq!(rig.run(), ["a", "c"]);
    rig.put(&kind("C"), "c", r#""a":"b""#);
    assert_eq!(rig.run(), ["c"]);
}

#[test]
fn the_keys_of_a_kind_go_with_it_and_come_back_with_it() {
    let mut rig = rig_of_all(&[kind("A"), kind("B")]);
    rig.list(&kind("A"), &["a"]);
    rig.list(&kind("B"), &["b"]);
    rig.serve(&[kind("A")]);
    assert_eq!(rig.watched_kinds(), ["example.com/v1/A"]);
    assert_eq!(rig.run(), ["a"]);
    rig.serve(&[kind("A"), kind("B")]);
    rig.widen(10);
    rig.list(&kind("B"), &["b"]);
    assert_eq!(rig.run(), ["b"]);
}

#[test]
fn a_key_that_was_settling_when_its_kind_went_runs_when_its_object_comes_back() {
    let mut rig = Rig::default();
    rig.join_with(of_all("p"), &settings(), |_, _| {
        let mut outcome = Outcome::default();
        outcome.follow_up.is_settled = true;
        Ok(outcome)
    });
    rig.serve(&[kind("A"), kind("B")]);
    rig.widen(10);
    rig.list(&kind("A"), &[]);
    rig.list(&kind("B"), &["b"]);
    let reconcile = rig.take().unwrap();
    let writing = rig.ran(reconcile);
    rig.serve(&[kind("A")]);
    rig.end(writing, Executed::default());
    rig.serve(&[kind("A"), kind("B")]);
    rig.widen(10);
    rig.list(&kind("B"), &[]);
    assert!(rig.run().is_empty());
    rig.put(&kind("B"), "b", "");
    assert_eq!(rig.run(), ["b"]);
}

#[test]
fn the_keys_of_a_kind_that_another_plugin_has_had_listed_run_though_nothing_changes() {
    let mut rig = Rig::default();
    let mut named = manifest("named");
    named.reads.push(ReadDeclaration::new(kind("A"), vec![]));
    rig.join_with(named, &ControllerSettings::default(), |_, _| {
        Ok(Outcome::default())
    });
    rig.sync(&service());
    rig.sync(&pod());
    rig.sync_with(&kind("A"), "a");
    rig.join_with(of_all("p"), &settings(), |_, _| Ok(Outcome::default()));
    rig.serve(&[]);
    assert!(rig.run().is_empty(), "nothing is left of its first sweep");
    rig.serve(&[kind("A")]);
    rig.widen(10);
    assert_eq!(rig.run(), ["a"]);
}

#[test]
fn a_plugin_that_joins_when_the_kinds_are_known_asks_for_them_by_being_there() {
    let mut rig = rig_of_all(&[kind("A")]);
    rig.list(&kind("A"), &["a"]);
    rig.run();
    rig.join_with(of_all("q"), &settings(), |_, _| Ok(Outcome::default()));
    assert!(rig.hub.wants_informers());
    rig.widen(10);
    assert_eq!(rig.run(), ["a"]);
}

#[test]
fn a_kind_that_has_keys_is_not_let_go_when_nobody_reads_it() {
    let mut rig = rig_of_all(&[kind("A")]);
    rig.list(&kind("A"), &["a"]);
    rig.run();
    for _ in 0..2 {
        drop(rig.hub.narrow(rig.now));
        rig.now += Duration::from_secs(60);
    }
    assert_eq!(rig.watched_kinds(), ["example.com/v1/A"]);
}

#[test]
fn a_kind_that_is_read_by_name_has_keys_of_the_pattern_too() {
    let mut rig = Rig::default();
    let mut manifest = of_all("p");
    let named = ReadDeclaration::new(pod(), vec![".spec".into()]);
    manifest.reads.push(named);
    rig.join_with(manifest, &settings(), |_, _| Ok(Outcome::default()));
    rig.serve(&[pod(), kind("A")]);
    rig.widen(10);
    rig.list(&kind("A"), &["a"]);
    rig.sync_with(&pod(), "pod");
    assert_eq!(rig.run(), ["a", "pod"]);
}

#[test]
fn a_pattern_that_is_not_granted_has_no_keys_and_no_informers() {
    let mut rig = Rig::default();
    let as_requested = ControllerSettings::default();
    rig.join_with(of_all("p"), &as_requested, |_, _| Ok(Outcome::default()));
    rig.serve(&[kind("A")]);
    assert!(!rig.hub.wants_informers() && rig.hub.wanted().is_empty());
    assert!(rig.run().is_empty());
}

#[test]
fn an_excepted_kind_cannot_be_read_and_is_in_no_list() {
    let (mut rig, seen) = {
        let mut rig = Rig::default();
        let (seen, behaviour) = reading(|reader| {
            let noise = reader.get(&kind("Noise"), &ObjectKey::new("default", "n"));
            let noise = noise.unwrap_err().to_string();
            Ok(format!("{}: {noise}", list_all(reader)?))
        });
        rig.join_with(of_all("p"), &settings(), behaviour);
        rig.serve(&[kind("A"), kind("Noise")]);
        (rig, seen)
    };
    rig.widen(10);
    rig.list(&kind("A"), &["a"]);
    rig.run();
    let seen = last(&seen);
    assert!(
        seen.starts_with("A/a: example.com/v1/Noise is not among"),
        "{seen}"
    );
}

#[test]
fn no_worker_looks_for_keys_before_the_kinds_are_listed_or_have_had_their_time() {
    let mut rig = rig_of_all(&[kind("A"), kind("B")]);
    rig.list(&kind("A"), &["x"]);
    rig.now += Duration::from_secs(1);
    let Next::Idle(due) = rig.hub.next(rig.now, 0) else {
        panic!("B is to be listed, too");
    };
    assert_eq!(due, Some(Duration::from_secs(10)));
}

#[test]
fn a_kind_that_a_key_only_reads_stops_no_other_keys() {
    let read: Kind = "other.com/*".parse().unwrap();
    let other = Kind::new("other.com", "v1", "B");
    let mut manifest = of_all("p");
    manifest.reconciles[0].kind = "example.com/*".parse().unwrap();
    let kinds = [manifest.reconciles[0].kind.clone(), read.clone()];
    let fields = vec![".metadata.labels".to_owned()];
    manifest.reads = kinds
        .map(|kind| ReadDeclaration::new(kind, fields.clone()))
        .into();
    manifest.indexes = vec![];
    let mut rig = Rig::default();
    rig.join_with(manifest, &settings(), move |request, reader| {
        if &*request.key.object.name == "asks" {
            let listed = list_of(reader, &read);
            listed.map_err(|error| RunError::Trap(error.to_string()))?;
        }
        Ok(Outcome::default())
    });
    rig.serve(&[kind("A"), other.clone()]);
    rig.widen(10);
    rig.list(&kind("A"), &["asks"]);
    assert_eq!(rig.run(), ["asks"]);
    rig.put(&kind("A"), "no", "");
    assert_eq!(rig.run(), ["no"], "it need not wait for the other kind");
    rig.widen(10);
    rig.list(&other, &[]);
    assert_eq!(rig.run(), ["asks"]);
}

#[test]
fn what_the_keys_of_a_kind_have_read_is_forgotten_with_the_kind() {
    let (mut rig, both) = (Rig::default(), [kind("A"), kind("B")]);
    let (_, behaviour) = reading(list_all);
    rig.join_with(of_all("p"), &settings(), behaviour);
    let recorded = |rig: &Rig| rig.hub.status(rig.now)[0].keys.recorded_reads;
    for is_running in [false, true] {
        rig.serve(&both);
        rig.widen(10);
        rig.list(&kind("A"), &["a"]);
        rig.list(&kind("B"), &["b"]);
        rig.run();
        assert_eq!(recorded(&rig), 2);
        rig.put(&kind("B"), "b", r#""a":"b""#);
        let running: Vec<Reconcile> = match is_running {
            true => std::iter::from_fn(|| rig.take()).collect(),
            false => vec![],
        };
        assert_eq!(running.len(), if is_running { 2 } else { 0 });
        rig.serve(&both[..1]);
        for reconcile in running {
            rig.finish(reconcile.run());
        }
        rig.run();
        assert_eq!(recorded(&rig), 1, "running: {is_running}");
    }
}

#[test]
fn a_kind_without_room_is_not_asked_for_again_because_kinds_are_told_again() {
    let mut rig = Rig::default();
    rig.join_with(of_all("p"), &settings(), nothing);
    rig.serve(&[kind("A"), kind("B")]);
    rig.widen(1);
    rig.list(&kind("A"), &["a"]);
    assert_eq!(rig.run(), ["a"], "B is refused");
    rig.serve(&[kind("A"), kind("B"), kind("Noise")]);
    assert!(!rig.hub.wants_informers());
    rig.now += Duration::from_secs(60);
    rig.run();
    rig.widen(1);
    rig.list(&kind("B"), &["b"]);
    assert_eq!(rig.run(), ["b"]);
}
