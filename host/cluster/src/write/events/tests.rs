use std::time::Duration;

use pilothouse_core::{Author, ObjectKey, Operation, Write};
use serde_json::json;

use super::series::SERIES_TIMEOUT;
use super::*;
use crate::ApiCluster;
use crate::testing::{Scenario, ScriptedAnswer, json as answer, stalled, status, text};

fn event(key: ObjectKey, note: &str) -> Write {
    let kind = if key.namespace.is_empty() {
        Kind::new("", "v1", "Node")
    } else {
        Kind::new("apps", "v1", "Deployment")
    };
    let operation = Operation::Event {
        uid: Some("u-1".into()),
        is_warning: true,
        reason: "FailedCreate".into(),
        action: "Create".into(),
        note: note.into(),
    };
    Write {
        kind,
        key,
        subresource: None,
        operation,
    }
}

fn web() -> ObjectKey {
    ObjectKey::new("shop", "web")
}

fn cluster(scenario: &Scenario) -> ApiCluster {
    let now = || "2026-01-02T03:04:05.000006789Z".parse().unwrap();
    ApiCluster::at(scenario.client().into(), "host-1", now)
}

fn created() -> ScriptedAnswer {
    answer(&json!({"kind": "Event", "metadata": {"resourceVersion": "5"}}))
}

#[tokio::test(start_paused = true)]
async fn an_event_is_written_as_the_events_api_wants_it() {
    let scenario = Scenario::new([created()]);
    let result = cluster(&scenario)
        .write(&Author::named("my-plugin"), &event(web(), "no quota"))
        .await
        .result;
    assert_eq!(result, ActionResult::Done(Some("5".into())));
    let seen = &scenario.seen()[0];
    assert_eq!(
        seen.line,
        "POST /apis/events.k8s.io/v1/namespaces/shop/events?fieldManager=pilothouse.dev%2Fmy-plugin"
    );
    let name = seen.body["metadata"]["name"].as_str().unwrap();
    assert!(
        name.starts_with("web.") && name.len() == "web.".len() + 16,
        "{name}"
    );
    assert_eq!(
        seen.body,
        json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": "shop"},
            "eventTime": "2026-01-02T03:04:05.000006Z",
            "reportingController": "pilothouse.dev/my-plugin",
            "reportingInstance": "host-1",
            "type": "Warning",
            "reason": "FailedCreate",
            "action": "Create",
            "note": "no quota",
            "regarding": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web", "uid": "u-1"},
        })
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_is_reported_by_the_controller_that_the_operator_names() {
    let scenario = Scenario::new([created()]);
    let author = Author {
        reporting_controller: Some("job-controller".into()),
        ..Author::named("my-plugin")
    };
    cluster(&scenario)
        .write(&author, &event(web(), "no quota"))
        .await;
    let seen = &scenario.seen()[0];
    assert_eq!(seen.body["reportingController"], "job-controller");
    assert!(
        seen.line
            .ends_with("fieldManager=pilothouse.dev%2Fmy-plugin")
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_about_a_cluster_scoped_object_is_in_the_default_namespace() {
    let scenario = Scenario::new([created()]);
    cluster(&scenario)
        .write(
            &Author::named("m"),
            &event(ObjectKey::new("", "node-1"), "x"),
        )
        .await;
    let seen = &scenario.seen()[0];
    assert_eq!(
        seen.line,
        "POST /apis/events.k8s.io/v1/namespaces/default/events?fieldManager=pilothouse.dev%2Fm"
    );
    assert_eq!(seen.body["metadata"]["namespace"], "default");
    assert_eq!(seen.body["regarding"].get("namespace"), None);
}

#[tokio::test(start_paused = true)]
async fn the_same_event_again_is_counted_on_the_first_one() {
    let scenario = Scenario::new([created(), created(), created(), created()]);
    let cluster = cluster(&scenario);
    for note in ["x", "x", "x", "another"] {
        cluster
            .write(&Author::named("m"), &event(web(), note))
            .await;
    }
    let seen = scenario.seen();
    let name = seen[0].body["metadata"]["name"].as_str().unwrap();
    for (seen, count) in seen[1..3].iter().zip([2, 3]) {
        assert_eq!(
            seen.line,
            format!(
                "PATCH /apis/events.k8s.io/v1/namespaces/shop/events/{name}?fieldManager=pilothouse.dev%2Fm"
            )
        );
        assert_eq!(seen.content_type, "application/merge-patch+json");
        assert_eq!(
            seen.body,
            json!({"series": {"count": count, "lastObservedTime": "2026-01-02T03:04:05.000006Z"}})
        );
    }
    assert!(
        seen[3].line.starts_with("POST "),
        "another note is another event"
    );
    assert_ne!(seen[3].body["metadata"]["name"], name);
}

#[tokio::test(start_paused = true)]
async fn a_series_ends_after_six_quiet_minutes_and_when_the_server_has_forgotten_it() {
    let scenario = Scenario::new([
        created(),
        created(),
        status(404, "NotFound", "gone"),
        created(),
    ]);
    let cluster = cluster(&scenario);
    cluster.write(&Author::named("m"), &event(web(), "x")).await;
    tokio::time::advance(SERIES_TIMEOUT).await;
    cluster.write(&Author::named("m"), &event(web(), "x")).await;
    assert_eq!(
        cluster
            .write(&Author::named("m"), &event(web(), "x"))
            .await
            .result,
        ActionResult::Done(Some("5".into()))
    );
    let methods: Vec<String> = scenario
        .lines()
        .iter()
        .map(|line| line.split(' ').next().unwrap().to_owned())
        .collect();
    assert_eq!(methods, ["POST", "POST", "PATCH", "POST"]);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_was_not_written_begins_no_series_and_one_that_is_there_is_done() {
    let scenario = Scenario::new([
        status(403, "Forbidden", "no"),
        text(200, "<html>be right back</html>"),
        status(409, "AlreadyExists", "is there"),
    ]);
    let cluster = cluster(&scenario);
    assert_eq!(
        cluster
            .write(&Author::named("m"), &event(web(), "x"))
            .await
            .result,
        ActionResult::Forbidden("no".into())
    );
    assert!(matches!(
        cluster
            .write(&Author::named("m"), &event(web(), "x"))
            .await
            .result,
        ActionResult::Unknown(_)
    ));
    assert_eq!(
        cluster
            .write(&Author::named("m"), &event(web(), "x"))
            .await
            .result,
        ActionResult::Done(None)
    );
    let lines = scenario.lines();
    assert!(
        lines.iter().all(|line| line.starts_with("POST ")),
        "{lines:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_there_already_begins_a_series_or_joins_the_one_that_has_begun() {
    let methods = |scenario: &Scenario| -> Vec<String> {
        let lines = scenario.lines().into_iter();
        let methods = lines.map(|line| line.split(' ').next().unwrap().to_owned());
        methods.collect()
    };
    let is_there = || status(409, "AlreadyExists", "is there");
    let author = Author::named("m");
    let event = event(web(), "x");

    let scenario = Scenario::new([is_there(), created()]);
    let alone = cluster(&scenario);
    for _ in 0..2 {
        alone.write(&author, &event).await;
    }
    assert_eq!(methods(&scenario), ["POST", "PATCH"]);

    // Two of one microsecond. Before the second has its answer, the first one is repeated.
    let late =
        |seconds, answer| ScriptedAnswer::Late(Duration::from_secs(seconds), Box::new(answer));
    let scenario = Scenario::new([
        late(1, created()),
        late(3, is_there()),
        created(),
        created(),
    ]);
    let both = cluster(&scenario);
    tokio::join!(
        both.write(&author, &event),
        both.write(&author, &event),
        async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            both.write(&author, &event).await
        }
    );
    both.write(&author, &event).await;
    assert_eq!(methods(&scenario), ["POST", "POST", "PATCH", "PATCH"]);
    let counts = scenario.seen()[2..]
        .iter()
        .map(|seen| seen.body["series"]["count"].clone())
        .collect::<Vec<_>>();
    assert_eq!(counts, [2, 3]);
}

#[tokio::test(start_paused = true)]
async fn an_event_without_an_answer_ends_at_a_deadline_and_is_sent_once() {
    let busy = status(503, "", "later").with_header("retry-after", "1");
    for unknown in [ScriptedAnswer::Silence, stalled(), text(504, ""), busy] {
        let scenario = Scenario::new([unknown]);
        let result = cluster(&scenario)
            .write(&Author::named("m"), &event(web(), "a"))
            .await
            .result;
        assert!(matches!(result, ActionResult::Unavailable(_)), "{result:?}");
        assert_eq!(scenario.lines().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_about_nothing_is_invalid() {
    let scenario = Scenario::new([]);
    assert!(matches!(
        cluster(&scenario)
            .write(&Author::named("m"), &event(ObjectKey::singleton(), "x"))
            .await
            .result,
        ActionResult::Invalid(_)
    ));
    assert!(scenario.seen().is_empty());
}

#[test]
fn names_are_made_such_as_the_api_server_accepts() {
    let name = |about| event_name(about, &[0; 32], "t");
    assert!(name("system:node").starts_with("event."));
    let long = name(&"a".repeat(253));
    assert!(long.len() == 253 && long.starts_with("aaa"));
    assert_eq!(
        controller_name("acme.io/my plugin"),
        "pilothouse.dev/acme.io-my-plugin"
    );
    assert_eq!(
        controller_name("pilothouse:web"),
        "pilothouse.dev/pilothouse-web"
    );
    assert_eq!(
        controller_name(&"x".repeat(100)).len(),
        "pilothouse.dev/".len() + 63
    );
}
