//! A watch whose events are repeated, late, reordered, garbled or missing: the cache never goes
//! back and keeps nothing stale.

use std::time::Duration;

use anyhow::Result;
use pilothouse_tests::proxy::{
    ANY, Answer, PassedLine, complete_lists, error_event, is_patient, lists, reads, watches,
};
use pilothouse_tests::{FaultOptions, FaultRig, HEALED};
use serde_json::{Value, json};
use tokio::time::Instant;

/// Returns the text to send in place of an event.
type Garble = fn(&Value) -> String;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test]
async fn events_that_come_again_never_move_the_cache_back() -> Result<()> {
    let rig = FaultRig::start().await?;
    rig.web().await?;
    rig.readdress("a", "10.1.1.1").await?;
    rig.delete_pod("b").await?;
    rig.is_right_within(HEALED).await?;
    // The events of both pods before the changes, and of `b` before it was deleted.
    let mut old = rig.proxy.lines(watches("pods"));
    old.retain(PassedLine::is_change);
    assert!(old.len() >= 6, "{old:?}");
    let dropped = async || {
        let name = "pilothouse_stale_changes_total";
        rig.host().metric(name, "kind=\"Pod\"").await
    };
    let before = dropped().await?;
    rig.proxy.forget();
    for old in &old {
        assert_eq!(rig.proxy.inject(watches("pods"), &old.text), 1);
    }
    // When the host knows of a later change, it has read them all.
    rig.pod("c", "web", "10.1.0.3").await?;
    rig.is_right_within(HEALED).await?;
    assert!(!rig.was_published("10.1.0.1") && !rig.was_published("10.1.0.2"));
    let dropped = dropped().await? - before;
    assert!(dropped >= 6.0, "{dropped} of {old:?}");
    let asked = rig.proxy.seen(reads("pods"));
    assert!(asked.is_empty(), "the watch is the same: {asked:?}");
    Ok(())
}

#[tokio::test]
async fn events_of_two_objects_in_the_wrong_order_are_both_known() -> Result<()> {
    let rig = FaultRig::start().await?;
    rig.web().await?;
    let reversed = rig.proxy.on(watches("pods")).reverse_each(2);
    rig.readdress("a", "10.1.1.1").await?;
    rig.readdress("b", "10.1.1.2").await?;
    rig.is_right_within(HEALED).await?;
    let of_two = reversed.hits();
    assert!(of_two >= 1);
    // Two events of one object: the newer counts.
    rig.readdress("a", "10.1.2.1").await?;
    rig.readdress("a", "10.1.2.2").await?;
    rig.is_right_within(HEALED).await?;
    assert!(reversed.hits() > of_two);
    rig.stays_right_for(seconds(1)).await
}

#[tokio::test]
async fn an_old_list_never_moves_the_cache_back() -> Result<()> {
    let mut rig = FaultRig::without_host(FaultOptions::default()).await?;
    // The test replays lists, so the host must not get its lists as streams of events.
    let no_streams = || watches(ANY).streamed_lists(true);
    rig.proxy.on(no_streams()).answer(Answer::status(422));
    rig.start_host().await?;
    rig.web().await?;
    // A relist, as the first list was empty.
    rig.proxy.forget();
    assert_eq!(rig.proxy.inject(watches("pods"), &error_event(410)), 1);
    rig.proxy.until_seen(lists("pods"), 1, HEALED).await?;
    rig.proxy.until_open(watches("pods"), 1, HEALED).await?;
    rig.is_right_within(HEALED).await?;
    let old = rig.proxy.answers(lists("pods")).pop().expect("a list");
    assert!(old.body.contains("10.1.0.2"), "{}", old.body);

    rig.readdress("a", "10.1.1.1").await?;
    rig.delete_pod("b").await?;
    rig.is_right_within(HEALED).await?;
    // Only once: a server that repeats an old state has really gone back.
    let again = rig.proxy.on(complete_lists("pods")).times(1).answer(old);
    rig.proxy.inject(watches("pods"), &error_event(500));
    rig.stays_right_for(seconds(4)).await?;
    assert_eq!(again.hits(), 1);
    rig.proxy.heal().await;
    rig.proxy.on(no_streams()).answer(Answer::status(422));
    rig.pod("c", "web", "10.1.0.3").await?;
    rig.is_right_within(HEALED).await
}

#[tokio::test]
async fn an_old_stream_of_everything_never_moves_the_cache_back() -> Result<()> {
    let rig = FaultRig::start().await?;
    rig.web().await?;
    rig.proxy.forget();
    rig.proxy.inject(watches("pods"), &error_event(410));
    rig.proxy
        .until_seen(complete_lists("pods"), 1, HEALED)
        .await?;
    rig.proxy.until_open(watches("pods"), 1, HEALED).await?;
    rig.is_right_within(HEALED).await?;
    let is_streaming = !rig
        .proxy
        .seen(watches("pods").streamed_lists(true))
        .is_empty();
    assert!(is_streaming, "the host streams its lists");
    let lines = rig.proxy.lines(watches("pods").streamed_lists(true));
    let mut old = Answer::json(200, &Value::Null);
    old.body = lines
        .iter()
        .map(|line| format!("{}\n", line.text))
        .collect();
    assert!(old.body.contains("initial-events-end"), "{}", old.body);

    rig.readdress("a", "10.1.1.1").await?;
    rig.delete_pod("b").await?;
    rig.is_right_within(HEALED).await?;
    let again = rig
        .proxy
        .on(watches("pods").streamed_lists(true))
        .times(1)
        .answer(old);
    rig.proxy.inject(watches("pods"), &error_event(500));
    rig.stays_right_for(seconds(3)).await?;
    assert_eq!(again.hits(), 1);
    rig.proxy.heal().await;
    rig.pod("c", "web", "10.1.0.3").await?;
    rig.is_right_within(HEALED).await
}

#[tokio::test]
async fn bookmarks_are_a_comfort_and_no_need() -> Result<()> {
    let mut rig = FaultRig::without_host(FaultOptions::default()).await?;
    let stripped = rig.proxy.on(watches(ANY)).strip_bookmarks();
    rig.start_host().await?;
    rig.web().await?;
    assert!(stripped.hits() > 0, "the host streams its lists");
    rig.proxy.reset(watches(ANY));
    rig.readdress("a", "10.1.1.1").await?;
    rig.is_right_within(HEALED).await
}

#[tokio::test]
async fn a_frame_that_cannot_be_read_leaves_nothing_stale() -> Result<()> {
    let rig = FaultRig::start().await?;
    rig.web().await?;
    let frames: [(&str, Garble); 4] = [
        ("broken JSON", |event| {
            let text = event.to_string();
            text[..text.len() / 2].to_owned()
        }),
        ("a wrong type", |event| {
            let mut event = event.clone();
            event["object"]["metadata"] = 17.into();
            event.to_string()
        }),
        ("an unknown event", |event| {
            let mut event = event.clone();
            event["type"] = "RENAMED".into();
            event.to_string()
        }),
        ("no object", |event| {
            json!({"type": event["type"]}).to_string()
        }),
    ];
    for (number, (what, garble)) in frames.into_iter().enumerate() {
        rig.proxy.forget();
        let garbled = rig.proxy.on(watches("pods")).times(1);
        let garbled = garbled.replace_events(move |event| Some(garble(event)));
        rig.readdress("a", &format!("10.1.1.{number}")).await?;
        rig.is_right_within(HEALED)
            .await
            .map_err(|error| error.context(what))?;
        assert_eq!(garbled.hits(), 1);
    }
    Ok(())
}

#[tokio::test]
async fn a_deletion_that_cannot_be_read_leaves_no_object_behind() -> Result<()> {
    let rig = FaultRig::start().await?;
    rig.web().await?;
    let garbled = rig
        .proxy
        .on(watches("pods"))
        .times(1)
        .replace_events(|event| {
            let garbled = json!({"type": "DELETED", "object": {"metadata": 17}});
            (event["type"] == "DELETED").then(|| garbled.to_string())
        });
    rig.delete_pod("b").await?;
    rig.is_right_within(HEALED).await?;
    assert_eq!(garbled.hits(), 1);
    Ok(())
}

#[tokio::test]
async fn an_object_that_can_never_be_read_keeps_no_other_from_being_known() -> Result<()> {
    let rig = FaultRig::start().await?;
    rig.web().await?;
    rig.proxy.forget();
    let started = Instant::now();
    let garbled = rig.proxy.on(watches("pods")).replace_events(|event| {
        let is_bad = event["object"]["metadata"]["name"] == "bad";
        is_bad.then(|| json!({"type": event["type"], "object": {"metadata": 17}}).to_string())
    });
    rig.pod("bad", "nothing", "10.1.9.1").await?;
    for number in 0..5 {
        rig.readdress("bad", &format!("10.1.9.{number}")).await?;
        rig.readdress("a", &format!("10.1.1.{number}")).await?;
        rig.is_right_within(HEALED).await?;
    }
    assert!(garbled.hits() >= 5, "{}", garbled.hits());
    let seen = rig.proxy.seen(reads("pods"));
    assert!(is_patient(&seen, started.elapsed()), "{seen:?}");
    Ok(())
}
