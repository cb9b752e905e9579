//! Endless or meaningless answers cost a bounded number of requests, and do not look like a
//! rollback.

use std::time::Duration;

use serde_json::{Value, json};

use crate::testing::{ScriptedAnswer, WirePart, json as answer, stream, text};
use crate::testing::{bookmark, event, lists, marker, page, play, play_streaming, play_with, pod};
use crate::watch::WatchSettings;
use crate::watch::session::MAX_EMPTY_PAGES;

/// A page without objects. Each number gives another token.
fn empty_page(number: u32) -> ScriptedAnswer {
    page("10", &[], &format!("token-{number}"))
}

fn with_version(mut object: Value, version: &str) -> Value {
    object["metadata"]["resourceVersion"] = json!(version);
    object
}

/// Far above all other versions: one that fits into 64 bits, and one that does not.
const HUGE: [&str; 2] = [
    "1000000000000000100",
    "1606938044258990275541962092341162602522202993782792835301376",
];

#[tokio::test(start_paused = true)]
async fn empty_pages_without_end_are_given_up_for_a_list_without_pages() {
    let script = (0..MAX_EMPTY_PAGES).map(empty_page);
    let script = script.chain([page("12", &[pod("a", "3")], "")]);
    let played = play(script).await;
    let requests = MAX_EMPTY_PAGES as usize;
    assert_eq!(played.requests[requests], "GET /api/v1/pods", "no limit");
    assert_eq!(played.requests[requests + 1], "watch 12");
    assert!(!played.has_error(), "{:?}", played.record);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_ends_a_list_is_asked_more_and_more_rarely() {
    let played = play((0..20 * MAX_EMPTY_PAGES).map(empty_page)).await;
    assert!(played.has_error());
    let rests = played.gaps().into_iter().filter(|gap| !gap.is_zero());
    let rests: Vec<Duration> = rests.collect();
    assert!(rests.len() >= 10, "{rests:?}");
    assert!(
        *rests.last().unwrap() >= Duration::from_secs(4),
        "{rests:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn pages_that_come_again_under_new_tokens_end_the_list() {
    let pages = (0..30u32).map(|number| {
        let name = format!("p{}", number % 3);
        page("10", &[pod(&name, "3")], &format!("token-{number}"))
    });
    let played = play(pages).await;
    assert!(played.has_error());
    // Three pages, the first page again, and then a new start.
    assert_eq!(played.requests[4], "limit=500");
    assert!(
        played.gaps()[3] >= Duration::from_secs(1),
        "{:?}",
        played.gaps()
    );
    assert!(!played.record.iter().any(|line| line.starts_with("replace")));
}

#[tokio::test(start_paused = true)]
async fn pages_may_be_empty_in_between() {
    let pages = (0..3 * MAX_EMPTY_PAGES).map(|number| {
        if number % 20 == 19 {
            page(
                "10",
                &[pod(&number.to_string(), "3")],
                &format!("token-{number}"),
            )
        } else {
            empty_page(number)
        }
    });
    let played = play(pages.chain([page("10", &[], "")])).await;
    assert_eq!(played.requests.last().unwrap(), "watch 10");
}

#[tokio::test(start_paused = true)]
async fn probes_that_say_nothing_are_made_more_and_more_rarely() {
    let settings = WatchSettings {
        base_delay: Duration::ZERO,
        ..lists()
    };
    let long = "x".repeat(2 * 1024 * 1024);
    let senseless =
        format!(r#"{{"items":[{{"a":"{long}"}}],"metadata":{{"resourceVersion":"10"}}}}"#);
    let broken = || stream(&[bookmark("10")], Some(WirePart::Break));
    // A probe that arrives where the script expects a watch gets the watch's answer, and vice
    // versa; then the numbers below differ.
    let mut script = vec![page("10", &[], "")];
    let mut probes = Vec::new();
    for skipped in [0, 1, 3, 7] {
        for _ in 0..skipped {
            script.push(broken());
        }
        script.push(broken());
        probes.push(script.len());
        script.push(text(200, &senseless));
    }
    let played = play_with(settings, script).await;
    let asked = played.requests.iter().enumerate();
    let asked = asked.filter(|(_, request)| *request == "probe");
    let asked: Vec<usize> = asked.map(|(number, _)| number).collect();
    assert_eq!(asked, probes, "{:?}", played.requests);
}

#[tokio::test(start_paused = true)]
async fn an_event_far_from_all_before_leads_to_a_list_and_to_no_alarm() {
    for huge in HUGE {
        for event in [event("MODIFIED", &pod("a", huge)), bookmark(huge)] {
            let script = [
                page("10", &[pod("a", "3")], ""),
                stream(&[event], Some(WirePart::Hang)),
                page("12", &[pod("a", "11")], ""),
            ];
            let played = play(script).await;
            assert_eq!(played.requests[3], "watch 12", "{:?}", played.requests);
            let has = |what: &str| played.record.iter().any(|line| line.contains(what));
            assert!(!has("rolled back") && !has("upsert"), "{:?}", played.record);
            assert!(has("resourceVersion far from all before"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_far_newer_than_its_list_is_asked_for_by_name() {
    for huge in HUGE {
        let weird = pod("a", huge);
        let listed = [
            page("12", std::slice::from_ref(&weird), ""),
            answer(&with_version(weird.clone(), "11")),
        ];
        let played = play(listed).await;
        assert_eq!(played.requests[1], "GET /api/v1/namespaces/n/pods/a");
        assert!(played.record.contains(&"replace [n/a@11] at 12".to_owned()));
        let streamed = [
            stream(
                &[event("ADDED", &weird), marker("12")],
                Some(WirePart::Hang),
            ),
            answer(&weird),
        ];
        let played = play_streaming(streamed).await;
        assert_eq!(played.requests[1], "GET /api/v1/namespaces/n/pods/a");
        let replaced = "replace [n/a?] at 12".to_owned();
        assert!(played.record.contains(&replaced), "{:?}", played.record);
    }
}
