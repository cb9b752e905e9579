//! LISTs that are never answered, are cut short or expire between pages, and many LISTs at once.

use std::time::Duration;

use anyhow::Result;
use http::Method;
use pilothouse_tests::proxy::{
    ANY, Answer, Seen, all, busiest_second, complete_lists, is_patient, lists, reads, watches,
};
use pilothouse_tests::{FaultOptions, FaultRig, HEALED};
use tokio::time::sleep;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Sets up a Service with five pods, and a server that lists two pods a page and streams no lists.
/// No host is started yet.
async fn in_pages() -> Result<FaultRig> {
    in_pages_with(FaultOptions::default()).await
}

async fn in_pages_with(options: FaultOptions) -> Result<FaultRig> {
    let rig = FaultRig::without_host(options).await?;
    rig.service("web").await?;
    for number in 1..=5 {
        let ip = format!("10.1.0.{number}");
        rig.pod(&format!("p{number}"), "web", &ip).await?;
    }
    let streams = watches(ANY).streamed_lists(true);
    rig.proxy.on(streams).answer(Answer::status(422));
    rig.proxy.on(lists("pods")).pages_of(2);
    Ok(rig)
}

#[tokio::test]
async fn a_list_without_answer_blocks_no_other_kind() -> Result<()> {
    let mut rig = FaultRig::without_host(FaultOptions::default()).await?;
    let held = rig.proxy.on(complete_lists("pods")).hold();
    rig.launch_host().await?;
    rig.proxy
        .until_seen(complete_lists("pods"), 1, HEALED)
        .await?;
    for resource in ["services", "endpoints"] {
        rig.proxy.until_open(watches(resource), 1, HEALED).await?;
    }
    assert_eq!(rig.host().get("/readyz").await?.0, 503);
    assert!(held.hits() > 0);
    held.lift();
    rig.web().await
}

#[tokio::test]
#[ignore = "takes minutes; make test-slow"]
async fn a_list_that_is_never_answered_is_given_up() -> Result<()> {
    let mut rig = in_pages().await?;
    let first = rig
        .proxy
        .on(lists("pods").later_pages(false))
        .times(1)
        .hold();
    let later = rig
        .proxy
        .on(lists("pods").later_pages(true))
        .times(1)
        .hold();
    rig.launch_host().await?;
    rig.is_right_within(seconds(180)).await?;
    assert_eq!((first.hits(), later.hits()), (1, 1));
    Ok(())
}

#[tokio::test]
async fn a_list_comes_in_pages_and_is_known_as_a_whole() -> Result<()> {
    let mut rig = in_pages().await?;
    rig.start_host().await?;
    rig.is_right_within(HEALED).await?;
    assert_eq!(rig.proxy.seen(lists("pods").later_pages(true)).len(), 2);
    Ok(())
}

#[tokio::test]
async fn each_page_waits_for_the_hosts_limit_and_is_counted_as_a_request() -> Result<()> {
    let mut rig = in_pages_with(FaultOptions {
        arguments: &["--kube-api-qps=500"],
        ..FaultOptions::default()
    })
    .await?;
    rig.start_host().await?;
    rig.is_right_within(HEALED).await?;
    let pages = rig.proxy.seen(lists("pods")).len();
    assert!(pages >= 3, "{pages}");
    let counts = [
        "rest_client_rate_limiter_duration_seconds_count",
        "rest_client_request_duration_seconds_count",
        "rest_client_response_size_bytes_count",
    ];
    for name in counts {
        let is_counted = |seen: &Seen| seen.method == Method::GET && !seen.is_watch();
        let mut both = (0.0, 0);
        for _ in 0..100 {
            let seen = rig.proxy.seen(all());
            let counted = rig.host().metric(name, "verb=\"GET\"").await?;
            both = (counted, seen.iter().filter(|seen| is_counted(seen)).count());
            if both.0.to_string() == both.1.to_string() {
                break;
            }
            sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(both.0.to_string(), both.1.to_string(), "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn a_page_that_has_always_expired_is_replaced_by_a_list_without_pages() -> Result<()> {
    let mut rig = in_pages().await?;
    let expired = rig
        .proxy
        .on(lists("pods").later_pages(true))
        .answer(Answer::status(410));
    rig.start_host().await?;
    rig.is_right_within(HEALED).await?;
    let asked = rig.proxy.seen(lists("pods"));
    assert!(expired.hits() >= 1 && asked.len() <= 4, "{asked:?}");
    let unpaged = asked
        .iter()
        .filter(|seen| seen.parameter("limit").is_none());
    assert!(unpaged.count() >= 1, "{asked:?}");
    Ok(())
}

#[tokio::test]
async fn a_list_that_is_cut_short_is_asked_for_again() -> Result<()> {
    let mut rig = in_pages().await?;
    let first = rig
        .proxy
        .on(lists("pods").later_pages(false))
        .times(1)
        .truncate(900);
    let later = rig
        .proxy
        .on(lists("pods").later_pages(true))
        .times(1)
        .truncate(90);
    let not_json = Answer {
        status: 200,
        headers: vec![],
        body: "{\"items\": [".into(),
    };
    let garbled = rig.proxy.on(lists("services")).times(1).answer(not_json);
    rig.start_host().await?;
    rig.is_right_within(HEALED).await?;
    assert_eq!((first.hits(), later.hits(), garbled.hits()), (1, 1, 1));
    Ok(())
}

#[tokio::test]
async fn a_streamed_list_without_end_is_replaced_by_a_list() -> Result<()> {
    let mut rig = FaultRig::without_host(FaultOptions::default()).await?;
    let endless = rig.proxy.on(watches(ANY)).strip_end_of_initial_events();
    rig.start_host().await?;
    rig.web().await?;
    assert!(endless.hits() > 0, "the host streams its lists");
    assert!(!rig.proxy.seen(lists("pods")).is_empty());
    Ok(())
}

#[tokio::test]
async fn many_plugins_that_start_at_once_list_each_kind_once() -> Result<()> {
    let mut rig = FaultRig::without_host(FaultOptions {
        guests: &[
            "actions",
            "endpoints",
            "hello-rust",
            "lister",
            "misbehaving",
        ],
        ..FaultOptions::default()
    })
    .await?;
    rig.start_host().await?;
    let kinds = ["configmaps", "endpoints", "pods", "services"];
    for resource in kinds {
        assert_eq!(
            rig.proxy.seen(complete_lists(resource)).len(),
            1,
            "{resource}"
        );
        rig.proxy.until_open(watches(resource), 1, HEALED).await?;
        assert_eq!(rig.proxy.open(watches(resource)), 1, "{resource}");
    }
    rig.web().await?;

    // All connections break at once, and the server stays unreachable for a while.
    rig.proxy.forget();
    rig.proxy.turn_away();
    rig.proxy.reset(all());
    sleep(seconds(3)).await;
    // Each kind asks once a second, and two requests more come at once: the watch breaks and the
    // server is probed.
    let turned_away = rig.proxy.turned_away();
    let allowed = kinds.len()..=kinds.len() * (3 + 2);
    assert!(allowed.contains(&turned_away), "{turned_away}");
    rig.proxy.heal().await;
    rig.proxy
        .until_open(watches(ANY), kinds.len(), seconds(6))
        .await?;
    rig.readdress("a", "10.1.1.1").await?;
    rig.is_right_within(HEALED).await?;
    assert_eq!(rig.proxy.seen(complete_lists(ANY)).len(), 0);
    for resource in kinds {
        let seen = rig.proxy.seen(reads(resource));
        assert!(is_patient(&seen, seconds(1)), "{seen:?}");
        assert!(busiest_second(&seen) <= 2, "{seen:?}");
    }
    Ok(())
}
