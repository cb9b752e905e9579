//! An outcome that says that it is settled is followed by no run, and has to tell the truth.

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

/// Applies the goal, and what somebody else has labelled the counter with.
struct Copies;

impl Controller for Copies {
    fn manifest() -> Manifest {
        Manifest::new("copies", "1.0.0", Selection::of(GOALS))
            .reads_whole(GOALS)
            .reads_whole(COUNTERS)
            .writes(COUNTERS, [Verb::Apply])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let goal = request.object::<Value>()?.unwrap_or_default();
        let counter = host.get::<Value>(&request.key().of_kind(COUNTERS))?;
        let mut wanted = object("Counter", goal["spec"]["to"].as_u64().unwrap_or_default());
        wanted["spec"]["more"] = counter.unwrap_or_default()["metadata"]["labels"]["more"].clone();
        Ok(Outcome::done().with(Apply::new(&wanted)?).settled())
    }
}

/// A cluster whose counter somebody else has labelled, which no watch has brought yet.
fn labelled_unseen() -> FakeCluster {
    let mut cluster = FakeCluster::new(Copies::manifest()).with(object("Goal", 1));
    assert_eq!(cluster.run_due::<Copies>().len(), 1);
    let key = ObjectRef::new(COUNTERS, "default", "a");
    let mut changed = cluster.object(&key).expect("a counter").clone();
    changed["metadata"]["labels"] = json!({"more": "some"});
    cluster.with(object("Goal", 2)).with_unseen(changed)
}

#[test]
fn what_somebody_else_has_changed_unseen_runs_a_settled_key() {
    let mut cluster = labelled_unseen();
    assert_eq!(cluster.run_due::<Copies>().len(), 2);
    let counter = ObjectRef::new(COUNTERS, "default", "a");
    let counter = &cluster.object(&counter).expect("a counter")["spec"];
    assert_eq!(*counter, json!({"to": 2, "more": "some"}));
}

#[test]
fn a_turn_is_not_held_to_what_it_has_not_seen() {
    let decided = labelled_unseen().turn::<Copies>("default", "a");
    assert!(decided.is_ok(), "{decided:?}");
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
