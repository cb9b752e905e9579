//! Servers that are silent, slow or rolled back.

use std::time::Duration;

use crate::testing::{ScriptedAnswer, WirePart, status, stream};
use crate::testing::{bookmark, event, lists, marker, page, play, play_streaming, play_with, pod};
use crate::watch::WatchSettings;

const SECOND: Duration = Duration::from_secs(1);

/// A watch of a quiet kind, as a server answers it: a bookmark two seconds before the end.
fn quiet(version: &str) -> ScriptedAnswer {
    let parts = vec![
        WirePart::Pause(7 * SECOND),
        WirePart::Data(format!("{}\n", bookmark(version))),
        WirePart::Pause(2 * SECOND),
    ];
    ScriptedAnswer::Http {
        code: 200,
        headers: vec![],
        parts,
    }
}

/// A watch of nine seconds, of a server at which nothing is written.
fn silent() -> ScriptedAnswer {
    ScriptedAnswer::Http {
        code: 200,
        headers: vec![],
        parts: vec![WirePart::Pause(9 * SECOND)],
    }
}

fn hang() -> ScriptedAnswer {
    stream(&[], Some(WirePart::Hang))
}

#[tokio::test(start_paused = true)]
async fn a_quiet_kind_costs_a_watch_each_nine_seconds_and_its_position_stays_fresh() {
    let script = [
        stream(&[marker("10")], Some(WirePart::Hang)),
        quiet("20"),
        quiet("30"),
        quiet("40"),
        silent(),
        quiet("40"),
        silent(),
    ];
    let played = play_streaming(script).await;
    assert_eq!(
        played.requests,
        [
            "stream", "watch 10", "watch 20", "watch 30", "watch 40", "watch 39", "watch 40",
            "watch 39"
        ],
        "from right before the position when the bookmarks stay where they are"
    );
    let gaps = [&[10 * SECOND], &[9 * SECOND; 6][..]].concat();
    assert_eq!(played.gaps(), gaps);
    assert_eq!(
        played.record[3..6],
        ["bookmark 20", "bookmark 30", "bookmark 40"],
        "nothing of it is an incident"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_brings_nothing_more_is_opened_again_and_must_end_in_time() {
    let script = [
        page("10", &[], ""),
        stream(&[event("ADDED", &pod("a", "12"))], Some(WirePart::Hang)),
        hang(),
    ];
    let played = play(script).await;
    assert_eq!(
        played.requests,
        ["limit=500", "watch 10", "watch 12", "probe"]
    );
    assert_eq!(played.gaps()[1], 10 * SECOND);
    assert_eq!(
        played.record[3..],
        [
            "upsert n/a@12",
            "! cannot watch pods: the server has not said anything for 10 s"
        ],
        "the first is no incident; the second was asked for nine seconds"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_slow_with_watches_and_probes_gets_to_answer_both() {
    let late = |answer| ScriptedAnswer::Late(6 * SECOND, Box::new(answer));
    let script = [
        page("10", &[], ""),
        late(stream(
            &[event("ADDED", &pod("a", "12"))],
            Some(WirePart::Hang),
        )),
        late(probed("12")),
    ];
    let late_watches = (0..20).map(|_| late(stream(&[bookmark("13")], Some(WirePart::Hang))));
    let played = play(script.into_iter().chain(late_watches)).await;
    assert_eq!(
        played.requests[..4],
        ["limit=500", "watch 10", "probe", "watch 12"]
    );
    assert!(
        played.record.contains(&"upsert n/a@12".to_owned()),
        "{:?}",
        played.record
    );
}

#[tokio::test(start_paused = true)]
async fn watches_that_are_accepted_and_bring_nothing_lead_to_a_list() {
    let script = [
        page("10", &[], ""),
        hang(),
        hang(),
        probed("10"),
        hang(),
        probed("10"),
        hang(),
        page("15", &[pod("a", "14")], ""),
    ];
    let played = play(script).await;
    let requests = [
        "limit=500",
        "watch 10",
        "watch 10",
        "probe",
        "watch 10",
        "probe",
        "watch 10",
        "limit=500&resourceVersion=10&resourceVersionMatch=NotOlderThan",
        "watch 15",
    ];
    assert_eq!(played.requests, requests);
    let error = "! 3 watches of pods in a row have brought nothing; listing anew".to_owned();
    assert!(played.record.contains(&error), "{:?}", played.record);
}

#[tokio::test(start_paused = true)]
async fn watches_that_are_closed_at_once_lead_to_lists_that_become_rare() {
    let closed = |count| (0..count).map(|_| stream(&[], None));
    let script = [page("10", &[], "")].into_iter().chain(closed(3));
    let script = script.chain([page("10", &[], "")]).chain(closed(6));
    let played = play(script).await;
    let is_list = |line: &&String| line.starts_with("limit=500");
    assert_eq!(played.requests.iter().filter(is_list).count(), 3);
    assert!(played.requests[11].starts_with("limit=500"));
    assert!(played.has_error());
    let gaps = &played.gaps()[1..];
    assert!(gaps.iter().all(|gap| *gap <= 5 * SECOND), "{gaps:?}");
}

/// No watch is refused or fails: watches from a future version just end, so that no failure leads
/// to a probe.
#[tokio::test(start_paused = true)]
async fn a_rollback_is_found_out_where_watches_bring_nothing() {
    let closed = || stream(&[], None);
    let too_large = status(504, "Timeout", "Too large resource version");
    let script = [
        page("100", &[], ""),
        closed(),
        closed(),
        closed(),
        too_large,
        page("50", &[], ""),
        probed("50"),
        probed("50"),
        page("50", &[], ""),
    ];
    let played = play(script).await;
    assert!(
        played
            .record
            .contains(&"rolled back from 100 to 50".to_owned()),
        "{:?}",
        played.record
    );
}

/// A frozen server accepts connections and answers nothing.
#[tokio::test(start_paused = true)]
async fn a_server_that_freezes_is_noticed_within_fifteen_seconds_and_asked_again_at_pace() {
    let frozen = std::iter::repeat_n(ScriptedAnswer::Silence, 20);
    let script = [
        page("10", &[], ""),
        stream(&[bookmark("12")], Some(WirePart::Hang)),
    ];
    let played = play(script.into_iter().chain(frozen)).await;
    assert_eq!(played.at[2], 10 * SECOND, "the last word was at the start");
    assert_eq!(
        played.record[4],
        "! cannot watch pods: the server has not said anything for 14 s"
    );
    let gaps = &played.gaps()[2..];
    assert!(
        gaps.iter().all(|gap| (SECOND..=5 * SECOND).contains(gap)),
        "{gaps:?}"
    );
    assert!(
        played.requests[2..]
            .iter()
            .all(|line| line == "watch 12" || line == "probe"),
        "{:?}",
        played.requests
    );
}

#[tokio::test(start_paused = true)]
async fn a_frozen_server_is_noticed_while_everything_is_fetched_too() {
    for script in [
        vec![ScriptedAnswer::Silence],
        vec![hang(), ScriptedAnswer::Silence],
        vec![
            stream(&[event("ADDED", &pod("a", "3"))], Some(WirePart::Hang)),
            ScriptedAnswer::Silence,
        ],
    ] {
        let played = play_with(WatchSettings::default(), script).await;
        let error = played.record.last().unwrap();
        assert!(
            error.ends_with("the server has not said anything for 4 s")
                || error.ends_with("the server has not said anything for 14 s"),
            "{:?}",
            played.record
        );
        assert!(*played.at.last().unwrap() <= 15 * SECOND);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_only_slow_gets_to_answer() {
    let late = |seconds, answer| ScriptedAnswer::Late(seconds * SECOND, Box::new(answer));
    let played = play_with(
        lists(),
        [late(11, page("10", &[], ""))].into_iter().chain([
            ScriptedAnswer::Silence,
            ScriptedAnswer::Silence,
            stream(&[bookmark("12")], None),
        ]),
    )
    .await;
    assert_eq!(
        played.requests,
        [
            "limit=500",
            "limit=500",
            "limit=500",
            "watch 10",
            "watch 12"
        ]
    );
    assert_eq!(played.at[3], 11 * SECOND, "the first one's answer");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_stops_in_the_middle_is_given_up() {
    let half = ScriptedAnswer::Http {
        code: 200,
        headers: vec![],
        parts: vec![
            WirePart::Data(r#"{"kind":"PodList","items":["#.into()),
            WirePart::Hang,
        ],
    };
    let played = play([half, page("10", &[], "")]).await;
    assert_eq!(played.requests, ["limit=500", "limit=500", "watch 10"]);
    assert!(played.at[1] <= 11 * SECOND);
    assert!(played.has_error());
}

/// An answer that never ends, a byte each eight seconds, and after so many bytes no more.
fn trickle(bytes: usize) -> ScriptedAnswer {
    let part = || [WirePart::Pause(8 * SECOND), WirePart::Data(" ".into())];
    let parts = (0..bytes).flat_map(|_| part()).chain([WirePart::Hang]);
    ScriptedAnswer::Http {
        code: 200,
        headers: vec![],
        parts: parts.collect(),
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_too_slowly_is_given_up_and_not_called_silence() {
    for (bytes, error) in [
        (100, "the answer was not complete after 60 s"),
        (2, "the server has not said anything for 10 s"),
    ] {
        let played = play([trickle(bytes), page("10", &[], "")]).await;
        assert_eq!(played.requests, ["limit=500", "limit=500", "watch 10"]);
        assert_eq!(played.record[1], format!("! cannot list pods: {error}"));
    }
}

fn probed(version: &str) -> ScriptedAnswer {
    page(version, &[], "")
}

/// A watch from a future version is accepted and stays silent (kubernetes/kubernetes#107457).
#[tokio::test(start_paused = true)]
async fn a_server_that_has_gone_back_in_time_is_found_out_though_its_watches_work() {
    let script = [
        stream(
            &[event("ADDED", &pod("a", "90")), marker("100")],
            Some(WirePart::Hang),
        ),
        silent(),
        silent(),
        probed("50"),
        probed("51"),
        stream(&[event("ADDED", &pod("a", "40")), marker("52")], None),
    ];
    let played = play_streaming(script).await;
    assert_eq!(
        played.requests,
        [
            "stream",
            "watch 100",
            "watch 99",
            "probe",
            "probe",
            "stream",
            "watch 52"
        ]
    );
    assert!(played.at[5] <= 30 * SECOND, "{:?}", played.at);
    assert_eq!(
        played.record[3..],
        [
            "rolled back from 100 to 51",
            "! the API server has been rolled back from resourceVersion 100 to 51; listing all pods anew",
            "replace [n/a@40] at 52, rolled back",
            "Watching"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn after_a_lost_connection_a_rollback_is_found_out_at_once() {
    let script = [
        stream(&[marker("100")], Some(WirePart::Break)),
        probed("50"),
        probed("50"),
        stream(&[marker("50")], None),
    ];
    let played = play_streaming(script).await;
    assert_eq!(
        played.requests,
        ["stream", "probe", "probe", "stream", "watch 50"]
    );
    assert!(played.at[3] < 3 * SECOND, "{:?}", played.at);
}

#[tokio::test(start_paused = true)]
async fn one_answer_from_the_past_is_not_believed() {
    let script = [
        stream(&[marker("100")], Some(WirePart::Break)),
        probed("50"),
        probed("101"),
    ];
    let played = play_streaming(script).await;
    assert_eq!(played.requests, ["stream", "probe", "probe", "watch 100"]);
    assert!(
        !played
            .record
            .iter()
            .any(|line| line.contains("rolled back"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_or_a_list_from_the_past_makes_the_server_be_asked() {
    let script = [
        stream(&[marker("100"), bookmark("90")], None),
        probed("101"),
        status(410, "Expired", "too old"),
        stream(&[marker("50")], None),
        stream(&[marker("50")], None),
        probed("50"),
        probed("50"),
        stream(&[marker("50")], None),
    ];
    let played = play_streaming(script).await;
    assert_eq!(
        played.requests,
        [
            "stream",
            "probe",
            "watch 100",
            "stream 100",
            "stream",
            "probe",
            "probe",
            "stream",
            "watch 50"
        ]
    );
    let replaced = |line: &&String| line.starts_with("replace");
    let replaced: Vec<&String> = played.record.iter().filter(replaced).collect();
    assert_eq!(
        replaced,
        ["replace [] at 100", "replace [] at 50, rolled back"]
    );
}

/// Row 32 of the fault matrix: many list-watches do not start at one instant.
#[tokio::test(start_paused = true)]
async fn starts_are_spread() {
    let settings = WatchSettings {
        start_spread: 500 * SECOND,
        ..WatchSettings::default()
    };
    let began = tokio::time::Instant::now();
    play_with(settings, []).await;
    let waited = began.elapsed();
    assert!(
        waited > Duration::ZERO && waited < 500 * SECOND,
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_has_no_room_is_dropped_and_fetched_again_after_a_minute() {
    use crate::testing::Cramped;
    for is_streaming in [true, false] {
        let objects = [pod("a", "1"), pod("b", "2")];
        let first = if is_streaming {
            stream(
                &[event("ADDED", &objects[0]), event("ADDED", &objects[1])],
                Some(WirePart::Hang),
            )
        } else {
            page("10", &objects, "t1")
        };
        let settings = WatchSettings {
            is_streaming,
            ..WatchSettings::default()
        };
        let scenario = crate::testing::Scenario::new([first]);
        let informer_key = pilothouse_core::InformerKey::all(crate::testing::pods().kind);
        let detail = pilothouse_core::Detail::Full;
        let list_watch = crate::testing::list_watch(&scenario, informer_key, detail, settings);
        let mut sink = Cramped::default();
        tokio::select! {
            never = list_watch.run(&mut sink) => match never {},
            () = scenario.is_played() => {}
        }
        let error =
            "! the objects of pods take more than the 300 bytes that are left of the caches' limit";
        assert_eq!(sink.record.0, ["Listing", error]);
        assert_eq!(scenario.seen()[1].at, 60 * SECOND);
    }
}

/// Lists two pods, ends the watch with a 410, and lists the same two pods again. By then the sink
/// has no room for them.
async fn relist(is_streaming: bool, is_replacing: bool) -> Vec<String> {
    use crate::testing::{Cramped, list_watch, pods};
    let objects = [pod("a", "1"), pod("b", "2")];
    let everything = |version: &str| {
        if !is_streaming {
            return page(version, &objects, "");
        }
        let mut events: Vec<_> = objects.iter().map(|pod| event("ADDED", pod)).collect();
        events.push(marker(version));
        stream(&events, Some(WirePart::Break))
    };
    let script = if is_streaming {
        vec![
            everything("10"),
            probed("10"),
            status(410, "Expired", "too old"),
            everything("20"),
        ]
    } else {
        let expired = status(410, "Expired", "too old");
        vec![everything("10"), expired, everything("20")]
    };
    let settings = WatchSettings {
        is_streaming,
        ..WatchSettings::default()
    };
    let scenario = crate::testing::Scenario::new(script);
    let informer_key = pilothouse_core::InformerKey::all(pods().kind);
    let detail = pilothouse_core::Detail::Full;
    let list_watch = list_watch(&scenario, informer_key, detail, settings).replacing(is_replacing);
    let mut sink = Cramped {
        has_room_at_first: !is_replacing,
        ..Cramped::default()
    };
    tokio::select! {
        never = list_watch.run(&mut sink) => match never {},
        () = scenario.is_played() => {}
    }
    sink.record.0
}

#[tokio::test(start_paused = true)]
async fn what_is_cached_is_listed_anew_though_the_caches_have_outgrown_their_limit() {
    for is_streaming in [true, false] {
        // The earlier list is the list-watch's own, or that of its predecessor.
        for is_replacing in [false, true] {
            let record = relist(is_streaming, is_replacing).await;
            let lists = record.iter().filter(|line| line.starts_with("replace"));
            let lists: Vec<&String> = lists.collect();
            assert_eq!(
                lists,
                ["replace [n/a@1 n/b@2] at 10", "replace [n/a@1 n/b@2] at 20"],
                "{record:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_watch_that_replaces_another_notices_a_rollback_in_between() {
    use crate::testing::{Record, list_watch, pods};
    let script = [
        page("50", &[], ""),
        page("50", &[], ""),
        probed("50"),
        probed("50"),
        page("50", &[], ""),
    ];
    let scenario = crate::testing::Scenario::new(script);
    let informer_key = pilothouse_core::InformerKey::all(pods().kind);
    let detail = pilothouse_core::Detail::Full;
    let known = pilothouse_core::ResourceVersion::new("100");
    let list_watch =
        list_watch(&scenario, informer_key, detail, lists()).not_older_than(Some(&known));
    let mut record = Record::default();
    tokio::select! {
        never = list_watch.run(&mut record) => match never {},
        () = scenario.is_played() => {}
    }
    assert!(scenario.lines()[0].ends_with("resourceVersion=100&resourceVersionMatch=NotOlderThan"));
    assert!(
        record.0.contains(&"rolled back from 100 to 50".to_owned()),
        "{:?}",
        record.0
    );
    assert!(
        record
            .0
            .contains(&"replace [] at 50, rolled back".to_owned())
    );
}

/// The answer of every server for a kind whose CRD has just been created.
fn initializing() -> ScriptedAnswer {
    status(429, "TooManyRequests", "storage is (re)initializing").with_header("retry-after", "1")
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_about_to_serve_a_new_kind_causes_no_error() {
    for settings in [lists(), WatchSettings::default()] {
        let everything = match settings.is_streaming {
            true => stream(&[marker("10")], None),
            false => page("10", &[], ""),
        };
        let played = play_with(settings, [initializing(), initializing(), everything]).await;
        assert_eq!(played.record[..2], ["Listing", "replace [] at 10"]);
        assert!(!played.has_error(), "{:?}", played.record);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_come_to_serve_a_kind_causes_an_error() {
    let error = "! cannot list pods: storage is (re)initializing";
    let played = play((0..8).map(|_| initializing())).await;
    assert_eq!(
        played.record,
        ["Listing", error],
        "it should be there by now"
    );
    let script = [page("10", &[], ""), status(410, "Expired", "too old")];
    let script = script.into_iter().chain((0..2).map(|_| initializing()));
    let played = play(script).await;
    assert!(
        played.record.contains(&error.to_owned()),
        "it has been served before: {:?}",
        played.record
    );
}

#[tokio::test(start_paused = true)]
async fn a_path_that_is_not_served_any_more_ends_the_list_watch() {
    use crate::testing::{Record, list_watch, pods};
    let gone = || crate::testing::text(404, "404 page not found");
    let script = [page("10", &[], ""), gone(), gone()];
    let scenario = crate::testing::Scenario::new(script);
    let informer_key = pilothouse_core::InformerKey::all(pods().kind);
    let detail = pilothouse_core::Detail::Full;
    let mut list_watch = list_watch(&scenario, informer_key, detail, lists());
    let mut record = Record::default();
    list_watch.run_until_gone(&mut record).await;
    assert_eq!(scenario.lines().len(), 3);
    assert!(record.0.last().unwrap().starts_with('!'), "{:?}", record.0);
}

#[tokio::test(start_paused = true)]
async fn an_object_of_another_scope_ends_the_list_watch_for_the_kind_was_made_anew() {
    use crate::testing::{Record, list_watch, pods};
    let mut lost = pod("a", "12");
    lost["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("namespace");
    let empty = || page("10", &[], "");
    let listed = vec![page("12", std::slice::from_ref(&lost), "")];
    let followed = vec![empty(), stream(&[event("ADDED", &lost)], None)];
    for script in [listed, followed] {
        let length = script.len();
        let scenario = crate::testing::Scenario::new(script);
        let informer_key = pilothouse_core::InformerKey::all(pods().kind);
        let detail = pilothouse_core::Detail::Full;
        let mut list_watch = list_watch(&scenario, informer_key, detail, lists());
        let mut record = Record::default();
        list_watch.run_until_gone(&mut record).await;
        assert_eq!(scenario.lines().len(), length);
        let said = record.0.last().unwrap();
        assert!(said.contains("is not namespaced"), "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn of_a_probe_that_is_answered_with_everything_only_the_front_is_read() {
    let long = "x".repeat(2 * 1024 * 1024);
    let script = [
        stream(&[marker("100")], Some(WirePart::Break)),
        crate::testing::text(
            200,
            &format!(
                r#"{{"kind":"PodList","metadata":{{"resourceVersion":"101"}},"items":[{{"a":"{long}"}}]}}"#
            ),
        ),
    ];
    let played = play_streaming(script).await;
    assert_eq!(played.requests, ["stream", "probe", "watch 100"]);
}
