mod alarms;
mod bounds;
mod cut;
mod faults;
mod limits;
mod liveness;
mod namespaces;
mod probes;
mod proof;
mod streams;
mod unreadable;

use serde_json::json;

use super::*;
use pilothouse_core::{Detail, LabelSelector, Namespaces, Requirement};

use crate::testing::{
    Record, Scenario, ScriptedAnswer, Seen, WirePart, bookmark, error_event, event, json as answer,
    list_watch, lists, page, play, pod, status, stream, text,
};

#[tokio::test(start_paused = true)]
async fn a_kind_is_listed_in_pages_and_then_watched_from_the_lists_version() {
    let played = play([
        page("10", &[pod("a", "3")], "t/1"),
        page("11", &[pod("b", "4")], ""),
        stream(
            &[
                event("ADDED", &pod("c", "12")),
                event("MODIFIED", &pod("a", "13")),
                event("DELETED", &pod("b", "14")),
                bookmark("20"),
            ],
            None,
        ),
    ])
    .await;
    assert_eq!(
        played.requests,
        [
            "limit=500",
            "limit=500&continue=t%2F1",
            "watch 10",
            "watch 20"
        ]
    );
    assert_eq!(
        played.record,
        [
            "Listing",
            "replace [n/a@3 n/b@4] at 10",
            "Watching",
            "upsert n/c@12",
            "upsert n/a@13",
            "delete n/b@14",
            "bookmark 20"
        ]
    );
}

/// The requests of one informer (`TestFilteredDynamicSharedInformerFactory`): each contains the
/// selectors.
async fn requests_of(
    informer_key: InformerKey,
    extent: impl Into<Extent>,
    settings: WatchSettings,
) -> Vec<Seen> {
    let script = if settings.is_streaming {
        vec![]
    } else {
        vec![page("10", &[], "t"), page("10", &[], "")]
    };
    let scenario = Scenario::new(script);
    let list_watch = list_watch(&scenario, informer_key, extent, settings);
    let mut record = Record::default();
    tokio::select! {
        never = list_watch.run(&mut record) => match never {},
        () = scenario.is_played() => {}
    }
    scenario.seen()
}

#[tokio::test(start_paused = true)]
async fn the_requests_are_those_of_a_reflector() {
    let informer_key = InformerKey::all(Kind::new("example.com", "v1", "Pod"));
    let seen = requests_of(informer_key.clone(), Detail::Full, lists()).await;
    assert_eq!(seen[0].line, "GET /apis/example.com/v1/pods?limit=500");
    let (watch, seconds) = seen[2].line.rsplit_once('=').unwrap();
    assert_eq!(
        watch,
        "GET /apis/example.com/v1/pods?watch=true&allowWatchBookmarks=true&resourceVersion=10&timeoutSeconds"
    );
    assert!((300..=600).contains(&seconds.parse::<u64>().unwrap()));
    let seen = requests_of(informer_key, Detail::Full, WatchSettings::default()).await;
    assert_eq!(
        seen[0].line,
        "GET /apis/example.com/v1/pods?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=600"
    );
}

#[tokio::test(start_paused = true)]
async fn namespace_and_selectors_are_in_every_request() {
    let informer_key = InformerKey {
        namespace: Some("n".into()),
        labels: LabelSelector {
            requirements: vec![Requirement::OneOf("a".into(), vec!["b".into(), "c".into()])],
        },
        fields: Some("spec.nodeName=x".into()),
        ..InformerKey::all(Kind::new("", "v1", "Pod"))
    };
    let streams = requests_of(informer_key.clone(), Detail::Full, WatchSettings::default());
    let mut seen = streams.await;
    seen.extend(requests_of(informer_key, Detail::Full, lists()).await);
    assert_eq!(seen.len(), 4, "a stream, two pages, a watch");
    for Seen { line, accept, .. } in seen {
        assert!(line.starts_with("GET /api/v1/namespaces/n/pods?"), "{line}");
        let selectors = "&labelSelector=a%20in%20%28b%2Cc%29&fieldSelector=spec.nodeName%3Dx";
        assert!(line.contains(selectors), "{line}");
        assert_eq!(accept, "application/json");
    }
}

#[tokio::test(start_paused = true)]
async fn metadata_alone_is_asked_for_as_such() {
    let informer_key = InformerKey::all(Kind::new("", "v1", "Pod"));
    let seen = requests_of(informer_key, Detail::Metadata, lists()).await;
    let accepts: Vec<&str> = seen.iter().map(|seen| &*seen.accept).collect();
    let list = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json";
    let watch = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json";
    assert_eq!(accepts, [list, list, watch]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_is_resumed_without_a_list() {
    let closed = |version: &str| {
        let mut parts = stream(&[event("ADDED", &pod("a", version))], None);
        if let ScriptedAnswer::Http { parts, .. } = &mut parts {
            parts.push(WirePart::Pause(Duration::from_secs(400)));
        }
        parts
    };
    let played = play([page("10", &[], ""), closed("11"), closed("12")]).await;
    // The pauses exceed the quiet limit. The second watch should have ended after nine seconds, so
    // its silence is a failure and a probe follows.
    assert_eq!(
        played.requests,
        ["limit=500", "watch 10", "watch 11", "probe"]
    );
    assert!(
        !played.record[..5].iter().any(|line| line.starts_with('!')),
        "{:?}",
        played.record
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_stays_quiet_is_opened_again() {
    let played = play([
        page("10", &[], ""),
        stream(&[bookmark("12")], Some(WirePart::Hang)),
    ])
    .await;
    assert_eq!(played.requests, ["limit=500", "watch 10", "watch 12"]);
    assert_eq!(played.at[2], WatchSettings::default().quiet_limit);
    assert_eq!(
        played.record,
        ["Listing", "replace [] at 10", "Watching", "bookmark 12"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_not_answered_is_an_error_and_opened_again() {
    let played = play([
        page("10", &[], ""),
        ScriptedAnswer::Silence,
        page("10", &[], ""),
    ])
    .await;
    assert_eq!(
        played.requests,
        ["limit=500", "watch 10", "probe", "watch 10"]
    );
    assert_eq!(
        played.record[2],
        "! cannot watch pods: the server has not said anything for 4 s"
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_not_answered_is_an_error_and_asked_for_again() {
    let played = play([ScriptedAnswer::Silence]).await;
    assert_eq!(played.requests, ["limit=500", "limit=500"]);
    assert_eq!(
        played.record,
        [
            "Listing",
            "! cannot list pods: the server has not said anything for 4 s"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_version_that_expired_before_the_watch_began_leads_to_a_list_that_is_not_older() {
    let played = play([
        page("10", &[], ""),
        status(410, "Expired", "too old resource version"),
        page("30", &[], ""),
    ])
    .await;
    assert_eq!(
        played.requests,
        [
            "limit=500",
            "watch 10",
            "limit=500&resourceVersion=10&resourceVersionMatch=NotOlderThan",
            "watch 30"
        ]
    );
    assert!(
        !played.record.iter().any(|line| line.starts_with('!')),
        "{:?}",
        played.record
    );
}

#[tokio::test(start_paused = true)]
async fn a_version_that_expires_during_the_watch_leads_to_a_list_that_is_not_older() {
    let script = [
        page("10", &[], ""),
        stream(&[bookmark("15"), error_event(410, "Expired")], None),
        page("30", &[pod("a", "22")], ""),
    ];
    let played = play(script).await;
    assert_eq!(
        played.requests,
        [
            "limit=500",
            "watch 10",
            "limit=500&resourceVersion=15&resourceVersionMatch=NotOlderThan",
            "watch 30"
        ]
    );
    assert_eq!(played.record[4..], ["Listing", "replace [n/a@22] at 30"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_at_a_version_that_expired_is_followed_at_once_by_one_of_the_newest() {
    let expired = || status(410, "Expired", "too old resource version");
    let played = play([
        page("10", &[], ""),
        expired(),
        expired(),
        page("30", &[], ""),
    ])
    .await;
    assert_eq!(
        played.requests[2..],
        [
            "limit=500&resourceVersion=10&resourceVersionMatch=NotOlderThan",
            "limit=500",
            "watch 30"
        ]
    );
    assert_eq!(played.at[3], Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_list_at_a_version_the_server_has_not_reached_is_followed_by_one_of_the_newest() {
    let too_large = status(504, "Timeout", "Too large resource version: 10, current: 7");
    let played = play([
        page("10", &[], ""),
        status(410, "Gone", ""),
        too_large,
        page("11", &[], ""),
    ])
    .await;
    assert_eq!(played.requests[3..], ["limit=500", "watch 11"]);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_expired_is_followed_by_a_list_without_pages() {
    let script = [
        page("10", &[pod("a", "1")], "t1"),
        status(410, "Expired", "The provided continue parameter is too old"),
        page("12", &[pod("a", "1"), pod("b", "2")], ""),
    ];
    let played = play(script).await;
    assert_eq!(
        played.requests,
        ["limit=500", "limit=500&continue=t1", "", "watch 12"].map(|line| if line.is_empty() {
            "GET /api/v1/pods"
        } else {
            line
        })
    );
    assert_eq!(
        played.record[1], "replace [n/a@1 n/b@2] at 12",
        "nothing is counted twice"
    );
}

/// A URI has at most 64 KB.
#[tokio::test(start_paused = true)]
async fn a_token_a_version_or_a_name_that_fits_no_request_ends_nothing() {
    let long = "9".repeat(70_000);
    let mut unreadable = pod(&long, "11");
    unreadable["metadata"]["labels"] = json!({"x": 1});
    let script = [
        page("10", &[], &long),
        page(&long, &[], ""),
        page("10", &[], ""),
        stream(&[event("ADDED", &unreadable)], None),
    ];
    let played = play(script).await;
    assert_eq!(
        played.requests,
        [
            "limit=500",
            "limit=500",
            "limit=500",
            "watch 10",
            "watch 11"
        ]
    );
    let error = "! cannot list pods: the server's own words make no request: uri too long";
    assert_eq!(played.record[1], error);
}

#[tokio::test(start_paused = true)]
async fn a_list_without_pages_that_fails_twice_is_not_insisted_on() {
    let expired = || status(410, "Expired", "The provided continue parameter is too old");
    let busy = || status(429, "TooManyRequests", "busy");
    let script = [
        page("10", &[], "t1"),
        expired(),
        busy(),
        ScriptedAnswer::Refused,
        page("12", &[], ""),
    ];
    let played = play(script).await;
    assert_eq!(
        played.requests[1..],
        [
            "limit=500&continue=t1",
            "GET /api/v1/pods",
            "GET /api/v1/pods",
            "limit=500",
            "watch 12"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn tokens_that_always_expire_do_not_make_a_loop() {
    let script = (0..20).map(|number| {
        if number % 2 == 0 {
            page("10", &[], "t1")
        } else {
            status(410, "Expired", "too old")
        }
    });
    let played = play(script).await;
    assert!(
        *played.at.last().unwrap() > Duration::from_secs(20),
        "{:?}",
        played.at
    );
}

#[tokio::test(start_paused = true)]
async fn a_table_is_not_a_list_and_garbage_is_not_an_event() {
    let table = answer(&json!({"kind": "Table", "metadata": {"resourceVersion": "1"}, "rows": []}));
    let garbage = ScriptedAnswer::Http {
        code: 200,
        headers: vec![],
        parts: vec![WirePart::Data("not json\n".into())],
    };
    let played = play([table, page("10", &[], ""), garbage, text(200, "<html>")]).await;
    assert_eq!(
        played.record[1],
        "! the list of pods cannot be read: it is a Table"
    );
    assert!(
        played.record[4].starts_with("! an event of pods cannot be read:"),
        "{:?}",
        played.record
    );
    assert!(
        played.record[5].starts_with("! the list of pods cannot be read:"),
        "{:?}",
        played.record
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_may_come_in_pieces_with_its_members_in_any_order() {
    let whole = format!("{{\"object\":{},\"type\":\"ADDED\"}}\r\n\n", pod("é", "11"));
    let parts = whole.bytes().collect::<Vec<u8>>();
    let cut = whole.find('é').unwrap();
    // One cut within the line, and one before a blank line.
    let pieces = [
        &parts[..cut],
        &parts[cut..parts.len() - 1],
        &parts[parts.len() - 1..],
    ];
    let parts = pieces
        .map(|piece| WirePart::Data(String::from_utf8(piece.to_vec()).unwrap()))
        .to_vec();
    let played = play([
        page("10", &[], ""),
        ScriptedAnswer::Http {
            code: 200,
            headers: vec![],
            parts,
        },
    ])
    .await;
    assert_eq!(played.record[3..], ["upsert n/é@11"]);
}

#[tokio::test(start_paused = true)]
async fn a_line_without_end_is_an_error() {
    let long = WirePart::Data(" ".repeat(9 * 1024 * 1024));
    let played = play([
        page("10", &[], ""),
        ScriptedAnswer::Http {
            code: 200,
            headers: vec![],
            parts: vec![long, WirePart::Hang],
        },
    ])
    .await;
    assert_eq!(
        played.record[3],
        "! the watch of pods broke: an event is longer than 8388608 bytes"
    );
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_within_an_event_is_resumed_before_it() {
    let half = WirePart::Data(r#"{"type":"ADDED","object":{"metadata":{"na"#.into());
    let parts = vec![
        WirePart::Data(format!("{}\n", event("ADDED", &pod("a", "11")))),
        half,
        WirePart::Break,
    ];
    let played = play([
        page("10", &[], ""),
        ScriptedAnswer::Http {
            code: 200,
            headers: vec![],
            parts,
        },
        page("11", &[], ""),
    ])
    .await;
    assert_eq!(
        played.requests,
        ["limit=500", "watch 10", "probe", "watch 11"]
    );
    assert_eq!(
        played.record[4],
        "! the watch of pods broke: connection reset by peer"
    );
}

#[tokio::test(start_paused = true)]
async fn an_older_event_does_not_take_the_cache_back_and_raises_nothing_that_is_gone() {
    let script = [
        page("10", &[pod("b", "9")], ""),
        stream(
            &[
                event("ADDED", &pod("a", "30")),
                event("DELETED", &pod("b", "31")),
                event("MODIFIED", &pod("b", "9")),
                event("ADDED", &pod("a", "30")),
            ],
            None,
        ),
    ];
    let played = play(script).await;
    assert_eq!(
        played.record[3..],
        ["upsert n/a@30", "delete n/b@31", "stale 9", "stale 30"]
    );
    assert_eq!(played.requests[2], "watch 31");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_comes_late_for_the_first_time_leads_to_a_list() {
    let late = [
        event("ADDED", &pod("a", "30")),
        event("ADDED", &pod("b", "12")),
    ];
    let played = play([page("10", &[], ""), stream(&late, None)]).await;
    assert_eq!(
        played.record[3..],
        [
            "upsert n/a@30",
            "stale 12",
            "! an event of pods came out of order: 12"
        ]
    );
    assert_eq!(
        played.requests[2],
        "limit=500&resourceVersion=30&resourceVersionMatch=NotOlderThan"
    );
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_asked_for_the_same_watch_again_when_it_says() {
    let busy = status(429, "TooManyRequests", "too many").with_header("retry-after", "7");
    let played = play([
        page("10", &[], ""),
        busy,
        stream(&[error_event(429, "TooManyRequests")], None),
    ])
    .await;
    assert_eq!(
        played.requests,
        ["limit=500", "watch 10", "watch 10", "watch 10"]
    );
    assert_eq!(played.at[2], Duration::from_secs(7));
    assert!(played.at[3] > Duration::from_secs(8));
}

#[tokio::test(start_paused = true)]
async fn an_internal_error_within_a_watch_leads_to_a_list() {
    let played = play([
        page("10", &[], ""),
        stream(&[error_event(500, "InternalError")], None),
    ])
    .await;
    assert_eq!(
        played.requests[2],
        "limit=500&resourceVersion=10&resourceVersionMatch=NotOlderThan"
    );
    assert_eq!(
        played.record[3],
        "! the watch of pods ended: it is InternalError"
    );
}

#[tokio::test(start_paused = true)]
async fn a_host_that_may_not_list_says_so() {
    let played = play([status(
        403,
        "Forbidden",
        "pods is forbidden: User \"x\" cannot list resource \"pods\"",
    )])
    .await;
    assert_eq!(
        played.record[1],
        "! the host may not list pods: pods is forbidden: User \"x\" cannot list resource \"pods\""
    );
}

#[tokio::test(start_paused = true)]
async fn a_host_that_may_list_but_not_watch_does_not_poll_by_lists() {
    let forbidden = || status(403, "Forbidden", "User \"x\" cannot watch");
    let played = play([page("10", &[], ""), forbidden(), forbidden()]).await;
    assert_eq!(
        played.requests,
        ["limit=500", "watch 10", "watch 10", "watch 10"]
    );
    assert_eq!(
        played.record[2..],
        ["! the host may not watch pods: User \"x\" cannot watch"]
    );
}

#[tokio::test(start_paused = true)]
async fn during_an_outage_a_kind_is_asked_for_at_most_once_a_second_and_at_least_every_five() {
    let outage = std::iter::repeat_n(ScriptedAnswer::Refused, 30);
    let played = play([page("10", &[pod("a", "3")], "")].into_iter().chain(outage)).await;
    let gaps = &played.gaps()[1..];
    assert!(
        gaps.iter()
            .all(|gap| (Duration::from_secs(1)..=Duration::from_secs(5)).contains(gap)),
        "{gaps:?}"
    );
    assert!(
        played.requests[1..]
            .iter()
            .all(|line| line == "watch 10" || line == "probe"),
        "the position is kept"
    );
    assert_eq!(
        played.record[2..],
        ["! cannot watch pods: Connection refused (os error 111)"],
        "said once"
    );
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_the_error_stays_until_something_works() {
    let script = [
        ScriptedAnswer::Refused,
        ScriptedAnswer::Refused,
        page("10", &[], ""),
        stream(&[bookmark("11")], None),
    ];
    let played = play(script).await;
    assert_eq!(
        played.record,
        [
            "Listing",
            "! cannot list pods: Connection refused (os error 111)",
            "replace [] at 10",
            "Watching",
            "bookmark 11"
        ]
    );
}

/// The host runs each list-watch in a task of its own.
#[test]
fn a_list_watch_can_be_spawned() {
    fn is_send(_: impl Send) {}
    let _ = |list_watch: ListWatch, record: &mut Record| is_send(list_watch.run(record));
}
