//! An outcome that says that it is settled is followed by no run, and has to tell the truth.

use std::time::Duration;

use pilothouse_sdk::testing::{Failing, FakeCluster, WriteError};
use pilothouse_sdk::{
    Apply, Controller, Create, Failure, Host, Manifest, ObjectRef, Outcome, Request, Selection,
    Update, Verb,
};
use serde_json::{Value, json};

const GOALS: &str = "example.com/v1/Goal";
const COUNTERS: &str = "example.com/v1/Counter";

fn object(kind: &str, to: u64) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": kind,
        "metadata": {"namespace": "default", "name": "a"}, "spec": {"to": to},
    })
}

fn counter(cluster: &FakeCluster) -> Value {
    let counter = ObjectRef::new(COUNTERS, "default", "a");
    cluster.object(&counter).expect("a counter")["spec"]["to"].clone()
}

/// Brings a counter to its goal, at once or, above ten, in steps.
struct Counts;

impl Controller for Counts {
    fn manifest() -> Manifest {
        Manifest::new("counts", "1.0.0", Selection::of(GOALS))
            .reads_whole(GOALS)
            .reads_whole(COUNTERS)
            .writes(COUNTERS, [Verb::Create, Verb::Update])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let Some(goal) = request.object::<Value>()? else {
            return Ok(Outcome::done());
        };
        let to = goal["spec"]["to"].as_u64().unwrap_or_default();
        let outcome = Outcome::done().settled();
        let Some(mut counter) = host.get::<Value>(&request.key().of_kind(COUNTERS))? else {
            return Ok(outcome.with(Create::new(&object("Counter", to.min(10)))?));
        };
        let at = counter["spec"]["to"].as_u64().unwrap_or_default();
        if at == to {
            return Ok(outcome);
        }
        counter["spec"]["to"] = to.min(at + 10).into();
        Ok(outcome.with(Update::new(&counter)?))
    }
}

#[test]
fn a_settled_key_runs_for_what_others_write_and_not_for_its_own_writes() {
    let mut cluster = FakeCluster::new(Counts::manifest()).with(object("Goal", 7));
    assert_eq!(cluster.run_due::<Counts>().len(), 1);
    let mut cluster = cluster.with(object("Goal", 8));
    assert_eq!(cluster.run_due::<Counts>().len(), 1);
    let mut cluster = cluster.with(object("Counter", 3));
    assert_eq!(cluster.run_due::<Counts>().len(), 1);
    assert_eq!(counter(&cluster), 8);
    assert!(cluster.run_due::<Counts>().is_empty());
}

#[test]
fn a_settled_outcome_with_a_failed_write_is_tried_again() {
    let lost = Failing::next(Verb::Update, COUNTERS, WriteError::AnswerLost);
    let mut cluster = FakeCluster::new(Counts::manifest())
        .with(object("Goal", 7))
        .with(object("Counter", 3))
        .failing(lost);
    let runs = cluster.run_due::<Counts>();
    assert!(runs[0].error.is_some());
    assert_eq!(counter(&cluster), 7);
}

/// Applies the goal to the counter, of whatever version that is, or of the one that it has read.
fn copies(request: &Request, host: &dyn Host, is_of_version: bool) -> Result<Outcome, Failure> {
    let goal = request.object::<Value>()?.unwrap_or_default();
    let counter = host.get::<Value>(&request.key().of_kind(COUNTERS))?;
    let mut wanted = object("Counter", goal["spec"]["to"].as_u64().unwrap_or_default());
    if let Some(counter) = counter {
        if counter["spec"] == wanted["spec"] {
            return Ok(Outcome::done());
        }
        if is_of_version {
            wanted["metadata"]["resourceVersion"] = counter["metadata"]["resourceVersion"].clone();
        }
    }
    Ok(Outcome::done().with(Apply::new(&wanted)?).settled())
}

fn copying(name: &str) -> Manifest {
    Manifest::new(name, "1.0.0", Selection::of(GOALS))
        .reads_whole(GOALS)
        .reads_whole(COUNTERS)
        .writes(COUNTERS, [Verb::Apply])
}

struct Copies;

impl Controller for Copies {
    fn manifest() -> Manifest {
        copying("copies")
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        copies(request, host, true)
    }
}

struct Overwrites;

impl Controller for Overwrites {
    fn manifest() -> Manifest {
        copying("overwrites")
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        copies(request, host, false)
    }
}

#[test]
fn an_apply_is_settled_if_it_is_of_one_version() {
    fn runs<C: Controller>() -> usize {
        let mut cluster = FakeCluster::new(C::manifest()).with(object("Goal", 7));
        cluster.run_due::<C>();
        let mut cluster = cluster.with(object("Goal", 8));
        let runs = cluster.run_due::<C>().len();
        assert_eq!(counter(&cluster), 8);
        runs
    }
    assert_eq!(runs::<Copies>(), 1);
    assert_eq!(runs::<Overwrites>(), 2);
}

#[test]
fn a_turn_is_not_held_to_what_it_has_not_seen() {
    let mut cluster = FakeCluster::new(Counts::manifest())
        .with(object("Goal", 1))
        .with_unseen(object("Goal", 2));
    let decided = cluster.turn::<Counts>("default", "a");
    assert!(decided.is_ok(), "{decided:?}");
}

/// Makes a counter, and looks at another one once that is there.
struct LooksLater;

impl Controller for LooksLater {
    fn manifest() -> Manifest {
        Counts::manifest()
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        if host
            .get::<Value>(&request.key().of_kind(COUNTERS))?
            .is_none()
        {
            let made = Create::new(&object("Counter", 1))?;
            return Ok(Outcome::done().with(made).settled());
        }
        drop(host.get::<Value>(&ObjectRef::new(COUNTERS, "default", "b"))?);
        Ok(Outcome::done())
    }
}

#[test]
#[should_panic = "says that it is settled, but the next run would read what it has not"]
fn an_outcome_whose_next_run_would_read_more_is_not_settled() {
    let mut cluster = FakeCluster::new(Counts::manifest()).with(object("Goal", 1));
    cluster.run_due::<LooksLater>();
}

/// Makes a counter, and wants to look at it every minute once it is there.
struct LooksAgain;

impl Controller for LooksAgain {
    fn manifest() -> Manifest {
        Counts::manifest()
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        match host.get::<Value>(&request.key().of_kind(COUNTERS))? {
            None => Ok(Outcome::done()
                .with(Create::new(&object("Counter", 1))?)
                .settled()),
            Some(_) => Ok(Outcome::done().requeue_after(Duration::from_secs(60))),
        }
    }
}

#[test]
#[should_panic = "says that it is settled, but the next run would run again otherwise: After(60s)"]
fn an_outcome_whose_next_run_would_ask_for_another_time_is_not_settled() {
    let mut cluster = FakeCluster::new(Counts::manifest()).with(object("Goal", 1));
    drop(cluster.turn::<LooksAgain>("default", "a"));
}

#[test]
#[should_panic = "the outcome of default/a says that it is settled, but the next run would write"]
fn a_turn_that_leaves_something_to_do_is_not_settled() {
    let mut cluster = FakeCluster::new(Counts::manifest()).with(object("Goal", 25));
    drop(cluster.turn::<Counts>("default", "a"));
}

#[test]
#[should_panic = "the outcome of default/a says that it is settled, but the next run would write"]
fn a_due_run_that_leaves_something_to_do_is_not_settled() {
    let mut cluster = FakeCluster::new(Counts::manifest()).with(object("Goal", 25));
    cluster.run_due::<Counts>();
}
