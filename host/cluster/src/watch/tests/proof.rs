//! Watches of a kind at which nothing happens: each second one begins right before the position, so
//! that the server has something to say by which it shows that it has not gone back in time.

use std::time::Duration;

use serde_json::Value;

use crate::testing::{Played, ScriptedAnswer, WirePart, status, stream};
use crate::testing::{bookmark, error_event, event, page, play, pod};

const SECOND: Duration = Duration::from_secs(1);

/// A watch of nine seconds that brings this at once.
fn nine_seconds(lines: &[Value]) -> ScriptedAnswer {
    let data: String = lines.iter().map(|line| format!("{line}\n")).collect();
    ScriptedAnswer::Http {
        code: 200,
        headers: vec![],
        parts: vec![WirePart::Data(data), WirePart::Pause(9 * SECOND)],
    }
}

fn silent() -> ScriptedAnswer {
    nine_seconds(&[])
}

/// A list at this version, and watches without a change until the next is to prove something.
async fn quiet(version: &str, then: impl IntoIterator<Item = ScriptedAnswer>) -> Played {
    let begin = [
        page(version, &[], ""),
        stream(&[], Some(WirePart::Hang)),
        silent(),
    ];
    play(begin.into_iter().chain(then)).await
}

const BEGUN: [&str; 4] = ["limit=500", "watch 40", "watch 40", "watch 39"];

#[tokio::test(start_paused = true)]
async fn a_bookmark_at_the_position_is_worth_a_probe() {
    let proof = || nine_seconds(&[bookmark("40")]);
    let played = quiet("40", [proof(), silent(), proof(), silent()]).await;
    assert_eq!(played.requests[..4], BEGUN);
    assert_eq!(
        played.requests[4..],
        ["watch 40", "watch 39", "watch 40", "watch 39"]
    );
    let after = played.record.iter().filter(|line| line.starts_with('!'));
    assert_eq!(after.count(), 0, "{:?}", played.record);
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_at_the_position_of_a_watch_from_there_proves_nothing() {
    let echo = || nine_seconds(&[bookmark("40")]);
    let begin = [page("40", &[], ""), stream(&[], Some(WirePart::Hang))];
    let played = play(begin.into_iter().chain([echo(), silent()])).await;
    assert_eq!(played.requests[..4], BEGUN);
    assert_eq!(played.requests[4], "probe");
}

#[tokio::test(start_paused = true)]
async fn what_comes_once_more_is_worth_a_probe_and_no_change() {
    for kind in ["ADDED", "MODIFIED"] {
        let again = nine_seconds(&[event(kind, &pod("a", "40"))]);
        let played = quiet("40", [again, silent(), silent(), page("40", &[], "")]).await;
        assert_eq!(played.requests[..4], BEGUN);
        assert_eq!(played.requests[4..6], ["watch 40", "watch 39"]);
        assert_eq!(played.gaps()[4], 9 * SECOND, "the kind is still quiet");
        let about = |line: &&String| line.contains("n/a") || line.contains("stale");
        assert_eq!(played.record.iter().find(about), None, "{kind}");
    }
}

/// Some aggregated servers send a deletion with the version at which the object was stored.
#[tokio::test(start_paused = true)]
async fn a_deletion_at_the_position_is_taken_though_it_may_be_an_old_one() {
    let gone = nine_seconds(&[event("DELETED", &pod("a", "40"))]);
    let played = quiet("40", [gone, silent()]).await;
    assert!(played.record.contains(&"delete n/a@40".to_owned()));
    assert_eq!(played.requests[4..], ["watch 40", "watch 39"]);
}

#[tokio::test(start_paused = true)]
async fn a_change_that_comes_ends_the_quiet() {
    let news = nine_seconds(&[event("ADDED", &pod("a", "41"))]);
    let played = quiet("40", [news, stream(&[], Some(WirePart::Hang)), silent()]).await;
    assert!(played.record.contains(&"upsert n/a@41".to_owned()));
    assert_eq!(played.requests[4..], ["watch 41", "watch 41", "watch 40"]);
    assert_eq!(played.gaps()[4], 10 * SECOND, "it was a long one");
}

/// A server that has started since the last write says 410; an aggregated one may say anything.
#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_go_back_that_far_is_probed_and_nothing_is_listed() {
    let closed_at_once = ScriptedAnswer::Http {
        code: 200,
        headers: vec![],
        parts: vec![],
    };
    let refusals = [
        status(410, "Expired", "too old resource version: 39 (40)"),
        nine_seconds(&[error_event(410, "Expired")]),
        status(400, "BadRequest", "39 is none of mine"),
        status(500, "InternalError", "39 is none of mine"),
        nine_seconds(&[error_event(500, "InternalError")]),
        closed_at_once,
    ];
    for refused in refusals {
        let probe = || page("40", &[], "");
        let played = quiet(
            "40",
            [
                refused,
                probe(),
                silent(),
                silent(),
                probe(),
                nine_seconds(&[bookmark("45")]),
                silent(),
                silent(),
            ],
        )
        .await;
        assert_eq!(played.requests[..4], BEGUN);
        assert_eq!(
            played.requests[4..],
            [
                "probe", "watch 40", "watch 40", "probe", "watch 40", "watch 45", "watch 44",
                "probe"
            ],
            "until the position moves"
        );
        let failure = played.record.iter().find(|line| line.starts_with('!'));
        assert_eq!(failure, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_only_what_it_was_told_is_probed_and_not_asked_so_again() {
    let echo = nine_seconds(&[bookmark("39")]);
    let probe = || page("40", &[], "");
    let played = quiet("40", [echo, probe(), silent(), silent(), probe()]).await;
    assert_eq!(played.requests[..4], BEGUN);
    assert_eq!(
        played.requests[4..],
        ["probe", "watch 40", "watch 40", "probe", "watch 40"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_version_that_has_none_before_it_is_watched_from_and_probed() {
    for version in ["1", "b"] {
        let played = quiet(version, [silent()]).await;
        let from = format!("watch {version}");
        assert_eq!(played.requests[3..], [&from, "probe"]);
    }
}
