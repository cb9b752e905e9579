//! Informers that bring the objects of some namespaces, whether the server selects them
//! (KEP-5866) or not.

use serde_json::Value;

use super::*;
use crate::testing::marker;

/// One bucket of namespaces, which has `n`.
fn bucket_of_n() -> Namespaces {
    let buckets = (0..64).map(|bucket| Namespaces::of_buckets([bucket]));
    let mut with_n = buckets.filter(|bucket| bucket.has("n"));
    with_n.next().unwrap()
}

fn of_n() -> Extent {
    Extent {
        detail: Detail::Full,
        namespaces: bucket_of_n(),
    }
}

/// A pod in a namespace that is not wanted.
fn foreign(name: &str, version: &str) -> Value {
    assert!(!bucket_of_n().has("kube-system"));
    let mut pod = pod(name, version);
    pod["metadata"]["namespace"] = "kube-system".into();
    pod
}

async fn play(settings: WatchSettings, script: Vec<ScriptedAnswer>) -> (Vec<Seen>, Vec<String>) {
    let scenario = Scenario::new(script);
    let pods = InformerKey::all(Kind::new("", "v1", "Pod"));
    let list_watch = list_watch(&scenario, pods, of_n(), settings);
    let mut record = Record::default();
    tokio::select! {
        never = list_watch.run(&mut record) => match never {},
        () = scenario.is_played() => {}
    }
    (scenario.seen(), record.0)
}

fn has_selector(seen: &Seen) -> bool {
    seen.line.contains("&shardSelector=")
}

#[tokio::test(start_paused = true)]
async fn the_server_is_asked_for_the_wanted_namespaces_alone() {
    let pages = vec![page("10", &[], "t"), page("10", &[], "")];
    let (mut seen, _) = play(lists(), pages).await;
    seen.extend(play(WatchSettings::default(), vec![]).await.0);
    assert_eq!(seen.len(), 4, "two pages, a watch, a stream");
    assert!(seen.iter().all(has_selector));
    let selector = seen[0].line.split("&shardSelector=").nth(1).unwrap();
    // The hash of "n" is af63e34c8601f1a5.
    assert_eq!(
        selector,
        "shardRange%28object.metadata.namespace%2C%270xac00000000000000%27%2C%270xb000000000000000%27%29"
    );
}

#[tokio::test(start_paused = true)]
async fn other_namespaces_of_a_server_that_selects_none_are_dropped() {
    let listed = [pod("a", "3"), foreign("x", "4")];
    let changes = [
        event("ADDED", &foreign("y", "12")),
        event("ADDED", &pod("b", "13")),
        event("DELETED", &foreign("x", "14")),
    ];
    let first = [
        event("ADDED", &foreign("x", "4")),
        event("ADDED", &pod("a", "3")),
        marker("10"),
    ];
    let lists = play(
        lists(),
        vec![page("10", &listed, ""), stream(&changes, None)],
    );
    let mut streamed = first.to_vec();
    streamed.extend(changes.clone());
    let streams = play(WatchSettings::default(), vec![stream(&streamed, None)]);
    for record in [lists.await.1, streams.await.1] {
        assert_eq!(
            record,
            [
                "Listing",
                "replace [n/a@3] at 10",
                "Watching",
                "bookmark 12",
                "upsert n/b@13",
                "bookmark 14"
            ]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_the_selector_is_not_sent_it_again() {
    for code in [400, 414, 431] {
        let refusal = status(code, "BadRequest", "unknown selector");
        let (seen, record) = play(lists(), vec![refusal, page("10", &[pod("a", "3")], "")]).await;
        let selected: Vec<bool> = seen.iter().map(has_selector).collect();
        assert_eq!(selected, [true, false, false]);
        assert!(record.contains(&"replace [n/a@3] at 10".to_owned()));
    }
    let busy = status(503, "ServiceUnavailable", "later");
    let (seen, _) = play(lists(), vec![busy, page("10", &[], "")]).await;
    assert!(seen.iter().all(has_selector), "that is no refusal");
}

#[tokio::test(start_paused = true)]
async fn whoever_wants_everything_selects_nothing() {
    let pods = InformerKey::all(Kind::new("", "v1", "Pod"));
    let seen = requests_of(pods, Detail::Full, lists()).await;
    assert!(!seen.iter().any(has_selector));
}
