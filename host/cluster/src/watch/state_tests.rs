use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn state() -> State {
    State::new(Settings::default(), 1)
}

fn version(text: &str) -> ResourceVersion {
    ResourceVersion::new(text)
}

/// A state that has listed up to this version and watches.
fn watching(at: &str) -> State {
    let mut state = state();
    assert_eq!(state.page(at, None).unwrap(), Some(version(at)));
    state
}

fn list(not_older_than: Option<&str>, paging: Paging) -> Next {
    Next::List {
        not_older_than: not_older_than.map(version),
        paging,
    }
}

const TRANSIENT: Verdict = Verdict::Transient { retry_after: None };

#[test]
fn the_first_list_asks_for_the_newest_state_and_every_later_one_for_nothing_older_than_seen() {
    let mut state = state();
    assert_eq!(state.next(), list(None, Paging::First));
    state.page("10", None).unwrap();
    assert!(state.advance(&version("17")));
    state.watch_ended(End::Failed(Verdict::BadVersion), SECOND, 1);
    assert_eq!(state.next(), list(Some("17"), Paging::First));
}

#[test]
fn a_list_that_cannot_reach_the_last_version_asks_for_the_newest_once_and_then_not_any_more() {
    let mut state = watching("10");
    state.watch_ended(End::Failed(Verdict::BadVersion), SECOND, 0);
    assert_eq!(state.list_failed(Verdict::BadVersion), Duration::ZERO);
    assert_eq!(state.next(), list(None, Paging::First));
    state.page("30", None).unwrap();
    state.watch_ended(End::Failed(Verdict::BadVersion), SECOND, 0);
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
    assert_eq!(state.page("11", None).unwrap(), Some(version("10")));
}

#[test]
fn a_token_that_expires_is_followed_by_one_unpaged_list_and_not_by_the_first_page() {
    let mut state = state();
    state.page("10", Some("t1".into())).unwrap();
    assert_eq!(state.list_failed(Verdict::BadVersion), Duration::ZERO);
    assert_eq!(state.next(), list(None, Paging::Whole));
}

#[test]
fn a_page_that_does_not_come_is_asked_for_again_and_an_unreadable_one_starts_the_list_over() {
    let mut state = state();
    state.page("10", Some("t1".into())).unwrap();
    assert!(state.list_failed(TRANSIENT) >= SECOND);
    assert!(matches!(
        state.next(),
        Next::List {
            paging: Paging::After { .. },
            ..
        }
    ));
    assert!(state.list_failed(Verdict::Broken) >= SECOND);
    assert_eq!(state.next(), list(None, Paging::First));
}

#[test]
fn a_list_that_continues_where_it_was_or_has_no_version_is_an_error() {
    let mut state = state();
    state.page("10", Some("t1".into())).unwrap();
    assert!(matches!(
        state.page("10", Some("t1".into())),
        Err(BadPage::Repeats)
    ));
    assert!(matches!(
        State::new(Settings::default(), 1).page("", None),
        Err(BadPage::NoVersion)
    ));
}

#[test]
fn a_watch_asks_for_five_to_ten_minutes() {
    let mut state = watching("10");
    for _ in 0..100 {
        let Next::Watch { timeout, .. } = state.next() else {
            panic!("watches")
        };
        assert!((300..=600).contains(&timeout.as_secs()), "{timeout:?}");
    }
}

#[test]
fn a_watch_that_ends_in_order_is_resumed_at_once_where_it_was() {
    let mut state = watching("10");
    assert!(state.advance(&version("12")));
    assert_eq!(
        state.watch_ended(End::Closed, 300 * SECOND, 1),
        Duration::ZERO
    );
    assert!(matches!(state.next(), Next::Watch { from, .. } if from == version("12")));
}

#[test]
fn a_watch_that_ends_at_once_without_an_event_backs_off() {
    let mut state = watching("10");
    assert!(state.watch_ended(End::Closed, Duration::ZERO, 0) >= SECOND);
    assert!(state.watch_ended(End::Closed, Duration::ZERO, 0) >= 2 * SECOND);
    assert_eq!(
        state.watch_ended(End::Closed, Duration::ZERO, 5),
        SECOND,
        "with events it is only paced"
    );
}

#[test]
fn delays_double_from_one_second_to_at_most_five() {
    let mut state = watching("10");
    let delays: Vec<Duration> = (0..100)
        .map(|_| state.watch_ended(End::Failed(TRANSIENT), Duration::ZERO, 0))
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
    state.watch_ended(End::Failed(TRANSIENT), 60 * SECOND, 0);
    assert!(
        state.watch_ended(End::Closed, Duration::ZERO, 0) < 3 * SECOND,
        "a watch that lasted starts the delays over"
    );
}

#[test]
fn a_server_that_says_when_is_obeyed_within_reason() {
    let mut state = watching("10");
    let mut ended = |seconds| {
        let retry_after = Some(Duration::from_secs(seconds));
        state.watch_ended(
            End::Failed(Verdict::Transient { retry_after }),
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
            let delay = state.watch_ended(End::Failed(Verdict::BadVersion), Duration::ZERO, 0);
            state.page("10", None).unwrap();
            delay
        })
        .collect();
    assert_eq!(delays[0], Duration::ZERO, "the first is routine");
    assert!(
        delays[3..].iter().all(|delay| *delay >= SECOND),
        "{delays:?}"
    );
}

#[test]
fn an_event_older_than_the_cache_is_not_taken() {
    let mut state = watching("30");
    assert!(!state.advance(&version("5")));
    assert!(state.advance(&version("30")));
    assert!(state.advance(&version("31")));
    assert!(matches!(state.next(), Next::Watch { from, .. } if from == version("31")));
}

#[test]
fn versions_that_are_no_numbers_are_taken_as_they_come() {
    let mut state = watching("b");
    assert!(state.advance(&version("a")));
    assert!(matches!(state.next(), Next::Watch { from, .. } if from == version("a")));
}

#[test]
fn an_error_event_leaves_the_position_good_only_if_it_says_so() {
    let event = |code| {
        Verdict::of_event(&Status {
            code,
            ..Status::default()
        })
    };
    assert_eq!(event(429), TRANSIENT);
    assert_eq!(event(410), Verdict::BadVersion);
    assert_eq!(event(500), Verdict::Broken, "an event may be missing");
}
