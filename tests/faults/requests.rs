//! Requests that are refused, fail, or get no answer: nothing is done twice, other keys do not
//! wait, and nothing is repeated in a hot loop.

use std::time::Duration;

use anyhow::Result;
use futures::future::try_join_all;
use http::Method;
use pilothouse_tests::proxy::{
    ANY, Answer, Seen, busiest_second, gets, is_patient, reads, watches, writes,
};
use pilothouse_tests::{FaultOptions, FaultRig, HEALED};
use serde_json::{Value, json};
use tokio::time::{Instant, interval, sleep};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Returns the times between consecutive requests.
fn pauses(seen: &[Seen]) -> Vec<Duration> {
    seen.windows(2)
        .map(|pair| pair[1].at - pair[0].at)
        .collect()
}

#[tokio::test]
async fn a_server_that_says_how_long_it_wants_to_be_left_alone_is_left_alone() -> Result<()> {
    let rig = FaultRig::start().await?;
    rig.web().await?;
    rig.proxy.forget();
    let busy = Answer::status(429).retry_after(2);
    rig.proxy.on(watches("pods")).times(2).answer(busy.clone());
    rig.proxy.reset(watches("pods"));
    rig.proxy.until_seen(watches("pods"), 3, HEALED).await?;
    // Only the pauses after a refusal count. When the watch breaks, the server is probed before it
    // has refused anything.
    let asked = pauses(&rig.proxy.seen(watches("pods")));
    assert!(
        asked[..2].iter().all(|pause| *pause >= seconds(2)),
        "{asked:?}"
    );

    rig.proxy.forget();
    let fault = rig.proxy.on(writes("endpoints")).times(1).answer(busy);
    rig.readdress("a", "10.1.1.1").await?;
    rig.is_right_within(HEALED).await?;
    let asked = pauses(&rig.proxy.seen(writes("endpoints")));
    assert_eq!(fault.hits(), 1);
    assert_eq!(
        asked.len(),
        1,
        "one write more than needed, for the one that was refused"
    );
    assert!(asked[0] >= seconds(2), "{asked:?}");
    Ok(())
}

#[tokio::test]
async fn reads_that_fail_are_tried_once_a_second_at_most_and_soon_after_the_server_is_back()
-> Result<()> {
    let rig = FaultRig::start().await?;
    rig.web().await?;
    rig.proxy.forget();
    for status in [500, 502, 503] {
        rig.proxy
            .on(reads(ANY))
            .times(4)
            .answer(Answer::status(status));
    }
    rig.proxy.on(reads(ANY)).answer(Answer::status(504));
    rig.proxy.reset(watches(ANY));
    rig.readdress("a", "10.1.1.1").await?;
    rig.delete_pod("b").await?;
    sleep(seconds(8)).await;
    for resource in ["endpoints", "pods", "services"] {
        let seen = rig.proxy.seen(reads(resource));
        assert!(is_patient(&seen, seconds(8)), "{seen:?}");
        assert!(busiest_second(&seen) <= 2, "{seen:?}");
    }
    assert_eq!(rig.host().get("/healthz").await?.0, 200);
    assert!(rig.host().metric("pilothouse_watch_up", "").await? < 0.5);
    assert_eq!(
        rig.host().get("/readyz").await?.0,
        200,
        "it goes on with what it has"
    );

    rig.proxy.forget();
    let healed = Instant::now();
    rig.proxy.heal().await;
    rig.proxy.until_open(watches(ANY), 3, seconds(8)).await?;
    let first = rig
        .proxy
        .seen(reads("pods"))
        .first()
        .map(|seen| seen.at - healed);
    assert!(first.is_some_and(|first| first <= seconds(5)), "{first:?}");
    rig.is_right_within(HEALED).await
}

#[tokio::test]
async fn a_write_of_unknown_outcome_is_made_good() -> Result<()> {
    let rig = FaultRig::start().await?;
    rig.web().await?;
    let lost = rig.proxy.on(writes("endpoints")).times(1).lose_answer();
    rig.readdress("a", "10.1.1.1").await?;
    rig.is_right_within(HEALED).await?;
    let replaced = rig.proxy.on(writes("endpoints")).times(1);
    let replaced = replaced.replace_answer(Answer::status(504));
    rig.readdress("a", "10.1.1.2").await?;
    rig.is_right_within(HEALED).await?;
    let cut = rig.proxy.on(writes("endpoints")).times(1).truncate(10);
    rig.readdress("a", "10.1.1.3").await?;
    rig.is_right_within(HEALED).await?;
    let never = rig.proxy.on(writes("endpoints")).times(1).reset();
    rig.readdress("a", "10.1.1.4").await?;
    rig.is_right_within(HEALED).await?;
    assert_eq!(
        [lost.hits(), replaced.hits(), cut.hits(), never.hits()],
        [1; 4]
    );
    Ok(())
}

#[tokio::test]
async fn a_create_of_unknown_outcome_makes_one_object() -> Result<()> {
    let options = FaultOptions {
        guests: &["actions"],
        ..FaultOptions::default()
    };
    let rig = FaultRig::start_with(options).await?;
    let posts = || writes("configmaps").method(Method::POST);
    for (name, is_lost) in [("a", true), ("b", false)] {
        rig.proxy.forget();
        let fault = rig.proxy.on(posts()).times(1);
        let fault = if is_lost {
            fault.lose_answer()
        } else {
            fault.replace_answer(Answer::status(504))
        };
        let metadata = json!({"name": name, "labels": {"actions": "true"}});
        let task = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"do": "create"}});
        rig.create("configmaps", &task).await?;
        // The guest writes the report once it has heard that the object already exists.
        let report = rig.path("configmaps", &format!("{name}-report"));
        let is_there = |found: Option<&Value>| found.is_some();
        rig.server
            .api
            .eventually(&report, "there", is_there)
            .await?;
        assert_eq!(fault.hits(), 1);
        let list = rig.server.api.get(&rig.path("configmaps", "")).await?;
        let made = list.unwrap_or_default().to_string();
        let made = made.matches(&format!("\"name\":\"{name}-made-")).count();
        assert_eq!(made, 1, "{:?}", rig.proxy.seen(posts()));
    }
    Ok(())
}

#[tokio::test]
async fn a_write_without_answer_holds_up_its_own_key_alone() -> Result<()> {
    let rig = FaultRig::start().await?;
    rig.web().await?;
    rig.service("other").await?;
    rig.is_right_within(HEALED).await?;
    let web = writes("endpoints").under(&rig.path("endpoints", "web"));
    rig.proxy.forget();
    let held = rig.proxy.on(web.clone()).times(1).hold();
    rig.readdress("a", "10.1.1.1").await?;
    rig.proxy.until_seen(web, 1, HEALED).await?;
    assert_eq!(held.hits(), 1);
    let started = Instant::now();
    rig.pod("c", "other", "10.1.2.1").await?;
    let is_there =
        |found: Option<&Value>| found.is_some_and(|found| found.to_string().contains("10.1.2.1"));
    let path = rig.path("endpoints", "other");
    rig.server.api.eventually(&path, "right", is_there).await?;
    assert!(started.elapsed() < seconds(3), "{:?}", started.elapsed());
    assert_eq!(held.hits(), 1);
    held.lift();
    rig.is_right_within(HEALED).await
}

#[tokio::test]
#[ignore = "takes minutes; make test-slow"]
async fn a_write_that_is_never_answered_is_given_up() -> Result<()> {
    let rig = FaultRig::start().await?;
    rig.web().await?;
    let held = rig.proxy.on(writes("endpoints")).times(1).hold();
    rig.readdress("a", "10.1.1.1").await?;
    rig.is_right_within(seconds(60)).await?;
    assert_eq!(held.hits(), 1);
    Ok(())
}

#[tokio::test]
async fn a_write_that_conflicts_for_seconds_is_not_repeated_in_a_hot_loop() -> Result<()> {
    let rig = FaultRig::start().await?;
    rig.web().await?;
    rig.proxy.forget();
    rig.proxy
        .on(writes("endpoints"))
        .answer(Answer::status(409));
    rig.readdress("a", "10.1.1.1").await?;
    sleep(seconds(3)).await;
    // With a back-off of 5 ms, doubled each time, about ten attempts fit into three seconds.
    let attempts = rig.proxy.seen(writes("endpoints")).len();
    assert!((3..=14).contains(&attempts), "{attempts}");
    rig.proxy.heal().await;
    rig.is_right_within(HEALED).await
}

/// Another client that changes the object 50 times a second, in a field that no plugin reads.
async fn second_writer(rig: &FaultRig, path: &str, time: Duration) -> Result<()> {
    let end = Instant::now() + time;
    let mut ticks = interval(Duration::from_millis(20));
    for number in 0u32.. {
        if Instant::now() > end {
            break;
        }
        ticks.tick().await;
        let annotations = json!({"example.dev/written": number.to_string()});
        let patch = json!({"metadata": {"annotations": annotations}});
        rig.server.api.merge(path, &patch).await?;
    }
    Ok(())
}

/// `hello-rust` applies a greeting for each ConfigMap that asks for one.
#[tokio::test]
async fn a_second_writer_of_an_object_that_is_applied_causes_no_more_writes() -> Result<()> {
    let options = FaultOptions {
        guests: &["hello-rust"],
        ..FaultOptions::default()
    };
    let rig = FaultRig::start_with(options).await?;
    let (source, path) = (
        rig.path("configmaps", "a"),
        rig.path("configmaps", "a-greeting"),
    );
    let metadata = json!({"name": "a", "labels": {"hello": "true"}});
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"who": "nobody"}});
    rig.create("configmaps", &object).await?;
    let greets = async |who: String| {
        let is_said = move |found: Option<&Value>| {
            found.is_some_and(|found| found["data"]["greeting"] == format!("Hello, {who}!"))
        };
        rig.server.api.eventually(&path, "greeted", is_said).await
    };
    greets("nobody".to_owned()).await?;
    rig.proxy.forget();
    let (changes, pause) = (16, Duration::from_millis(250));
    let changing = async {
        for number in 0..changes {
            let patch = json!({"data": {"who": number.to_string()}});
            rig.server.api.merge(&source, &patch).await?;
            sleep(pause).await;
        }
        anyhow::Ok(())
    };
    let writing = second_writer(&rig, &path, pause * 16);
    tokio::try_join!(changing, writing)?;
    let end = greets((changes - 1).to_string()).await?.unwrap_or_default();
    let own = rig.proxy.seen(writes("configmaps").under(&path));
    assert!((2..=changes).contains(&own.len()), "{own:?}");
    assert!(
        end["metadata"]["annotations"]["example.dev/written"].is_string(),
        "{end}"
    );
    Ok(())
}

#[tokio::test]
async fn an_update_that_always_comes_too_late_is_not_repeated_in_a_hot_loop() -> Result<()> {
    let options = FaultOptions {
        guests: &["actions"],
        ..FaultOptions::default()
    };
    let rig = FaultRig::start_with(options).await?;
    let target = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "target"}, "data": {"value": "0"}});
    rig.create("configmaps", &target).await?;
    let path = rig.path("configmaps", "target");
    // When the host learns of a version there are five newer ones.
    let late = rig.proxy.on(watches("configmaps"));
    let late = late.delay_lines(Duration::from_millis(100));
    let asking = async {
        sleep(seconds(1)).await;
        let metadata = json!({"name": "task", "labels": {"actions": "true"}});
        let data = json!({"do": "update", "target": "target", "value": "1"});
        let task =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
        rig.create("configmaps", &task).await
    };
    tokio::try_join!(asking, second_writer(&rig, &path, seconds(5)))?;
    let ended = Instant::now();
    let puts = || writes("configmaps").method(Method::PUT);
    let during = rig.proxy.seen(puts()).len();
    assert!(late.hits() > 100, "{}", late.hits());
    let is_done = |found: Option<&Value>| found.is_some_and(|found| found["data"]["value"] == "1");
    rig.server.api.eventually(&path, "updated", is_done).await?;
    assert!(ended.elapsed() < HEALED, "{:?}", ended.elapsed());
    let answers = rig.proxy.answers(puts());
    let conflicts = answers.iter().filter(|answer| answer.status == 409).count();
    assert!(conflicts >= 3, "{answers:?}");
    // With a back-off of 5 ms, doubled each time, about ten attempts fit into four seconds. The
    // changes by the other client must not add to them.
    assert!(during <= 14, "{during} in four seconds");
    Ok(())
}

/// Creates services with one pod each. Returns the names of the pods.
async fn services(rig: &FaultRig, count: usize) -> Result<Vec<String>> {
    let mut pods = Vec::new();
    for number in 0..count {
        let (service, pod) = (format!("s{number}"), format!("p{number}"));
        rig.service(&service).await?;
        rig.pod(&pod, &service, &format!("10.2.0.{number}")).await?;
        pods.push(pod);
    }
    rig.is_right_within(HEALED).await?;
    Ok(pods)
}

async fn readdress_all(rig: &FaultRig, pods: &[String]) -> Result<()> {
    let all = pods.iter().enumerate().map(|(number, pod)| async move {
        let ip = format!("10.3.0.{number}");
        rig.readdress(pod, &ip).await
    });
    try_join_all(all).await.map(drop)
}

#[tokio::test]
async fn a_plugin_that_is_turned_away_asks_once_at_a_time_and_not_for_each_key() -> Result<()> {
    let rig = FaultRig::start().await?;
    let pods = services(&rig, 20).await?;
    rig.proxy.forget();
    let busy = Answer::status(429).retry_after(1);
    let refusing = rig.proxy.on(writes("endpoints")).answer(busy);
    readdress_all(&rig, &pods).await?;
    sleep(seconds(4)).await;
    let refused = refusing.hits();
    rig.proxy.heal().await;
    rig.is_right_within(HEALED).await?;
    let in_all = rig.proxy.seen(writes("endpoints")).len();
    // As many writes as may run at once (16) are under way when the first refusal comes. After that
    // one write at a time is tried, each a second after the last: four. One more is due when the
    // fourth second ends.
    let allowed = 16 + 4 + 1;
    assert!((4..=allowed).contains(&refused), "{refused} refused");
    let needed = pods.len() + refused;
    assert!(in_all * 10 <= needed * 11, "{in_all}, where {needed} do");
    Ok(())
}

#[tokio::test]
async fn a_plugin_that_is_turned_away_for_long_stays_away() -> Result<()> {
    let rig = FaultRig::start().await?;
    let pods = services(&rig, 20).await?;
    rig.proxy.forget();
    let busy = Answer::status(429).retry_after(30);
    let refusing = rig.proxy.on(writes("endpoints")).answer(busy);
    readdress_all(&rig, &pods[..1]).await?;
    rig.proxy.until_seen(writes("endpoints"), 1, HEALED).await?;
    // Gives the host the time to read the refusal.
    sleep(Duration::from_millis(300)).await;
    readdress_all(&rig, &pods[1..]).await?;
    sleep(seconds(10)).await;
    assert!((1..=2).contains(&refusing.hits()), "{}", refusing.hits());
    Ok(())
}

#[tokio::test]
async fn a_key_does_not_run_again_before_the_cache_shows_what_it_wrote() -> Result<()> {
    let rig = FaultRig::start().await?;
    rig.web().await?;
    rig.proxy.forget();
    let late = rig.proxy.on(watches("endpoints")).delay_lines(seconds(4));
    rig.readdress("a", "10.1.1.1").await?;
    rig.proxy.until_seen(writes("endpoints"), 1, HEALED).await?;
    rig.readdress("a", "10.1.1.2").await?;
    rig.readdress("a", "10.1.1.3").await?;
    rig.is_right_within(HEALED).await?;
    let asked = pauses(&rig.proxy.seen(writes("endpoints")));
    assert_eq!(
        asked.len(),
        1,
        "two writes, one for all that came meanwhile"
    );
    assert!(asked[0] >= Duration::from_millis(3_500), "{asked:?}");
    assert!(late.hits() > 0);
    Ok(())
}

#[tokio::test]
async fn a_key_whose_write_never_shows_goes_on_with_a_live_read() -> Result<()> {
    let rig = FaultRig::start().await?;
    rig.web().await?;
    rig.proxy.on(watches("endpoints")).stall();
    rig.readdress("a", "10.1.1.1").await?;
    rig.is_right_within(HEALED).await?;
    rig.proxy.forget();
    rig.readdress("a", "10.1.1.2").await?;
    rig.is_right_within(seconds(15)).await?;
    let web = gets("endpoints").under(&rig.path("endpoints", "web"));
    assert!(!rig.proxy.seen(web).is_empty());
    rig.proxy.heal().await;
    rig.readdress("a", "10.1.1.3").await?;
    rig.is_right_within(HEALED).await
}
