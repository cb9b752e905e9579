//! Hosts that divide the work: which keys a hub runs, and what becomes of those that it gains and
//! loses.

use super::*;
use crate::hub::duties::HeldShards;
use crate::model::division::Division;
use crate::sharing::Shard;

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const SHARDS: u32 = 3;

fn in_shards(shards: u32) -> ControllerSettings {
    ControllerSettings {
        division: Division::into(shards),
        ..ControllerSettings::default()
    }
}

fn shard(name: &str) -> u32 {
    Division::into(SHARDS).shard_of(ObjectKey::new("default", name).parts())
}

/// Those of the names that are in these shards.
fn of(shards: &[u32]) -> Vec<&'static str> {
    let names = NAMES.into_iter();
    names.filter(|name| shards.contains(&shard(name))).collect()
}

fn duties(shards: &[u32]) -> Duties {
    let held = shards.iter().copied().collect();
    let of = Division::into(SHARDS);
    Duties::Shards(BTreeMap::from([("p".to_owned(), HeldShards { of, held })]))
}

fn set(rig: &mut Rig, duties: Duties, how: Relinquish) {
    drop(rig.hub.set_duties(duties, how, rig.now));
    rig.prove_all();
}

/// A plugin with three shards, all of them held, and an object for each name.
fn with(
    behaviour: impl Fn(&Request, &mut Reader) -> Result<Outcome, RunError> + Send + Sync + 'static,
) -> (Rig, PluginId) {
    let mut rig = Rig::default();
    let id = rig.join_with(manifest("p"), &in_shards(SHARDS), behaviour);
    rig.sync(&service());
    rig.sync(&pod());
    for name in NAMES {
        rig.put(&service(), name, "");
    }
    (rig, id)
}

fn status(rig: &Rig) -> ControllerStatus {
    rig.hub.status(rig.now).remove(0)
}

/// The shards of three of which something that was lost still runs.
fn unfinished(rig: &Rig) -> Vec<u32> {
    let of = Division::into(SHARDS);
    let shards = of.all();
    let is_unfinished = |shard: &u32| rig.hub.is_unfinished(&Shard::new("p", *shard, of));
    shards.filter(is_unfinished).collect()
}

fn is_idle(rig: &mut Rig) -> bool {
    matches!(rig.hub.next(rig.now, 0), Next::Idle(None))
}

/// Takes the key with this name, which must be the next one.
fn take(rig: &mut Rig, name: &str) -> Reconcile {
    let reconcile = rig.take().unwrap();
    assert_eq!(&*reconcile.held().object().name, name);
    reconcile
}

#[test]
fn the_names_are_in_different_shards() {
    assert_eq!(of(&[0]), ["e", "f"]);
    assert_eq!(of(&[1]), ["c"]);
    assert_eq!(of(&[2]), ["a", "b", "d"]);
}

#[test]
fn a_standby_has_full_caches_and_runs_nothing() {
    let mut rig = Rig::default();
    set(&mut rig, Duties::none(), Relinquish::Finish);
    let settings = ControllerSettings {
        resync: Some(Duration::from_secs(60)),
        ..in_shards(SHARDS)
    };
    rig.join_with(manifest("p"), &settings, lists_pods);
    rig.sync_with(&service(), "a");
    rig.sync(&pod());
    rig.put(&service(), "b", "");
    rig.put(&pod(), "x", r#""app":"a""#);
    rig.remove(&service(), "a");
    assert!(is_idle(&mut rig), "not even a resync is due");
    rig.now += Duration::from_secs(1000);
    assert!(is_idle(&mut rig));
    let status = status(&rig);
    assert!(status.reads.iter().all(|(_, is_synced)| *is_synced));
    assert_eq!((status.keys.queued, status.keys.delayed), (0, 0));
    assert_eq!(
        (status.division.shards.get(), status.held_shards.len()),
        (SHARDS, 0)
    );
    assert!(rig.hub.is_drained(rig.now) && !rig.hub.has_unfinished());
}

#[test]
fn a_standby_that_takes_over_runs_every_subject_once_and_then_resyncs_in_time() {
    let (mut rig, id) = with(nothing);
    rig.hub.configure(
        id,
        &ControllerSettings {
            resync: Some(Duration::from_secs(60)),
            ..in_shards(SHARDS)
        },
        rig.now,
    );
    rig.run();
    set(&mut rig, Duties::none(), Relinquish::Finish);
    rig.now += Duration::from_secs(1000);
    set(&mut rig, Duties::All, Relinquish::Finish);
    assert_eq!(status(&rig).keys.queued, NAMES.len());
    assert_eq!(rig.run(), NAMES);
    assert_eq!(rig.run(), NONE);
    rig.now += Duration::from_secs(120);
    assert_eq!(rig.run(), NAMES);
}

#[test]
fn only_the_keys_of_held_shards_run_when_something_changes() {
    let (mut rig, _) = with(lists_pods);
    set(&mut rig, duties(&[0, 2]), Relinquish::Finish);
    assert_eq!(rig.run(), of(&[0, 2]), "the first runs");
    assert_eq!(status(&rig).held_shards, BTreeSet::from([0, 2]));
    for name in NAMES {
        rig.put(&service(), name, r#""changed":"yes""#);
    }
    assert_eq!(rig.run(), of(&[0, 2]), "their own objects have changed");
    for name in NAMES {
        rig.put(&pod(), name, &format!(r#""app":"{name}""#));
    }
    assert_eq!(rig.run(), of(&[0, 2]), "what they have read has changed");
    assert_eq!(status(&rig).keys.recorded_reads, of(&[0, 2]).len());
}

#[test]
fn a_gained_shard_gets_first_runs_and_those_held_before_none() {
    let (mut rig, _) = with(nothing);
    set(&mut rig, duties(&[0]), Relinquish::Finish);
    assert_eq!(rig.run(), of(&[0]));
    set(&mut rig, duties(&[0, 1]), Relinquish::Finish);
    assert_eq!(rig.run(), of(&[1]));
    set(&mut rig, duties(&[0, 1, 2]), Relinquish::Finish);
    assert_eq!(rig.run(), of(&[2]));
    assert_eq!(rig.run(), NONE);
}

#[test]
fn shards_gained_one_after_the_other_before_anything_ran_all_get_first_runs() {
    let (mut rig, _) = with(nothing);
    set(&mut rig, Duties::none(), Relinquish::Finish);
    for held in [&[0][..], &[0, 1], &[0, 1, 2]] {
        set(&mut rig, duties(held), Relinquish::Finish);
    }
    set(&mut rig, duties(&[0, 2]), Relinquish::Finish);
    assert_eq!(rig.run(), of(&[0, 2]), "but not the one that went again");
}

#[test]
fn a_lost_shard_forgets_back_offs_memos_effects_reads_and_timers() {
    let (mut rig, _) = with(|request, reader| {
        assert!(request.memo.is_none() && request.previous.is_empty());
        assert_eq!(request.attempt, 1);
        lists_pods(request, reader)?;
        if *request.key.object.name == *"a" {
            return Err(Failure::Retry("no".into()).into());
        }
        let mut outcome = Outcome::default();
        outcome.follow_up.memo = Some("m".into());
        outcome.follow_up.next = NextRun::After(Duration::from_secs(5));
        Ok(outcome)
    });
    rig.run();
    let before = status(&rig);
    assert_eq!((before.keys.failing, before.keys.delayed), (1, NAMES.len()));
    set(&mut rig, Duties::none(), Relinquish::Finish);
    let after = status(&rig);
    assert_eq!((after.keys.failing, after.keys.delayed), (0, 0));
    assert_eq!(after.keys.recorded_reads, 0);
    rig.now += Duration::from_secs(10);
    assert!(is_idle(&mut rig));
    set(&mut rig, Duties::All, Relinquish::Finish);
    assert_eq!(rig.run(), NAMES, "the guest finds nothing that it left");
}

#[test]
fn what_is_queued_of_a_lost_shard_does_not_run() {
    let (mut rig, _) = with(nothing);
    rig.run();
    for name in NAMES {
        rig.put(&service(), name, r#""changed":"yes""#);
    }
    set(&mut rig, duties(&[1]), Relinquish::Finish);
    assert_eq!(status(&rig).keys.queued, of(&[1]).len());
    assert_eq!(rig.run(), of(&[1]));
}

#[test]
fn a_running_key_of_a_lost_shard_ends_and_its_end_counts_for_nothing() {
    let (mut rig, _) = with(|request, reader| {
        lists_pods(request, reader)?;
        Err(Failure::Retry("no".into()).into())
    });
    let name = NAMES[0];
    let reconcile = take(&mut rig, name);
    set(&mut rig, Duties::none(), Relinquish::Finish);
    assert!(!reconcile.held().halt.is_halted(), "its writes are made");
    assert_eq!(unfinished(&rig), [shard(name)]);
    assert!(!rig.hub.is_drained(rig.now));
    rig.put(&service(), name, r#""changed":"yes""#);
    rig.finish(reconcile.run());
    assert!(!rig.hub.has_unfinished() && rig.hub.is_drained(rig.now));
    let status = status(&rig);
    assert_eq!((status.keys.failing, status.keys.recorded_reads), (0, 0));
    assert!(is_idle(&mut rig), "it is not retried");
}

#[test]
fn only_the_plans_of_lost_shards_are_halted_and_that_is_no_failure() {
    let (mut rig, _) = with(nothing);
    let running: Vec<Reconcile> = std::iter::from_fn(|| rig.take()).collect();
    assert_eq!(running.len(), NAMES.len());
    set(&mut rig, duties(&[0, 1]), Relinquish::Finish);
    set(&mut rig, duties(&[0]), Relinquish::Stop);
    for reconcile in running {
        let name = reconcile.held().object().name.clone();
        let is_halted = reconcile.held().halt.is_halted();
        assert_eq!(
            is_halted,
            shard(&name) != 0,
            "{name}: also what was to finish"
        );
        let writing = rig.ran(reconcile);
        let executed = match is_halted {
            true => unreachable(),
            false => Executed::default(),
        };
        rig.end(writing, executed);
    }
    let status = status(&rig);
    assert_eq!(status.reconciles.error, 0);
    assert_eq!(status.reconciles.success, of(&[0]).len() as u64);
    set(&mut rig, Duties::All, Relinquish::Finish);
    let again = rig.take().unwrap();
    assert!(
        !again.held().halt.is_halted(),
        "what runs later is not halted"
    );
    rig.finish(again.run());
}

#[test]
fn a_key_that_still_runs_when_its_shard_comes_back_runs_once_more_after_that() {
    let (mut rig, _) = with(nothing);
    let name = NAMES[0];
    let first = take(&mut rig, name);
    set(&mut rig, Duties::none(), Relinquish::Finish);
    set(&mut rig, Duties::All, Relinquish::Finish);
    assert!(!rig.hub.has_unfinished(), "it is not lost any more");
    let others: Vec<&str> = NAMES[1..].to_vec();
    assert_eq!(rig.run(), others);
    let writing = rig.ran(first);
    let version = (rig.version + 1).to_string();
    let wrote = AcceptedWrite {
        kind: pod(),
        key: ObjectKey::new("default", "new"),
        trace: Trace::Version(ResourceVersion::new(&version)),
    };
    rig.end(
        writing,
        Executed {
            accepted: vec![wrote],
            ..Executed::default()
        },
    );
    assert_eq!(rig.run(), NONE, "its write is not visible yet");
    rig.put(&pod(), "new", "");
    assert_eq!(rig.run(), [name]);
}

#[test]
fn a_key_without_an_object_that_ran_when_its_shard_came_back_runs_once_more() {
    let (mut rig, _) = with(nothing);
    let name = NAMES[0];
    let first = take(&mut rig, name);
    set(&mut rig, Duties::none(), Relinquish::Finish);
    rig.remove(&service(), name);
    set(&mut rig, Duties::All, Relinquish::Finish);
    rig.finish(first.run());
    assert!(rig.run().contains(&format!("{name} (gone)")));
}

#[test]
fn a_singleton_is_run_by_the_host_that_has_its_shard() {
    let mut rig = Rig::default();
    let singleton = Manifest {
        reconciles: vec![],
        ..manifest("p")
    };
    rig.join_with(singleton, &in_shards(SHARDS), nothing);
    rig.sync(&service());
    rig.sync(&pod());
    let own = Division::into(SHARDS).shard_of(ObjectKey::singleton().parts());
    let others: Vec<u32> = (0..SHARDS).filter(|shard| *shard != own).collect();
    set(&mut rig, duties(&others), Relinquish::Finish);
    assert!(rig.take().is_none());
    set(&mut rig, duties(&[own]), Relinquish::Finish);
    let reconcile = rig.take().unwrap();
    assert_eq!(reconcile.held().request.key, SubjectKey::singleton());
    rig.finish(reconcile.run());
    set(&mut rig, duties(&[own]), Relinquish::Finish);
    assert!(rig.take().is_none(), "nothing was gained");
}

#[test]
fn what_subjects_of_a_gained_shard_left_behind_is_cleaned_up() {
    let mut rig = Rig::default();
    set(&mut rig, Duties::none(), Relinquish::Finish);
    let with_companions = Manifest {
        reconciles: vec![Selection {
            companions: vec![pod()],
            ..selection()
        }],
        ..manifest("p")
    };
    rig.join_with(with_companions, &in_shards(SHARDS), nothing);
    rig.sync(&service());
    rig.sync(&pod());
    for name in NAMES {
        rig.put(&pod(), name, "");
    }
    set(&mut rig, duties(&[0]), Relinquish::Finish);
    let gone = |shards: &[u32]| -> Vec<String> {
        let names = of(shards).into_iter();
        names.map(|name| format!("{name} (gone)")).collect()
    };
    assert_eq!(rig.run(), gone(&[0]));
    set(&mut rig, duties(&[0, 2]), Relinquish::Finish);
    assert_eq!(rig.run(), gone(&[2]));
}

#[test]
fn a_plugin_that_joins_later_runs_what_the_host_has_of_it_at_that_moment() {
    let mut rig = Rig::default();
    rig.join(manifest("other"), nothing);
    rig.sync(&service());
    rig.sync(&pod());
    for name in NAMES {
        rig.put(&service(), name, "");
    }
    set(&mut rig, duties(&[0]), Relinquish::Finish);
    let plugin = Arc::new(Fake {
        manifest: manifest("p"),
        behaviour: Box::new(nothing),
    });
    let (_, mut preparation) = rig.hub.prepare(plugin, &in_shards(SHARDS)).unwrap();
    preparation.build(rig.now);
    set(&mut rig, duties(&[1]), Relinquish::Finish);
    rig.hub.finish(preparation, rig.now).unwrap();
    assert_eq!(rig.run(), of(&[1]));
}

#[test]
fn a_new_version_runs_the_keys_of_held_shards_alone() {
    let (mut rig, id) = with(nothing);
    set(&mut rig, duties(&[0]), Relinquish::Finish);
    rig.run();
    let plugin = Arc::new(Fake {
        manifest: manifest("p"),
        behaviour: Box::new(nothing),
    });
    let settings = in_shards(SHARDS);
    let mut preparation = rig.hub.prepare_replacement(id, plugin, &settings).unwrap();
    preparation.build(rig.now);
    set(&mut rig, duties(&[0, 2]), Relinquish::Finish);
    rig.hub.finish(preparation, rig.now).unwrap();
    assert_eq!(rig.run(), of(&[0, 2]));
}

#[test]
fn another_number_of_shards_assigns_the_keys_anew_and_none_runs_twice_at_once() {
    let (mut rig, id) = with(nothing);
    set(&mut rig, duties(&[0]), Relinquish::Finish);
    let held = of(&[0]);
    let first = take(&mut rig, held[0]);
    rig.hub.configure(id, &in_shards(1), rig.now);
    assert_eq!(rig.run(), NONE, "shards of three are none of one");
    let whole = HeldShards {
        of: Division::UNDIVIDED,
        held: BTreeSet::from([0]),
    };
    let whole = Duties::Shards(BTreeMap::from([("p".to_owned(), whole)]));
    drop(rig.hub.set_duties(whole, Relinquish::Finish, rig.now));
    assert_eq!(rig.run(), NONE, "the others have run elsewhere");
    rig.prove_all();
    assert_eq!(status(&rig).held_shards, BTreeSet::from([0]));
    let others: Vec<&str> = NAMES.into_iter().filter(|name| *name != held[0]).collect();
    assert_eq!(rig.run(), others, "one of them still runs");
    rig.finish(first.run());
    rig.run();
    rig.hub.configure(id, &in_shards(SHARDS), rig.now);
    set(&mut rig, duties(&[0]), Relinquish::Finish);
    rig.run();
    rig.put(&service(), of(&[1])[0], r#""changed":"yes""#);
    assert_eq!(rig.run(), NONE, "it is not held any more");
}

#[test]
fn what_a_key_asks_for_that_ran_while_its_shard_was_lost_and_promised_again_counts_for_nothing() {
    let (mut rig, id) = with(|_, _| {
        let later = FollowUp {
            next: NextRun::After(Duration::from_secs(3)),
            ..FollowUp::default()
        };
        Ok(Outcome {
            follow_up: later,
            ..Outcome::default()
        })
    });
    set(&mut rig, duties(&[0, 1]), Relinquish::Finish);
    drop(
        rig.hub
            .set_duties(duties(&[0, 1, 2]), Relinquish::Finish, rig.now),
    );
    let first = rig.take().unwrap();
    // All of three shards is all of one. But one of the three is still to be gained, so the one is,
    // too.
    rig.hub.configure(id, &in_shards(1), rig.now);
    assert!(status(&rig).held_shards.is_empty());
    rig.finish(first.run());
    set(&mut rig, Duties::none(), Relinquish::Finish);
    rig.now += Duration::from_secs(4);
    assert!(is_idle(&mut rig));
}

#[test]
fn a_shard_is_unfinished_in_the_division_in_which_it_was_lost() {
    let (mut rig, id) = with(nothing);
    set(&mut rig, duties(&[2]), Relinquish::Finish);
    let first = take(&mut rig, of(&[2])[0]);
    rig.hub.configure(id, &in_shards(5), rig.now);
    set(&mut rig, Duties::none(), Relinquish::Finish);
    assert_eq!(unfinished(&rig), [2]);
    let other = Division::into(5);
    let of_five = other.shard_of(first.held().object().parts());
    assert!(rig.hub.is_unfinished(&Shard::new("p", of_five, other)));
    rig.finish(first.run());
    assert!(!rig.hub.has_unfinished());
}

#[test]
fn a_plugin_that_has_left_is_unfinished_until_its_last_key_has_ended() {
    let (mut rig, id) = with(nothing);
    let reconcile = rig.take().unwrap();
    drop(rig.hub.leave(id));
    assert!(!rig.hub.has_unfinished(), "its shards are held");
    set(&mut rig, Duties::none(), Relinquish::Finish);
    assert_eq!(unfinished(&rig).len(), 1);
    set(&mut rig, Duties::none(), Relinquish::Stop);
    assert!(reconcile.held().halt.is_halted());
    rig.finish(reconcile.run());
    assert!(!rig.hub.has_unfinished());
}

#[test]
fn a_standby_drains_at_once_and_a_member_ends_what_it_holds() {
    let (mut rig, _) = with(nothing);
    set(&mut rig, duties(&[0]), Relinquish::Finish);
    rig.hub.drain();
    assert!(!rig.hub.is_drained(rig.now));
    assert_eq!(rig.run(), of(&[0]));
    assert!(rig.hub.is_drained(rig.now));
    set(&mut rig, Duties::All, Relinquish::Finish);
    assert!(rig.hub.is_drained(rig.now), "nothing new is begun");
}

#[test]
fn a_fetch_for_a_lost_key_ends_and_parks_nothing() {
    let (mut rig, _) = with(nothing);
    let name = NAMES[0];
    let reconcile = take(&mut rig, name);
    let writing = rig.ran(reconcile);
    let unknown = AcceptedWrite {
        kind: pod(),
        key: ObjectKey::new("default", "new"),
        trace: Trace::Unknown,
    };
    let executed = Executed {
        accepted: vec![unknown],
        ..unreachable()
    };
    rig.end(writing, executed);
    let fetch = loop {
        rig.now += Duration::from_secs(1);
        match rig.hub.next(rig.now, 0) {
            Next::Run(reconcile) => drop(rig.finish(reconcile.run())),
            Next::Fetch(fetch) => break fetch,
            Next::Idle(_) => panic!("it asks what became of the write"),
        }
    };
    assert_eq!(&*fetch.key.object.name, name);
    set(&mut rig, Duties::none(), Relinquish::Finish);
    let no_answer = Err(ReadFailure::NoAnswer("no".into()));
    drop(rig.hub.fetched(&fetch, vec![no_answer], rig.now));
    rig.now += Duration::from_secs(100);
    assert!(is_idle(&mut rig) && rig.hub.is_drained(rig.now));
    set(&mut rig, Duties::All, Relinquish::Finish);
    assert_eq!(rig.run(), NAMES, "nothing is left of the outage");
}

#[test]
fn a_host_offers_the_plugins_that_are_not_paused_with_their_numbers_of_shards() {
    let mut rig = Rig::default();
    let divided = rig.join_with(manifest("divided"), &in_shards(SHARDS), lists_pods);
    let other = rig.join_with(manifest("other"), &in_shards(1), lists_pods);
    let offer = |rig: &Rig| {
        let offer = rig.hub.offer().into_iter();
        let offer: Vec<_> = offer.map(|(name, of)| format!("{name} {of}")).collect();
        offer.join(", ")
    };
    assert_eq!(offer(&rig), "divided 3, other 1");
    let paused = ControllerSettings {
        is_paused: true,
        ..in_shards(1)
    };
    rig.hub.configure(other, &paused, rig.now);
    rig.hub.configure(divided, &in_shards(2), rig.now);
    assert_eq!(offer(&rig), "divided 2");
    drop(rig.hub.leave(divided));
    assert_eq!(offer(&rig), "");
}
