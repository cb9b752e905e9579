//! Scenarios from client-go's `leaderelection_test.go`, and random schedules of several electors.

mod model;

use std::time::Duration;

use super::*;
use crate::queue::Time;

const WALL: &str = "2026-01-02T03:04:05.000000Z";

fn at(seconds: f64) -> Time {
    Duration::from_secs_f64(seconds)
}

/// An elector called `me`, with the default times.
fn elector() -> Election {
    Election::new("me", ElectionSettings::default(), 1)
}

fn held_by(holder: &str) -> LeaseRecord {
    LeaseRecord {
        holder: holder.to_owned(),
        duration_seconds: 15,
        transitions: 3,
        acquire_time: "2026-01-01T00:00:00.000000Z".to_owned(),
        renew_time: "2026-01-01T00:00:00.000000Z".to_owned(),
    }
}

/// Asks for the next request, which must be a read, and answers it.
fn read(election: &mut Election, answer: LeaseAnswer, now: Time) -> Option<ElectionRequest> {
    let asked = election.poll(now, WALL);
    assert_eq!(asked, Attempt::Send(ElectionRequest::Get), "at {now:?}");
    election.answered(answer, now, WALL)
}

/// An elector that leads since `now`, by a Lease that it has created.
fn leader(now: Time) -> (Election, LeaseRecord) {
    let mut election = elector();
    let Some(ElectionRequest::Create(record)) = read(&mut election, LeaseAnswer::Absent, now)
    else {
        panic!("an absent Lease is created");
    };
    assert_eq!(
        election.answered(LeaseAnswer::Is(record.clone()), now, WALL),
        None
    );
    assert_eq!(election.news(now), [ElectionNews::Leads]);
    (election, record)
}

fn waits_until(election: &mut Election, now: Time) -> Time {
    match election.poll(now, WALL) {
        Attempt::Wait(until) => until,
        other => panic!("{other:?} at {now:?}"),
    }
}

fn renewal(election: &mut Election, now: Time) -> LeaseRecord {
    match election.poll(now, WALL) {
        Attempt::Send(ElectionRequest::Update(record)) => record,
        other => panic!("{other:?} at {now:?}"),
    }
}

#[test]
fn an_absent_lease_is_created_and_gives_the_right_to_write_from_when_it_was_sent() {
    let mut election = elector();
    let request = read(&mut election, LeaseAnswer::Absent, at(1.0));
    let Some(ElectionRequest::Create(record)) = request else {
        panic!("{request:?}");
    };
    assert_eq!(
        (&*record.holder, record.duration_seconds, record.transitions),
        ("me", 15, 0)
    );
    assert_eq!(election.right(), None);
    election.answered(LeaseAnswer::Is(record), at(4.0), WALL);
    assert_eq!(election.right(), Some(at(11.0)), "and not from the answer");
    assert_eq!(election.news(at(4.0)), [ElectionNews::Leads]);
}

#[test]
fn an_answer_that_comes_after_the_right_it_would_give_gives_none() {
    let mut election = elector();
    let Some(ElectionRequest::Create(record)) = read(&mut election, LeaseAnswer::Absent, at(1.0))
    else {
        panic!();
    };
    election.answered(LeaseAnswer::Is(record), at(11.0), WALL);
    assert_eq!(election.right(), None);
    assert_eq!(election.news(at(11.0)), []);
}

#[test]
fn a_lease_that_is_held_is_not_taken_before_it_was_unchanged_for_its_own_duration() {
    let mut election = elector();
    let record = LeaseRecord {
        duration_seconds: 30,
        ..held_by("other")
    };
    assert_eq!(
        read(&mut election, LeaseAnswer::Is(record.clone()), at(0.0)),
        None
    );
    assert_eq!(
        election.news(at(0.0)),
        [ElectionNews::NewLeader("other".into())]
    );
    let mut now = at(0.0);
    loop {
        now = waits_until(&mut election, now);
        let taken = read(&mut election, LeaseAnswer::Is(record.clone()), now);
        assert_eq!(taken.is_some(), now >= at(30.0), "at {now:?}");
        let Some(ElectionRequest::Update(own)) = taken else {
            continue;
        };
        assert_eq!(now, at(30.0), "at the very moment");
        assert_eq!(
            (&*own.holder, own.duration_seconds, own.transitions),
            ("me", 15, 4)
        );
        assert_eq!(own.acquire_time, WALL);
        break;
    }
}

#[test]
fn a_renewal_that_is_seen_puts_the_expiry_off_whatever_times_the_lease_says() {
    let mut election = elector();
    read(&mut election, LeaseAnswer::Is(held_by("other")), at(0.0));
    // The holder's clock is an hour behind.
    let renewed = LeaseRecord {
        renew_time: "2025-12-31T23:00:00.000000Z".into(),
        ..held_by("other")
    };
    election.observed(renewed.clone(), at(14.0));
    let mut now = at(14.0);
    while now < at(29.0) {
        now = waits_until(&mut election, now);
        let taken = read(&mut election, LeaseAnswer::Is(renewed.clone()), now);
        assert_eq!(taken.is_some(), now >= at(29.0), "at {now:?}");
    }
    assert_eq!(now, at(29.0));
}

#[test]
fn a_lease_without_a_holder_is_taken_at_once() {
    let mut election = elector();
    let taken = read(&mut election, LeaseAnswer::Is(held_by("")), at(0.0));
    assert!(matches!(taken, Some(ElectionRequest::Update(record)) if record.transitions == 4));
}

#[test]
fn a_standby_tries_as_soon_as_it_is_told_that_the_lease_was_released() {
    let mut election = elector();
    read(&mut election, LeaseAnswer::Is(held_by("other")), at(0.0));
    assert!(waits_until(&mut election, at(0.5)) > at(1.0));
    assert!(election.observed(held_by(""), at(0.5)), "it is taken");
    assert_eq!(renewal(&mut election, at(0.5)).transitions, 4);
    // Another one was faster.
    let next = election.answered(LeaseAnswer::Conflict, at(0.6), WALL);
    assert_eq!(next, Some(ElectionRequest::Get));
    let next = election.answered(LeaseAnswer::Is(held_by("third")), at(0.7), WALL);
    assert_eq!(next, None);
    assert!(waits_until(&mut election, at(0.7)) > at(2.0));
}

#[test]
fn a_lease_that_was_deleted_is_read_and_created() {
    let mut election = elector();
    read(&mut election, LeaseAnswer::Is(held_by("other")), at(0.0));
    election.observed(LeaseRecord::default(), at(0.5));
    let request = read(&mut election, LeaseAnswer::Absent, at(0.5));
    assert!(matches!(request, Some(ElectionRequest::Create(_))));
}

#[test]
fn a_standby_that_is_told_of_renewals_asks_for_nothing() {
    let mut election = elector();
    read(&mut election, LeaseAnswer::Is(held_by("other")), at(0.0));
    for second in 0..100 {
        let now = at(f64::from(second));
        election.observed(
            LeaseRecord {
                renew_time: second.to_string(),
                ..held_by("other")
            },
            now,
        );
        assert!(waits_until(&mut election, now) >= now + Duration::from_secs(2));
    }
}

#[test]
fn attempts_that_fail_are_one_to_two_and_a_fifth_periods_apart() {
    let mut election = elector();
    let mut now = at(0.0);
    for _ in 0..50 {
        read(&mut election, LeaseAnswer::Failed, now);
        let next = waits_until(&mut election, now);
        let pause = (next - now).as_secs_f64();
        assert!((2.0..=4.4).contains(&pause), "{pause}");
        now = next;
    }
}

#[test]
fn a_create_that_is_refused_for_ever_is_not_repeated_in_a_hot_loop() {
    let mut election = elector();
    let mut now = at(0.0);
    for _ in 0..10 {
        assert!(read(&mut election, LeaseAnswer::Absent, now).is_some());
        election.answered(LeaseAnswer::Failed, now, WALL);
        let next = waits_until(&mut election, now);
        assert!(next >= now + Duration::from_secs(2));
        now = next;
    }
}

#[test]
fn a_leader_renews_each_period_without_reading_and_keeps_acquire_time_and_transitions() {
    let (mut election, created) = leader(at(0.0));
    for round in 1..10 {
        let now = at(f64::from(2 * round));
        let wall = format!("renewed {round}");
        let Attempt::Send(ElectionRequest::Update(record)) = election.poll(now, &wall) else {
            panic!();
        };
        assert_eq!(
            record,
            LeaseRecord {
                renew_time: wall.clone(),
                ..created.clone()
            }
        );
        election.answered(LeaseAnswer::Is(record), now, &wall);
        assert_eq!(election.right(), Some(now + Duration::from_secs(10)));
    }
    assert_eq!(election.slow_renewals(), 0);
    assert_eq!(election.news(at(18.0)), []);
}

#[test]
fn a_renewal_that_conflicts_is_followed_by_a_read_at_once() {
    let (mut election, created) = leader(at(0.0));
    renewal(&mut election, at(2.0));
    let next = election.answered(LeaseAnswer::Conflict, at(2.0), WALL);
    assert_eq!(next, Some(ElectionRequest::Get));
    // Somebody has put a label on it.
    let next = election.answered(LeaseAnswer::Is(created.clone()), at(2.5), WALL);
    let Some(ElectionRequest::Update(record)) = next else {
        panic!("{next:?}");
    };
    assert_eq!(record.transitions, created.transitions);
    election.answered(LeaseAnswer::Is(record), at(2.6), WALL);
    assert_eq!(election.right(), Some(at(12.5)));
    assert_eq!(election.slow_renewals(), 1);
}

#[test]
fn a_leader_that_finds_another_holder_stops_at_once() {
    let (mut election, _) = leader(at(0.0));
    renewal(&mut election, at(2.0));
    election.answered(LeaseAnswer::Conflict, at(2.0), WALL);
    assert_eq!(
        election.answered(LeaseAnswer::Is(held_by("other")), at(2.1), WALL),
        None
    );
    assert_eq!(election.right(), None);
    let news = election.news(at(2.1));
    assert_eq!(
        news,
        [
            ElectionNews::Stopped,
            ElectionNews::NewLeader("other".into())
        ]
    );
}

#[test]
fn a_leader_that_cannot_renew_stops_one_deadline_after_its_last_success() {
    let (mut election, _) = leader(at(0.0));
    let mut now = at(2.0);
    while now < at(10.0) {
        renewal(&mut election, now);
        assert_eq!(
            election.answered(LeaseAnswer::Failed, now, WALL),
            Some(ElectionRequest::Get)
        );
        election.answered(LeaseAnswer::Failed, now, WALL);
        assert_eq!(election.news(now), [], "at {now:?}");
        now = waits_until(&mut election, now);
    }
    assert_eq!(now, at(10.0));
    assert_eq!(election.news(now), [ElectionNews::Stopped]);
    assert_eq!(election.right(), None);
}

#[test]
fn while_a_renewal_has_no_answer_the_right_ends_in_time() {
    let (mut election, created) = leader(at(0.0));
    renewal(&mut election, at(2.0));
    assert_eq!(waits_until(&mut election, at(3.0)), at(10.0));
    assert_eq!(election.news(at(10.0)), [ElectionNews::Stopped]);
    // It was done after all: the right counts from its sending.
    election.answered(LeaseAnswer::Is(created), at(11.0), WALL);
    assert_eq!(election.right(), Some(at(12.0)));
    assert_eq!(election.news(at(11.0)), [ElectionNews::Leads]);
}

#[test]
fn a_release_empties_the_lease_without_reading_it() {
    let (mut election, _) = leader(at(0.0));
    election.release(at(1.0));
    assert_eq!(election.right(), None);
    assert_eq!(election.news(at(1.0)), [ElectionNews::Stopped]);
    let record = renewal(&mut election, at(1.0));
    assert_eq!((&*record.holder, record.duration_seconds), ("", 1));
    election.answered(LeaseAnswer::Is(record), at(1.1), WALL);
    assert_eq!(election.poll(at(1.1), WALL), Attempt::Released);
}

#[test]
fn a_release_without_an_answer_is_over_when_a_read_shows_it() {
    let (mut election, _) = leader(at(0.0));
    election.release(at(1.0));
    let record = renewal(&mut election, at(1.0));
    let next = election.answered(LeaseAnswer::Failed, at(1.1), WALL);
    assert_eq!(next, Some(ElectionRequest::Get));
    assert_eq!(
        election.answered(LeaseAnswer::Is(record), at(1.2), WALL),
        None
    );
    assert_eq!(election.poll(at(1.2), WALL), Attempt::Released);
}

#[test]
fn a_release_that_conflicts_is_tried_again_until_the_deadline() {
    let (mut election, created) = leader(at(0.0));
    election.release(at(1.0));
    let mut now = at(1.0);
    let mut tries = 0;
    while election.poll(now, WALL) != Attempt::Released {
        election.answered(LeaseAnswer::Conflict, now, WALL);
        election.answered(LeaseAnswer::Is(created.clone()), now, WALL);
        election.answered(LeaseAnswer::Conflict, now, WALL);
        tries += 1;
        let Attempt::Wait(next) = election.poll(now, WALL) else {
            break;
        };
        now = next;
    }
    assert!((3..=6).contains(&tries), "{tries}");
    assert!(now <= at(11.0) + Duration::from_secs(5));
}

#[test]
fn who_does_not_hold_the_lease_releases_nothing() {
    let mut election = elector();
    read(&mut election, LeaseAnswer::Is(held_by("other")), at(0.0));
    election.release(at(1.0));
    assert_eq!(election.poll(at(1.0), WALL), Attempt::Released);
}

#[test]
fn a_renewal_that_is_under_way_when_the_release_begins_gives_no_right() {
    let (mut election, created) = leader(at(0.0));
    renewal(&mut election, at(2.0));
    election.release(at(2.1));
    assert!(matches!(election.poll(at(2.1), WALL), Attempt::Wait(_)));
    election.answered(LeaseAnswer::Is(created), at(2.2), WALL);
    assert_eq!(election.right(), None);
    assert_eq!(renewal(&mut election, at(2.2)).holder, "", "it is emptied");
}

#[test]
fn a_leader_is_told_nothing_by_late_reports_of_the_watch() {
    let (mut election, _) = leader(at(0.0));
    assert!(!election.observed(held_by("before"), at(0.5)));
    assert_eq!(election.right(), Some(at(10.0)));
    assert_eq!(election.news(at(0.5)), []);
}

#[test]
fn each_new_leader_is_told_once() {
    let mut election = elector();
    read(&mut election, LeaseAnswer::Is(held_by("a")), at(0.0));
    assert_eq!(
        election.news(at(0.0)),
        [ElectionNews::NewLeader("a".into())]
    );
    election.observed(
        LeaseRecord {
            renew_time: "later".into(),
            ..held_by("a")
        },
        at(1.0),
    );
    assert_eq!(election.news(at(1.0)), []);
    election.observed(held_by("b"), at(2.0));
    assert_eq!(
        election.news(at(2.0)),
        [ElectionNews::NewLeader("b".into())]
    );
}
