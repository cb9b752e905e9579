use super::*;
use crate::client::Status;

const SECOND: Duration = Duration::from_secs(1);

/// A state that uses lists and watches only.
fn state() -> WatchMachine {
    let settings = WatchSettings {
        is_streaming: false,
        ..WatchSettings::default()
    };
    WatchMachine::new(settings, 1)
}

fn streaming() -> WatchMachine {
    WatchMachine::new(WatchSettings::default(), 1)
}

fn stream(not_older_than: Option<&str>) -> NextRequest {
    NextRequest::Stream {
        not_older_than: not_older_than.map(version),
    }
}

fn version(text: &str) -> ResourceVersion {
    ResourceVersion::new(text)
}

/// A state that has listed up to this version and now watches.
fn watching(at: &str) -> WatchMachine {
    let mut state = state();
    assert_eq!(state.page(at, None).unwrap(), listed(at));
    state
}

fn listed(version: &str) -> Option<CompleteList> {
    Some(CompleteList {
        version: ResourceVersion::new(version),
        is_rollback: false,
    })
}

fn is_watch(next: &NextRequest, version: &str) -> bool {
    matches!(next, NextRequest::Watch { from, .. } if from.to_string() == version)
}

fn list(not_older_than: Option<&str>, paging: Paging) -> NextRequest {
    NextRequest::List {
        not_older_than: not_older_than.map(version),
        paging,
    }
}

const BUSY: FailureClass = FailureClass::Busy { retry_after: None };

#[test]
fn the_first_list_asks_for_the_newest_state_and_every_later_one_for_nothing_older_than_seen() {
    let mut state = state();
    assert_eq!(state.next(), list(None, Paging::First));
    state.page("10", None).unwrap();
    assert_eq!(state.advance(&version("17"), true), Order::New);
    state.watch_ended(WatchEnd::Failed(FailureClass::BadVersion), SECOND, 1);
    assert_eq!(state.next(), list(Some("17"), Paging::First));
}

#[test]
fn a_list_that_cannot_reach_the_last_version_asks_for_the_newest_once_and_then_not_any_more() {
    let mut state = watching("10");
    state.watch_ended(WatchEnd::Failed(FailureClass::BadVersion), SECOND, 0);
    assert_eq!(
        state.list_failed(FailureClass::BadVersion, Duration::ZERO),
        Duration::ZERO
    );
    assert_eq!(state.next(), list(None, Paging::First));
    state.page("30", None).unwrap();
    state.watch_ended(WatchEnd::Failed(FailureClass::BadVersion), SECOND, 0);
    assert_eq!(
        state.next(),
        list(Some("30"), Paging::First),
        "a successful list makes versions usable again"
    );
}

#[test]
fn the_pages_of_a_list_are_of_the_first_pages_version() {
    let mut state = state();
    assert_eq!(state.page("10", Some("t1".into())).unwrap(), None);
    assert_eq!(
        state.next(),
        list(
            None,
            Paging::After {
                token: "t1".into(),
                list_version: version("10")
            }
        )
    );
    assert_eq!(state.page("11", None).unwrap(), listed("10"));
}

#[test]
fn a_token_that_expires_is_followed_by_one_unpaged_list_and_not_by_the_first_page() {
    let mut state = state();
    state.page("10", Some("t1".into())).unwrap();
    assert_eq!(
        state.list_failed(FailureClass::BadVersion, Duration::ZERO),
        Duration::ZERO
    );
    assert_eq!(state.next(), list(None, Paging::Whole));
}

#[test]
fn a_page_that_does_not_come_is_asked_for_again_and_an_unreadable_one_starts_the_list_over() {
    let mut state = state();
    state.page("10", Some("t1".into())).unwrap();
    assert!(state.list_failed(BUSY, Duration::ZERO) >= SECOND);
    assert!(matches!(
        state.next(),
        NextRequest::List {
            paging: Paging::After { .. },
            ..
        }
    ));
    assert!(state.list_failed(FailureClass::Broken, Duration::ZERO) >= SECOND);
    assert_eq!(state.next(), list(None, Paging::First));
}

#[test]
fn a_list_that_continues_where_it_was_or_has_no_version_is_an_error() {
    let mut state = state();
    state.page("10", Some("t1".into())).unwrap();
    assert!(matches!(
        state.page("10", Some("t1".into())),
        Err(BadList::Repeats)
    ));
    assert!(matches!(
        self::state().page("", None),
        Err(BadList::NoVersion)
    ));
}

/// `TestWatchTimeout`.
#[test]
fn a_watch_asks_for_five_to_ten_minutes() {
    let mut state = watching("10");
    for _ in 0..100 {
        let next = state.next();
        let timeout = state.timeout(&next);
        assert!((300..=600).contains(&timeout.as_secs()), "{timeout:?}");
    }
}

#[test]
fn a_watch_that_ends_in_order_is_resumed_at_once_where_it_was() {
    let mut state = watching("10");
    assert_eq!(state.advance(&version("12"), true), Order::New);
    assert_eq!(
        state.watch_ended(WatchEnd::Closed, 300 * SECOND, 1),
        Duration::ZERO
    );
    assert!(is_watch(&state.next(), "12"));
}

#[test]
fn a_watch_that_ends_at_once_without_an_event_backs_off() {
    let mut state = watching("10");
    assert!(state.watch_ended(WatchEnd::Closed, Duration::ZERO, 0) >= SECOND);
    assert!(state.watch_ended(WatchEnd::Closed, Duration::ZERO, 0) >= 2 * SECOND);
    assert_eq!(
        state.watch_ended(WatchEnd::Closed, Duration::ZERO, 5),
        SECOND,
        "with events it is only paced"
    );
}

#[test]
fn delays_double_from_one_second_to_at_most_five() {
    let mut state = watching("10");
    let delays: Vec<Duration> = (0..100)
        .map(|_| state.watch_ended(WatchEnd::Failed(BUSY), Duration::ZERO, 0))
        .collect();
    assert!(
        delays[0] >= SECOND && delays[0] <= SECOND * 5 / 4,
        "{:?}",
        delays[0]
    );
    assert!(delays[1] >= 2 * SECOND && delays[2] >= 4 * SECOND);
    assert!(
        delays
            .iter()
            .all(|delay| *delay >= SECOND && *delay <= 5 * SECOND)
    );
    state.watch_ended(WatchEnd::Failed(BUSY), 60 * SECOND, 0);
    assert!(
        state.watch_ended(WatchEnd::Closed, Duration::ZERO, 0) < 3 * SECOND,
        "a watch that lasted starts the delays over"
    );
}

#[test]
fn a_server_that_says_when_is_obeyed_within_reason() {
    let mut state = watching("10");
    let mut ended = |seconds| {
        let retry_after = Some(Duration::from_secs(seconds));
        state.watch_ended(
            WatchEnd::Failed(FailureClass::Busy { retry_after }),
            Duration::ZERO,
            0,
        )
    };
    assert_eq!(ended(20), 20 * SECOND);
    assert_eq!(ended(3600), 30 * SECOND);
}

#[test]
fn versions_that_keep_expiring_do_not_make_a_loop_of_lists() {
    let mut state = watching("10");
    let delays: Vec<Duration> = (0..20)
        .map(|_| {
            let delay = state.watch_ended(
                WatchEnd::Failed(FailureClass::BadVersion),
                Duration::ZERO,
                0,
            );
            state.page("10", None).unwrap();
            delay
        })
        .collect();
    assert_eq!(delays[0], Duration::ZERO, "the first is routine");
    assert!(
        delays[4..].iter().all(|delay| *delay >= SECOND),
        "{delays:?}"
    );
}

#[test]
fn an_event_older_than_the_cache_is_not_taken() {
    let mut state = watching("30");
    assert_eq!(state.advance(&version("5"), true), Order::Known);
    assert_eq!(state.advance(&version("30"), true), Order::Same);
    assert_eq!(state.advance(&version("31"), true), Order::New);
    assert!(is_watch(&state.next(), "31"));
}

#[test]
fn versions_that_are_no_numbers_are_taken_as_they_come() {
    let mut state = watching("b");
    assert_eq!(state.advance(&version("a"), true), Order::New);
    assert!(is_watch(&state.next(), "a"));
}

#[test]
fn an_error_event_leaves_the_position_good_only_if_it_says_so() {
    let event = |code| {
        FailureClass::of_event(&Status {
            code,
            ..Status::default()
        })
    };
    assert_eq!(event(429), BUSY);
    assert_eq!(event(410), FailureClass::BadVersion);
    assert_eq!(event(500), FailureClass::Broken, "an event may be missing");
}

#[test]
fn what_took_its_time_is_not_waited_for_once_more() {
    let mut state = watching("10");
    for _ in 0..10 {
        let delay = state.list_failed(FailureClass::Lost, 4 * SECOND);
        assert!(delay <= SECOND, "{delay:?}");
        assert!(!delay.is_zero(), "but not all come back at one instant");
    }
}

/// `TestWatchList`: no version the first time, the last version after that.
#[test]
fn a_stream_asks_for_the_newest_state_and_later_for_nothing_older_than_seen() {
    let mut state = streaming();
    assert_eq!(state.next(), stream(None));
    assert_eq!(state.streamed(&version("10")).ok(), listed("10"));
    assert!(is_watch(&state.next(), "10"));
    state.advance(&version("17"), true);
    state.watch_ended(WatchEnd::Failed(FailureClass::BadVersion), SECOND, 1);
    assert_eq!(state.next(), stream(Some("17")));
}

/// `TestWatchList`, "retries 429", and refused connections; "any other error … forces fallback",
/// but only for the current attempt.
#[test]
fn a_stream_is_tried_again_if_the_server_is_busy_and_replaced_by_a_list_if_it_refuses() {
    let mut state = streaming();
    for class in [BUSY, FailureClass::Lost] {
        let delay = state.stream_ended(Unfinished::Unopened(class), Duration::ZERO);
        assert!(delay >= SECOND);
        assert_eq!(state.next(), stream(None));
    }
    for class in [
        FailureClass::Broken,
        FailureClass::Refused { retry_after: None },
    ] {
        let delay = state.stream_ended(Unfinished::Unopened(class), Duration::ZERO);
        assert_eq!(delay, Duration::ZERO);
        assert_eq!(state.next(), list(None, Paging::First));
        state.list_failed(FailureClass::Broken, Duration::ZERO);
        assert_eq!(state.next(), stream(None), "the next attempt streams again");
    }
}

#[test]
fn a_stream_whose_version_is_not_to_be_had_asks_for_the_newest() {
    let mut state = streaming();
    state.streamed(&version("10")).unwrap();
    state.watch_ended(WatchEnd::Failed(FailureClass::BadVersion), SECOND, 1);
    let delay = state.stream_ended(Unfinished::Unopened(FailureClass::BadVersion), SECOND);
    assert_eq!(delay, Duration::ZERO);
    assert_eq!(state.next(), stream(None));
}

#[test]
fn streams_that_break_twice_before_they_are_complete_are_followed_by_one_list() {
    let mut state = streaming();
    for how in [Unfinished::Closed, Unfinished::Failed(FailureClass::Lost)] {
        assert_eq!(state.next(), stream(None));
        state.stream_ended(how, 60 * SECOND);
    }
    assert_eq!(state.next(), list(None, Paging::First));
    state.page("10", None).unwrap();
    state.watch_ended(WatchEnd::Failed(FailureClass::BadVersion), SECOND, 1);
    assert_eq!(state.next(), stream(Some("10")));
}

#[test]
fn a_quiet_kind_is_watched_for_seconds_and_one_with_changes_for_minutes() {
    let mut state = watching("10");
    let timeout = |state: &mut WatchMachine| {
        let next = state.next();
        state.timeout(&next).as_secs()
    };
    assert!(timeout(&mut state) >= 300);
    state.watch_ended(WatchEnd::Quiet, 10 * SECOND, 0);
    assert_eq!(timeout(&mut state), 9);
    state.advance(&version("11"), false);
    state.watch_ended(WatchEnd::Closed, 9 * SECOND, 1);
    assert_eq!(timeout(&mut state), 9, "a bookmark is no change");
    state.advance(&version("12"), true);
    state.watch_ended(WatchEnd::Closed, 9 * SECOND, 2);
    assert!(timeout(&mut state) >= 300);
}

#[test]
fn after_half_a_minute_without_a_change_the_server_is_asked_where_it_is() {
    let mut state = watching("10");
    for _ in 0..3 {
        state.watch_ended(WatchEnd::Quiet, 10 * SECOND, 0);
        assert!(is_watch(&state.next(), "10"), "first whether it answers");
        state.watch_ended(WatchEnd::Closed, 9 * SECOND, 0);
        assert!(is_watch(&state.next(), "9"), "that may do without");
        state.watch_ended(WatchEnd::Closed, 9 * SECOND, 0);
        assert_eq!(state.next(), NextRequest::Probe);
        assert_eq!(
            state.probed(&version("10")),
            (Probed::Current, Duration::ZERO)
        );
        assert!(is_watch(&state.next(), "10"));
        state.advance(&version("10"), true);
        state.watch_ended(WatchEnd::Closed, 9 * SECOND, 1);
    }
}

#[test]
fn a_server_whose_bookmarks_go_on_is_not_asked_where_it_is() {
    let mut state = watching("10");
    state.watch_ended(WatchEnd::Quiet, 10 * SECOND, 0);
    for number in 11..20 {
        let version = number.to_string();
        state.advance(&self::version(&version), false);
        state.watch_ended(WatchEnd::Closed, 9 * SECOND, 1);
        assert!(is_watch(&state.next(), &version));
    }
    for from in ["19", "18"] {
        assert!(is_watch(&state.next(), from));
        state.watch_ended(WatchEnd::Closed, 9 * SECOND, 1);
    }
    assert_eq!(state.next(), NextRequest::Probe, "they do not go on");
}

#[test]
fn after_a_lost_connection_the_server_is_asked_where_it_is() {
    let mut state = watching("10");
    state.watch_ended(WatchEnd::Failed(FailureClass::Lost), 60 * SECOND, 5);
    assert_eq!(state.next(), NextRequest::Probe);
    state.probe_failed(FailureClass::Lost, Duration::ZERO);
    assert!(is_watch(&state.next(), "10"), "it may serve watches only");
    state.watch_ended(WatchEnd::Closed, 9 * SECOND, 5);
    assert_eq!(state.next(), NextRequest::Probe, "still not known");
}

#[test]
fn a_probe_that_fails_while_watches_work_delays_none() {
    let mut state = watching("10");
    for _ in 0..3 {
        state.watch_ended(WatchEnd::Closed, 9 * SECOND, 0);
    }
    assert_eq!(state.next(), NextRequest::Probe);
    assert_eq!(
        state.probe_failed(FailureClass::Lost, 4 * SECOND),
        Duration::ZERO
    );
    assert!(is_watch(&state.next(), "10"));
}

#[test]
fn only_two_probes_that_agree_move_the_position_back() {
    let mut state = watching("100");
    state.watch_ended(WatchEnd::Failed(FailureClass::Lost), 60 * SECOND, 0);
    assert_eq!(state.probed(&version("50")), (Probed::Suspicious, SECOND));
    assert_eq!(state.next(), NextRequest::Probe);
    assert_eq!(
        state.probed(&version("100")).0,
        Probed::Current,
        "a replica that lagged"
    );
    assert!(is_watch(&state.next(), "100"));
    state.watch_ended(WatchEnd::Failed(FailureClass::Lost), 60 * SECOND, 0);
    assert_eq!(state.probed(&version("50")).0, Probed::Suspicious);
    let from = version("100");
    assert_eq!(
        state.probed(&version("51")),
        (
            Probed::RolledBack {
                from,
                is_news: true
            },
            Duration::ZERO
        )
    );
    assert_eq!(state.next(), list(None, Paging::First));
    state.list_failed(FailureClass::Lost, Duration::ZERO);
    let rolled_back = state.page("52", None).unwrap().unwrap();
    assert!(
        rolled_back.is_rollback,
        "however long it took to get the list"
    );
    state.watch_ended(WatchEnd::Failed(FailureClass::BadVersion), SECOND, 0);
    assert_eq!(
        state.page("53", None).unwrap(),
        listed("53"),
        "and only that one"
    );
}

#[test]
fn a_list_older_than_what_was_seen_is_not_believed() {
    let mut state = watching("100");
    state.watch_ended(WatchEnd::Failed(FailureClass::BadVersion), SECOND, 0);
    let bad = state.page("50", None).unwrap_err();
    assert_eq!(bad.class(), FailureClass::Behind);
    assert_eq!(
        state.list_failed(FailureClass::Behind, Duration::ZERO),
        Duration::ZERO
    );
    assert_eq!(state.next(), list(None, Paging::First), "a quorum read");
    assert!(state.page("50", None).is_err());
    state.list_failed(FailureClass::Behind, Duration::ZERO);
    assert_eq!(state.next(), NextRequest::Probe);
    state.probed(&version("50"));
    assert!(matches!(
        state.probed(&version("50")).0,
        Probed::RolledBack { .. }
    ));
}

#[test]
fn a_server_without_numbers_is_never_thought_to_have_gone_back() {
    let mut state = watching("b");
    state.watch_ended(WatchEnd::Failed(FailureClass::Lost), SECOND, 0);
    assert_eq!(state.probed(&version("a")).0, Probed::Current);
    assert!(is_watch(&state.next(), "b"));
}

#[test]
fn a_bookmark_that_is_older_than_the_cache_makes_the_server_be_asked_where_it_is() {
    let mut state = watching("100");
    assert_eq!(state.advance(&version("90"), false), Order::Known);
    state.watch_ended(WatchEnd::Failed(FailureClass::Behind), 60 * SECOND, 1);
    assert_eq!(state.next(), NextRequest::Probe);
}

#[test]
fn a_list_is_not_older_than_an_object_that_was_asked_for_by_name() {
    let mut state = watching("10");
    state.see(version("20"));
    assert!(
        is_watch(&state.next(), "10"),
        "events up to there may be still to come"
    );
    state.watch_ended(WatchEnd::Failed(FailureClass::BadVersion), SECOND, 0);
    assert_eq!(state.next(), list(Some("20"), Paging::First));
    assert!(state.page("15", None).is_err());
    assert_eq!(state.page("20", None).unwrap(), listed("20"));
}

#[test]
fn a_server_whose_lists_and_probes_count_differently_is_not_probed_for_ever() {
    let mut state = watching("100");
    state.watch_ended(WatchEnd::Failed(FailureClass::Lost), 60 * SECOND, 0);
    state.probed(&version("50"));
    state.probed(&version("50"));
    assert!(state.page("100", None).unwrap().unwrap().is_rollback);
    state.watch_ended(WatchEnd::Failed(FailureClass::Lost), 60 * SECOND, 0);
    state.probed(&version("49"));
    assert_eq!(state.probed(&version("49")).0, Probed::Incomparable);
    for _ in 0..10 {
        assert!(is_watch(&state.next(), "100"), "no list and no probe");
        state.watch_ended(WatchEnd::Failed(FailureClass::Lost), 60 * SECOND, 1);
    }
}

/// Unless it is told to accept it, a cache drops a list that is older than itself, and then every
/// event up to its old version.
#[test]
fn where_versions_cannot_be_compared_an_older_list_is_said_to_go_back() {
    let mut state = watching("100");
    for probed in ["50", "49"] {
        state.watch_ended(WatchEnd::Failed(FailureClass::Lost), 60 * SECOND, 0);
        state.probed(&version(probed));
        if let (Probed::RolledBack { .. }, _) = state.probed(&version(probed)) {
            state.page("100", None).unwrap();
        }
    }
    let mut list = |listed: &str| {
        state.watch_ended(WatchEnd::Failed(FailureClass::Broken), 60 * SECOND, 1);
        let listed = state.page(listed, None).unwrap().unwrap();
        assert!(is_watch(&state.next(), &listed.version.to_string()));
        listed.is_rollback
    };
    assert!(list("90"), "older than what is cached");
    assert!(!list("95"));
    assert!(!list("95"));
}

#[test]
fn a_probe_that_fails_between_two_that_are_behind_proves_nothing() {
    let mut state = watching("100");
    state.watch_ended(WatchEnd::Failed(FailureClass::Lost), 60 * SECOND, 0);
    assert_eq!(state.probed(&version("50")).0, Probed::Suspicious);
    state.probe_failed(FailureClass::Lost, Duration::ZERO);
    state.watch_ended(WatchEnd::Failed(FailureClass::Lost), 60 * SECOND, 0);
    assert_eq!(state.probed(&version("50")).0, Probed::Suspicious);
}
