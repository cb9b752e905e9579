//! The fake cluster without a kind that is optional.

use pilothouse_sdk::testing::FakeCluster;
use pilothouse_sdk::{
    Apply, Controller, Failure, Filter, Host, Manifest, ObjectRef, Outcome, Request, Selection,
    Verb,
};
use serde_json::{Value, json};

const NOTE: &str = "v1/ConfigMap";

const TEAM: &str = "example.com/v1/Team";

/// Writes into each ConfigMap how many Teams there are, and into the status of the first that they
/// are counted.
struct Counts;

impl Controller for Counts {
    fn manifest() -> Manifest {
        Manifest::new("counts", "1.0.0", Selection::of(NOTE))
            .reads(NOTE, [".data"])
            .writes(NOTE, [Verb::Apply])
            .reads_whole(TEAM)
            .writes(TEAM, [Verb::Apply])
            .optional(TEAM)
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let key = request.key();
        let teams: Vec<Value> = host.list(TEAM, None, &Filter::Everything)?;
        let note = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": key.namespace, "name": key.name},
            "data": {"teams": teams.len().to_string()},
        });
        let team = json!({
            "apiVersion": "example.com/v1", "kind": "Team",
            "metadata": {"namespace": "default", "name": "counted"},
        });
        Ok(Outcome::done()
            .with(Apply::new(&note)?)
            .with(Apply::new(&team)?))
    }
}

fn cluster() -> FakeCluster {
    FakeCluster::new(Counts::manifest()).with(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": "a"},
    }))
}

fn teams(cluster: &FakeCluster) -> Option<String> {
    let note = cluster.object(&ObjectRef::new(NOTE, "default", "a"))?;
    note["data"]["teams"].as_str().map(str::to_owned)
}

#[test]
fn without_an_optional_kind_reads_find_nothing_and_writes_fail() {
    let mut cluster = cluster().without(TEAM);
    let runs = cluster.run_due::<Counts>();
    let error = runs[0].error.clone().unwrap_or_default();
    assert!(error.contains("does not serve"), "{error}");
    assert_eq!(
        teams(&cluster).as_deref(),
        Some("0"),
        "the other write is done"
    );
    let mut cluster = cluster.serving(TEAM);
    assert!(
        cluster
            .run_due::<Counts>()
            .iter()
            .all(|run| run.error.is_none())
    );
    assert_eq!(
        teams(&cluster).as_deref(),
        Some("1"),
        "its own one is there"
    );
    let mut cluster = cluster.without(TEAM);
    cluster.run_due::<Counts>();
    assert_eq!(teams(&cluster).as_deref(), Some("0"));
}
