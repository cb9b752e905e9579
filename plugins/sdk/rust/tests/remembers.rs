//! What the fake cluster remembers of a key: its memo, and a time before which it does not run.

use std::time::Duration;

use pilothouse_sdk::testing::FakeCluster;
use pilothouse_sdk::{Controller, Failure, Host, Manifest, Outcome, Request, Selection};
use serde_json::{Value, json};

const CONFIG_MAP: &str = "v1/ConfigMap";

/// Counts its runs in its memo, and rests for ten seconds after each.
struct Counts;

impl Controller for Counts {
    fn manifest() -> Manifest {
        Manifest::new("counts", "1.0.0", Selection::of(CONFIG_MAP)).reads(CONFIG_MAP, [".data"])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let runs = request.memo::<u32>().unwrap_or_default();
        host.info("runs", &[("before", &runs.to_string())]);
        let outcome = Outcome::done().not_before(Duration::from_secs(10));
        Ok(outcome.remember(&(runs + 1))?)
    }
}

fn config_map(data: &str) -> Value {
    let metadata = json!({"namespace": "default", "name": "a"});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": data}})
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_memo_is_given_to_the_next_run_unless_it_is_forgotten() {
    let run = |mut cluster: FakeCluster| {
        cluster.run_due::<Counts>();
        let mut cluster = cluster.with(config_map("b")).at(at(10));
        cluster.run_due::<Counts>();
        cluster.lines()
    };
    let cluster = || FakeCluster::new(Counts::manifest()).with(config_map("a"));
    let lines = run(cluster());
    assert_eq!(lines, ["INFO runs before=0", "INFO runs before=1"]);
    let lines = run(cluster().forgetting_memos());
    assert_eq!(lines, ["INFO runs before=0", "INFO runs before=0"]);
}

#[test]
fn a_memo_lasts_from_turn_to_turn_and_a_test_can_set_it() -> Result<(), Failure> {
    let mut cluster = FakeCluster::new(Counts::manifest())
        .with(config_map("a"))
        .memo(&7);
    cluster.turn::<Counts>("default", "a")?;
    cluster.turn::<Counts>("default", "a")?;
    assert_eq!(
        cluster.lines(),
        ["INFO runs before=7", "INFO runs before=8"]
    );
    Ok(())
}

#[test]
fn a_key_that_rests_is_not_due_before_its_time() {
    let mut cluster = FakeCluster::new(Counts::manifest()).with(config_map("a"));
    assert_eq!(cluster.run_due::<Counts>().len(), 1);
    let mut cluster = cluster.with(config_map("b")).at(at(9));
    assert!(cluster.run_due::<Counts>().is_empty());
    let mut cluster = cluster.at(at(10));
    assert_eq!(cluster.run_due::<Counts>().len(), 1);
}
