//! Writes that a test lets fail: what they stop, what the plugin is told, and when it goes on.

use std::time::Duration;

use pilothouse_sdk::testing::{Failing, FakeCluster, WriteError};
use pilothouse_sdk::{
    ActionResult, Apply, Controller, Create, Delete, DeleteAll, Event, Failure, Finalizer, Host,
    Manifest, ObjectRef, Outcome, Request, Selection, Verb,
};
use serde_json::{Value, json};

const SETS: &str = "example.com/v1/Set";

const PODS: &str = "v1/Pod";

/// Makes as many pods as its object says, then says so, and counts what has failed in the status.
struct Sets;

impl Controller for Sets {
    fn manifest() -> Manifest {
        Manifest::new("sets", "1.0.0", Selection::of(SETS))
            .reads(SETS, [".spec.pods", ".metadata.finalizers"])
            .reads_whole(PODS)
            .writes(PODS, [Verb::Create, Verb::Delete, Verb::DeleteCollection])
            .writes(SETS, [Verb::Patch])
            .writes_subresource(SETS, "status", [Verb::Apply])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let Some(set) = request.object::<Value>()? else {
            return Ok(Outcome::done());
        };
        let mut outcome = Outcome::done();
        for number in 0..set["spec"]["pods"].as_u64().unwrap_or_default() {
            let name = format!("p{number}");
            if host.get::<Value>(&pod_key(&name))?.is_none() {
                outcome = outcome.with(Create::new(&pod(&name))?);
            }
        }
        let is_error = |result: &ActionResult| !matches!(result, ActionResult::Done(_));
        let failed = request
            .previous
            .iter()
            .filter(|effect| is_error(&effect.outcome));
        let status = json!({"failed": failed.count()});
        let made = Event::normal(request.key(), "Made", "Make", "made the pods");
        Ok(outcome
            .stage()
            .with(made)
            .always()
            .with(Apply::status(request.key(), &status)?))
    }
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": name},
    })
}

fn pod_key(name: &str) -> ObjectRef {
    ObjectRef::new(PODS, "default", name)
}

fn set_key() -> ObjectRef {
    ObjectRef::new(SETS, "default", "a")
}

fn with_pods(pods: usize) -> FakeCluster {
    FakeCluster::new(Sets::manifest()).with(json!({
        "apiVersion": "example.com/v1", "kind": "Set",
        "metadata": {"namespace": "default", "name": "a"}, "spec": {"pods": pods},
    }))
}

fn creating(error: WriteError) -> Failing {
    Failing::next(Verb::Create, PODS, error)
}

/// The pods of this many numbers that are there.
fn pods(cluster: &FakeCluster, most: usize) -> usize {
    let is_there = |number: &usize| cluster.object(&pod_key(&format!("p{number}"))).is_some();
    (0..most).filter(is_there).count()
}

#[test]
fn each_error_is_told_as_the_host_tells_it() {
    let said = || "the test lets it fail".to_owned();
    let silent = || ActionResult::Failed("no answer within 30 s".to_owned());
    for (error, wanted) in [
        (WriteError::Invalid, ActionResult::Invalid(said())),
        (WriteError::Forbidden, ActionResult::Forbidden(said())),
        (WriteError::NotFound, ActionResult::NotFound(said())),
        (WriteError::Conflict, ActionResult::Conflict(said())),
        (
            WriteError::AlreadyExists,
            ActionResult::AlreadyExists(said()),
        ),
        (
            WriteError::TooManyRequests(Duration::from_secs(2)),
            ActionResult::Failed(format!("HTTP 429: {}", said())),
        ),
        (
            WriteError::ServerError,
            ActionResult::Failed(format!("HTTP 500: {}", said())),
        ),
        (WriteError::NoAnswer, silent()),
        (WriteError::AnswerLost, silent()),
    ] {
        let mut cluster = with_pods(1).failing(creating(error));
        let create = Outcome::done().with(Create::new(&pod("p0")).expect("JSON is JSON"));
        let effects = cluster.apply("default", "a", &create);
        assert_eq!(effects[0].outcome, wanted);
        assert_eq!(
            pods(&cluster, 1),
            usize::from(error == WriteError::AnswerLost),
            "{error:?}"
        );
        assert!(matches!(
            cluster.apply("default", "a", &create)[0].outcome,
            ActionResult::Done(_) | ActionResult::AlreadyExists(_)
        ));
    }
}

#[test]
fn a_failed_create_stops_the_creates_and_the_later_stages_but_not_what_is_always_done() {
    // One write is sent, then two, so that two more are under way when the second fails.
    let mut cluster = with_pods(10).failing(creating(WriteError::Forbidden).after(1));
    let decided = cluster.reconcile::<Sets>("default", "a");
    let effects = cluster.apply("default", "a", &decided.expect("it decides"));
    let outcome = |result: &ActionResult| match result {
        ActionResult::Done(_) => "done",
        ActionResult::Forbidden(_) => "forbidden",
        ActionResult::Skipped => "skipped",
        other => panic!("{other:?}"),
    };
    let outcomes: Vec<&str> = effects
        .iter()
        .map(|effect| outcome(&effect.outcome))
        .collect();
    let mut wanted = vec!["done", "forbidden", "done"];
    wanted.extend(["skipped"; 8]); // seven pods and the Event
    wanted.push("done"); // the status
    assert_eq!(outcomes, wanted);
    assert!(cluster.events().is_empty());
    assert_eq!(pods(&cluster, 10), 2);
}

#[test]
fn what_has_failed_is_done_when_its_time_has_come() {
    let mut cluster = with_pods(1).failing(creating(WriteError::ServerError).always());
    let runs = cluster.run_due::<Sets>();
    let wanted = "action 1: HTTP 500: the test lets it fail";
    let error = runs.last().and_then(|run| run.error.as_deref());
    assert_eq!(error, Some(wanted));
    let mut cluster = cluster.healed();
    assert!(cluster.run_due::<Sets>().is_empty(), "not yet");
    assert!(cluster.events().is_empty());
    let mut cluster = cluster.at(Duration::from_secs(2));
    assert_eq!(cluster.run_due::<Sets>()[0].error, None);
    assert_eq!(pods(&cluster, 1), 1);
    assert_eq!(cluster.events()[0].reason, "Made");
    assert_eq!(cluster.events()[0].object, set_key());
}

#[test]
fn a_write_whose_answer_is_lost_is_not_done_twice() {
    let mut cluster = with_pods(1).failing(creating(WriteError::AnswerLost));
    assert!(cluster.run_due::<Sets>()[0].error.is_some());
    let version = |cluster: &FakeCluster| {
        let pod = cluster.object(&pod_key("p0")).expect("the pod is there");
        pod["metadata"]["resourceVersion"].clone()
    };
    let made = version(&cluster);
    let mut cluster = cluster.at(Duration::from_secs(5));
    let runs = cluster.run_due::<Sets>();
    assert!(runs.iter().all(|run| run.error.is_none()), "{runs:?}");
    assert_eq!(version(&cluster), made);
}

#[test]
fn a_write_that_always_fails_does_so_until_it_is_healed() {
    let status = Failing::next(Verb::Apply, SETS, WriteError::Forbidden).subresource("status");
    let mut cluster = with_pods(0).failing(status.always());
    for second in 0..3 {
        cluster = cluster.at(Duration::from_secs(second * 100));
        let runs = cluster.run_due::<Sets>();
        let last = runs[0].effects.last().map(|effect| &effect.outcome);
        assert!(matches!(last, Some(ActionResult::Forbidden(_))));
        assert!(runs[0].error.is_some());
    }
    let mut cluster = cluster.healed().at(Duration::from_secs(1_000));
    assert_eq!(cluster.run_due::<Sets>()[0].error, None);
    let set = cluster.object(&set_key()).expect("the set is there");
    assert!(set["status"].is_object());
}

#[test]
fn so_many_writes_fail_after_so_many_that_do_not() {
    let mut cluster = with_pods(0).failing(creating(WriteError::Forbidden).after(1).times(2));
    let is_done = ["p0", "p1", "p2", "p3"].map(|name| {
        let create = Create::new(&pod(name)).expect("JSON is JSON");
        let effects = cluster.apply("default", "a", &Outcome::done().with(create));
        matches!(effects[0].outcome, ActionResult::Done(_))
    });
    assert_eq!(is_done, [true, false, false, true]);
}

#[test]
fn only_the_writes_that_are_meant_fail() {
    let mut cluster = with_pods(1)
        .failing(Failing::next(Verb::Apply, SETS, WriteError::Conflict))
        .failing(Failing::next(Verb::Create, SETS, WriteError::Conflict))
        .failing(Failing::next(Verb::Create, PODS, WriteError::Conflict).named("p7"));
    let runs = cluster.run_due::<Sets>();
    assert!(runs.iter().all(|run| run.error.is_none()), "{runs:?}");
}

#[test]
fn finalizers_and_deletes_fail_as_other_writes_do() {
    let fails = |verb, kind| Failing::next(verb, kind, WriteError::Forbidden);
    let mut cluster = with_pods(0)
        .with(pod("p0"))
        .failing(fails(Verb::Patch, SETS))
        .failing(fails(Verb::Delete, PODS))
        .failing(fails(Verb::DeleteCollection, PODS));
    let outcome = Outcome::done()
        .with(Finalizer::add(&set_key(), "example.com/f"))
        .with(Delete::new(&pod_key("p0")))
        .with(DeleteAll::new(PODS, "default"));
    let forbidden = |result: &ActionResult| matches!(result, ActionResult::Forbidden(_));
    let effects = cluster.apply("default", "a", &outcome);
    assert!(
        effects.iter().all(|effect| forbidden(&effect.outcome)),
        "{effects:?}"
    );
    assert_eq!(pods(&cluster, 1), 1);
    let effects = cluster.apply("default", "a", &outcome);
    assert!(
        !effects.iter().any(|effect| forbidden(&effect.outcome)),
        "{effects:?}"
    );
}

#[test]
#[should_panic(expected = "a Delete never fails with NotFound")]
fn an_error_that_cannot_happen_is_refused() {
    let _ = Failing::next(Verb::Delete, PODS, WriteError::NotFound);
}
