//! Initial objects over the watch (KEP-3157): client-go's `reflector_watchlist_test.go`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::testing::{ScriptedAnswer, WirePart, status, stream, text};
use crate::testing::{
    bookmark, error_event, event, lists, marker, page, play_streaming, play_with, pod,
};
use crate::watch::WatchSettings;

fn added(name: &str, version: &str) -> Value {
    event("ADDED", &pod(name, version))
}

/// These lines, with a pause of `seconds` before each.
fn slow(lines: &[Value], seconds: u64) -> ScriptedAnswer {
    let pause = WirePart::Pause(Duration::from_secs(seconds));
    let line = |line: &Value| [pause.clone(), WirePart::Data(format!("{line}\n"))];
    ScriptedAnswer::Http {
        code: 200,
        headers: vec![],
        parts: lines
            .iter()
            .flat_map(line)
            .chain([WirePart::Hang])
            .collect(),
    }
}

/// `TestWatchList` ("synced after receiving a bookmark"), `TestWatchListResourceVersion`.
#[tokio::test(start_paused = true)]
async fn initial_objects_are_stored_at_the_marker_and_the_same_connection_goes_on() {
    let lines = [
        added("b", "5"),
        added("a", "3"),
        marker("10"),
        added("c", "12"),
        event("DELETED", &pod("a", "13")),
        bookmark("20"),
    ];
    let played = play_streaming([stream(&lines, None)]).await;
    assert_eq!(played.requests, ["stream", "watch 20"]);
    assert_eq!(
        played.record,
        [
            "Listing",
            "replace [n/a@3 n/b@5] at 10",
            "Watching",
            "upsert n/c@12",
            "delete n/a@13",
            "bookmark 20"
        ]
    );
}

/// `TestWatchList` ("Updates and Deletes … during streaming"). A replayed event does not bring back
/// a deleted object.
#[tokio::test(start_paused = true)]
async fn changes_before_the_marker_are_applied_to_what_has_come_and_older_ones_are_not() {
    let lines = [
        added("a", "3"),
        added("b", "4"),
        event("MODIFIED", &pod("a", "7")),
        event("DELETED", &pod("b", "8")),
        event("MODIFIED", &pod("b", "6")),
        added("a", "3"),
        marker("10"),
    ];
    let played = play_streaming([stream(&lines, None)]).await;
    assert_eq!(played.record[1], "replace [n/a@7] at 10");
}

/// Some aggregated servers send the deleted object with the version it was last stored at.
#[tokio::test(start_paused = true)]
async fn a_deletion_of_the_newest_version_is_taken_and_a_replay_of_it_is_not() {
    let lines = [
        marker("10"),
        added("a", "12"),
        added("a", "12"),
        event("DELETED", &pod("a", "12")),
    ];
    let played = play_streaming([stream(&lines, None)]).await;
    assert_eq!(
        played.record[3..],
        ["upsert n/a@12", "stale 12", "delete n/a@12"]
    );
}

/// `TestWatchList` ("stopping a watcher before sync"). After two such streams a list is tried,
/// because its pages need not all arrive over one connection.
#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_before_its_marker_is_discarded_and_opened_anew() {
    let half = || stream(&[added("a", "3")], None);
    let whole = stream(&[added("b", "4"), marker("10")], None);
    let played = play_streaming([half(), whole]).await;
    assert_eq!(played.requests[..2], ["stream", "stream"]);
    assert_eq!(
        played.record[1..3],
        [
            "! the stream of pods ended before all objects had come",
            "replace [n/b@4] at 10"
        ]
    );
    let broken = stream(&[added("a", "3")], Some(WirePart::Break));
    let played = play_streaming([half(), broken, page("10", &[], "")]).await;
    assert_eq!(
        played.requests,
        ["stream", "stream", "limit=500", "watch 10"]
    );
}

/// `TestWatchList` ("retries 429"), and refused connections.
#[tokio::test(start_paused = true)]
async fn a_busy_or_absent_server_is_asked_for_the_stream_again() {
    let busy = status(429, "TooManyRequests", "later").with_header("retry-after", "3");
    let later = stream(&[error_event(429, "TooManyRequests")], None);
    let played = play_streaming([busy, ScriptedAnswer::Refused, later]).await;
    assert_eq!(played.requests, ["stream"; 4]);
    assert_eq!(played.at[1], Duration::from_secs(3));
}

/// `TestWatchList` ("can fall back…", "any other error … forces fallback"): the fallback is for
/// this attempt only, after every error except those above.
#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_stream_is_asked_for_a_list_at_once() {
    for (code, reason) in [
        (400, "BadRequest"),
        (403, "Forbidden"),
        (422, "Invalid"),
        (500, "InternalError"),
    ] {
        let refused = status(code, reason, "no sendInitialEvents");
        let expired = status(410, "Expired", "too old");
        let played = play_streaming([refused, page("10", &[], ""), expired]).await;
        assert_eq!(
            played.requests,
            ["stream", "limit=500", "watch 10", "stream 10"],
            "{code}"
        );
        assert_eq!(played.at[1], Duration::ZERO);
        assert!(!played.has_error(), "{:?}", played.record);
    }
}

/// `TestWatchList`: versions that are expired or too large.
#[tokio::test(start_paused = true)]
async fn a_stream_from_a_version_that_is_not_to_be_had_is_asked_for_the_newest() {
    let expired = || status(410, "Expired", "too old");
    let too_large = status(504, "Timeout", "Too large resource version: 10, current: 7");
    for refusal in [
        expired(),
        too_large,
        stream(&[error_event(410, "Expired")], None),
    ] {
        let first = stream(&[marker("10"), error_event(410, "Expired")], None);
        let played = play_streaming([first, refusal, stream(&[marker("30")], None)]).await;
        assert_eq!(
            played.requests,
            ["stream", "stream 10", "stream", "watch 30"]
        );
        assert!(!played.has_error(), "{:?}", played.record);
    }
}

/// `TestInitialEventsEndBookmarkTicker` only warns.
#[tokio::test(start_paused = true)]
async fn a_stream_whose_marker_does_not_come_is_replaced_by_a_list() {
    let quiet = stream(&[added("a", "3")], Some(WirePart::Hang));
    let played = play_streaming([quiet, page("10", &[pod("a", "3")], "")]).await;
    assert_eq!(played.requests, ["stream", "limit=500", "watch 10"]);
    assert_eq!(played.at[1], Duration::from_secs(10));
    assert!(!played.has_error(), "{:?}", played.record);
}

#[tokio::test(start_paused = true)]
async fn a_marker_is_not_waited_for_while_nothing_but_news_comes() {
    let bookmarks: Vec<Value> = (11..40).map(|n| bookmark(&n.to_string())).collect();
    let updates: Vec<Value> = (11..40).map(|n| added("a", &n.to_string())).collect();
    for news in [bookmarks, updates] {
        let played = play_streaming([slow(&news, 2), page("50", &[], "")]).await;
        assert_eq!(played.requests, ["stream", "limit=500", "watch 50"]);
        assert!(played.at[1] < Duration::from_secs(16), "{:?}", played.at);
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_stream_that_gets_on_is_not_cut() {
    let mut lines: Vec<Value> = (1..=100)
        .map(|n| added(&format!("p{n}"), &n.to_string()))
        .collect();
    lines.push(marker("200"));
    let played = play_streaming([slow(&lines, 5)]).await;
    assert_eq!(played.requests, ["stream", "watch 200"]);
    assert!(played.at[1] > Duration::from_secs(500));
}

/// `TestNewReflectorWithDisablementWatchList`.
#[tokio::test(start_paused = true)]
async fn a_client_may_be_told_never_to_stream() {
    let played = play_with(lists(), [page("10", &[], "")]).await;
    assert_eq!(played.requests, ["limit=500", "watch 10"]);
    assert!(WatchSettings::default().is_streaming);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_cannot_be_read_is_an_error_and_replaces_nothing() {
    let nameless = event("ADDED", &json!({"metadata": {}}));
    let garbage = text(200, "not json\n");
    for broken in [
        stream(&[added("a", "3"), nameless], Some(WirePart::Hang)),
        garbage,
    ] {
        let played = play_streaming([broken, page("10", &[], "")]).await;
        assert_eq!(played.requests, ["stream", "limit=500", "watch 10"]);
        assert!(played.record[1].starts_with("! "), "{:?}", played.record);
        assert_eq!(played.record[2], "replace [] at 10");
        assert!(played.at[1] >= Duration::from_secs(1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_replayed_stream_is_not_believed() {
    let old = || stream(&[added("gone", "3"), marker("10")], None);
    let first = stream(&[marker("30"), error_event(410, "Expired")], None);
    let newest = stream(&[marker("31")], None);
    let played = play_streaming([first, old(), newest]).await;
    assert_eq!(
        played.requests,
        ["stream", "stream 30", "stream", "watch 31"]
    );
    assert_eq!(
        played.record[3..],
        ["Listing", "replace [] at 31", "Watching"]
    );
}
