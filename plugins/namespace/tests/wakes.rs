//! What several runs come to, by the host's own rules.

use std::time::Duration;

use namespace::NamespaceController;
use pilothouse_sdk::testing::{Failing, FakeCluster, WriteError};
use pilothouse_sdk::{
    ActionResult, Controller, EffectVerb, Failure, Host, Level, Manifest, ObjectRef, Outcome,
    Query, ReadError, Request, ServedKind, Verb,
};
use serde_json::{Value, json};

const POD: &str = "v1/Pod";
const TEAM: &str = "example.com/v1/Team";

/// The second day of all.
const NOW: Duration = Duration::from_secs(86_400);

fn object(kind: &str, namespace: &str, name: &str) -> Value {
    let (api_version, kind) = kind.rsplit_once('/').expect("a kind");
    json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"namespace": namespace, "name": name},
    })
}

/// A cluster with a namespace that was deleted a minute ago. It goes when its finalizers are gone:
/// this cluster does not look at those in `spec`.
fn cluster() -> FakeCluster {
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "doomed", "deletionTimestamp": "1970-01-01T23:59:00Z",
            "finalizers": ["test"]},
        "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Terminating"},
    });
    FakeCluster::new(NamespaceController::manifest())
        .at(NOW)
        .defining(POD, true)
        .with(namespace)
}

fn has(cluster: &FakeCluster, kind: &str, namespace: &str, name: &str) -> bool {
    cluster
        .object(&ObjectRef::new(kind, namespace, name))
        .is_some()
}

/// Runs what is due, a second later each time, and returns what was written, each once.
fn run<C: Controller>(mut cluster: FakeCluster, seconds: u64) -> (FakeCluster, Vec<String>) {
    let mut written: Vec<String> = Vec::new();
    for second in 0..seconds {
        cluster = cluster.at(NOW + Duration::from_secs(second));
        for run in cluster.run_due::<C>() {
            let done = run
                .effects
                .iter()
                .filter(|effect| matches!(effect.outcome, ActionResult::Done(_)));
            written.extend(done.map(|effect| match effect.verb {
                EffectVerb::DeleteAll => format!("all {}", effect.object.kind),
                EffectVerb::Delete => format!("one {}", effect.object.name),
                _ => effect.object.name.clone(),
            }));
        }
    }
    written.dedup();
    (cluster, written)
}

#[test]
fn pods_go_first_then_all_else_and_then_the_namespace() {
    let cluster = cluster()
        .with(object(POD, "doomed", "pod"))
        .with(object(TEAM, "doomed", "team"))
        .with(object("v1/ConfigMap", "doomed", "map"))
        .with(object("v1/ConfigMap", "other", "map"));
    let (cluster, written) = run::<NamespaceController>(cluster, 5);
    let wanted = [
        "all v1/Pod",
        "all example.com/v1/Team",
        "all v1/ConfigMap",
        "doomed",
    ];
    assert_eq!(written, wanted);
    assert!(has(&cluster, "v1/ConfigMap", "other", "map"));
}

#[test]
fn an_object_that_no_watch_has_brought_yet_keeps_the_namespace() {
    let cluster = cluster().defining(TEAM, true);
    let cluster = cluster.with_unseen(object(TEAM, "doomed", "late"));
    let (cluster, written) = run::<NamespaceController>(cluster, 5);
    assert_eq!(written, ["all example.com/v1/Team", "doomed"]);
    assert!(!has(&cluster, TEAM, "doomed", "late"));
}

#[test]
fn a_deletion_that_fails_is_said_and_tried_again() {
    let refused = Failing::next(Verb::DeleteCollection, TEAM, WriteError::Forbidden);
    let cluster = cluster()
        .with(object(TEAM, "doomed", "team"))
        .failing(refused);
    let mut first = cluster;
    let runs = first.run_due::<NamespaceController>();
    assert!(runs[0].error.is_some());
    let (cluster, _) = run::<NamespaceController>(first, 5);
    assert!(!has(&cluster, TEAM, "doomed", "team"));
    let namespace = cluster.object(&ObjectRef::new("v1/Namespace", "", "doomed"));
    let namespace = namespace.expect("the finalizers of others keep it");
    let conditions = namespace["status"]["conditions"]
        .as_array()
        .expect("they were written");
    assert!(
        conditions
            .iter()
            .all(|condition| condition["status"] == "False")
    );
}

/// A cluster that serves Teams without some verb.
struct Without<'a>(&'a dyn Host, &'static str);

impl Host for Without<'_> {
    fn get_json(&self, object: &ObjectRef) -> Result<Option<String>, ReadError> {
        self.0.get_json(object)
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
        for served in kinds.iter_mut().filter(|served| served.kind == TEAM) {
            served.verbs.retain(|verb| verb != self.1);
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

macro_rules! without {
    ($name:ident, $verb:literal) => {
        struct $name;

        impl Controller for $name {
            fn manifest() -> Manifest {
                NamespaceController::manifest()
            }

            fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
                NamespaceController::reconcile(request, &Without(host, $verb))
            }
        }
    };
}

without!(WithoutCollections, "deletecollection");
without!(WithoutWatch, "watch");
without!(WithoutDelete, "delete");

/// Upstream: `deleteEachItem`.
#[test]
fn what_cannot_be_deleted_together_is_deleted_one_by_one() {
    let teams = ["a", "b"].map(|name| object(TEAM, "doomed", name));
    let cluster = teams.into_iter().fold(cluster(), FakeCluster::with);
    let (_, written) = run::<WithoutCollections>(cluster, 5);
    assert_eq!(written, ["one a", "one b", "doomed"]);
}

#[test]
fn what_cannot_be_watched_is_deleted_once_and_taken_for_gone() {
    let cluster = cluster().defining(TEAM, true);
    let (_, written) = run::<WithoutWatch>(cluster, 5);
    assert_eq!(written, ["all example.com/v1/Team", "doomed"]);
}

/// Upstream: the verb `delete` is what makes a resource count.
#[test]
fn what_cannot_be_deleted_at_all_does_not_count() {
    let cluster = cluster().defining(TEAM, true);
    let (_, written) = run::<WithoutDelete>(cluster, 5);
    assert_eq!(written, ["doomed"]);
}
