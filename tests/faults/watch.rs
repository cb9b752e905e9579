//! A watch that breaks, falls silent, delivers wrong data or cannot be opened: the Endpoints become
//! right by themselves, and the server is not hammered.

use std::time::Duration;

use anyhow::Result;
use futures::TryStreamExt;
use futures::stream::{self, StreamExt};
use pilothouse_tests::proxy::{
    ANY, Answer, all, busiest_second, complete_lists, error_event, is_patient, lists, reads,
    resumes, watches,
};
use pilothouse_tests::{FaultOptions, FaultRig, HEALED};
use serde_json::Value;
use tokio::time::{Instant, sleep};

const KINDS: [&str; 3] = ["endpoints", "pods", "services"];

/// A connection that is silent for this long is considered dead.
const NOTICED: Duration = Duration::from_secs(15);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test]
async fn a_watch_that_breaks_is_resumed_where_it_was_and_nothing_is_listed_again() -> Result<()> {
    let rig = FaultRig::start().await?;
    rig.web().await?;
    rig.proxy.forget();
    let breaks: [fn(&FaultRig) -> usize; 3] = [
        |rig| rig.proxy.close(watches(ANY)),
        |rig| rig.proxy.half_close(watches(ANY)),
        |rig| rig.proxy.reset(watches(ANY)),
    ];
    for (number, interrupt) in breaks.into_iter().enumerate() {
        assert_eq!(interrupt(&rig), KINDS.len());
        rig.readdress("a", &format!("10.1.1.{number}")).await?;
        rig.is_right_within(HEALED).await?;
        rig.proxy
            .until_open(watches(ANY), KINDS.len(), HEALED)
            .await?;
    }
    for resource in KINDS {
        let resumed = rig.proxy.seen(resumes(resource));
        assert!(resumed.len() >= breaks.len(), "{resource}");
        assert!(
            resumed
                .iter()
                .all(|seen| seen.parameter("resourceVersion").is_some())
        );
    }
    assert_eq!(rig.proxy.seen(complete_lists(ANY)).len(), 0);
    Ok(())
}

async fn breaks_every_second(times: usize) -> Result<()> {
    let rig = FaultRig::start().await?;
    rig.web().await?;
    rig.proxy.forget();
    let breaking = async {
        for _ in 0..times {
            sleep(seconds(1)).await;
            rig.proxy.reset(watches(ANY));
        }
    };
    // About a hundred writes a second for as long as connections break.
    let writing = stream::iter(0..times * 100)
        .map(anyhow::Ok)
        .try_for_each(|number| {
            let rig = &rig;
            async move {
                let pod = format!("p{}", number % 10);
                match number / 10 % 3 {
                    0 => {
                        rig.pod(
                            &pod,
                            "web",
                            &format!("10.2.{}.{}", number / 250 % 250, number % 250),
                        )
                        .await
                    }
                    1 => {
                        rig.readdress(
                            &pod,
                            &format!("10.3.{}.{}", number / 250 % 250, number % 250),
                        )
                        .await
                    }
                    _ => rig.delete_pod(&pod).await,
                }
            }
        });
    let ((), written) = tokio::join!(breaking, writing);
    written?;
    rig.is_right_within(HEALED).await?;
    assert_eq!(rig.proxy.seen(complete_lists(ANY)).len(), 0);
    for resource in KINDS {
        let seen = rig.proxy.seen(reads(resource));
        assert!(
            busiest_second(&seen) <= 2 && seen.len() <= times + 7,
            "{seen:?}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn no_change_is_missed_while_connections_break_every_second() -> Result<()> {
    breaks_every_second(5).await
}

#[tokio::test]
#[ignore = "takes minutes; make test-slow"]
async fn no_change_is_missed_while_connections_break_every_second_for_minutes() -> Result<()> {
    breaks_every_second(300).await
}

#[tokio::test]
async fn a_silent_watch_is_noticed_in_15_seconds_and_resumed_on_another_connection() -> Result<()> {
    let rig = FaultRig::start().await?;
    rig.web().await?;
    let silent: Vec<u64> = rig
        .proxy
        .seen(watches("pods"))
        .iter()
        .map(|seen| seen.connection)
        .collect();
    rig.proxy.forget();
    assert_eq!(rig.proxy.freeze(watches(ANY)), KINDS.len());
    rig.readdress("a", "10.1.1.1").await?;
    rig.is_right_within(NOTICED + seconds(2)).await?;
    let resumed = rig.proxy.seen(resumes("pods"));
    assert!(
        resumed
            .iter()
            .any(|seen| !silent.contains(&seen.connection))
    );
    assert_eq!(rig.proxy.seen(complete_lists(ANY)).len(), 0);
    Ok(())
}

#[tokio::test]
async fn a_network_that_swallows_everything_is_recovered_from_when_it_does_no_more() -> Result<()> {
    let rig = FaultRig::start().await?;
    rig.web().await?;
    assert!(rig.proxy.freeze_everything() >= KINDS.len());
    rig.readdress("a", "10.1.1.1").await?;
    rig.delete_pod("b").await?;
    sleep(seconds(14)).await;
    assert!(rig.is_behind().await?, "nothing passes");
    // As after a network partition: connections that both sides still hold continue.
    rig.proxy.heal().await;
    rig.is_right_within(HEALED).await
}

#[tokio::test]
#[ignore = "takes minutes; make test-slow"]
async fn connections_that_are_dead_for_good_cost_no_more_than_the_deadline_of_a_write() -> Result<()>
{
    let rig = FaultRig::start().await?;
    rig.web().await?;
    // As when a gateway has forgotten the connections, including the one that the next write uses.
    assert!(rig.proxy.freeze(all()) >= KINDS.len());
    rig.readdress("a", "10.1.1.1").await?;
    assert!(rig.is_behind().await?);
    rig.is_right_within(NOTICED + seconds(40)).await
}

#[tokio::test]
async fn a_watch_slower_than_its_changes_delays_no_other_kind() -> Result<()> {
    let rig = FaultRig::start().await?;
    rig.web().await?;
    let slow = rig.proxy.on(watches("pods")).slow(10_000);
    rig.proxy.forget();
    rig.proxy.reset(watches("pods"));
    rig.proxy.until_seen(resumes("pods"), 1, HEALED).await?;
    rig.proxy.until_open(watches("pods"), 1, HEALED).await?;
    assert!(slow.hits() >= 1);
    let before = rig.host().memory()?;
    // These are more than 500 kB of events.
    for number in 0..600 {
        let ip = format!("10.1.{}.{}", 1 + number / 250, number % 250);
        rig.readdress("a", &ip).await?;
    }
    let started = Instant::now();
    rig.service("other").await?;
    let path = rig.path("endpoints", "other");
    let is_there = |found: Option<&Value>| found.is_some();
    rig.server.api.eventually(&path, "there", is_there).await?;
    assert!(started.elapsed() < seconds(3), "{:?}", started.elapsed());
    sleep(seconds(2)).await;
    assert!(rig.is_behind().await?, "the watch is slower");
    let grown = rig.host().memory()?.saturating_sub(before) >> 20;
    assert!(grown < 32, "{grown} MiB for one object");
    // The same watch must continue, faster.
    rig.proxy.forget();
    slow.lift();
    rig.is_right_within(HEALED).await?;
    assert_eq!(rig.proxy.seen(complete_lists(ANY)).len(), 0);
    Ok(())
}

#[tokio::test]
async fn an_expired_version_costs_one_list_in_whichever_way_the_server_says_so() -> Result<()> {
    let rig = FaultRig::start().await?;
    rig.web().await?;
    for way in ["an event", "a status"] {
        rig.proxy.forget();
        if way == "an event" {
            assert_eq!(rig.proxy.inject(watches("pods"), &error_event(410)), 1);
        } else {
            rig.proxy
                .on(resumes("pods"))
                .times(1)
                .answer(Answer::status(410));
            rig.proxy.reset(watches("pods"));
        }
        rig.readdress(
            "a",
            if way == "an event" {
                "10.1.1.1"
            } else {
                "10.1.1.2"
            },
        )
        .await?;
        rig.is_right_within(HEALED).await?;
        assert_eq!(rig.proxy.seen(complete_lists("pods")).len(), 1, "{way}");
        assert_eq!(rig.proxy.seen(complete_lists("services")).len(), 0, "{way}");
    }
    let log = rig.host().log_lines();
    let relists: Vec<&Value> = log
        .iter()
        .filter(|line| line["message"] == "relisted")
        .collect();
    assert_eq!(relists.len(), 2, "one line per incident: {relists:#?}");
    for relist in relists {
        let reason = relist["reason"].as_str().unwrap_or_default();
        assert_eq!(
            (&relist["level"], &relist["kind"]),
            (&"INFO".into(), &"v1/Pod".into())
        );
        assert!(!reason.is_empty() && relist["objects"] == 2, "{relist}");
    }
    Ok(())
}

#[tokio::test]
async fn a_server_that_calls_every_version_expired_is_asked_once_a_second_at_most() -> Result<()> {
    let rig = FaultRig::start().await?;
    rig.web().await?;
    rig.proxy.forget();
    let expired = rig.proxy.on(watches("pods")).answer(Answer::status(410));
    rig.proxy.reset(watches("pods"));
    sleep(seconds(8)).await;
    let lists = rig.proxy.seen(complete_lists("pods")).len();
    let seen = rig.proxy.seen(reads("pods"));
    assert!(is_patient(&seen, seconds(8)), "{seen:?}");
    assert!(lists >= 2, "it lists: the version is never good");
    assert!(expired.hits() >= 2);
    rig.delete_pod("b").await?;
    rig.proxy.heal().await;
    rig.is_right_within(HEALED).await
}

#[tokio::test]
async fn what_was_deleted_while_the_host_was_cut_off_is_noticed() -> Result<()> {
    let rig = FaultRig::start_with(FaultOptions::forgetful()).await?;
    rig.web().await?;
    rig.service("gone").await?;
    rig.is_right_within(HEALED).await?;
    rig.proxy.refuse().await;
    rig.proxy.forget();
    rig.proxy.reset(all());
    rig.delete_pod("a").await?;
    rig.delete_service("gone").await?;
    // After this the history does not contain the deletions either.
    rig.server.compact().await?;
    sleep(seconds(2)).await;
    assert!(rig.is_behind().await?, "the host is cut off");
    rig.proxy.heal().await;
    rig.is_right_within(HEALED).await?;
    for resource in ["pods", "services"] {
        let lists = rig.proxy.seen(complete_lists(resource)).len();
        assert!(lists >= 1, "no list of {resource}, and no history");
    }
    Ok(())
}

#[tokio::test]
async fn etcd_may_forget_its_history_as_often_as_it_likes() -> Result<()> {
    let rig = FaultRig::start_with(FaultOptions::forgetful()).await?;
    rig.web().await?;
    rig.proxy.forget();
    for number in 0..20 {
        rig.readdress("a", &format!("10.1.1.{number}")).await?;
        rig.server.compact().await?;
        if number % 5 == 0 {
            rig.proxy.reset(watches(ANY));
        }
        sleep(Duration::from_millis(250)).await;
    }
    rig.is_right_within(HEALED).await?;
    for resource in KINDS {
        let lists = rig.proxy.seen(complete_lists(resource)).len();
        assert!(lists <= 8, "{lists} lists of {resource} in five seconds");
    }
    // The last change of a Service is long before the history that is left.
    let lists = rig.proxy.seen(complete_lists("services")).len();
    assert!(lists >= 1, "{lists}");
    Ok(())
}

#[tokio::test]
async fn a_server_that_is_behind_is_asked_for_what_it_has_and_not_hammered() -> Result<()> {
    let rig = FaultRig::start().await?;
    rig.web().await?;
    rig.proxy.forget();
    let behind = rig.proxy.on(reads("pods").versioned(true));
    let behind = behind.answer(Answer::too_large_resource_version());
    rig.proxy.reset(watches("pods"));
    rig.readdress("a", "10.1.1.1").await?;
    sleep(seconds(5)).await;
    // The host asks once a second for the watch, and once a second for the server's newest version.
    for seen in [
        rig.proxy.seen(watches("pods")),
        rig.proxy.seen(lists("pods")),
    ] {
        assert!(is_patient(&seen, seconds(5)), "{seen:?}");
    }
    assert!(behind.hits() >= 1);
    // The host has asked for the newest list, and so does not have to wait until the fault is over.
    let newest = rig.proxy.seen(complete_lists("pods").versioned(false));
    assert!(!newest.is_empty());
    rig.is_right_within(seconds(1)).await?;
    rig.proxy.heal().await;
    rig.readdress("a", "10.1.1.2").await?;
    rig.is_right_within(HEALED).await
}

#[tokio::test]
async fn a_server_that_knows_no_version_asked_for_is_asked_for_the_newest_there_is() -> Result<()> {
    for streams in [true, false] {
        let rig = FaultRig::start().await?;
        rig.web().await?;
        rig.proxy.forget();
        if !streams {
            let streamed = watches("pods").streamed_lists(true);
            rig.proxy.on(streamed).answer(Answer::status(422));
        }
        let behind = rig.proxy.on(complete_lists("pods").versioned(true));
        let behind = behind.answer(Answer::too_large_resource_version());
        let resumed = rig.proxy.on(resumes("pods")).times(1);
        let resumed = resumed.answer(Answer::status(410));
        rig.proxy.reset(watches("pods"));
        rig.readdress("a", "10.1.1.1").await?;
        rig.is_right_within(HEALED).await?;
        assert_eq!((resumed.hits(), behind.hits()), (1, 1));
        let newest = complete_lists("pods").versioned(false);
        assert_eq!(rig.proxy.seen(newest).len(), 1);
    }
    Ok(())
}
