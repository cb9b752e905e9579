//! Deletes pods that nobody else will delete: of nodes that are gone or out of service, without a
//! node, and those that have ended when there are too many of them.
//!
//! The rules are those of kube-controller-manager's pod garbage collector
//! (`pkg/controller/podgc` in kubernetes/kubernetes). The README lists the differences.

mod config;
mod objects;
mod quarantine;
mod sweeps;
mod writes;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use pilothouse_sdk::{
    Controller, Failure, Filter, Host, Kind, Limits, Manifest, ObjectRef, Outcome, Request, Verb,
};

use config::Config;
use objects::{Node, PODS, Pod};
use quarantine::{Missing, Quarantine};
use sweeps::{Nodes, Sweeps};

/// Pods that are read at once.
const PAGE: NonZeroU32 = NonZeroU32::new(1_000).expect("it is not 0");

/// Pods that one run deletes of each sweep, so that the outcome is as large as it may be.
const MOST: usize = 500;

/// Enough for the 150,000 pods that Kubernetes supports at most, as
/// `tests/promises/plugin_cases.rs` shows.
const FUEL: u64 = 5_000_000_000;
const MEMORY: u64 = 128 << 20;

/// The pod garbage collector. Its only key stands for the whole cluster.
pub struct PodGarbageCollector;

impl Controller for PodGarbageCollector {
    fn manifest() -> Manifest {
        Manifest::singleton("pod-garbage-collector", env!("CARGO_PKG_VERSION"))
            .reads(PODS, objects::POD_FIELDS)
            .reads_as::<Node>()
            .writes(PODS, [Verb::Delete])
            .writes_subresource(PODS, "status", [Verb::Patch])
            .config_schema(&Config::schema())
            .limits(Limits {
                fuel: Some(FUEL),
                memory_bytes: Some(MEMORY),
                ..Limits::default()
            })
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let config: Config = request.configuration()?;
        let nodes = Nodes::of(host.list(Node::KIND, None, &Filter::Everything)?);
        let mut sweeps = Sweeps::default();
        for page in host.pages::<Pod>(PODS, None, &Filter::Everything, PAGE) {
            for pod in page? {
                sweeps.look_at(pod, &nodes);
            }
        }
        collect(request, host, &config, &sweeps)
    }
}

pilothouse_sdk::register!(PodGarbageCollector);

/// Deletes what the sweeps have found.
fn collect(
    request: &Request,
    host: &dyn Host,
    config: &Config,
    sweeps: &Sweeps,
) -> Result<Outcome, Failure> {
    let memo: Missing = request.memo().unwrap_or_default();
    let mut quarantine = Quarantine::of(&memo, sweeps, host.now(), config.quarantine());
    let orphans = quarantine.release(MOST);
    let surplus = sweeps.surplus(config.terminated_pod_threshold);
    let others = [&surplus, &sweeps.terminating, &sweeps.unscheduled];

    let first = others.iter().flat_map(|found| some(found, request.attempt));
    let mut victims: BTreeMap<usize, bool> = first.map(|place| (place, false)).collect();
    victims.extend(orphans.pods.iter().map(|place| (*place, true)));
    let mut outcome = orphans.nodes.iter().fold(Outcome::done(), |outcome, node| {
        outcome.confirm(&ObjectRef::new(Node::KIND, "", node))
    });
    for (place, is_orphan) in &victims {
        let pod = &sweeps.pods[*place];
        outcome = writes::fail_and_delete(outcome, pod, *is_orphan, host.now())?;
    }
    if !victims.is_empty() {
        let count = victims.len().to_string();
        host.info("force deleting pods", &[("pods", &count)]);
    }
    let outcome = if orphans.is_more || others.iter().any(|found| found.len() > MOST) {
        // At once: the host waits a little, and longer each time.
        outcome.requeue_after(Duration::from_millis(1))
    } else {
        let outcome = outcome.not_before(config.check_period());
        match quarantine.next() {
            Some(wait) => outcome.requeue_after(wait),
            None => outcome,
        }
    };
    let missing = quarantine.into_missing();
    if missing.is_empty() {
        return Ok(outcome);
    }
    Ok(outcome.remember(&missing)?)
}

/// As many of these as one run deletes: the first, and after a failure those after them, so that
/// pods that cannot be deleted do not keep others from it.
fn some(found: &[usize], attempt: u32) -> impl Iterator<Item = usize> {
    let skipped = MOST * attempt.saturating_sub(1) as usize;
    let begin = if found.len() > MOST {
        skipped % found.len()
    } else {
        0
    };
    found
        .iter()
        .cycle()
        .skip(begin)
        .take(MOST.min(found.len()))
        .copied()
}
