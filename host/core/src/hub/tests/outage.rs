//! The behaviour while the cluster cannot be reached.

use super::*;

fn fail_unavailable(rig: &mut Rig) -> Option<String> {
    let reconcile = rig.take()?;
    let plugin = reconcile.held.plugin_name().to_owned();
    end_unreachable(rig, reconcile);
    Some(plugin)
}

/// Ends a reconcile whose writes cannot reach the cluster.
fn end_unreachable(rig: &mut Rig, reconcile: Reconcile) {
    let writing = rig.ran(reconcile);
    rig.end(writing, unreachable());
}

/// One hundred keys of one plugin. The writes of the first two could not reach the cluster.
fn cut_off() -> Rig {
    let mut rig = Rig::with(manifest("p"), nothing);
    (0..100).for_each(|number| rig.put(&service(), &format!("s{number}"), ""));
    let reconciles: Vec<Reconcile> = (0..2).filter_map(|_| rig.take()).collect();
    for reconcile in reconciles {
        end_unreachable(&mut rig, reconcile);
    }
    rig
}

#[test]
fn one_key_a_second_is_tried_of_those_that_found_none() {
    let mut rig = cut_off();
    let start = rig.now;
    let mut unreachable_streaks = 0;
    while rig.now < start + Duration::from_secs(20) {
        unreachable_streaks += usize::from(fail_unavailable(&mut rig).is_some());
        rig.now += Duration::from_millis(100);
    }
    assert!(
        (19..=20).contains(&unreachable_streaks),
        "{unreachable_streaks}"
    );
    let status = &rig.hub.status(rig.now)[0];
    assert_eq!(
        status.keys.queued + status.keys.held,
        100,
        "the others wait"
    );
    assert!(status.keys.queued >= 80, "and most have not been tried");
}

#[test]
fn the_next_try_has_a_time() {
    let mut rig = cut_off();
    let Next::Idle(due) = rig.hub.next(rig.now, 0) else {
        panic!("something runs");
    };
    assert_eq!(due, Some(rig.now + Duration::from_secs(1)));
}

#[test]
fn one_key_that_gets_through_brings_all_of_them_back() {
    let mut rig = cut_off();
    for _ in 0..600 {
        rig.now += Duration::from_secs(1);
        fail_unavailable(&mut rig);
    }
    rig.now += Duration::from_secs(1);
    let is_cut_off = |rig: &Rig| rig.hub.controllers.keys().any(|id| rig.hub.is_cut_off(*id));
    assert!(is_cut_off(&rig));
    assert_eq!(rig.run().len(), 100);
    assert!(!is_cut_off(&rig));
    assert_eq!(
        rig.hub.status(rig.now)[0].keys.failing,
        0,
        "no key was at fault"
    );
}

#[test]
fn an_answer_that_is_no_success_shows_the_cluster_too() {
    let mut rig = cut_off();
    rig.now += Duration::from_secs(1);
    let reconcile = rig.take().unwrap();
    let writing = rig.ran(reconcile);
    rig.end(writing, refused());
    assert_eq!(rig.run().len(), 99);
}

#[test]
fn guests_that_fail_by_themselves_do_not_leave_the_others_waiting_for_ever() {
    let mut rig = cut_off();
    for _ in 0..2 {
        rig.now += Duration::from_secs(1);
        let reconcile = rig.take().unwrap();
        rig.finish(trapped(reconcile));
    }
    assert!(rig.run().len() >= 98, "nobody is left to try with");
}

#[test]
fn a_watch_that_works_again_brings_all_of_them_back() {
    let mut rig = cut_off();
    assert_eq!(rig.run(), NONE);
    rig.hub.recovered();
    assert_eq!(rig.run().len(), 100);
}

#[test]
fn what_one_plugin_cannot_reach_stops_no_other() {
    let mut rig = cut_off();
    rig.join(manifest("other"), nothing);
    let plugins: BTreeSet<String> = std::iter::from_fn(|| {
        let reconcile = rig.take()?;
        let plugin = reconcile.held.plugin_name().to_owned();
        rig.finish(reconcile.run());
        Some(plugin)
    })
    .collect();
    assert_eq!(plugins, ["other".to_owned()].into());
}

#[test]
fn a_change_while_a_key_waits_for_the_cluster_does_not_run_it() {
    let mut rig = cut_off();
    (0..100).for_each(|number| rig.put(&service(), &format!("s{number}"), r#""touched":"yes""#));
    assert_eq!(rig.run(), NONE);
}

#[test]
fn a_key_whose_writes_alone_find_no_cluster_waits_longer_each_time() {
    let mut rig = Rig::with(manifest("p"), nothing);
    rig.put(&service(), "dead", "");
    let (mut unreachable_streaks, mut alive_runs) = (0, 0);
    for step in 0..60_000 {
        if step % 10 == 0 {
            rig.put(&service(), "alive", &format!(r#""n":"{step}""#));
        }
        let reconciles: Vec<Reconcile> = std::iter::from_fn(|| rig.take()).collect();
        for reconcile in reconciles {
            let writing = rig.ran(reconcile);
            if &*writing.held.request.key.object.name == "dead" {
                unreachable_streaks += 1;
                rig.end(writing, unreachable());
            } else {
                alive_runs += 1;
                let accepted = vec![AcceptedWrite {
                    kind: pod(),
                    key: ObjectKey::new("default", "y"),
                    trace: Trace::Deletion("u".into()),
                }];
                let executed = Executed {
                    accepted,
                    ..Executed::default()
                };
                rig.end(writing, executed);
            }
        }
        rig.now += Duration::from_millis(1);
    }
    assert!(
        (6..=10).contains(&unreachable_streaks),
        "{unreachable_streaks} tries in a minute"
    );
    assert!(
        alive_runs >= 5_900,
        "the other key was changed 6,000 times and ran {alive_runs} times"
    );
}

#[test]
fn keys_that_write_nothing_run_while_one_key_finds_no_cluster() {
    let mut rig = Rig::with(manifest("p"), nothing);
    rig.put(&service(), "dead", "");
    let mut ran = BTreeSet::new();
    for step in 0..5_000 {
        if step == 1_000 {
            (0..10).for_each(|number| rig.put(&service(), &format!("s{number}"), ""));
        }
        while let Some(reconcile) = rig.take() {
            let writing = rig.ran(reconcile);
            if &*writing.held.request.key.object.name == "dead" {
                rig.end(writing, unreachable());
            } else {
                ran.insert(writing.held.request.key.object.name.to_string());
                rig.end(writing, Executed::default());
            }
        }
        rig.now += Duration::from_millis(1);
    }
    assert_eq!(ran.len(), 10, "{ran:?}");
}

#[test]
fn a_run_that_writes_nothing_does_not_show_that_the_cluster_can_be_reached() {
    let mut rig = cut_off();
    rig.now += Duration::from_secs(1);
    let reconcile = rig.take().unwrap();
    rig.finish(reconcile.run());
    let id = *rig.hub.controllers.keys().next().unwrap();
    assert!(rig.hub.is_cut_off(id));
}

#[test]
fn another_key_is_tried_while_the_one_that_found_none_hangs() {
    let mut rig = cut_off();
    rig.now += Duration::from_secs(1);
    let first = rig.take().unwrap();
    rig.now += Duration::from_secs(1);
    let second = rig.take().unwrap();
    assert_ne!(first.held.request.key, second.held.request.key);
    rig.now += Duration::from_secs(1);
    assert!(rig.take().is_some());
}

#[test]
fn a_key_whose_fetch_found_none_asks_again_soon_when_others_got_through() {
    let mut rig = Rig::with(manifest("p"), nothing);
    rig.put(&service(), "a", "");
    rig.put(&service(), "b", "");
    let (first, second) = (rig.take().unwrap(), rig.take().unwrap());
    let wrote = |trace| Executed {
        accepted: vec![AcceptedWrite {
            kind: pod(),
            key: ObjectKey::new("default", "x"),
            trace,
        }],
        ..Executed::default()
    };
    let (first, second) = (rig.ran(first), rig.ran(second));
    let unknown = Executed {
        failure: unreachable().failure,
        ..wrote(Trace::Unknown)
    };
    rig.end(first, unknown);
    rig.now += Duration::from_secs(1);
    let Next::Fetch(fetch) = rig.hub.next(rig.now, 0) else {
        panic!("it is not known what became of the write");
    };
    let version = Trace::Version(ResourceVersion::new("1"));
    rig.end(second, wrote(version));
    let no_answer = ReadFailure::NoAnswer("no route".into());
    rig.hub.fetched(&fetch, vec![Err(no_answer)], rig.now);
    rig.now += Duration::from_secs(1);
    assert!(matches!(rig.hub.next(rig.now, 0), Next::Fetch(_)));
}

#[test]
fn a_key_that_was_tried_often_while_nobody_got_through_is_brought_back_with_the_others() {
    let mut rig = cut_off();
    for _ in 0..20 {
        rig.now += Duration::from_secs(1);
        fail_unavailable(&mut rig);
    }
    rig.now += Duration::from_secs(1);
    let reconcile = rig.take().unwrap();
    let writing = rig.ran(reconcile);
    rig.end(writing, refused());
    assert_eq!(rig.run().len(), 99);
}

#[test]
fn a_key_that_found_no_cluster_is_tried_however_many_keys_write_nothing() {
    let mut rig = Rig::with(manifest("p"), nothing);
    rig.put(&service(), "a", "");
    fail_unavailable(&mut rig);
    let mut unreachable_streaks = 0;
    for step in 0..10_000 {
        // There is always another key.
        rig.put(&service(), &format!("s{step}"), "");
        rig.put(&service(), &format!("t{step}"), "");
        if let Some(reconcile) = rig.take() {
            let writing = rig.ran(reconcile);
            if &*writing.held.request.key.object.name == "a" {
                unreachable_streaks += 1;
                rig.end(writing, unreachable());
            } else {
                rig.end(writing, Executed::default());
            }
        }
        rig.now += Duration::from_millis(1);
    }
    assert!(
        (4..=10).contains(&unreachable_streaks),
        "{unreachable_streaks} tries in ten seconds"
    );
}

#[test]
fn an_outage_ends_when_the_last_key_that_found_no_cluster_needs_none_any_more() {
    let mut rig = Rig::with(manifest("p"), nothing);
    rig.put(&service(), "a", "");
    fail_unavailable(&mut rig);
    let id = *rig.hub.controllers.keys().next().unwrap();
    for _ in 0..3 {
        rig.now += Duration::from_secs(1);
        assert!(rig.hub.is_cut_off(id));
        fail_unavailable(&mut rig);
    }
    rig.now += Duration::from_secs(1);
    assert_eq!(rig.run(), ["a"]);
    assert!(!rig.hub.is_cut_off(id), "nobody is left to try with");
}

#[test]
fn an_outage_goes_on_while_the_last_key_that_found_no_cluster_is_tried() {
    let mut rig = Rig::with(manifest("p"), nothing);
    rig.put(&service(), "a", "");
    rig.put(&service(), "b", "");
    let (found_none, needs_none) = (rig.take().unwrap(), rig.take().unwrap());
    end_unreachable(&mut rig, found_none);
    rig.now += Duration::from_secs(1);
    fail_unavailable(&mut rig);
    rig.now += Duration::from_secs(1);
    let tried = rig.take().unwrap();
    rig.finish(needs_none.run());
    end_unreachable(&mut rig, tried);
    let id = *rig.hub.controllers.keys().next().unwrap();
    assert!(rig.hub.is_cut_off(id));
}
