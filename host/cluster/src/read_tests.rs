use serde_json::{Value, json};

use super::*;
use crate::fake::{Answer, Scenario, json as answer, status, text};

fn discovery() -> Answer {
    answer(
        &json!({"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": ""}, "versions": [{"version": "v1", "resources": [
            {"resource": "pods", "scope": "Namespaced", "responseKind": {"kind": "Pod"}, "verbs": ["list", "watch"]},
        ]}]}]}),
    )
}

fn no_groups() -> Answer {
    answer(&json!({"kind": "APIGroupDiscoveryList", "items": []}))
}

async fn get(answers: impl IntoIterator<Item = Answer>) -> Result<Option<String>, ReadFailure> {
    let script = [discovery(), no_groups()].into_iter().chain(answers);
    let scenario = Scenario::new(script);
    let cluster = ApiCluster::new(scenario.client(), "host-1");
    let kind = Kind::new("", "v1", "Pod");
    cluster.get(&kind, &ObjectKey::new("n", "a")).await
}

fn pod() -> Value {
    json!({"metadata": {"namespace": "n", "name": "a", "resourceVersion": "7"}})
}

fn forbidden() -> Answer {
    status(403, "Forbidden", "pods \"a\" is forbidden: cannot get")
}

fn is_refused(result: &Result<Option<String>, ReadFailure>) -> bool {
    matches!(result, Err(ReadFailure::Refused(_)))
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_got_is_listed_by_its_name() {
    for refusal in [forbidden(), status(405, "MethodNotAllowed", "no get")] {
        let found = get([refusal.clone(), answer(&json!({"items": [pod()]}))]).await;
        assert_eq!(found, Ok(Some(pod().to_string())));
        let gone = get([refusal, answer(&json!({"items": []}))]).await;
        assert_eq!(gone, Ok(None));
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_be_neither_got_nor_listed_will_never_be_known() {
    assert!(is_refused(&get([forbidden(), forbidden()]).await));
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_served_no_more_will_never_be_known() {
    assert!(is_refused(&get([text(404, "404 page not found")]).await));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_may_answer_later() {
    for failure in [
        status(500, "InternalError", "etcd"),
        status(401, "Unauthorized", "token"),
        Answer::Refused,
    ] {
        let result = get([failure]).await;
        assert!(
            matches!(result, Err(ReadFailure::NoAnswer(_))),
            "{result:?}"
        );
    }
    let not_found = status(404, "NotFound", "pods \"a\" not found");
    assert_eq!(get([not_found]).await, Ok(None));
}
