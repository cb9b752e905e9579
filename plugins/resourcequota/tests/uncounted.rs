//! What becomes of a quota, if something that it limits cannot be counted: the rows of
//! `TestSyncResourceQuota` with a calculation error.

use std::time::Duration;

use pilothouse_sdk::testing::{FakeCluster, to_json};
use pilothouse_sdk::{
    Controller, Failure, Host, Level, Manifest, Next, ObjectRef, Outcome, Query, ReadError,
    Request, ServedKind,
};
use resourcequota::ResourceQuotaController;
use serde_json::{Value, json};

const SECRET: &str = "v1/Secret";

/// The plugin on a host that says something else about the kinds.
struct On<const IS_GRANTED: bool>;

struct Partial<'a> {
    host: &'a dyn Host,
    is_granted: bool,
}

impl<const IS_GRANTED: bool> Controller for On<IS_GRANTED> {
    fn manifest() -> Manifest {
        ResourceQuotaController::manifest()
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let host = Partial {
            host,
            is_granted: IS_GRANTED,
        };
        ResourceQuotaController::reconcile(request, &host)
    }
}

/// Secrets cannot be listed. Or no kinds are granted.
impl Host for Partial<'_> {
    fn get_json(&self, object: &ObjectRef) -> Result<Option<String>, ReadError> {
        self.host.get_json(object)
    }

    fn list_json(&self, query: &Query) -> Result<String, ReadError> {
        self.host.list_json(query)
    }

    fn list_page_json(
        &self,
        query: &Query,
        after: Option<&ObjectRef>,
        limit: u32,
    ) -> Result<String, ReadError> {
        assert_ne!(query.kind, SECRET, "it cannot be listed");
        self.host.list_page_json(query, after, limit)
    }

    fn served_kinds(&self, pattern: &str) -> Result<Vec<ServedKind>, ReadError> {
        if !self.is_granted {
            return Err(ReadError::Denied("* is not granted".to_owned()));
        }
        let mut kinds = self.host.served_kinds(pattern)?;
        for kind in kinds.iter_mut().filter(|kind| kind.kind == SECRET) {
            kind.unavailable = Some("HTTP 403".to_owned());
        }
        Ok(kinds)
    }

    fn now(&self) -> Duration {
        self.host.now()
    }

    fn log(&self, level: Level, message: &str, fields: &[(&str, &str)]) {
        self.host.log(level, message, fields);
    }
}

/// What is decided about a quota of pods, ConfigMaps and Secrets.
fn decide<C: Controller>() -> Outcome {
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"namespace": "n", "name": "q"},
        "spec": {"hard": {"pods": "1", "configmaps": "1", "count/secrets": "1"}},
        "status": {"used": {"count/secrets": "1"}},
    });
    let cluster = FakeCluster::new(C::manifest())
        .defining("v1/ConfigMap", true)
        .defining(SECRET, true)
        .with(quota);
    cluster.reconcile::<C>("n", "q").expect("it is decided")
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
    let outcome = decide::<On<true>>();
    assert_eq!(retry(&outcome), "secrets: HTTP 403");
    let wanted = json!({"pods": "0", "configmaps": "0", "count/secrets": "1"});
    assert_eq!(used(&outcome), wanted);
}

#[test]
fn without_a_grant_of_every_kind_the_rest_is_counted() {
    let outcome = decide::<On<false>>();
    assert_eq!(retry(&outcome), "* is not granted");
    assert_eq!(used(&outcome), json!({"pods": "0", "count/secrets": "1"}));
}
