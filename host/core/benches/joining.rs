//! Measures how long the hub is blocked while a plugin joins or leaves it with 100,000 pods, and
//! how long the work outside of the hub takes.
#![allow(clippy::disallowed_types, reason = "a benchmark measures real time")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use pilothouse_core::{
    ControllerSettings, Delta, Exchange, Hub, IndexDeclaration, InformerId, Kind, LabelSelector,
    Limits, Listing, Manifest, Object, Outcome, Plugin, Preparation, ReadDeclaration, Reader,
    Request, ResourceVersion, RunError, Selection,
};

#[path = "support/pods.rs"]
mod pods;

use pods::{kind, pod_json};

/// The informer of pods.
const PODS_INFORMER: InformerId = InformerId::first_at(0);
const PODS: usize = 100_000;

/// Changes per second.
const CHANGES: f64 = 1_000.0;

const NOW: Duration = Duration::ZERO;

fn main() {
    // `cargo test` runs benchmarks too, to see that they build.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    println!("joining: {PODS} pods, {CHANGES} changes a second");
    let mut bench = Bench::new();
    let settings = ControllerSettings::default();
    let second = reads_pods("second", ".spec.nodeName");
    let (waiting, joined) = timed(|| bench.hub.join(second, &settings, NOW));
    row("join at once: everybody waits", waiting, "");
    bench.leave(joined.expect("another name"));

    let third = reads_pods("third", ".metadata.labels.app");
    let (waiting, prepared) = timed(|| bench.hub.prepare(third, &settings));
    let (id, preparation) = prepared.expect("another name");
    bench.finish("join", waiting, preparation);

    let another = reads_pods("third", ".spec.nodeName");
    let (waiting, prepared) = timed(|| bench.hub.prepare_replacement(id, another, &settings));
    let preparation = prepared.expect("the same name");
    bench.finish("another version", waiting, preparation);
    bench.leave(id);
}

fn row(what: &str, took: Duration, target: &str) {
    let figure = format!("{took:.1?}");
    println!("  {what:<52} {figure:>14}   {target}");
}

fn timed<R>(what: impl FnOnce() -> R) -> (Duration, R) {
    let started = Instant::now();
    let result = what();
    (started.elapsed(), result)
}

/// A hub with pods, and the number of times they have changed.
struct Bench {
    hub: Hub,
    version: usize,
}

impl Bench {
    fn new() -> Self {
        let mut hub = Hub::default();
        let first = reads_pods("first", ".status.podIP");
        hub.join(first, &ControllerSettings::default(), NOW)
            .expect("the only one");
        let mut bench = Self { hub, version: 1 };
        let objects = (0..PODS).map(|number| bench.pod(number)).collect();
        let listing = Listing {
            objects,
            resource_version: ResourceVersion::new("1"),
            ..Listing::default()
        };
        bench.hub.apply(PODS_INFORMER, Delta::Replace(listing), NOW);
        bench
    }

    fn pod(&self, number: usize) -> Object {
        let json = pod_json(number, self.version);
        Object::parse(&kind(), &json, &self.hub.schema(PODS_INFORMER)).expect("a pod")
    }

    /// Makes the changes that occur within this time.
    fn change(&mut self, within: Duration) {
        for _ in 0..(within.as_secs_f64() * CHANGES) as usize {
            self.version += 1;
            let pod = self.pod(self.version * 7 % PODS);
            self.hub.apply(PODS_INFORMER, Delta::Upsert(pod), NOW);
        }
    }

    /// Builds and exchanges until the preparation is done, while pods change.
    fn finish(&mut self, what: &str, begun: Duration, mut preparation: Preparation) {
        let (mut longest, mut beside, mut rounds) = (begun, Duration::ZERO, 0);
        let freeing = loop {
            let (built, ()) = timed(|| preparation.build(NOW));
            self.change(built);
            let (waiting, exchange) = timed(|| self.hub.exchange(preparation, NOW));
            (longest, beside, rounds) = (longest.max(waiting), beside + built, rounds + 1);
            match exchange {
                Exchange::Again(again) => preparation = *again,
                Exchange::Done(garbage) => break timed(|| drop(garbage)).0,
                Exchange::Refused(error, _) => panic!("{error}"),
            }
        };
        let row = |detail: &str, took, target| row(&format!("{what}: {detail}"), took, target);
        row("everybody waits at most", longest, "<= 10 ms");
        row(&format!("beside the hub, in {rounds} rounds"), beside, "");
        row("freeing what is needed no more, beside it", freeing, "");
    }

    fn leave(&mut self, plugin: u64) {
        let (waiting, garbage) = timed(|| self.hub.leave(plugin));
        row("leave: everybody waits", waiting, "<= 10 ms");
        drop(garbage);
        let (waiting, preparation) = timed(|| self.hub.prepare_trim());
        let preparation = preparation.expect("a view and an index of its own");
        self.finish("cutting off what it left", waiting, preparation);
    }
}

/// A plugin whose reconciles do nothing.
struct Idle(Manifest);

impl Plugin for Idle {
    fn manifest(&self) -> &Manifest {
        &self.0
    }

    fn reconcile(&self, _: &Request, _: &mut Reader) -> Result<Outcome, RunError> {
        Ok(Outcome::default())
    }
}

/// A plugin whose keys are all pods, with a view and an index of its own.
fn reads_pods(name: &str, field: &str) -> Arc<dyn Plugin> {
    let kind: Kind = kind();
    Arc::new(Idle(Manifest {
        name: name.into(),
        version: "1".into(),
        reconciles: vec![Selection {
            kind: kind.clone(),
            labels: LabelSelector::default(),
            fields: None,
            namespaces: vec![],
            companions: vec![],
        }],
        reads: vec![ReadDeclaration::new(kind.clone(), vec![field.into()])],
        indexes: vec![IndexDeclaration {
            name: "by".into(),
            kind,
            paths: vec![field.into()],
        }],
        writes: vec![],
        limits: Limits::default(),
        config_schema: None,
        optional: [].into(),
    }))
}
