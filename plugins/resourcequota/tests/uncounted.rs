//! What becomes of a quota, if something that it limits cannot be counted: the rows of
//! `TestSyncResourceQuota` with a calculation error.

use std::time::Duration;

use pilothouse_sdk::testing::to_json;
use pilothouse_sdk::{
    Controller, Host, Level, Next, ObjectRef, Outcome, Query, ReadError, Request, ServedKind,
};
use resourcequota::ResourceQuotaController;
use serde_json::{Value, json};

/// A cluster without objects, in which only the kinds are of interest.
struct Kinds(Result<Vec<ServedKind>, ReadError>);

impl Host for Kinds {
    fn get_json(&self, _: &ObjectRef) -> Result<Option<String>, ReadError> {
        Ok(None)
    }

    fn list_json(&self, _: &Query) -> Result<String, ReadError> {
        Ok("[]".to_owned())
    }

    fn list_page_json(
        &self,
        query: &Query,
        _: Option<&ObjectRef>,
        _: u32,
    ) -> Result<String, ReadError> {
        assert_ne!(query.kind, "v1/Secret", "it cannot be listed");
        Ok("[]".to_owned())
    }

    fn served_kinds(&self, _: &str) -> Result<Vec<ServedKind>, ReadError> {
        self.0.clone()
    }

    fn now(&self) -> Duration {
        Duration::from_secs(1_000_000)
    }

    fn log(&self, _: Level, _: &str, _: &[(&str, &str)]) {}
}

fn kind(kind: &str, resource: &str, unavailable: Option<&str>) -> ServedKind {
    let verbs = ["create", "delete", "list", "watch"];
    ServedKind {
        kind: kind.to_owned(),
        resource: resource.to_owned(),
        namespaced: true,
        verbs: verbs.map(str::to_owned).into(),
        subresources: Vec::new(),
        unavailable: unavailable.map(str::to_owned),
    }
}

/// What is decided about a quota of a pod, a ConfigMap and a Secret, of which two are counted.
fn decide(kinds: &Kinds) -> Outcome {
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"namespace": "n", "name": "q", "uid": "u"},
        "spec": {"hard": {"pods": "1", "configmaps": "1", "count/secrets": "1"}},
        "status": {"used": {"count/secrets": "1"}},
    });
    let request = Request {
        key: Some(ObjectRef::new("v1/ResourceQuota", "n", "q")),
        object: Some(quota.to_string()),
        attempt: 1,
        previous: Vec::new(),
        memo: None,
        config: "{}".to_owned(),
    };
    ResourceQuotaController::reconcile(&request, kinds).expect("it is decided")
}

fn used(outcome: &Outcome) -> Value {
    let patch = to_json(&outcome.stages[0].actions[0]);
    patch["patch"]["body"]["status"]["used"].clone()
}

fn retry(outcome: &Outcome) -> &str {
    match &outcome.next {
        Next::Retry(why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_kind_that_cannot_be_listed_stays_as_it_was_and_the_rest_is_counted() {
    let outcome = decide(&Kinds(Ok(vec![
        kind("v1/ConfigMap", "configmaps", None),
        kind("v1/Secret", "secrets", Some("HTTP 403")),
    ])));
    assert_eq!(retry(&outcome), "secrets: HTTP 403");
    let wanted = json!({"pods": "0", "configmaps": "0", "count/secrets": "1"});
    assert_eq!(used(&outcome), wanted);
}

#[test]
fn without_a_grant_of_every_kind_the_rest_is_counted() {
    let denied = ReadError::Denied("* is not granted".to_owned());
    let outcome = decide(&Kinds(Err(denied)));
    assert_eq!(retry(&outcome), "* is not granted");
    assert_eq!(used(&outcome), json!({"pods": "0", "count/secrets": "1"}));
}
