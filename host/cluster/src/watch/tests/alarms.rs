//! A server was rolled back and has come further since: a list-watch that has noticed it tells one
//! that has not.

use std::time::Duration;

use pilothouse_core::{Detail, InformerKey};

use crate::testing::{Record, bookmark, list_watch, lists, marker, page, pod, pods};
use crate::testing::{Scenario, ScriptedAnswer, WirePart, stream};
use crate::watch::{Alarm, ProbeAnswers, WatchSettings};

async fn play(
    script: Vec<ScriptedAnswer>,
    settings: WatchSettings,
    alarm: &Alarm,
) -> (Vec<String>, Vec<String>) {
    let scenario = Scenario::new(script);
    let informer_key = InformerKey::all(pods().kind);
    let list_watch = list_watch(&scenario, informer_key, Detail::Full, settings)
        .sharing(alarm, &ProbeAnswers::default());
    let mut record = Record::default();
    tokio::select! {
        never = list_watch.run(&mut record) => match never {},
        () = scenario.is_played() => {}
    }
    (scenario.lines(), record.0)
}

/// The answers to a list-watch that is at 100, breaks, and finds the server at 50 twice.
fn finds_out() -> Vec<ScriptedAnswer> {
    vec![
        page("100", &[], ""),
        stream(&[], Some(WirePart::Break)),
        page("50", &[], ""),
        page("50", &[], ""),
        page("50", &[], ""),
    ]
}

#[tokio::test(start_paused = true)]
async fn who_could_not_find_out_any_more_lists_everything_too() {
    let alarm = Alarm::default();
    let told = vec![
        page("20", &[pod("lost", "15")], ""),
        stream(&[], Some(WirePart::Hang)),
        // By now the server has come further.
        page("51", &[], ""),
        page("51", &[], ""),
    ];
    let settings = WatchSettings {
        quiet_limit: Duration::from_secs(3600),
        ..lists()
    };
    let (found, (requests, record)) = tokio::join!(
        play(finds_out(), lists(), &alarm),
        play(told, settings, &alarm)
    );
    assert!(found.1.contains(&"rolled back from 100 to 50".to_owned()));
    assert!(requests[2].ends_with("limit=1"), "{requests:?}");
    let last = record.iter().rfind(|line| line.starts_with("replace"));
    assert_eq!(last.unwrap(), "replace [] at 51, rolled back", "{record:?}");
    let alarms = record.iter().filter(|line| line.starts_with("rolled back"));
    assert_eq!(alarms.count(), 0, "one alarm is enough");
}

#[tokio::test(start_paused = true)]
async fn two_that_find_out_one_after_the_other_list_once_each() {
    let alarm = Alarm::default();
    let mut second = finds_out();
    second[1] = stream(&[], Some(WirePart::Pause(Duration::from_millis(300))));
    if let ScriptedAnswer::Http { parts, .. } = &mut second[1] {
        parts.push(WirePart::Break);
    }
    let (first, second) = tokio::join!(
        play(finds_out(), lists(), &alarm),
        play(second, lists(), &alarm)
    );
    for (requests, record) in [first, second] {
        assert_eq!(requests.len(), 6, "{requests:?}");
        let last = record.iter().rfind(|line| line.starts_with("replace"));
        assert_eq!(last.unwrap(), "replace [] at 50, rolled back", "{record:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_begins_after_the_alarm_is_not_alarmed() {
    let alarm = Alarm::default();
    play(finds_out(), lists(), &alarm).await;
    let script = vec![stream(
        &[marker("60"), bookmark("61")],
        Some(WirePart::Hang),
    )];
    let calm = play(script, WatchSettings::default(), &alarm);
    let calm = tokio::time::timeout(Duration::from_secs(5), calm).await;
    assert!(calm.is_err(), "its watch is left alone");
}
