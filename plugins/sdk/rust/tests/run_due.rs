//! The fake cluster runs the keys that the host would run, and no others.

use std::time::Duration;

use pilothouse_sdk::testing::{FakeCluster, Run};
use pilothouse_sdk::{
    Apply, Controller, Failure, Filter, Host, Manifest, ObjectRef, Outcome, Request, Selection,
    Verb,
};
use serde_json::{Value, json};

const TEAMS: &str = "example.com/v1/Team";

const MEMBERS: &str = "example.com/v1/Member";

fn team(name: &str) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Team",
        "metadata": {"namespace": "default", "name": name, "labels": {"active": "true"}},
    })
}

fn member(name: &str, team: &str, age: u32) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Member",
        "metadata": {"namespace": "default", "name": name}, "spec": {"team": team, "age": age},
    })
}

/// Writes into the status of each Team how many members it has, but not more than five.
struct Counts;

impl Controller for Counts {
    fn manifest() -> Manifest {
        Manifest::new(
            "counts",
            "1.0.0",
            Selection::of(TEAMS).labels("active=true"),
        )
        .reads(TEAMS, [".metadata.labels"])
        .reads(MEMBERS, [".spec.team"])
        .indexes("team", MEMBERS, [".spec.team"])
        .writes_subresource(TEAMS, "status", [Verb::Apply])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let (key, attempt) = (request.key(), request.attempt);
        if request.object.is_none() {
            host.info("gone", &[("team", &key.name)]);
            return Ok(Outcome::done());
        }
        let of_team = Filter::index("team", &key.name);
        let found: Vec<Value> = host.list(MEMBERS, Some(&key.namespace), &of_team)?;
        if found.len() > 5 {
            return Err(Failure::retry(format!("attempt {attempt}: too many")));
        }
        let status = json!({
            "apiVersion": "example.com/v1", "kind": "Team",
            "metadata": {"namespace": key.namespace, "name": key.name},
            "status": {"members": found.len()},
        });
        Ok(Outcome::done().with(Apply::new(&status)?.subresource("status")))
    }
}

fn names(runs: &[Run]) -> Vec<&str> {
    let names = runs.iter().filter_map(|run| run.key.as_ref());
    names.map(|team| team.name.as_str()).collect()
}

/// A cluster with the teams `a` and `b`, after their first reconciles.
fn at_rest() -> FakeCluster {
    let empty = FakeCluster::new(Counts::manifest());
    let mut cluster = empty
        .with(team("a"))
        .with(team("b"))
        .with(member("one", "a", 30));
    let runs = cluster.run_due::<Counts>();
    // A status that is written is not as it was when the write was decided on, so the key looks
    // once more.
    assert_eq!(names(&runs), ["a", "a", "b", "b"]);
    assert!(cluster.run_due::<Counts>().is_empty(), "nothing is due");
    cluster
}

fn count(cluster: &FakeCluster, team: &str) -> Value {
    let team = cluster.object(&ObjectRef::new(TEAMS, "default", team));
    team.map_or(Value::Null, |team| team["status"]["members"].clone())
}

#[test]
fn every_subject_runs_until_what_it_has_written_is_as_it_wants_it() {
    let cluster = at_rest();
    assert_eq!(
        (count(&cluster, "a"), count(&cluster, "b")),
        (json!(1), json!(0))
    );
}

#[test]
fn a_change_runs_the_keys_that_read_what_has_changed_and_no_others() {
    let mut cluster = at_rest().with(member("two", "b", 40));
    assert_eq!(names(&cluster.run_due::<Counts>()), ["b", "b"]);
    assert_eq!(count(&cluster, "b"), json!(1));

    let mut cluster = cluster.with(member("two", "b", 41));
    let runs = cluster.run_due::<Counts>();
    assert!(
        runs.is_empty(),
        "{runs:?}: the manifest does not read the age"
    );

    cluster.delete(&ObjectRef::new(MEMBERS, "default", "one"));
    assert_eq!(names(&cluster.run_due::<Counts>()), ["a", "a"]);
    assert_eq!(count(&cluster, "a"), json!(0));
}

#[test]
fn a_subject_that_is_not_selected_any_more_is_gone_for_its_reconcile() {
    let cluster = at_rest();
    let key = ObjectRef::new(TEAMS, "default", "a");
    let mut left = cluster.object(&key).cloned().unwrap_or_default();
    left["metadata"]["labels"]["active"] = "false".into();
    let mut cluster = cluster.with(left);
    assert_eq!(names(&cluster.run_due::<Counts>()), ["a"]);
    assert_eq!(cluster.lines(), ["INFO gone team=a"]);
    assert!(cluster.turn::<Counts>("default", "a").is_ok());
    assert_eq!(cluster.lines().len(), 2, "as for a turn");
}

#[test]
fn a_failed_key_runs_again_when_its_time_has_come() {
    let many = (0..6).map(|number| member(&format!("m{number}"), "b", 1));
    let mut cluster = many.fold(at_rest(), FakeCluster::with);
    let failed = |attempt: u32| Run {
        key: Some(ObjectRef::new(TEAMS, "default", "b")),
        error: Some(format!("attempt {attempt}: too many")),
        effects: Vec::new(),
    };
    assert_eq!(cluster.run_due::<Counts>(), [failed(1)]);
    assert!(cluster.run_due::<Counts>().is_empty(), "not yet");
    let mut cluster = cluster.at(Duration::from_secs(1));
    assert_eq!(cluster.run_due::<Counts>(), [failed(2)]);
}
