//! Caches that may not show yet what another host has written.

use super::*;
use crate::hub::doubts::{Doubt, LONGEST_DOUBT};
use crate::hub::duties::HeldShards;
use crate::model::division::Division;

/// A standby with full caches, and two services.
fn standby() -> Rig {
    let mut rig = Rig::default();
    drop(
        rig.hub
            .set_duties(Duties::Standby, Relinquish::Finish, rig.now),
    );
    rig.join(manifest("p"), lists_pods);
    rig.sync(&service());
    rig.sync(&pod());
    rig.put(&service(), "a", "");
    rig.put(&service(), "b", "");
    rig
}

fn lead(rig: &mut Rig) {
    drop(rig.hub.set_duties(Duties::All, Relinquish::Finish, rig.now));
}

fn doubt(rig: &Rig, kind: &Kind) -> Doubt {
    let doubts = rig.hub.doubted().into_iter();
    let mut doubts = doubts.filter(|doubt| doubt.informer_key.kind == *kind);
    doubts.next().expect("it is in doubt")
}

fn version(number: u64) -> ResourceVersion {
    ResourceVersion::new(&number.to_string())
}

/// The server's answer: it has reached this version.
fn reached(number: u64) -> Proof {
    Proof {
        version: version(number),
        objects: None,
    }
}

/// The server's answer: it has reached this version, and has these objects.
fn shows(number: u64, objects: &[(&str, u64)]) -> Proof {
    let objects = objects.iter();
    let objects = objects.map(|(name, at)| (ObjectKey::new("default", name), version(*at)));
    Proof {
        objects: Some(objects.collect()),
        ..reached(number)
    }
}

/// Answers the question about a kind. Returns whether the doubt is over.
fn prove(rig: &mut Rig, kind: &Kind, proof: &Proof) -> bool {
    let doubt = doubt(rig, kind);
    rig.hub.prove(&doubt, proof, rig.now)
}

/// The version that the cache of a kind has reached.
fn cached(rig: &Rig, kind: &Kind) -> u64 {
    let cache = &rig.hub.snapshot().informers[rig.id(kind)];
    cache.resource_version().to_string().parse().unwrap()
}

fn bookmark(rig: &mut Rig, kind: &Kind, number: u64) {
    let id = rig.id(kind);
    rig.hub.apply(id, Delta::Bookmark(version(number)), rig.now);
}

/// A standby that leads now, of whose caches only that of services is still in doubt.
fn leader_in_doubt_about_services() -> Rig {
    let mut rig = standby();
    lead(&mut rig);
    assert!(prove(&mut rig, &pod(), &reached(0)));
    assert_eq!(rig.run(), NONE);
    rig
}

/// All of a plugin whose keys are not divided.
fn undivided() -> HeldShards {
    HeldShards {
        of: Division::UNDIVIDED,
        held: BTreeSet::from([0]),
    }
}

#[test]
fn a_host_that_takes_over_runs_nothing_before_each_informer_is_proven() {
    let mut rig = standby();
    lead(&mut rig);
    let kinds = |rig: &Rig| -> Vec<Kind> {
        let doubts = rig.hub.doubted().into_iter();
        doubts.map(|doubt| doubt.informer_key.kind).collect()
    };
    assert_eq!(kinds(&rig), [service(), pod()]);
    let pending = |rig: &Rig| rig.hub.status(rig.now)[0].pending_shards.len();
    assert!(matches!(rig.hub.next(rig.now, 0), Next::Idle(None)));
    assert_eq!(pending(&rig), 1);
    let at = cached(&rig, &service());
    assert!(prove(&mut rig, &service(), &reached(at)));
    assert_eq!(rig.run(), NONE, "pods are not proven");
    assert_eq!(kinds(&rig), [pod()]);
    assert!(prove(&mut rig, &pod(), &reached(0)));
    assert_eq!(
        (rig.run(), pending(&rig)),
        (vec!["a".into(), "b".into()], 0)
    );
}

#[test]
fn a_host_that_has_run_everything_from_the_start_doubts_nothing() {
    let mut rig = Rig::with(manifest("p"), nothing);
    rig.put(&service(), "a", "");
    lead(&mut rig);
    assert!(rig.hub.doubted().is_empty());
    assert_eq!(rig.run(), ["a"]);
}

#[test]
fn a_cache_that_is_behind_the_server_is_proven_when_it_has_come_that_far() {
    for is_bookmark in [true, false] {
        let mut rig = leader_in_doubt_about_services();
        let ahead = rig.version + 2;
        assert!(!prove(&mut rig, &service(), &reached(ahead)));
        assert!(doubt(&rig, &service()).is_answered);
        rig.put(&service(), "a", r#""changed":"once""#);
        assert_eq!(rig.run(), NONE, "one more is to come");
        match is_bookmark {
            true => bookmark(&mut rig, &service(), ahead),
            false => rig.put(&service(), "b", r#""changed":"once""#),
        }
        assert!(rig.hub.doubted().is_empty());
        assert_eq!(rig.run(), ["a", "b"]);
    }
}

#[test]
fn a_quiet_cache_is_proven_by_its_objects_however_far_the_server_is() {
    let mut rig = leader_in_doubt_about_services();
    assert!(!prove(&mut rig, &service(), &reached(1_000_000)));
    let proof = shows(1_000_000, &[("a", 1), ("b", 2)]);
    assert!(prove(&mut rig, &service(), &proof));
    assert_eq!(rig.run(), ["a", "b"]);
}

#[test]
fn objects_that_differ_prove_a_cache_when_the_watch_has_brought_each_of_them() {
    let mut rig = leader_in_doubt_about_services();
    // The server has a newer `a`, a new `c`, and no `b`.
    let proof = shows(1_000_000, &[("a", 3), ("c", 4)]);
    assert!(!prove(&mut rig, &service(), &proof));
    rig.put(&service(), "a", r#""changed":"yes""#);
    rig.put(&service(), "c", "");
    assert_eq!(rig.run(), NONE, "`b` is still there");
    rig.remove(&service(), "b");
    assert_eq!(rig.run(), ["a", "c"]);
}

#[test]
fn an_object_that_is_newer_here_than_in_the_answer_is_shown() {
    let mut rig = leader_in_doubt_about_services();
    rig.put(&service(), "a", r#""changed":"yes""#);
    let proof = shows(1_000_000, &[("a", 1), ("b", 2)]);
    assert!(prove(&mut rig, &service(), &proof));
}

#[test]
fn an_object_that_cannot_be_read_here_is_not_taken_for_one_that_the_answer_has_or_lacks() {
    for objects in [&[("a", 1), ("b", 3)][..], &[("a", 1)]] {
        let mut rig = leader_in_doubt_about_services();
        rig.version += 1;
        let garbled = Delta::Unreadable(Unreadable {
            key: ObjectKey::new("default", "b"),
            resource_version: version(rig.version),
            reason: "garbled".into(),
        });
        let id = rig.id(&service());
        rig.hub.apply(id, garbled, rig.now);
        assert!(!prove(&mut rig, &service(), &shows(1_000_000, objects)));
        bookmark(&mut rig, &service(), 1_000_000);
        assert!(rig.hub.doubted().is_empty());
    }
}

#[test]
fn the_earlier_of_two_answers_to_one_question_is_enough() {
    let mut rig = leader_in_doubt_about_services();
    assert!(!prove(&mut rig, &service(), &reached(10)));
    assert!(!prove(&mut rig, &service(), &reached(1_000_000)));
    bookmark(&mut rig, &service(), 10);
    assert_eq!(rig.run(), ["a", "b"]);
}

#[test]
fn an_answer_to_a_question_from_before_the_last_gain_proves_nothing() {
    let mut rig = standby();
    lead(&mut rig);
    let earlier = rig.hub.doubted();
    drop(
        rig.hub
            .set_duties(Duties::Standby, Relinquish::Stop, rig.now),
    );
    lead(&mut rig);
    for doubt in earlier {
        assert!(!rig.hub.prove(&doubt, &reached(0), rig.now));
    }
    assert_eq!(rig.run(), NONE);
    assert!(rig.hub.doubted().iter().all(|doubt| !doubt.is_answered));
}

#[test]
fn a_server_that_went_back_in_time_is_asked_again() {
    let mut rig = leader_in_doubt_about_services();
    assert!(!prove(&mut rig, &service(), &reached(1_000_000)));
    let id = rig.id(&service());
    let restored = Listing {
        resource_version: version(1),
        is_rollback: true,
        ..Listing::default()
    };
    rig.hub.apply(id, Delta::Replace(restored), rig.now);
    assert!(!doubt(&rig, &service()).is_answered);
    assert!(prove(&mut rig, &service(), &reached(1)));
}

#[test]
fn a_list_that_may_have_been_asked_for_before_the_gain_is_no_proof() {
    let mut rig = Rig::default();
    drop(
        rig.hub
            .set_duties(Duties::Standby, Relinquish::Finish, rig.now),
    );
    rig.join(manifest("p"), nothing);
    rig.sync(&pod());
    rig.version = 10;
    lead(&mut rig);
    assert!(prove(&mut rig, &pod(), &reached(0)));
    assert!(
        !prove(&mut rig, &service(), &shows(20, &[])),
        "nothing is listed"
    );
    rig.sync_with(&service(), "a");
    assert_eq!(rig.run(), NONE, "the list is of version 11");
    bookmark(&mut rig, &service(), 20);
    assert_eq!(rig.run(), ["a"]);
}

#[test]
fn an_informer_that_begins_after_the_gain_is_in_no_doubt() {
    let mut rig = Rig::default();
    drop(
        rig.hub
            .set_duties(Duties::Standby, Relinquish::Finish, rig.now),
    );
    lead(&mut rig);
    rig.join(manifest("p"), nothing);
    assert!(rig.hub.doubted().is_empty());
    rig.sync_with(&service(), "a");
    rig.sync(&pod());
    assert_eq!(rig.run(), ["a"]);
}

#[test]
fn an_informer_that_has_ended_is_not_asked_about() {
    let mut rig = Rig::default();
    drop(
        rig.hub
            .set_duties(Duties::Standby, Relinquish::Finish, rig.now),
    );
    let id = rig.join(manifest("p"), nothing);
    lead(&mut rig);
    let earlier = rig.hub.doubted();
    assert_eq!(earlier.len(), 2);
    drop(rig.hub.leave(id));
    assert!(rig.hub.doubted().is_empty());
    assert!(rig.hub.prove(&earlier[0], &reached(0), rig.now));
}

#[test]
fn a_plugin_that_joins_while_its_kinds_are_in_doubt_waits() {
    let mut rig = standby();
    lead(&mut rig);
    rig.join(manifest("q"), nothing);
    assert_eq!(rig.run(), NONE);
    assert!(
        rig.hub.is_drained(rig.now),
        "a host that stops does not wait for it"
    );
    assert!(matches!(rig.hub.next(rig.now, 0), Next::Idle(None)));
    let at = cached(&rig, &service());
    assert!(prove(&mut rig, &service(), &reached(at)));
    assert!(prove(&mut rig, &pod(), &reached(0)));
    let mut ran = Vec::new();
    while let Some(reconcile) = rig.take() {
        ran.push(reconcile.held().plugin_name().to_owned());
        rig.finish(reconcile.run());
    }
    ran.sort();
    assert_eq!(ran, ["p", "p", "q", "q"]);
}

#[test]
fn a_new_version_waits_for_a_kind_that_is_still_in_doubt() {
    let mut rig = Rig::default();
    drop(
        rig.hub
            .set_duties(Duties::Standby, Relinquish::Finish, rig.now),
    );
    let services_alone = || Manifest {
        reads: vec![ReadDeclaration::new(service(), vec![])],
        writes: vec![],
        ..manifest("p")
    };
    let id = rig.join(services_alone(), nothing);
    rig.join(manifest("q"), nothing);
    rig.sync_with(&service(), "a");
    rig.sync(&pod());
    let only_p = BTreeMap::from([("p".to_owned(), undivided())]);
    let only_p = Duties::Shards(only_p);
    drop(rig.hub.set_duties(only_p, Relinquish::Finish, rig.now));
    let at = cached(&rig, &service());
    assert!(prove(&mut rig, &service(), &reached(at)));
    assert_eq!(rig.run(), ["a"], "it does not read pods");
    let plugin = Arc::new(Fake {
        manifest: manifest("p"),
        behaviour: Box::new(nothing),
    });
    let settings = ControllerSettings::default();
    rig.hub.replace(id, plugin, &settings, rig.now).unwrap();
    assert_eq!(rig.run(), NONE, "now it does");
    assert!(prove(&mut rig, &pod(), &reached(0)));
    assert_eq!(rig.run(), ["a"]);
}

#[test]
fn a_gained_shard_waits_and_those_held_before_go_on() {
    let mut rig = Rig::default();
    let two = Division::into(2);
    let settings = ControllerSettings {
        division: two,
        ..ControllerSettings::default()
    };
    let held = |shards: &[u32]| {
        let shards = shards.iter().copied().collect();
        let held = HeldShards {
            of: two,
            held: shards,
        };
        Duties::Shards(BTreeMap::from([("p".to_owned(), held)]))
    };
    drop(rig.hub.set_duties(held(&[0]), Relinquish::Finish, rig.now));
    rig.join_with(manifest("p"), &settings, nothing);
    rig.sync(&service());
    rig.sync(&pod());
    let (mine, gained) = ("e", "a");
    let shard = |name| two.shard_of(ObjectKey::new("default", name).parts());
    assert_eq!((shard(mine), shard(gained)), (0, 1));
    rig.put(&service(), mine, "");
    rig.put(&service(), gained, "");
    assert_eq!(rig.run(), [mine]);
    drop(
        rig.hub
            .set_duties(held(&[0, 1]), Relinquish::Finish, rig.now),
    );
    rig.put(&service(), mine, r#""changed":"yes""#);
    rig.put(&service(), gained, r#""changed":"yes""#);
    assert_eq!(rig.run(), [mine]);
    assert!(rig.hub.status(rig.now)[0].pending_shards.contains(&1));
    let at = cached(&rig, &service());
    assert!(prove(&mut rig, &service(), &reached(at)));
    assert!(prove(&mut rig, &pod(), &reached(0)));
    assert_eq!(rig.run(), [gained]);
}

#[test]
fn the_kinds_of_a_pattern_hold_keys_back_for_ten_seconds_at_most() {
    for is_proven in [true, false] {
        let mut rig = Rig::default();
        drop(
            rig.hub
                .set_duties(Duties::Standby, Relinquish::Finish, rig.now),
        );
        let id = rig.join_with(patterns::reads_all("p"), &patterns::settings(), nothing);
        let served = [service(), pod()].map(patterns::served);
        drop(rig.hub.set_kinds(served.into(), rig.now));
        rig.hub.ask_for(id, &BTreeSet::from([pod()]));
        let preparation = rig.hub.prepare_widening(10, rig.now).unwrap();
        rig.hub.finish(preparation, rig.now).unwrap();
        rig.sync_with(&service(), "a");
        rig.sync(&pod());
        lead(&mut rig);
        let at = cached(&rig, &service());
        assert!(prove(&mut rig, &service(), &reached(at)));
        let until = rig.now + LONGEST_DOUBT;
        let Next::Idle(Some(due)) = rig.hub.next(rig.now, 0) else {
            panic!("it waits");
        };
        assert_eq!(due, until);
        rig.now += Duration::from_secs(4);
        let only_p = BTreeMap::from([("p".to_owned(), undivided())]);
        let only_p = Duties::Shards(only_p);
        drop(rig.hub.set_duties(only_p, Relinquish::Finish, rig.now));
        lead(&mut rig);
        let Next::Idle(Some(due)) = rig.hub.next(rig.now, 0) else {
            panic!("it waits");
        };
        assert_eq!(due, until, "another gain does not make it longer");
        match is_proven {
            true => assert!(prove(&mut rig, &pod(), &reached(at))),
            false => rig.now = until,
        }
        assert_eq!(rig.run(), ["a"]);
    }
}
