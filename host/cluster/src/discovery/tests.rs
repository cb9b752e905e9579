mod told;
mod unchanged;

use serde_json::{Value, json};

use super::*;
use crate::testing::{Scenario, ScriptedAnswer, json as answer, stalled, status, text};

fn aggregated(groups: &Value) -> ScriptedAnswer {
    answer(
        &json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": groups}),
    )
}

fn whole(plural: &str, kind: &str, scope: &str, subresources: &Value) -> Value {
    json!({
        "resource": plural, "scope": scope, "responseKind": {"group": "", "version": "", "kind": kind}, "singularResource": "x",
        "verbs": ["create", "delete", "get", "list", "watch"], "subresources": subresources,
    })
}

fn part(name: &str, group: &str, version: &str, kind: &str) -> Value {
    json!({"subresource": name, "responseKind": {"group": group, "version": version, "kind": kind}, "verbs": ["create", "update"]})
}

fn core() -> ScriptedAnswer {
    let binding = json!({"resource": "bindings", "scope": "Namespaced", "responseKind": {"kind": "Binding", "version": "v1"}, "verbs": ["create"]});
    let eviction = [
        part("eviction", "policy", "v1", "Eviction"),
        part("binding", "", "v1", "Binding"),
        part("status", "", "v1", "Pod"),
    ];
    let resources = json!([
        whole("pods", "Pod", "Namespaced", &json!(eviction)),
        whole("nodes", "Node", "Cluster", &json!([])),
        binding
    ]);
    aggregated(
        &json!([{"metadata": {"name": ""}, "versions": [{"version": "v1", "freshness": "Current", "resources": resources}]}]),
    )
}

fn groups() -> ScriptedAnswer {
    let scale = json!([part("scale", "autoscaling", "v1", "Scale")]);
    let apps = json!([
        whole("deployments", "Deployment", "Namespaced", &scale),
        whole("statefulsets", "StatefulSet", "Namespaced", &scale)
    ]);
    aggregated(&json!([
        {"metadata": {"name": "apps"}, "versions": [{"version": "v1", "freshness": "Current", "resources": apps}]},
        {"metadata": {"name": "example.com"}, "versions": [
            {"version": "v2", "resources": [whole("foos", "Foo", "Cluster", &json!(null))]},
            {"version": "v1", "resources": [whole("foos", "Foo", "Cluster", &json!([]))]},
        ]},
        {"metadata": {"name": "metrics.k8s.io"}, "versions": [{"version": "v1beta1", "freshness": "Stale"}]},
    ]))
}

fn kind(text: &str) -> Kind {
    let (api_version, kind) = text.rsplit_once('/').unwrap();
    Kind::from_api_version(api_version, kind)
}

async fn error(discovery: &Discovery, text: &str) -> String {
    discovery
        .resolve(&kind(text))
        .await
        .unwrap_err()
        .to_string()
}

#[tokio::test(start_paused = true)]
async fn two_documents_tell_every_kind() {
    let scenario = Scenario::new([core(), groups()]);
    let discovery = Discovery::new(scenario.client());
    let pods = discovery.resolve(&kind("v1/Pod")).await.unwrap();
    assert_eq!(
        (&*pods.plural, pods.is_namespaced, pods.is_watchable()),
        ("pods", true, true)
    );
    assert_eq!(
        pods.subresources[2],
        Subresource {
            name: "status".into(),
            kind: kind("v1/Pod"),
            verbs: vec!["create".into(), "update".into()]
        }
    );
    let foos = discovery
        .resolve(&kind("example.com/v1/Foo"))
        .await
        .unwrap();
    assert_eq!(
        (&*foos.plural, foos.is_namespaced, foos.qualified_name()),
        ("foos", false, "foos.example.com".to_owned())
    );
    assert_eq!(
        scenario.lines(),
        ["GET /api", "GET /apis"],
        "and they are kept"
    );
    assert!(
        scenario.seen()[0]
            .accept
            .starts_with("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,")
    );
}

#[tokio::test(start_paused = true)]
async fn every_kind_is_told_once_in_the_version_that_the_server_prefers() {
    let scenario = Scenario::new([core(), groups()]);
    let discovery = Discovery::new(scenario.client());
    let kinds = discovery.kinds().await.unwrap();
    let names: Vec<String> = kinds.iter().map(|served| served.kind.to_string()).collect();
    let wanted = [
        "v1/Binding",
        "v1/Node",
        "v1/Pod",
        "apps/v1/Deployment",
        "apps/v1/StatefulSet",
        "example.com/v2/Foo",
    ];
    assert_eq!(names, wanted);
    let pods = &kinds[2];
    assert!(pods.is_namespaced && pods.is_watchable() && pods.resource == "pods");
    assert_eq!(pods.subresources, ["binding", "eviction", "status"]);
    assert!(!kinds[0].is_watchable() && !kinds[1].is_namespaced);
    assert_eq!(
        (&*pods.versions, &*kinds[5].versions),
        (
            &["v1".to_owned()][..],
            &["v1".to_owned(), "v2".to_owned()][..]
        )
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_without_aggregated_discovery_is_asked_per_version() {
    let scenario = Scenario::new([
        answer(&json!({"kind": "APIVersions", "versions": ["v1"]})),
        status(406, "NotAcceptable", "only application/json"),
        answer(&json!({"kind": "APIGroupList", "groups": [
            {"name": "apps", "versions": [{"groupVersion": "apps/v1", "version": "v1"}]},
            {"name": "down", "versions": [{"groupVersion": "down/v1", "version": "v1"}]},
        ]})),
        answer(
            &json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": [
                {"name": "pods/eviction", "namespaced": true, "group": "policy", "version": "v1", "kind": "Eviction", "verbs": ["create"]},
                {"name": "pods", "namespaced": true, "kind": "Pod", "verbs": ["list", "watch"]},
            ]}),
        ),
        answer(
            &json!({"kind": "APIResourceList", "groupVersion": "apps/v1", "resources": [
                {"name": "deployments", "namespaced": true, "kind": "Deployment", "verbs": ["list", "watch"]},
            ]}),
        ),
        status(
            503,
            "ServiceUnavailable",
            "the server is currently unable to handle the request",
        ),
    ]);
    let discovery = Discovery::new(scenario.client());
    let pods = discovery.resolve(&kind("v1/Pod")).await.unwrap();
    assert_eq!(pods.subresources[0].kind, kind("policy/v1/Eviction"));
    assert!(
        discovery.resolve(&kind("apps/v1/Deployment")).await.is_ok(),
        "a group that fails hides no other"
    );
    assert_eq!(
        scenario.lines(),
        [
            "GET /api",
            "GET /apis",
            "GET /apis",
            "GET /api/v1",
            "GET /apis/apps/v1",
            "GET /apis/down/v1"
        ]
    );
    let down = error(&discovery, "down/v1/Thing").await;
    assert!(
        down.ends_with(
            "down/v1 could not be asked: the server is currently unable to handle the request"
        ),
        "{down}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_unknown_kind_is_answered_with_what_may_have_been_meant() {
    let discovery = Discovery::new(Scenario::new([core(), groups()]).client());
    let cases = [
        (
            "example.com/v3/Foo",
            "the server has no kind example.com/v3/Foo; it serves Foo as example.com/v1, example.com/v2",
        ),
        (
            "v1/Deployment",
            "the server has no kind v1/Deployment; did you mean apps/v1/Deployment?",
        ),
        (
            "v1/pods",
            "the server has no kind v1/pods; did you mean v1/Pod?",
        ),
        (
            "apps/v1/Deploymnet",
            "the server has no kind apps/v1/Deploymnet; did you mean apps/v1/Deployment?",
        ),
        ("v1/Banana", "the server has no kind v1/Banana"),
        (
            "metrics.k8s.io/v1beta1/PodMetrics",
            "whether there is a kind metrics.k8s.io/v1beta1/PodMetrics is not known: metrics.k8s.io/v1beta1 could not be asked: its server does not answer",
        ),
    ];
    for (asked, wanted) in cases {
        assert_eq!(error(&discovery, asked).await, wanted);
    }
}

/// An answer with the kind `new.io/v1/Bar`.
fn with_bar() -> ScriptedAnswer {
    aggregated(
        &json!([{"metadata": {"name": "new.io"}, "versions": [{"version": "v1", "resources": [whole("bars", "Bar", "Cluster", &json!([]))]}]}]),
    )
}

#[tokio::test(start_paused = true)]
async fn whether_a_kind_is_served_is_asked_now_and_then_and_a_kind_goes_slowly() {
    let refused = || ScriptedAnswer::Refused;
    let answers = [
        core(),
        groups(),
        core(),
        with_bar(),
        core(),
        groups(),
        core(),
        groups(),
        core(),
        groups(),
        refused(),
        refused(),
    ];
    let scenario = Scenario::new(answers);
    let discovery = Discovery::new(scenario.client());
    let bar = kind("new.io/v1/Bar");
    let serves = async || discovery.serves(&bar, None).await.unwrap();
    assert!(!serves().await && !serves().await);
    assert_eq!(
        scenario.lines().len(),
        2,
        "that it is absent is believed for a time"
    );
    tokio::time::advance(ABSENT_FOR).await;
    assert!(serves().await && serves().await);
    assert_eq!(scenario.lines().len(), 4);
    tokio::time::advance(ABSENT_FOR).await;
    assert!(serves().await);
    assert_eq!(
        scenario.lines().len(),
        4,
        "what is served is not asked about"
    );
    // A list-watch has found that there is no such path.
    discovery.forget(&bar);
    assert!(
        serves().await,
        "the server leaves it out for the first time"
    );
    assert_eq!(scenario.lines().len(), 6);
    tokio::time::advance(ABSENT_FOR).await;
    assert!(serves().await);
    tokio::time::advance(ABSENT_FOR).await;
    assert!(!serves().await && !serves().await);
    tokio::time::advance(ABSENT_FOR).await;
    assert!(!serves().await, "what was known is still true");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_known_makes_the_server_be_asked_again_but_not_within_a_second() {
    let later = aggregated(
        &json!([{"metadata": {"name": "new.io"}, "versions": [{"version": "v1", "resources": [whole("bars", "Bar", "Cluster", &json!([]))]}]}]),
    );
    let scenario = Scenario::new([core(), groups(), core(), later]);
    let discovery = Discovery::new(scenario.client());
    discovery.resolve(&kind("v1/Pod")).await.unwrap();
    assert!(discovery.resolve(&kind("new.io/v1/Bar")).await.is_err());
    assert_eq!(scenario.lines().len(), 2);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(
        discovery
            .resolve(&kind("new.io/v1/Bar"))
            .await
            .unwrap()
            .plural,
        "bars"
    );
    assert_eq!(scenario.lines().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_subresource_with_bodies_of_its_own_kind_is_found_by_that_kind() {
    let discovery = Discovery::new(Scenario::new([core(), groups()]).client());
    let owner = async |text, part| {
        discovery
            .resolve_write(&kind(text), Some(part))
            .await
            .map(|resource| resource.plural.clone())
    };
    assert_eq!(owner("v1/Pod", "status").await.unwrap(), "pods");
    assert_eq!(
        owner("policy/v1/Eviction", "eviction").await.unwrap(),
        "pods"
    );
    assert_eq!(
        owner("v1/Binding", "binding").await.unwrap(),
        "pods",
        "not the kind's own path, which has no parts"
    );
    assert_eq!(
        owner("apps/v1/Deployment", "scale").await.unwrap(),
        "deployments"
    );
    let scale = owner("autoscaling/v1/Scale", "scale")
        .await
        .unwrap_err()
        .to_string();
    assert_eq!(
        scale,
        "autoscaling/v1/Scale is the scale of several kinds (deployments.apps, statefulsets.apps): name the one meant, with a patch"
    );
}

#[tokio::test(start_paused = true)]
async fn a_core_group_may_be_missing_and_one_root_may_fail() {
    let discovery =
        Discovery::new(Scenario::new([text(404, "404 page not found"), groups()]).client());
    assert!(discovery.resolve(&kind("apps/v1/Deployment")).await.is_ok());
    let discovery =
        Discovery::new(Scenario::new([status(500, "InternalError", "boom"), groups()]).client());
    assert!(discovery.resolve(&kind("apps/v1/Deployment")).await.is_ok());
    assert!(
        error(&discovery, "v1/Pod")
            .await
            .ends_with(": /api could not be asked: boom")
    );
}

#[tokio::test(start_paused = true)]
async fn a_host_that_may_not_ask_says_so() {
    let forbidden = || {
        status(
            403,
            "Forbidden",
            "forbidden: User \"x\" cannot get path \"/apis\"",
        )
    };
    let discovery = Discovery::new(Scenario::new([forbidden(), forbidden()]).client());
    assert_eq!(
        error(&discovery, "v1/Pod").await,
        "the host may not ask which kinds there are: forbidden: User \"x\" cannot get path \"/apis\""
    );
    let discovery =
        Discovery::new(Scenario::new([ScriptedAnswer::Refused, ScriptedAnswer::Refused]).client());
    assert_eq!(
        error(&discovery, "v1/Pod").await,
        "the server does not say which kinds there are: Connection refused (os error 111)"
    );
}

#[tokio::test(start_paused = true)]
async fn a_group_that_does_not_answer_for_a_moment_loses_no_kinds() {
    let down = || status(503, "ServiceUnavailable", "down");
    let scenario = Scenario::new([core(), groups(), core(), down()]);
    let discovery = Discovery::new(scenario.client());
    discovery.resolve(&kind("v1/Pod")).await.unwrap();
    tokio::time::advance(Duration::from_secs(2)).await;
    let unknown = error(&discovery, "new.io/v1/Bar").await;
    assert_eq!(
        unknown,
        "whether there is a kind new.io/v1/Bar is not known: /apis could not be asked: down"
    );
    assert!(discovery.resolve(&kind("apps/v1/Deployment")).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_is_given_up_and_asked_again_a_second_later() {
    for silent in [ScriptedAnswer::Silence, stalled()] {
        let scenario = Scenario::new([silent.clone(), silent, core(), groups()]);
        let discovery = Discovery::new(scenario.client());
        assert_eq!(
            error(&discovery, "v1/Pod").await,
            "the server does not say which kinds there are: no answer within 30 s"
        );
        let asked = scenario.lines().len();
        assert_eq!(
            error(&discovery, "v1/Pod").await,
            "the server does not say which kinds there are: no answer within 30 s"
        );
        assert_eq!(scenario.lines().len(), asked, "not again at once");
        tokio::time::advance(FRESH).await;
        assert!(discovery.resolve(&kind("v1/Pod")).await.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_version_that_never_answers_hides_no_other() {
    let scenario = Scenario::new([
        answer(&json!({"kind": "APIVersions", "versions": []})),
        answer(&json!({"kind": "APIGroupList", "groups": [
            {"name": "down", "versions": [{"groupVersion": "down/v1", "version": "v1"}]},
            {"name": "apps", "versions": [{"groupVersion": "apps/v1", "version": "v1"}]},
        ]})),
        stalled(),
        answer(
            &json!({"kind": "APIResourceList", "groupVersion": "apps/v1", "resources": [
                {"name": "deployments", "namespaced": true, "kind": "Deployment", "verbs": ["list", "watch"]},
            ]}),
        ),
    ]);
    let discovery = Discovery::new(scenario.client());
    assert!(discovery.resolve(&kind("apps/v1/Deployment")).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_asked_again_when_it_says() {
    let busy = status(429, "TooManyRequests", "later").with_header("retry-after", "3");
    let scenario = Scenario::new([busy, core(), groups()]);
    let discovery = Discovery::new(scenario.client());
    assert!(discovery.resolve(&kind("v1/Pod")).await.is_ok());
    assert_eq!(scenario.seen()[1].at, Duration::from_secs(3));
}
