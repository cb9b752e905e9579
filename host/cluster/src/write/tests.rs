use std::time::Duration;

use pilothouse_core::{Kind, ObjectKey, Propagation};
use serde_json::{Value, json};

use super::request::MAX_ANSWER;
use super::*;
use crate::ApiCluster;
use crate::testing::{
    Scenario, ScriptedAnswer, Seen, absent, json as answer, stalled, status, text,
};

fn discovery() -> [ScriptedAnswer; 2] {
    discovery_with("Cluster")
}

/// Discovery documents in which nodes have this scope.
fn discovery_with(scope_of_nodes: &str) -> [ScriptedAnswer; 2] {
    let part = |name: &str, group: &str, kind: &str| json!({"subresource": name, "responseKind": {"group": group, "version": "v1", "kind": kind}});
    let whole = |plural: &str, kind: &str, scope: &str, parts: &[Value]| json!({"resource": plural, "scope": scope, "responseKind": {"kind": kind}, "verbs": ["list", "watch"], "subresources": parts});
    let document = |name: &str, resources: &[Value]| {
        answer(
            &json!({"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": name}, "versions": [{"version": "v1", "resources": resources}]}]}),
        )
    };
    let pod_parts = [
        part("status", "", "Pod"),
        part("eviction", "policy", "Eviction"),
        part("binding", "", "Binding"),
    ];
    [
        document(
            "",
            &[
                whole("pods", "Pod", "Namespaced", &pod_parts),
                whole("nodes", "Node", scope_of_nodes, &[]),
            ],
        ),
        document(
            "apps",
            &[whole(
                "deployments",
                "Deployment",
                "Namespaced",
                &[part("scale", "autoscaling", "Scale")],
            )],
        ),
    ]
}

fn write(kind: Kind, operation: Operation) -> Write {
    let namespace = if &*kind.kind == "Node" { "" } else { "n" };
    Write {
        key: ObjectKey::new(namespace, "a"),
        kind,
        subresource: None,
        operation,
    }
}

fn pod(operation: Operation) -> Write {
    write(Kind::new("", "v1", "Pod"), operation)
}

fn on(subresource: &str, write: Write) -> Write {
    Write {
        subresource: Some(subresource.into()),
        ..write
    }
}

fn create() -> Operation {
    Operation::Create {
        object: r#"{"x":1}"#.into(),
    }
}

fn apply() -> Operation {
    Operation::Apply {
        object: r#"{"x":1}"#.into(),
        force: false,
    }
}

fn delete(uid: Option<&str>) -> Operation {
    Operation::Delete {
        uid: uid.map(str::to_owned),
        resource_version: None,
        propagation: None,
        grace_period_seconds: None,
    }
}

/// The result, and the requests after those of discovery.
async fn play(
    write: &Write,
    answers: impl IntoIterator<Item = ScriptedAnswer>,
) -> (ActionResult, Vec<Seen>) {
    let scenario = Scenario::new(discovery().into_iter().chain(answers));
    let cluster = ApiCluster::new(scenario.client(), "host-1");
    let result = cluster
        .write(&Author::named("my plugin"), write)
        .await
        .result;
    (result, scenario.seen().split_off(2))
}

fn at_version(version: &str) -> ScriptedAnswer {
    answer(&json!({"kind": "Pod", "metadata": {"name": "a", "resourceVersion": version}}))
}

#[tokio::test(start_paused = true)]
async fn every_operation_is_the_request_kubernetes_expects() {
    let patch = |patch_type| Operation::Patch {
        patch_type,
        body: r#"{"x":1}"#.into(),
    };
    let deployment = |operation| write(Kind::new("apps", "v1", "Deployment"), operation);
    let eviction = on(
        "eviction",
        write(Kind::new("policy", "v1", "Eviction"), create()),
    );
    let pods = "/api/v1/namespaces/n/pods";
    let by = "?fieldManager=my%20plugin";
    let cases = [
        (
            pod(apply()),
            format!("PATCH {pods}/a{by}&force=false"),
            "application/apply-patch+yaml",
        ),
        (
            deployment(Operation::Apply {
                object: r#"{"x":1}"#.into(),
                force: true,
            }),
            format!("PATCH /apis/apps/v1/namespaces/n/deployments/a{by}&force=true"),
            "application/apply-patch+yaml",
        ),
        (
            on("status", pod(apply())),
            format!("PATCH {pods}/a/status{by}&force=false"),
            "application/apply-patch+yaml",
        ),
        (
            pod(create()),
            format!("POST {pods}{by}"),
            "application/json",
        ),
        (
            write(Kind::new("", "v1", "Node"), create()),
            format!("POST /api/v1/nodes{by}"),
            "application/json",
        ),
        (
            eviction,
            format!("POST {pods}/a/eviction{by}"),
            "application/json",
        ),
        (
            on("binding", write(Kind::new("", "v1", "Binding"), create())),
            format!("POST {pods}/a/binding{by}"),
            "application/json",
        ),
        (
            pod(Operation::Update {
                object: r#"{"x":1}"#.into(),
            }),
            format!("PUT {pods}/a{by}"),
            "application/json",
        ),
        (
            pod(patch(PatchType::Json)),
            format!("PATCH {pods}/a{by}"),
            "application/json-patch+json",
        ),
        (
            pod(patch(PatchType::Merge)),
            format!("PATCH {pods}/a{by}"),
            "application/merge-patch+json",
        ),
        (
            on("scale", deployment(patch(PatchType::Strategic))),
            format!("PATCH /apis/apps/v1/namespaces/n/deployments/a/scale{by}"),
            "application/strategic-merge-patch+json",
        ),
    ];
    for (write, line, content_type) in cases {
        let (result, seen) = play(&write, [at_version("7")]).await;
        assert_eq!(result, ActionResult::Done(Some("7".into())));
        assert_eq!(
            (&*seen[0].line, &*seen[0].content_type, &seen[0].body),
            (&*line, content_type, &json!({"x": 1}))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_carries_its_preconditions() {
    let whole = Operation::Delete {
        uid: Some("u".into()),
        resource_version: Some("7".into()),
        propagation: Some(Propagation::Foreground),
        grace_period_seconds: Some(0),
    };
    let (_, seen) = play(&pod(whole), [at_version("7")]).await;
    assert_eq!(seen[0].line, "DELETE /api/v1/namespaces/n/pods/a");
    assert_eq!(
        seen[0].body,
        json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "u", "resourceVersion": "7"}, "propagationPolicy": "Foreground", "gracePeriodSeconds": 0})
    );
    let (_, seen) = play(&pod(delete(None)), [at_version("7")]).await;
    assert_eq!(
        seen[0].body,
        json!({"apiVersion": "v1", "kind": "DeleteOptions"})
    );
}

#[tokio::test(start_paused = true)]
async fn the_answer_names_the_kind_that_was_written_where_it_is_not_the_bodys() {
    let eviction = write(Kind::new("policy", "v1", "Eviction"), create());
    let scale = write(Kind::new("autoscaling", "v1", "Scale"), create());
    for (write, owner) in [
        (on("eviction", eviction), Some(Kind::new("", "v1", "Pod"))),
        (
            on("scale", scale),
            Some(Kind::new("apps", "v1", "Deployment")),
        ),
        (on("status", pod(create())), None),
        (pod(create()), None),
    ] {
        let scenario = Scenario::new(discovery().into_iter().chain([at_version("7")]));
        let cluster = ApiCluster::new(scenario.client(), "host-1");
        let answer = cluster.write(&Author::named("p"), &write).await;
        assert_eq!(answer.owner, owner, "{write:?}");
    }
}

/// The description of an answer to a write that quotes none of the server's text.
async fn left_of(answer: ScriptedAnswer) -> Option<String> {
    let scenario = Scenario::new(discovery().into_iter().chain([answer]));
    let cluster = ApiCluster::new(scenario.client(), "host-1");
    let answer = cluster.write(&Author::named("p"), &pod(apply())).await;
    answer.status
}

#[tokio::test(start_paused = true)]
async fn of_the_servers_own_words_a_status_is_left_that_quotes_nothing() {
    let quoted = "Invalid value: \"hunter2\"";
    let left = left_of(status(422, "Invalid", quoted)).await;
    assert_eq!(left.as_deref(), Some("HTTP 422 Invalid"));
    // A webhook may put any text into the reason.
    let left = left_of(status(403, "hunter2 is denied", quoted)).await;
    assert_eq!(left.as_deref(), Some("HTTP 403 without a reason"));
    let left = left_of(text(502, "hunter2")).await;
    assert_eq!(left.as_deref(), Some("HTTP 502 without a reason"));
    let left = left_of(text(200, "hunter2")).await;
    assert!(left.is_some_and(|left| !left.contains("hunter2")));
    assert_eq!(left_of(at_version("7")).await, None);
}

#[tokio::test(start_paused = true)]
async fn every_answer_is_sorted_as_the_contract_says() {
    let said = || "it says".to_owned();
    let cases = [
        (
            status(409, "AlreadyExists", "it says"),
            ActionResult::AlreadyExists(said()),
        ),
        (
            status(409, "Conflict", "it says"),
            ActionResult::Conflict(said()),
        ),
        (
            status(404, "NotFound", "it says"),
            ActionResult::NotFound(said()),
        ),
        (
            status(403, "Forbidden", "it says"),
            ActionResult::Forbidden(said()),
        ),
        (
            status(400, "BadRequest", "it says"),
            ActionResult::Invalid(said()),
        ),
        (
            status(422, "Invalid", "it says"),
            ActionResult::Invalid(said()),
        ),
        (
            status(500, "InternalError", "it says"),
            ActionResult::Unknown("HTTP 500: it says".into()),
        ),
        (
            text(504, ""),
            ActionResult::Unavailable("HTTP 504 Gateway Timeout".into()),
        ),
        (
            ScriptedAnswer::Refused,
            ActionResult::Unavailable("Connection refused (os error 111)".into()),
        ),
        (
            ScriptedAnswer::Silence,
            ActionResult::Unavailable("no answer within 30 s".into()),
        ),
        (
            answer(&json!({"kind": "Status", "status": "Success"})),
            ActionResult::Done(None),
        ),
        // The host's credentials concern all of its writes alike.
        (
            status(401, "Unauthorized", "it says"),
            ActionResult::Unavailable("HTTP 401: it says".into()),
        ),
    ];
    for (answer, wanted) in cases {
        assert_eq!(play(&pod(create()), [answer]).await.0, wanted);
    }
}

/// A proxy on the way may answer too, with a page of its own or with an empty body.
#[tokio::test(start_paused = true)]
async fn a_success_without_an_object_is_no_success() {
    let status = |what: &str| json!({"kind": "Status", "status": what}).to_string();
    let long = format!(r#"{{"kind":"Pod","x":"{}"}}"#, "x".repeat(MAX_ANSWER));
    let bodies = [
        "<html>be right back</html>".to_owned(),
        String::new(),
        "null".into(),
        "[]".into(),
        r#""ok""#.into(),
        r#"{"status":"ok"}"#.into(),
        r#"{"kind":""}"#.into(),
        r#"{"kind":7}"#.into(),
        r#"{"kind":"Pod","metadata":{"resourceVersion":"7"}"#.into(),
        status("Failure"),
        long,
    ];
    let update = || Operation::Update {
        object: "{}".into(),
    };
    for operation in [apply(), create(), update(), delete(Some("u"))] {
        for body in &bodies {
            let (result, seen) = play(&pod(operation.clone()), [text(200, body)]).await;
            assert!(
                matches!(&result, ActionResult::Unknown(why) if why.len() < 300),
                "{result:?}"
            );
            assert_eq!(seen.len(), 1, "it may have been done");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn deleting_what_is_gone_succeeds_and_what_has_changed_does_not() {
    let gone = status(404, "NotFound", "pods \"a\" not found");
    assert_eq!(
        play(&pod(delete(None)), [gone]).await.0,
        ActionResult::Done(None)
    );
    let changed = status(
        409,
        "Conflict",
        "the UID in the precondition (u) does not match",
    );
    assert!(matches!(
        play(&pod(delete(Some("u"))), [changed]).await.0,
        ActionResult::Conflict(_)
    ));
}

#[tokio::test(start_paused = true)]
async fn a_conflict_with_other_managers_names_them_their_fields_and_force() {
    let body = r#"{"kind":"Status","code":409,"reason":"Conflict",
        "message":"Apply failed with 2 conflicts: conflicts with \"x\":\n- .data.a\n- .data.b",
        "details":{"causes":[{"reason":"FieldManagerConflict","message":"conflict with \"x\"","field":".data.a"}]}}"#;
    let scenario = Scenario::new(discovery().into_iter().chain([text(409, body)]));
    let cluster = ApiCluster::new(scenario.client(), "host-1");
    let answer = cluster.write(&Author::named("p"), &pod(apply())).await;
    let said = "Apply failed with 2 conflicts: conflicts with \"x\": - .data.a - .data.b; with force an apply takes them over";
    assert_eq!(answer.result, ActionResult::Conflict(said.to_owned()));
    assert_eq!(
        answer.status.as_deref(),
        Some(
            "HTTP 409 Conflict: others own fields of the apply; with force an apply takes them over"
        ),
        "the same without the server's words"
    );
}

#[tokio::test(start_paused = true)]
async fn a_write_to_another_object_than_that_of_its_uid_is_a_conflict() {
    for (field, is_conflict) in [("metadata.uid", true), ("spec", false)] {
        let body = format!(
            r#"{{"kind":"Status","code":422,"reason":"Invalid","message":"x","details":{{"causes":[{{"reason":"FieldValueInvalid","field":"{field}"}}]}}}}"#
        );
        let (result, _) = play(&pod(apply()), [text(422, &body)]).await;
        assert_eq!(
            matches!(result, ActionResult::Conflict(_)),
            is_conflict,
            "{field}: {result:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_has_no_path_is_invalid_and_not_sent() {
    let with_key = |kind, namespace, name| Write {
        key: ObjectKey::new(namespace, name),
        ..write(kind, apply())
    };
    let (pod, node) = (
        || Kind::new("", "v1", "Pod"),
        || Kind::new("", "v1", "Node"),
    );
    for write in [
        with_key(pod(), "", "a"),
        with_key(node(), "n", "a"),
        with_key(pod(), "n", "../b"),
        with_key(pod(), "n", "a%2fb"),
        with_key(pod(), "n", ""),
    ] {
        let (result, seen) = play(&write, [at_version("7")]).await;
        assert!(matches!(result, ActionResult::Invalid(_)), "{result:?}");
        assert!(seen.is_empty());
    }
    let (result, _) = play(&write(Kind::new("example.com", "v1", "Foo"), apply()), []).await;
    assert_eq!(
        result,
        ActionResult::NotFound("the server has no kind example.com/v1/Foo".into())
    );
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_outcome_is_unknown_is_sent_once() {
    for write in [pod(create()), pod(apply()), pod(delete(Some("u")))] {
        for unknown in [
            text(504, ""),
            text(500, ""),
            text(502, ""),
            text(503, ""),
            ScriptedAnswer::Refused,
            ScriptedAnswer::Silence,
            stalled(),
        ] {
            let (result, seen) = play(&write, [unknown]).await;
            assert!(matches!(
                result,
                ActionResult::Unknown(_) | ActionResult::Unavailable(_)
            ));
            assert_eq!(seen.len(), 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_is_read_from_the_server_itself() {
    let object = json!({"metadata": {"name": "a", "uid": "u", "resourceVersion": "8"}});
    let scenario = Scenario::new(discovery().into_iter().chain([
        answer(&object),
        absent("a"),
        // Neither the object nor the list has a path.
        text(404, "404 page not found"),
        text(404, "404 page not found"),
        text(503, ""),
        ScriptedAnswer::Silence,
    ]));
    let cluster = ApiCluster::new(scenario.client(), "host-1");
    let (kind, key) = (Kind::new("", "v1", "Pod"), ObjectKey::new("n", "a"));
    assert_eq!(
        cluster.read(&kind, &key).await,
        Ok(Some(object.to_string()))
    );
    assert_eq!(cluster.read(&kind, &key).await, Ok(None));
    for why in [
        "no path to the kind",
        "a failure",
        "no answer within its deadline",
    ] {
        assert!(cluster.read(&kind, &key).await.is_err(), "{why}");
    }
    let seen = scenario.seen();
    assert_eq!(seen.last().unwrap().line, "GET /api/v1/namespaces/n/pods/a");
}

#[tokio::test(start_paused = true)]
async fn a_create_is_sent_again_after_429_and_not_after_503() {
    let refused = |code| status(code, "", "later").with_header("retry-after", "2");
    let (result, seen) = play(&pod(create()), [refused(429), at_version("7")]).await;
    assert_eq!(result, ActionResult::Done(Some("7".into())));
    assert_eq!(seen[1].at - seen[0].at, Duration::from_secs(2));
    let (result, seen) = play(&pod(create()), [refused(503)]).await;
    assert_eq!(
        (result, seen.len()),
        (ActionResult::Unavailable("later".into()), 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_write_that_can_be_done_twice_is_sent_again_after_503_with_a_time() {
    let refused = || status(503, "ServiceUnavailable", "later").with_header("retry-after", "1");
    for write in [
        pod(apply()),
        pod(delete(Some("u"))),
        pod(Operation::Update {
            object: "{}".into(),
        }),
    ] {
        assert_eq!(
            play(&write, [refused(), at_version("7")]).await.1.len(),
            2,
            "{write:?}"
        );
    }
    let json_patch = Operation::Patch {
        patch_type: PatchType::Json,
        body: "[]".into(),
    };
    for write in [pod(json_patch), pod(delete(None))] {
        assert_eq!(play(&write, [refused()]).await.1.len(), 1, "{write:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stays_busy_is_asked_a_bounded_number_of_times() {
    let busy =
        |seconds: &str| status(429, "TooManyRequests", "later").with_header("retry-after", seconds);
    let (result, seen) = play(&pod(create()), std::iter::repeat_n(busy("1"), 10)).await;
    assert_eq!(
        (result, seen.len()),
        (
            ActionResult::Busy("HTTP 429: later".into(), Duration::from_secs(1)),
            4
        )
    );
    assert_eq!(
        play(&pod(create()), [busy("60")]).await.1.len(),
        1,
        "a long wait is the key's back-off"
    );
}

#[tokio::test(start_paused = true)]
async fn an_eviction_that_a_budget_forbids_is_not_sent_again() {
    let forbidden = status(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
    )
    .with_header("retry-after", "1");
    let eviction = on(
        "eviction",
        write(Kind::new("policy", "v1", "Eviction"), create()),
    );
    let (result, seen) = play(&eviction, [forbidden]).await;
    assert_eq!(seen.len(), 1);
    let is_failed = matches!(&result, ActionResult::Failed(text) if text.contains("budget"));
    assert!(is_failed, "other writes need not wait: {result:?}");
}

#[tokio::test(start_paused = true)]
async fn each_write_is_made_as_its_own_authors_user_and_field_manager() {
    let versions = ["1", "2", "3"].map(at_version);
    let scenario = Scenario::new(discovery().into_iter().chain(versions));
    let cluster = ApiCluster::new(scenario.client(), "host-1");
    let own = Author::named("web");
    let other = Author {
        field_manager: "helm".into(),
        user: Some("system:serviceaccount:a:b".into()),
        ..own.clone()
    };
    for author in [&own, &other, &own] {
        cluster.write(author, &pod(apply())).await;
    }
    let seen = scenario.seen().split_off(2);
    let by = |seen: &Seen| {
        let manager = seen.line.split(['=', '&']).nth(1);
        (seen.user.clone(), manager.unwrap_or_default().to_owned())
    };
    let by: Vec<(String, String)> = seen.iter().map(by).collect();
    let of = |user: &str, manager: &str| (user.to_owned(), manager.to_owned());
    let other = of("system:serviceaccount:a:b", "helm");
    assert_eq!(by, [of("", "web"), other, of("", "web")]);
}

#[tokio::test(start_paused = true)]
async fn a_user_that_cannot_be_named_is_nobody_and_not_the_host() {
    let scenario = Scenario::new(discovery());
    let cluster = ApiCluster::new(scenario.client(), "host-1");
    let author = Author {
        user: Some("a\r\nb".into()),
        ..Author::named("web")
    };
    let result = cluster.write(&author, &pod(apply())).await.result;
    assert!(matches!(result, ActionResult::Invalid(_)), "{result:?}");
    assert_eq!(scenario.lines().len(), 2, "nothing was written");
}

#[tokio::test(start_paused = true)]
async fn a_kind_whose_path_is_gone_is_looked_up_again() {
    let gone = text(404, "404 page not found");
    let scenario = Scenario::new(
        discovery()
            .into_iter()
            .chain([gone])
            .chain(discovery())
            .chain([at_version("8")]),
    );
    let cluster = ApiCluster::new(scenario.client(), "host-1");
    assert!(
        matches!(
            cluster
                .write(&Author::named("m"), &pod(delete(None)))
                .await
                .result,
            ActionResult::NotFound(_)
        ),
        "not success: nobody looked for the object"
    );
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(
        cluster
            .write(&Author::named("m"), &pod(apply()))
            .await
            .result,
        ActionResult::Done(Some("8".into()))
    );
    assert_eq!(scenario.lines().len(), 6);
}

/// For example after a kind was forgotten because its server was going down.
#[tokio::test(start_paused = true)]
async fn a_write_finds_no_server_where_none_says_which_kinds_there_are() {
    let failures = [
        ScriptedAnswer::Refused,
        status(503, "", "later"),
        status(401, "Unauthorized", "token"),
    ];
    for failure in failures {
        let scenario = Scenario::new(std::iter::repeat_n(failure, 20));
        let cluster = ApiCluster::new(scenario.client(), "host-1");
        // The second call fails without a request.
        for _ in 0..2 {
            let result = cluster
                .write(&Author::named("m"), &pod(apply()))
                .await
                .result;
            assert!(matches!(result, ActionResult::Unavailable(_)), "{result:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_apply_shows_the_object_that_it_left() {
    let scenario = Scenario::new(
        discovery()
            .into_iter()
            .chain([at_version("7"), at_version("8")]),
    );
    let cluster = ApiCluster::new(scenario.client(), "host-1");
    let shown = cluster
        .write(&Author::named("m"), &pod(apply()))
        .await
        .object;
    let shown: Option<Value> = shown.map(|shown| serde_json::from_str(&shown).unwrap());
    assert_eq!(shown.unwrap()["metadata"]["resourceVersion"], "7");
    assert_eq!(
        cluster
            .write(&Author::named("m"), &pod(create()))
            .await
            .object,
        None
    );
}

#[tokio::test(start_paused = true)]
async fn a_json_patch_that_does_not_fit_the_object_is_a_conflict_and_no_other_422_is() {
    let json_patch = |patch_type| Operation::Patch {
        patch_type,
        body: "[]".into(),
    };
    let misfit = "the server rejected our request due to an error in our request";
    for (patch_type, message, is_conflict) in [
        (PatchType::Json, misfit, true),
        (PatchType::Merge, misfit, false),
        (
            PatchType::Json,
            "Pod \"a\" is invalid: metadata.finalizers: Invalid value",
            false,
        ),
    ] {
        let answer = status(422, "Invalid", message);
        let (result, _) = play(&pod(json_patch(patch_type)), [answer]).await;
        match result {
            ActionResult::Conflict(_) => assert!(is_conflict, "{message}"),
            ActionResult::Invalid(_) => assert!(!is_conflict, "{message}"),
            other => panic!("{other:?}"),
        }
    }
}

/// No plugin watches the kind, so no list-watch notices the change.
#[tokio::test(start_paused = true)]
async fn a_kind_that_was_made_anew_with_another_scope_is_looked_up_again() {
    let script = discovery().into_iter().chain(discovery_with("Namespaced"));
    let scenario = Scenario::new(script.chain([at_version("8")]));
    let cluster = ApiCluster::new(scenario.client(), "host-1");
    let author = Author::named("m");
    let in_namespace = Write {
        key: ObjectKey::new("n", "a"),
        ..write(Kind::new("", "v1", "Node"), apply())
    };
    // As far as the host can tell, the plugin is mistaken. Repeating the mistake costs no requests.
    for _ in 0..50 {
        let result = cluster.write(&author, &in_namespace).await.result;
        assert!(matches!(result, ActionResult::Invalid(_)), "{result:?}");
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert_eq!(scenario.lines().len(), 2);
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(
        cluster.write(&author, &in_namespace).await.result,
        ActionResult::Done(Some("8".into()))
    );
    assert_eq!(scenario.lines().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn the_write_that_takes_the_last_finalizer_says_which_object_ends() {
    let dying = |finalizers: &[&str], grace: i64| {
        answer(
            &json!({"kind": "Pod", "metadata": {"name": "a", "uid": "u", "resourceVersion": "7",
            "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": grace,
            "finalizers": finalizers}}),
        )
    };
    let patch = pod(Operation::Patch {
        patch_type: PatchType::Json,
        body: "[]".into(),
    });
    for (shown, ended) in [
        (dying(&[], 0), Some("u")),
        (dying(&["another/one"], 0), None),
        (dying(&[], 30), None),
        (at_version("7"), None),
    ] {
        let scenario = Scenario::new(discovery().into_iter().chain([shown]));
        let cluster = ApiCluster::new(scenario.client(), "host-1");
        let answer = cluster.write(&Author::named("m"), &patch).await;
        assert_eq!(answer.ended.as_deref(), ended);
    }
}

#[tokio::test(start_paused = true)]
async fn a_collection_is_deleted_page_by_page_and_what_was_deleted_is_known() {
    let page = |names: &[&str], next: &str| {
        let items = names.iter().map(
            |name| json!({"metadata": {"namespace": "n", "name": name, "uid": format!("u-{name}")}}),
        );
        let items: Vec<Value> = items.collect();
        answer(
            &json!({"kind": "PodList", "metadata": {"resourceVersion": "7", "continue": next}, "items": items}),
        )
    };
    let all = Write {
        key: ObjectKey::new("n", ""),
        ..pod(Operation::DeleteAll {
            labels: "app in (a,b)".into(),
            propagation: Some(Propagation::Foreground),
        })
    };
    let answers = [page(&["a", "b"], "to=ken"), page(&["c"], "")];
    let scenario = Scenario::new(discovery().into_iter().chain(answers));
    let cluster = ApiCluster::new(scenario.client(), "host-1");
    let answer = cluster.write(&Author::named("p"), &all).await;
    assert_eq!(answer.result, ActionResult::Done(None));
    let deleted: Vec<String> = answer
        .deleted
        .iter()
        .map(|(key, uid)| format!("{key} {uid}"))
        .collect();
    assert_eq!(deleted, ["n/a u-a", "n/b u-b", "n/c u-c"]);
    let seen = scenario.seen().split_off(2);
    let path = "DELETE /api/v1/namespaces/n/pods?labelSelector=app%20in%20%28a%2Cb%29&limit=500";
    let lines: Vec<&str> = seen.iter().map(|seen| &*seen.line).collect();
    assert_eq!(
        lines,
        [path.to_owned(), format!("{path}&continue=to%3Dken")]
    );
    for seen in &seen {
        assert!(seen.accept.contains("as=PartialObjectMetadataList"));
        assert_eq!(seen.body["propagationPolicy"], "Foreground");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_collection_lost_before_its_deletion_failed_is_known_too() {
    let first = answer(
        &json!({"kind": "PodList", "metadata": {"continue": "next"}, "items": [{"metadata": {"namespace": "n", "name": "a", "uid": "u"}}]}),
    );
    let all = Write {
        key: ObjectKey::new("n", ""),
        ..pod(Operation::DeleteAll {
            labels: String::new(),
            propagation: None,
        })
    };
    let refused = status(403, "Forbidden", "no");
    let scenario = Scenario::new(discovery().into_iter().chain([first, refused]));
    let cluster = ApiCluster::new(scenario.client(), "host-1");
    let answer = cluster.write(&Author::named("p"), &all).await;
    assert!(matches!(answer.result, ActionResult::Forbidden(_)));
    assert_eq!(answer.deleted.len(), 1);
}
