//! An API server that freezes, dies, forgets its history or goes back in time: the Endpoints become
//! right again, and the log has one line for it.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pilothouse_tests::proxy::{
    ANY, all, busiest_second, complete_lists, gets, is_patient, lists, reads, resumes, watches,
    writes,
};
use pilothouse_tests::{FaultOptions, FaultRig, HEALED, Server};
use serde_json::Value;
use tokio::time::{Instant, sleep};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The host connects to the server without the proxy, as the test is about the server's process.
fn direct() -> FaultOptions {
    FaultOptions {
        is_direct: true,
        ..FaultOptions::default()
    }
}

/// Waits until all three kinds are watched.
async fn is_watching_again(rig: &FaultRig) -> Result<()> {
    for _ in 0..200 {
        if rig.host().metric("pilothouse_watch_up", "").await? >= 3.0 {
            return Ok(());
        }
        sleep(Duration::from_millis(50)).await;
    }
    anyhow::bail!("not all kinds are watched\n{}", rig.host().log())
}

async fn freezes_for(time: Duration) -> Result<()> {
    let rig = FaultRig::start_with(direct()).await?;
    rig.web().await?;
    rig.server.pause().await?;
    sleep(time).await;
    rig.server.resume().await?;
    rig.readdress("a", "10.1.1.1").await?;
    rig.delete_pod("b").await?;
    rig.is_right_within(HEALED).await
}

#[tokio::test]
async fn a_server_that_was_frozen_is_followed_again_when_it_thaws() -> Result<()> {
    freezes_for(seconds(12)).await
}

#[tokio::test]
#[ignore = "takes minutes; make test-slow"]
async fn a_server_that_was_frozen_for_a_minute_is_followed_again_when_it_thaws() -> Result<()> {
    freezes_for(seconds(60)).await
}

/// Returns how many versions of the Endpoints were written, as far as the answers came through. A
/// write that changes nothing makes no new version.
fn effects(rig: &FaultRig) -> usize {
    let answers = rig.proxy.answers(writes("endpoints"));
    let done = answers
        .iter()
        .filter(|answer| (200..300).contains(&answer.status));
    let versions = done.filter_map(|answer| {
        let object: Value = serde_json::from_str(&answer.body).ok()?;
        Some(object["metadata"]["resourceVersion"].to_string())
    });
    versions.collect::<BTreeSet<String>>().len()
}

async fn dies_times(times: u32) -> Result<()> {
    let mut rig = FaultRig::start().await?;
    rig.web().await?;
    for number in 0..times {
        rig.proxy.forget();
        // The host may be in the middle of writing this when the server dies.
        rig.readdress("a", &format!("10.1.1.{number}")).await?;
        rig.server.kill().await?;
        sleep(Duration::from_millis(300)).await;
        rig.server.start_again().await?;
        let ready = Instant::now();
        let pod = format!("p{number}");
        rig.pod(&pod, "web", &format!("10.1.2.{number}")).await?;
        let left = HEALED.saturating_sub(ready.elapsed());
        let right = rig.is_right_within(left).await;
        right.with_context(|| format!("death {number}"))?;
        // The changes of `a` and of the new pod cause one write each.
        let effects = effects(&rig);
        assert!((1..=2).contains(&effects), "death {number}: {effects}");
    }
    Ok(())
}

#[tokio::test]
async fn a_server_that_was_killed_is_followed_again_when_it_is_back() -> Result<()> {
    dies_times(3).await
}

#[tokio::test]
#[ignore = "takes minutes; make test-slow"]
async fn a_server_that_is_killed_a_hundred_times_is_followed_each_time() -> Result<()> {
    dies_times(100).await
}

/// Checks the log from line `from` on: for all three kinds together it has one warning, and one
/// line when the incident is over.
fn says_one_line_per_incident(rig: &FaultRig, from: usize) -> Result<()> {
    let log = rig.host().log_lines().split_off(from);
    // A relist is not an incident.
    let is_incident = |line: &&Value| line.get("plugin").is_none() && line["message"] != "relisted";
    let lines = log.iter().filter(is_incident);
    let levels: Vec<&str> = lines.filter_map(|line| line["level"].as_str()).collect();
    ensure!(levels == ["WARN", "INFO"], "{levels:?}: {log:#?}");
    Ok(())
}

#[tokio::test]
async fn the_log_has_one_line_when_an_incident_begins_and_one_when_it_is_over() -> Result<()> {
    let mut rig = FaultRig::start_with(direct()).await?;
    rig.web().await?;
    let before = rig.host().log_lines().len();
    rig.server.kill().await?;
    sleep(seconds(3)).await;
    rig.server.start_again().await?;
    is_watching_again(&rig).await?;
    says_one_line_per_incident(&rig, before).context("killed")?;

    let before = rig.host().log_lines().len();
    rig.server.pause().await?;
    // The host notices after 15 seconds.
    sleep(seconds(16)).await;
    rig.server.resume().await?;
    is_watching_again(&rig).await?;
    says_one_line_per_incident(&rig, before).context("frozen")
}

#[tokio::test]
async fn keys_that_find_no_server_are_said_once_and_not_each_time() -> Result<()> {
    let rig = FaultRig::start().await?;
    rig.web().await?;
    // The watches go on, but nothing can be written.
    rig.proxy.on(writes("endpoints")).reset();
    let before = rig.host().log_lines().len();
    for number in 0..20 {
        rig.service(&format!("s{number}")).await?;
    }
    sleep(seconds(8)).await;
    let log = rig.host().log_lines().split_off(before);
    let warnings: Vec<&Value> = log.iter().filter(|line| line["level"] == "WARN").collect();
    // At most one for each write that was under way when the host noticed the outage.
    assert!((1..=8).contains(&warnings.len()), "{warnings:#?}");
    rig.proxy.heal().await;
    rig.is_right_within(HEALED).await
}

#[tokio::test]
async fn a_server_that_forgot_everything_before_its_restart_is_listed() -> Result<()> {
    let mut rig = FaultRig::start().await?;
    rig.web().await?;
    rig.service("gone").await?;
    rig.is_right_within(HEALED).await?;
    rig.proxy.refuse().await;
    rig.server.kill().await?;
    rig.server.start_again().await?;
    rig.delete_service("gone").await?;
    rig.delete_pod("b").await?;
    rig.server.compact().await?;
    rig.server.kill().await?;
    rig.server.start_again().await?;
    assert!(rig.is_behind().await?, "the host is cut off");
    rig.proxy.forget();
    rig.proxy.accept().await;
    rig.is_right_within(HEALED).await?;
    for resource in ["pods", "services"] {
        let lists = rig.proxy.seen(complete_lists(resource)).len();
        assert!(lists >= 1, "no list of {resource}");
    }
    rig.readdress("a", "10.1.1.1").await?;
    rig.is_right_within(HEALED).await
}

#[tokio::test]
async fn a_host_without_server_waits_without_hammering() -> Result<()> {
    let rig = FaultRig::start().await?;
    rig.web().await?;
    rig.proxy.forget();
    rig.server.pause().await?;
    rig.proxy.reset(all());
    sleep(seconds(5)).await;
    for resource in ["endpoints", "pods", "services"] {
        let seen = rig.proxy.seen(reads(resource));
        assert!(is_patient(&seen, seconds(5)), "{seen:?}");
        assert!(busiest_second(&seen) <= 3, "{seen:?}");
    }
    rig.server.resume().await?;
    rig.readdress("a", "10.1.1.1").await?;
    rig.is_right_within(HEALED).await
}

#[tokio::test]
async fn a_server_restored_from_a_backup_is_noticed_and_followed() -> Result<()> {
    let mut rig = FaultRig::start_with(direct()).await?;
    rig.web().await?;
    let backup = rig.server.save().await?;
    rig.is_right_within(HEALED).await?;
    // After the restore the host knows resourceVersions that lie far in the future.
    rig.delete_pod("b").await?;
    rig.service("new").await?;
    for number in 0..50 {
        rig.readdress("a", &format!("10.1.1.{number}")).await?;
    }
    rig.is_right_within(HEALED).await?;
    rig.server.restore(&backup).await?;
    // The restored server has `b` again, does not know `new`, and has `a` at its first address.
    // Then `c` is created.
    rig.pod("c", "web", "10.1.0.3").await?;
    rig.is_right_within(seconds(60)).await?;
    rig.readdress("a", "10.1.2.1").await?;
    rig.is_right_within(HEALED).await?;
    let log = rig.host().log_lines();
    let is_alarm =
        |line: &&Value| line["level"] == "ERROR" && line.to_string().contains("rolled back");
    let alarms = log.iter().filter(is_alarm).count();
    assert!(
        (1..=3).contains(&alarms),
        "{alarms} for three kinds: {log:#?}"
    );
    let metric = "pilothouse_watch_rollbacks_total";
    assert!(rig.host().metric(metric, "kind=\"Pod\"").await? >= 1.0);
    Ok(())
}

/// Two API servers share one etcd, and the second has lost its connection to it. The second serves
/// what its watch cache holds. It does not answer what only etcd can answer: quorum reads and
/// writes.
#[tokio::test]
async fn a_second_server_that_is_behind_takes_no_cache_back_in_time() -> Result<()> {
    let mut rig = FaultRig::start().await?;
    rig.web().await?;
    let past = rig.server.save().await?;
    rig.is_right_within(HEALED).await?;
    rig.delete_pod("b").await?;
    for number in 0..5 {
        rig.readdress("a", &format!("10.1.1.{number}")).await?;
    }
    rig.is_right_within(HEALED).await?;
    let behind = Server::of_the_past(&past).await?;
    let labels = "resource=\"pods\"";
    let version = "informer_store_resource_version";
    let before = rig.host().metric(version, labels).await?;

    let quorum_reads = [
        lists(ANY).versioned(false),
        gets(ANY),
        watches(ANY).streamed_lists(true).versioned(false),
    ];
    for which in quorum_reads.into_iter().chain([writes(ANY)]) {
        rig.proxy.on(which).hold();
    }
    rig.proxy.forget();
    rig.proxy.switch_to(&behind)?;
    rig.proxy.reset(all());
    rig.readdress("a", "10.1.2.1").await?;
    for _ in 0..24 {
        sleep(Duration::from_millis(500)).await;
        let pods = rig
            .host()
            .metric("pilothouse_cached_objects", "kind=\"Pod\"")
            .await?;
        assert!((pods - 1.0).abs() < 0.5, "{pods}: `b` has risen again");
        let now = rig.host().metric(version, labels).await?;
        assert!(now >= before, "{now} after {before}");
    }
    assert!(
        rig.is_behind().await?,
        "the host is at the server that is behind"
    );
    let asked = rig.proxy.seen(resumes("pods"));
    assert!(
        !asked.is_empty() && is_patient(&asked, seconds(12)),
        "{asked:?}"
    );

    rig.proxy.switch_to(&rig.server)?;
    rig.proxy.reset(all());
    rig.proxy.heal().await;
    rig.is_right_within(HEALED).await?;
    rig.stays_right_for(seconds(2)).await?;
    let rollbacks = "pilothouse_watch_rollbacks_total";
    assert!(rig.host().metric(rollbacks, "").await? < 0.5, "no rollback");
    Ok(())
}
