use serde_json::{Value, json};

use super::*;
use crate::ApiCluster;
use crate::testing::{Scenario, ScriptedAnswer, WirePart, absent, json as answer, status, text};
use pilothouse_core::LabelSelector;

fn discovery() -> ScriptedAnswer {
    answer(
        &json!({"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": ""}, "versions": [{"version": "v1", "resources": [
            {"resource": "pods", "scope": "Namespaced", "responseKind": {"kind": "Pod"}, "verbs": ["list", "watch"]},
        ]}]}]}),
    )
}

fn no_groups() -> ScriptedAnswer {
    answer(&json!({"kind": "APIGroupDiscoveryList", "items": []}))
}

async fn get(
    answers: impl IntoIterator<Item = ScriptedAnswer>,
) -> Result<Option<String>, ReadFailure> {
    let script = [discovery(), no_groups()].into_iter().chain(answers);
    let scenario = Scenario::new(script);
    let cluster = ApiCluster::new(scenario.client(), "host-1");
    let kind = Kind::new("", "v1", "Pod");
    cluster.read(&kind, &ObjectKey::new("n", "a")).await
}

fn pod() -> Value {
    json!({"metadata": {"namespace": "n", "name": "a", "resourceVersion": "7"}})
}

fn forbidden() -> ScriptedAnswer {
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
    for gone in [
        text(404, "404 page not found"),
        // As the API machinery answers where the group is served.
        status(
            404,
            "NotFound",
            "the server could not find the requested resource",
        ),
    ] {
        assert!(is_refused(&get([gone.clone(), gone]).await));
    }
}

/// A server that is not made of Kubernetes' API machinery.
#[tokio::test(start_paused = true)]
async fn what_a_404_does_not_name_is_looked_for_in_the_list() {
    let vague = || status(404, "NotFound", "nothing here");
    let listed = |items: Vec<Value>| [vague(), answer(&json!({"items": items}))];
    assert_eq!(get(listed(vec![])).await, Ok(None));
    let found = get(listed(vec![pod()])).await;
    assert_eq!(found, Ok(Some(pod().to_string())));
    assert!(is_refused(
        &get([vague(), status(405, "MethodNotAllowed", "no list")]).await
    ));
    let another = get([absent("b"), answer(&json!({"items": [pod()]}))]).await;
    assert_eq!(
        another,
        Ok(Some(pod().to_string())),
        "another object is absent"
    );
}

/// client-go's `NewGenericServerResponse` of a 404 page from the backend of an aggregated server.
#[tokio::test(start_paused = true)]
async fn a_404_that_a_client_has_made_of_another_answer_proves_nothing() {
    let made_up = json!({
        "kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound",
        "message": "the server could not find the requested resource (get pods a)",
        "details": {"name": "a", "kind": "pods", "causes": [
            {"reason": "UnexpectedServerResponse", "message": "404 page not found"},
        ]},
    });
    let made_up = || text(404, &made_up.to_string());
    assert!(is_refused(&get([made_up(), forbidden()]).await));
    let found = get([made_up(), answer(&json!({"items": [pod()]}))]).await;
    assert_eq!(found, Ok(Some(pod().to_string())));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_may_answer_later() {
    for failure in [
        status(500, "InternalError", "etcd"),
        status(401, "Unauthorized", "token"),
        ScriptedAnswer::Refused,
    ] {
        let result = get([failure]).await;
        assert!(
            matches!(result, Err(ReadFailure::NoAnswer(_))),
            "{result:?}"
        );
    }
    assert_eq!(get([absent("a")]).await, Ok(None));
}

/// For example after a kind was forgotten because its server was going down.
#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_say_which_kinds_there_are_may_answer_later() {
    for failure in [
        ScriptedAnswer::Refused,
        status(401, "Unauthorized", "token"),
        status(503, "", "later"),
    ] {
        let scenario = Scenario::new(std::iter::repeat_n(failure, 10));
        let cluster = ApiCluster::new(scenario.client(), "host-1");
        let kind = Kind::new("", "v1", "Pod");
        // The second call fails without a request.
        for _ in 0..2 {
            let result = cluster.read(&kind, &ObjectKey::new("n", "a")).await;
            assert!(
                matches!(result, Err(ReadFailure::NoAnswer(_))),
                "{result:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_server_will_say_of_each_such_request_will_never_be_known() {
    for refusal in [
        status(400, "BadRequest", "no"),
        status(406, "NotAcceptable", "no"),
        status(410, "Gone", "no"),
        status(422, "Invalid", "no"),
    ] {
        assert!(is_refused(&get([refusal.clone()]).await));
        assert!(is_refused(&get([forbidden(), refusal]).await));
    }
    for later in [
        status(408, "Timeout", "later"),
        status(429, "TooManyRequests", "later"),
    ] {
        for script in [vec![later.clone()], vec![forbidden(), later]] {
            let result = get(script).await;
            assert!(
                matches!(result, Err(ReadFailure::NoAnswer(_))),
                "{result:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_utf_8_is_none() {
    let garbled = ScriptedAnswer::Http {
        code: 200,
        headers: vec![],
        parts: vec![WirePart::Bytes(
            b"{\"metadata\":{\"namespace\":\"n\",\"name\":\"a\"},\"data\":{\"k\":\"\xff\"}}",
        )],
    };
    for script in [vec![garbled.clone()], vec![forbidden(), garbled]] {
        let result = get(script).await;
        assert!(
            matches!(&result, Err(ReadFailure::NoAnswer(reason)) if reason.contains("utf-8")),
            "{result:?}"
        );
    }
}

/// Not every aggregated API server supports field selectors.
#[tokio::test(start_paused = true)]
async fn of_a_list_only_the_object_that_was_asked_for_counts() {
    let mut other = pod();
    other["metadata"]["name"] = json!("b");
    let mut elsewhere = pod();
    elsewhere["metadata"]["namespace"] = json!("m");
    let others = || vec![other.clone(), elsewhere.clone()];
    let listed = |items: Vec<Value>| [forbidden(), answer(&json!({"items": items}))];
    assert_eq!(get(listed(others())).await, Ok(None));
    let all = others().into_iter().chain([pod()]).collect();
    assert_eq!(get(listed(all)).await, Ok(Some(pod().to_string())));
}

/// Lists the pods of a namespace. What was listed, and the requests for it.
async fn list(
    answers: impl IntoIterator<Item = ScriptedAnswer>,
) -> (Result<Vec<String>, ReadFailure>, Vec<String>) {
    let script = [discovery(), no_groups()].into_iter().chain(answers);
    let scenario = Scenario::new(script);
    let cluster = ApiCluster::new(scenario.client(), "host-1");
    let pods = InformerKey {
        namespace: Some("n".into()),
        labels: LabelSelector::parse("app=a").unwrap(),
        fields: Some("spec.nodeName=x".into()),
        ..InformerKey::all(Kind::new("", "v1", "Pod"))
    };
    let mut listed = Vec::new();
    let examine = |json: &str| {
        listed.push(json.to_owned());
        Ok(())
    };
    let result = cluster.list(&pods, false, examine).await;
    let seen = scenario.seen().split_off(2);
    assert!(
        seen.iter()
            .all(|seen| seen.accept.contains("PartialObjectMetadataList"))
    );
    let lines = seen.into_iter().map(|seen| seen.line).collect();
    (result.map(|()| listed), lines)
}

#[tokio::test(start_paused = true)]
async fn a_list_is_read_page_by_page_as_the_server_has_it_now() {
    let page = |next: &str| answer(&json!({"metadata": {"continue": next}, "items": [pod()]}));
    let (listed, lines) = list([page("to=ken"), page("")]).await;
    assert_eq!(listed, Ok(vec![pod().to_string(); 2]));
    let first = "GET /api/v1/namespaces/n/pods?limit=500&labelSelector=app%3Da&fieldSelector=spec.nodeName%3Dx";
    assert_eq!(
        lines,
        [first.to_owned(), format!("{first}&continue=to%3Dken")]
    );
}

/// As `PartialObjectMetadataList` from an API server written in Go.
#[tokio::test(start_paused = true)]
async fn a_list_without_objects_may_have_none_instead_of_an_empty_list() {
    let kind = "PartialObjectMetadataList";
    for nothing in [
        json!({"kind": kind, "items": null}),
        json!({"items": []}),
        json!({"kind": kind}),
    ] {
        let (listed, _) = list([answer(&nothing)]).await;
        assert_eq!(listed, Ok(Vec::new()), "{nothing}");
        let found = get([forbidden(), answer(&nothing)]).await;
        assert_eq!(found, Ok(None), "{nothing}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_no_list_does_not_say_that_there_is_nothing() {
    for other in [
        json!({}),
        json!({"items": null}),
        json!({"kind": "Status", "status": "Success", "metadata": {}}),
        pod(),
    ] {
        let (listed, _) = list([answer(&other)]).await;
        assert!(
            matches!(&listed, Err(ReadFailure::NoAnswer(why)) if why.contains("no list")),
            "{other}: {listed:?}"
        );
        for refusal in [forbidden(), status(404, "NotFound", "nothing here")] {
            let found = get([refusal, answer(&other)]).await;
            assert!(
                matches!(&found, Err(ReadFailure::NoAnswer(why)) if why.contains("no list")),
                "{other}: {found:?}"
            );
        }
    }
}

/// From a server that knows no field selectors.
#[tokio::test(start_paused = true)]
async fn a_page_of_others_does_not_say_that_the_object_is_absent() {
    let mut other = pod();
    other["metadata"]["name"] = json!("b");
    let page = |items: Vec<Value>| {
        let list = json!({"metadata": {"continue": "next"}, "items": items});
        [forbidden(), answer(&list)]
    };
    let unknown = get(page(vec![other.clone()])).await;
    assert!(
        matches!(&unknown, Err(ReadFailure::NoAnswer(why)) if why.contains("goes on")),
        "{unknown:?}"
    );
    let found = get(page(vec![other, pod()])).await;
    assert_eq!(found, Ok(Some(pod().to_string())));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_was_forgotten_on_the_way_has_no_answer_and_one_that_is_forbidden_never_will() {
    let page = answer(&json!({"metadata": {"continue": "next"}, "items": [pod()]}));
    let (listed, _) = list([page, status(410, "Expired", "too old")]).await;
    assert!(matches!(listed, Err(ReadFailure::NoAnswer(_))));
    let (listed, _) = list([forbidden()]).await;
    assert!(matches!(listed, Err(ReadFailure::Refused(_))));
}
