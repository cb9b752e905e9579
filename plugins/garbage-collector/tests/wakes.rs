//! Which changes run which keys, and what several runs come to, by the host's own rules.

use std::time::Duration;

use garbage_collector::GarbageCollector;
use pilothouse_sdk::testing::{Failing, FakeCluster, WriteError};
use pilothouse_sdk::{
    Controller, Failure, Host, Level, ObjectRef, Outcome, Query, ReadError, Request, ServedKind,
    Time, Verb,
};
use serde_json::{Value, json};

const SET: &str = "apps/v1/ReplicaSet";
const POD: &str = "v1/Pod";
const TEAM: &str = "example.com/v1/Team";

fn object(kind: &str, name: &str, owners: &[Value]) -> Value {
    let (api_version, kind) = kind.rsplit_once('/').expect("a kind");
    json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"namespace": "default", "name": name, "uid": name, "ownerReferences": owners},
    })
}

fn owner(kind: &str, name: &str) -> Value {
    let (api_version, kind) = kind.rsplit_once('/').expect("a kind");
    json!({
        "apiVersion": api_version, "kind": kind, "name": name, "uid": name,
        "blockOwnerDeletion": true,
    })
}

/// The object as it is while it is being deleted and waits for this finalizer.
fn waiting(mut object: Value, finalizer: &str) -> Value {
    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    object["metadata"]["finalizers"] = json!([finalizer]);
    object
}

fn cluster() -> FakeCluster {
    let cluster = FakeCluster::new(GarbageCollector::manifest()).at(Time::default().0);
    [SET, POD]
        .iter()
        .fold(cluster, |cluster, kind| cluster.defining(kind, true))
}

fn run(cluster: &mut FakeCluster) -> Vec<String> {
    let runs = cluster.run_due::<GarbageCollector>();
    let failed: Vec<_> = runs.iter().filter(|run| run.error.is_some()).collect();
    assert!(failed.is_empty(), "{failed:?}");
    let mut keys: Vec<String> = runs
        .into_iter()
        .filter_map(|run| Some(run.key?.name))
        .collect();
    keys.sort();
    keys.dedup();
    keys
}

fn named(kind: &str, name: &str) -> ObjectRef {
    ObjectRef::new(kind, "default", name)
}

fn has(cluster: &FakeCluster, kind: &str, name: &str) -> bool {
    cluster.object(&named(kind, name)).is_some()
}

/// Upstream: TestProcessEvent, and `processGraphChanges` of a deletion.
#[test]
fn what_an_object_owns_goes_with_it_generation_by_generation() {
    let mut cluster = cluster()
        .defining(TEAM, true)
        .with(object(TEAM, "team", &[]))
        .with(object(SET, "set", &[owner(TEAM, "team")]))
        .with(object(POD, "pod", &[owner(SET, "set")]))
        .with(object(POD, "other", &[]));
    run(&mut cluster);
    assert!(has(&cluster, POD, "pod") && has(&cluster, SET, "set"));
    cluster.delete(&named(TEAM, "team"));
    let ran = run(&mut cluster);
    assert_eq!(ran, ["pod", "set", "team"], "and nobody else");
    assert!(!has(&cluster, SET, "set") && !has(&cluster, POD, "pod"));
    assert!(has(&cluster, POD, "other"));
}

#[test]
fn an_owner_that_no_watch_has_brought_yet_keeps_what_it_owns() {
    let cluster = cluster().with(object(POD, "pod", &[owner(SET, "set")]));
    let mut cluster = cluster.with_unseen(object(SET, "set", &[]));
    run(&mut cluster);
    assert!(has(&cluster, POD, "pod"), "the server was asked");
    cluster.delete(&named(SET, "set"));
    run(&mut cluster);
    assert!(!has(&cluster, POD, "pod"));
}

/// Upstream: TestConflictingData, "good child -> existing owner with non-preferred accessible API
/// version".
#[test]
fn an_owner_that_is_named_in_another_version_that_is_served_is_found() {
    let mut cluster = cluster()
        .with(object(TEAM, "team", &[]))
        .defining(TEAM, true)
        .defining("example.com/v1beta1/Team", true)
        .with(object(
            POD,
            "pod",
            &[owner("example.com/v1beta1/Team", "team")],
        ));
    run(&mut cluster);
    assert!(has(&cluster, POD, "pod"));
    cluster.delete(&named(TEAM, "team"));
    run(&mut cluster);
    assert!(!has(&cluster, POD, "pod"));
}

/// Upstream: TestGarbageCollectorSync (a kind that comes), TestCustomResourceCascadingDeletion.
#[test]
fn a_kind_that_is_defined_later_makes_its_absent_objects_known_to_be_absent() {
    let team = owner(TEAM, "team");
    let mut cluster = cluster().with(object(POD, "pod", &[team]));
    run(&mut cluster);
    assert!(has(&cluster, POD, "pod"), "nobody knows what a Team is");
    let mut cluster = cluster.defining(TEAM, true);
    run(&mut cluster);
    assert!(!has(&cluster, POD, "pod"));
}

#[test]
fn a_kind_that_goes_takes_nothing_with_it() {
    let mut cluster =
        cluster()
            .with(object(TEAM, "team", &[]))
            .with(object(POD, "pod", &[owner(TEAM, "team")]));
    run(&mut cluster);
    let mut cluster = cluster.undefining(TEAM);
    run(&mut cluster);
    assert!(
        has(&cluster, POD, "pod"),
        "its owner may be there for all that is known"
    );
}

/// Upstream: TestBlockingOwnerRefDoesBlock.
#[test]
fn a_deletion_in_the_foreground_ends_when_what_blocks_it_has_gone() {
    let mut pod = object(POD, "pod", &[owner(SET, "set")]);
    pod["metadata"]["finalizers"] = json!(["x/y"]);
    let mut cluster = cluster().with(object(SET, "set", &[])).with(pod);
    run(&mut cluster);
    let mut cluster = cluster.with(waiting(object(SET, "set", &[]), "foregroundDeletion"));
    run(&mut cluster);
    let pod = cluster
        .object(&named(POD, "pod"))
        .expect("it has a finalizer");
    assert!(pod["metadata"]["deletionTimestamp"].is_string());
    assert!(has(&cluster, SET, "set"), "the pod blocks it");
    let mut cluster = cluster.with(object(POD, "pod", &[owner(SET, "set")]));
    cluster.delete(&named(POD, "pod"));
    run(&mut cluster);
    assert!(!has(&cluster, SET, "set"));
}

/// Upstream: `addUnblockedOwnersToDeleteQueue`.
#[test]
fn a_dependent_that_blocks_no_more_lets_its_owner_go() {
    for owners in [
        json!([]),
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": "set"}]),
    ] {
        let mut pod = waiting(object(POD, "pod", &[owner(SET, "set")]), "x/y");
        let set = waiting(object(SET, "set", &[]), "foregroundDeletion");
        let mut cluster = cluster().with(set).with(pod.clone());
        run(&mut cluster);
        assert!(has(&cluster, SET, "set"));
        pod["metadata"]["ownerReferences"] = owners;
        let mut cluster = cluster.with(pod);
        run(&mut cluster);
        assert!(!has(&cluster, SET, "set"));
    }
}

/// Upstream: `attemptToDeleteItem`, the circle.
#[test]
fn a_circle_that_waits_for_itself_comes_to_an_end() {
    let blocked = |name: &str, by: &str| object(POD, name, &[owner(POD, by)]);
    let first = waiting(blocked("a", "c"), "foregroundDeletion");
    let mut cluster = cluster()
        .with(first)
        .with(blocked("b", "a"))
        .with(blocked("c", "b"));
    // What a server does to an object that is deleted in the foreground, this one does not.
    for _ in 0..4 {
        run(&mut cluster);
        let left = ["b", "c"]
            .into_iter()
            .filter_map(|name| cluster.object(&named(POD, name)));
        let left: Vec<Value> = left.cloned().collect();
        for pod in left {
            if pod["metadata"]["deletionTimestamp"].is_string() {
                cluster = cluster.with(waiting(pod, "foregroundDeletion"));
            }
        }
    }
    assert!(["a", "b", "c"].iter().all(|name| !has(&cluster, POD, name)));
}

/// Upstream: TestOrphanDependentsFailure.
#[test]
fn an_owner_whose_dependent_cannot_be_released_stays_and_tries_again() {
    let set = waiting(object(SET, "set", &[]), "orphan");
    let conflict = Failing::next(Verb::Patch, POD, WriteError::Conflict);
    let mut cluster = cluster()
        .with(set)
        .with(object(POD, "pod", &[owner(SET, "set")]))
        .failing(conflict);
    let runs = cluster.run_due::<GarbageCollector>();
    assert!(runs.iter().any(|run| run.error.is_some()));
    assert!(has(&cluster, SET, "set"));
    let now = Time::default().0 + Duration::from_secs(1);
    let mut cluster = cluster.at(now);
    run(&mut cluster);
    assert!(!has(&cluster, SET, "set"));
    let pod = cluster.object(&named(POD, "pod")).expect("it is an orphan");
    assert_eq!(pod["metadata"]["ownerReferences"], json!([]));
}

#[test]
fn thousands_of_dependents_are_released_before_their_owner_goes() {
    let set = waiting(object(SET, "set", &[]), "orphan");
    let pods = (0..2_100).map(|number| object(POD, &format!("pod{number}"), &[owner(SET, "set")]));
    let mut cluster = pods.fold(cluster().with(set), FakeCluster::with);
    run(&mut cluster);
    assert!(!has(&cluster, SET, "set"));
    let is_orphan = |number| {
        let pod = cluster.object(&named(POD, &format!("pod{number}")));
        pod.is_some_and(|pod| pod["metadata"]["ownerReferences"] == json!([]))
    };
    assert!((0..2_100).all(is_orphan));
}

/// Upstream: TestConflictingData, "resourceVersion conflict between Get/Delete while processing
/// object deletion".
#[test]
fn an_object_that_changes_all_the_time_is_deleted_all_the_same() {
    let conflict = Failing::next(Verb::Delete, POD, WriteError::Conflict);
    let pod = object(POD, "pod", &[owner(SET, "set")]);
    let mut cluster = cluster().with(pod.clone()).failing(conflict);
    let runs = cluster.run_due::<GarbageCollector>();
    assert!(runs.iter().any(|run| run.error.is_some()) && has(&cluster, POD, "pod"));
    // It has changed, and nothing that counts.
    let mut changed = pod;
    changed["metadata"]["resourceVersion"] = json!("5000");
    changed["spec"] = json!({"a": "b"});
    let now = Time::default().0 + Duration::from_secs(1);
    let mut cluster = cluster.with_unseen(changed).at(now);
    run(&mut cluster);
    assert!(!has(&cluster, POD, "pod"));
}

#[test]
fn after_a_conflict_an_object_that_has_got_another_owner_is_kept() {
    let conflict = Failing::next(Verb::Delete, POD, WriteError::Conflict);
    let pod = object(POD, "pod", &[owner(SET, "set")]);
    let mut cluster = cluster()
        .with(pod.clone())
        .with(object(SET, "other", &[]))
        .failing(conflict);
    cluster.run_due::<GarbageCollector>();
    let mut changed = pod;
    changed["metadata"]["ownerReferences"] = json!([owner(SET, "other")]);
    let now = Time::default().0 + Duration::from_secs(1);
    let mut cluster = cluster.with_unseen(changed).at(now);
    run(&mut cluster);
    assert!(has(&cluster, POD, "pod"));
}

/// A cluster in which no Pod can be deleted, and Reports that are got have no uids.
struct Odd<'a>(&'a dyn Host);

impl Host for Odd<'_> {
    fn get_json(&self, object: &ObjectRef) -> Result<Option<String>, ReadError> {
        let found = self.0.get_json(object)?;
        Ok(found.map(|json| {
            let mut found: Value = serde_json::from_str(&json).expect("it is JSON");
            if object.kind == REPORT {
                found["metadata"]["uid"] = json!("");
            }
            found.to_string()
        }))
    }

    fn list_json(&self, query: &Query) -> Result<String, ReadError> {
        self.0.list_json(query)
    }

    fn list_page_json(
        &self,
        query: &Query,
        after: Option<&ObjectRef>,
        limit: u32,
    ) -> Result<String, ReadError> {
        self.0.list_page_json(query, after, limit)
    }

    fn served_kinds(&self, pattern: &str) -> Result<Vec<ServedKind>, ReadError> {
        let mut kinds = self.0.served_kinds(pattern)?;
        for served in kinds.iter_mut().filter(|served| served.kind == POD) {
            served.verbs.retain(|verb| verb != "delete");
        }
        Ok(kinds)
    }

    fn now(&self) -> Duration {
        self.0.now()
    }

    fn log(&self, level: Level, message: &str, fields: &[(&str, &str)]) {
        self.0.log(level, message, fields);
    }
}

/// A kind that can be got and not watched.
const REPORT: &str = "example.com/v1/Report";

fn with_reports() -> FakeCluster {
    cluster().defining_with(REPORT, true, &["get", "delete"])
}

fn lines(runs: &[pilothouse_sdk::testing::Run]) -> usize {
    let failed = runs.iter().filter(|run| run.error.is_some()).count();
    assert_eq!(failed, 0, "{runs:?}");
    runs.len()
}

/// Upstream: `attemptToDeleteItem` of an owner that no monitor shows, again and again.
#[test]
fn an_owner_that_cannot_be_watched_is_asked_for_until_it_is_gone() {
    let mut cluster = with_reports()
        .with(object(REPORT, "report", &[]))
        .with(object(POD, "lost", &[owner(REPORT, "report")]))
        .with(object(POD, "never", &[owner(REPORT, "gone")]));
    lines(&cluster.run_due::<GarbageCollector>());
    assert!(!has(&cluster, POD, "never"), "its owner was never there");
    assert!(has(&cluster, POD, "lost"));
    cluster.delete(&named(REPORT, "report"));
    assert_eq!(
        lines(&cluster.run_due::<GarbageCollector>()),
        0,
        "nobody tells"
    );
    let mut cluster = cluster.at(Duration::from_secs(1));
    lines(&cluster.run_due::<GarbageCollector>());
    assert!(!has(&cluster, POD, "lost"));
}

#[test]
fn an_object_whose_owner_cannot_be_watched_is_looked_at_less_and_less_often() {
    let mut cluster = with_reports()
        .with(object(REPORT, "report", &[]))
        .with(object(POD, "kept", &[owner(REPORT, "report")]));
    let mut seconds = Vec::new();
    for second in 0..=3_000 {
        cluster = cluster.at(Duration::from_secs(second));
        if lines(&cluster.run_due::<GarbageCollector>()) > 0 {
            seconds.push(second);
        }
    }
    let doubled = [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_024];
    assert_eq!(seconds, doubled);
    assert!(has(&cluster, POD, "kept"));
}

#[test]
fn what_another_owner_keeps_gives_up_one_that_cannot_be_watched_and_is_gone() {
    let mut cluster = with_reports()
        .with(object(SET, "set", &[]))
        .with(object(
            POD,
            "kept",
            &[owner(REPORT, "gone"), owner(SET, "set")],
        ))
        .with(object(REPORT, "report", &[]))
        .with(object(
            POD,
            "too",
            &[owner(REPORT, "report"), owner(SET, "lost")],
        ));
    lines(&cluster.run_due::<GarbageCollector>());
    let owners = |name: &str| {
        let pod = cluster
            .object(&named(POD, name))
            .expect("an owner keeps it");
        let owners = pod["metadata"]["ownerReferences"].as_array().cloned();
        let owners = owners.unwrap_or_default().into_iter();
        owners
            .map(|owner| owner["name"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(owners("kept"), ["set"]);
    assert_eq!(owners("too"), ["report"]);
}

#[test]
fn an_owner_that_cannot_be_watched_is_the_one_of_its_uid_and_may_wait() {
    let mut another = object(REPORT, "another", &[]);
    another["metadata"]["uid"] = json!("other");
    let waits = waiting(object(REPORT, "waits", &[]), "foregroundDeletion");
    let mut cluster = with_reports()
        .with(another)
        .with(waits)
        .with(object(POD, "a", &[owner(REPORT, "another")]))
        .with(object(POD, "b", &[owner(REPORT, "waits")]));
    lines(&cluster.run_due::<GarbageCollector>());
    assert!(!has(&cluster, POD, "a") && !has(&cluster, POD, "b"));
}

#[test]
fn what_may_be_an_owner_that_cannot_be_read_keeps_what_it_owns() {
    let mut cluster = cluster()
        .defining_with(REPORT, true, &["create", "delete"])
        .with(object(POD, "kept", &[owner(REPORT, "gone")]));
    lines(&cluster.run_due::<GarbageCollector>());
    assert!(has(&cluster, POD, "kept"));
}

/// A collector of such a cluster.
struct InAnOddCluster;

impl Controller for InAnOddCluster {
    fn manifest() -> pilothouse_sdk::Manifest {
        GarbageCollector::manifest()
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        GarbageCollector::reconcile(request, &Odd(host))
    }
}

/// An aggregated API server need not give its objects uids.
#[test]
fn an_object_without_a_uid_may_be_the_owner() {
    let mut cluster = with_reports()
        .with(object(REPORT, "bare", &[]))
        .with(object(SET, "kept", &[owner(REPORT, "bare")]));
    lines(&cluster.run_due::<InAnOddCluster>());
    assert!(has(&cluster, SET, "kept"));
}

/// Upstream: TestGetDeletableResources.
#[test]
fn what_cannot_be_deleted_is_no_part_of_the_graph() {
    let set = waiting(object(SET, "set", &[]), "foregroundDeletion");
    let orphaning = waiting(object(SET, "orphaning", &[]), "orphan");
    let mut cluster = cluster()
        .with(set)
        .with(orphaning)
        .with(object(POD, "lost", &[owner(SET, "gone")]))
        .with(object(POD, "blocking", &[owner(SET, "set")]))
        .with(object(POD, "orphan", &[owner(SET, "orphaning")]));
    let runs = cluster.run_due::<InAnOddCluster>();
    assert!(runs.iter().all(|run| run.error.is_none()));
    assert!(has(&cluster, POD, "lost"), "it cannot be deleted");
    assert!(
        !has(&cluster, SET, "set"),
        "nobody waits for what is never deleted"
    );
    assert!(!has(&cluster, SET, "orphaning"));
    let orphan = cluster
        .object(&named(POD, "orphan"))
        .expect("it is left alone");
    assert_eq!(
        orphan["metadata"]["ownerReferences"][0]["name"],
        "orphaning"
    );
}
