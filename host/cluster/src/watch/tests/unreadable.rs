//! Malformed objects and events: the cache never becomes stale unnoticed.

use serde_json::{Value, json};

use crate::testing::{event, marker, page, play, play_streaming, pod};
use crate::testing::{json as answer, status, stream};

/// A pod whose labels are not strings.
fn bad(name: &str, version: &str) -> Value {
    let mut bad = pod(name, version);
    bad["metadata"]["labels"] = json!({"x": 1});
    bad
}

#[tokio::test(start_paused = true)]
async fn an_event_that_cannot_be_read_is_asked_for_by_name() {
    let events = [
        event("MODIFIED", &bad("a", "12")),
        event("ADDED", &pod("b", "13")),
    ];
    let script = [
        page("10", &[pod("a", "3")], ""),
        stream(&events, None),
        answer(&pod("a", "12")),
    ];
    let played = play(script).await;
    assert_eq!(played.requests[2], "GET /api/v1/namespaces/n/pods/a");
    assert_eq!(played.record[3..], ["read n/a@12", "upsert n/b@13"]);
    assert_eq!(played.requests[3], "watch 13");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_stays_unreadable_is_said_to_be_and_the_others_go_on() {
    let events = [
        event("MODIFIED", &bad("a", "12")),
        event("MODIFIED", &bad("a", "13")),
        event("ADDED", &pod("b", "14")),
        event("MODIFIED", &pod("a", "15")),
        event("MODIFIED", &bad("a", "16")),
    ];
    let script = [
        page("10", &[pod("a", "3")], ""),
        stream(&events, None),
        answer(&bad("a", "12")),
        status(403, "Forbidden", "no"),
    ];
    let played = play(script).await;
    assert_eq!(
        played.requests[2..],
        [
            "GET /api/v1/namespaces/n/pods/a",
            "GET /api/v1/namespaces/n/pods/a",
            "watch 16"
        ],
        "once, and once more after it could be read"
    );
    let what: Vec<&str> = played.record[3..]
        .iter()
        .map(|line| line.split(':').next().unwrap())
        .collect();
    assert_eq!(
        what,
        [
            "unreadable n/a@12",
            "unreadable n/a@13",
            "upsert n/b@14",
            "upsert n/a@15",
            "unreadable n/a@16"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_gone_when_it_is_asked_for_is_a_deletion() {
    let script = [
        page("10", &[pod("a", "3")], ""),
        stream(&[event("MODIFIED", &bad("a", "12"))], None),
        status(404, "NotFound", "pods \"a\" not found"),
    ];
    assert_eq!(play(script).await.record[3..], ["delete n/a@12"]);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_needs_only_a_name() {
    let mut bare = bad("b", "13");
    bare["metadata"]["resourceVersion"] = json!(7);
    let events = [event("DELETED", &bad("a", "12")), event("DELETED", &bare)];
    let script = [
        page("10", &[pod("a", "3"), pod("b", "4")], ""),
        stream(&events, None),
    ];
    assert_eq!(
        play(script).await.record[3..],
        ["delete n/a@12", "delete n/b@"]
    );
}

/// `TestReflectorWatchHandler`. An object of another kind tells nothing about our kind.
#[tokio::test(start_paused = true)]
async fn an_event_of_another_kind_changes_nothing() {
    let mut other = pod("a", "12");
    other["kind"] = "Service".into();
    let script = [
        page("10", &[pod("a", "3")], ""),
        stream(&[event("DELETED", &other)], None),
        answer(&pod("a", "3")),
    ];
    assert_eq!(play(script).await.record[3..], ["read n/a@3"]);
}

#[tokio::test(start_paused = true)]
async fn what_has_no_name_is_an_error_and_leads_to_a_list() {
    for nameless in [
        json!({"metadata": {}}),
        json!({"metadata": {"name": 3, "namespace": "n"}}),
        json!({"metadata": {"name": "a", "namespace": ["n"]}}),
        json!({"metadata": {"name": "a"}}),
        json!([1]),
    ] {
        for event_type in ["ADDED", "DELETED"] {
            let events = [
                event(event_type, &nameless),
                event("ADDED", &pod("b", "13")),
            ];
            let script = [
                page("10", &[pod("a", "3")], ""),
                stream(&events, None),
                page("13", &[pod("a", "12")], ""),
            ];
            let played = play(script).await;
            assert_eq!(
                played.requests[2],
                "limit=500&resourceVersion=10&resourceVersionMatch=NotOlderThan"
            );
            assert!(
                played.record[3].starts_with("! pods \""),
                "{:?}",
                played.record
            );
            assert_eq!(
                played.record[4], "replace [n/a@12] at 13",
                "what came after it is not taken over it"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_says_which_objects_cannot_be_read() {
    let items = [bad("a", "3"), pod("b", "4"), bad("c", "5"), bad("d", "6")];
    let readable = answer(&pod("a", "3"));
    let unreadable = || answer(&bad("c", "5"));
    let gone = || status(404, "NotFound", "no");
    let listed = [
        page("10", &items, ""),
        readable.clone(),
        unreadable(),
        gone(),
    ];
    let played = play(listed).await;
    assert_eq!(played.record[1], "replace [n/a@3 n/b@4 n/c?] at 10");
    let mut events: Vec<Value> = items.iter().map(|item| event("ADDED", item)).collect();
    events.push(marker("10"));
    let streamed = [stream(&events, None), readable, unreadable(), gone()];
    let played = play_streaming(streamed).await;
    assert_eq!(played.record[1], "replace [n/a@3 n/b@4 n/c?] at 10");
}

#[tokio::test(start_paused = true)]
async fn a_list_of_unreadable_objects_does_not_ask_for_all_of_them() {
    let items: Vec<Value> = (0..500).map(|n| bad(&format!("p{n}"), "3")).collect();
    let refused = std::iter::repeat_n(status(403, "Forbidden", "no"), 110);
    let played = play([page("10", &items, "")].into_iter().chain(refused)).await;
    assert_eq!(
        played.requests.len(),
        112,
        "a hundred with the list, ten more before the watch"
    );
    assert_eq!(played.requests[111], "watch 10");
}

#[tokio::test(start_paused = true)]
async fn a_list_with_an_object_without_name_replaces_nothing() {
    let script = [
        page("10", &[pod("a", "3"), json!({"metadata": {}})], ""),
        page("11", &[pod("a", "3")], ""),
    ];
    let played = play(script).await;
    assert!(
        played.record[1].starts_with("! pods \"{"),
        "{:?}",
        played.record
    );
    assert_eq!(played.record[2..], ["replace [n/a@3] at 11"]);
    assert!(played.at[1].as_secs() >= 1);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_asked_for_now_is_asked_for_again() {
    let script = [
        page("10", &[pod("a", "3"), pod("b", "4")], ""),
        stream(
            &[
                event("MODIFIED", &bad("a", "12")),
                event("MODIFIED", &pod("b", "13")),
            ],
            None,
        ),
        status(503, "ServiceUnavailable", "not now"),
        status(503, "ServiceUnavailable", "not yet"),
        stream(&[], None),
        answer(&pod("a", "12")),
    ];
    let played = play(script).await;
    assert!(played.record[3].starts_with("unreadable n/a@12"));
    assert_eq!(played.record[4..], ["upsert n/b@13", "read n/a@12"]);
    assert_eq!(
        played.requests[2..],
        [
            "GET /api/v1/namespaces/n/pods/a",
            "GET /api/v1/namespaces/n/pods/a",
            "watch 13",
            "GET /api/v1/namespaces/n/pods/a",
            "watch 13"
        ]
    );
}

/// The server cannot convert the first ten objects; the others were only garbled on the way.
#[tokio::test(start_paused = true)]
async fn an_object_that_is_never_answered_keeps_no_other_from_its_answer() {
    let names: Vec<String> = (0..12).map(|number| format!("p{number:02}")).collect();
    let items: Vec<Value> = names.iter().map(|name| bad(name, "3")).collect();
    let refused = || status(503, "ServiceUnavailable", "not now");
    let script = std::iter::once(page("10", &items, ""))
        .chain(std::iter::repeat_with(refused).take(12))
        // Before the first watch, the first ten are fetched; before the second, the other two, and
        // then the first ones again.
        .chain(std::iter::repeat_with(refused).take(10))
        .chain([stream(&[], None)])
        .chain([answer(&pod("p10", "4")), answer(&pod("p11", "5"))]);
    let played = play(script).await;
    let reads: Vec<&String> = played
        .record
        .iter()
        .filter(|line| line.starts_with("read"))
        .collect();
    assert_eq!(reads, ["read n/p10@4", "read n/p11@5"]);
    assert_eq!(
        played.requests.last().unwrap(),
        "GET /api/v1/namespaces/n/pods/p00",
        "the first ones' turn again"
    );
}

/// The fetches use up the whole time allowed, each time. An object that is not fetched has not had
/// its turn.
#[tokio::test(start_paused = true)]
async fn objects_about_which_the_server_is_silent_keep_no_other_from_its_answer() {
    use crate::testing::ScriptedAnswer;
    let items = ["a", "b", "c"].map(|name| bad(name, "3"));
    let silent = || [ScriptedAnswer::Silence, ScriptedAnswer::Silence];
    let script = [page("10", &items, "")].into_iter().chain(silent());
    // Before the second watch, the first two are fetched again; before the third, the last one.
    let script = script
        .chain([stream(&[], None)])
        .chain(silent())
        .chain([stream(&[], None), answer(&pod("c", "4"))]);
    let played = play(script).await;
    assert!(
        played.record.contains(&"read n/c@4".to_owned()),
        "{:?} {:?}",
        played.record,
        played.requests
    );
}

#[tokio::test(start_paused = true)]
async fn an_object_that_was_hopeless_and_is_made_anew_is_asked_for() {
    let expired = || status(410, "Expired", "too old");
    let script = [
        page("10", &[bad("a", "3")], ""),
        answer(&bad("a", "3")),
        expired(),
        page("20", &[], ""),
        stream(&[event("ADDED", &bad("a", "21"))], None),
        answer(&pod("a", "21")),
    ];
    let played = play(script).await;
    assert!(
        played.record.contains(&"read n/a@21".to_owned()),
        "{:?} {:?}",
        played.record,
        played.requests
    );
}

#[tokio::test(start_paused = true)]
async fn objects_that_nobody_answers_for_do_not_hold_up_the_others_for_long() {
    use crate::testing::ScriptedAnswer;
    let bad: Vec<Value> = (0..50)
        .map(|number| bad(&format!("p{number}"), "3"))
        .collect();
    let silent = std::iter::repeat_n(ScriptedAnswer::Silence, 2);
    let script = [page("10", &bad, "")].into_iter().chain(silent);
    let played = play(script).await;
    let gets = played
        .requests
        .iter()
        .filter(|line| line.starts_with("GET "));
    assert!(gets.count() <= 3, "{:?}", played.requests);
    assert!(
        played.at.iter().all(|at| at.as_secs() <= 5),
        "{:?}",
        played.at
    );
}

#[tokio::test(start_paused = true)]
async fn an_expired_token_of_ours_says_nothing_about_an_object() {
    let script = [
        page("10", &[], ""),
        stream(&[event("ADDED", &bad("a", "12"))], None),
        status(401, "Unauthorized", "who are you"),
        answer(&pod("a", "12")),
    ];
    let played = play(script).await;
    assert!(
        played.record.contains(&"read n/a@12".to_owned()),
        "{:?}",
        played.record
    );
}

/// The cache drops what it has already, so a replay does not make the object readable.
#[tokio::test(start_paused = true)]
async fn an_object_without_an_answer_is_asked_for_again_though_its_event_is_replayed() {
    let fails = || status(500, "InternalError", "by chance");
    let script = [
        page("12", &[bad("a", "12")], ""),
        fails(),
        fails(),
        stream(&[event("ADDED", &pod("a", "12"))], None),
        answer(&pod("a", "12")),
    ];
    let played = play(script).await;
    assert!(
        played.record.contains(&"read n/a@12".to_owned()),
        "{:?} {:?}",
        played.record,
        played.requests
    );
}
