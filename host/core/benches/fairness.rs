//! Measures whether a plugin with a hundred thousand keys keeps another plugin waiting. One run
//! compares the waits of the other plugin with and without it.
#![allow(clippy::disallowed_types, reason = "a benchmark measures real time")]

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use pilothouse_core::{
    ControllerSettings, Decision, Delta, Hub, Kind, LabelSelector, Limits, Listing, Manifest, Next,
    Object, Outcome, Plugin, ReadDeclaration, Reader, Request, ResourceVersion, RunError,
    Selection,
};

/// The number of workers: one more than the cores that this is meant for, as in the host.
const THREADS: usize = 3;

/// Keys of the busy plugin.
const BACKLOG: usize = 100_000;

/// The number of changes that wake the calm plugin, and the time between them.
const CHANGES: usize = 1_000;
const PAUSE: Duration = Duration::from_millis(1);

/// How long a reconcile occupies a thread: as long as a Rust guest that reads an object or two.
const WORK: Duration = Duration::from_micros(100);

fn main() {
    // `cargo test` runs benchmarks too, to see that they build.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    println!("fairness: {CHANGES} changes for one plugin, each {WORK:?} of work");
    let alone = waits(0);
    let beside = waits(BACKLOG);
    row("p50, p99 of the wait alone", &alone);
    row(
        &format!("p50, p99 beside {BACKLOG} keys of another"),
        &beside,
    );
    let ratio = percentile(&beside, 99).as_secs_f64() / percentile(&alone, 99).as_secs_f64();
    println!(
        "  {:<52} {:>14}   <= 2",
        "ratio of the p99s",
        format!("{ratio:.2}")
    );
}

fn row(what: &str, waits: &[Duration]) {
    let figures = [50, 99].map(|percent| format!("{:.1?}", percentile(waits, percent)));
    println!("  {what:<52} {:>14}", figures.join(", "));
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() - 1) * percent / 100]
}

/// A plugin that keeps its thread busy.
struct Busy(Manifest);

impl Plugin for Busy {
    fn manifest(&self) -> &Manifest {
        &self.0
    }

    fn reconcile(&self, _: &Request, _: &mut Reader) -> Result<Outcome, RunError> {
        let started = Instant::now();
        while started.elapsed() < WORK {}
        Ok(Outcome::default())
    }
}

fn busy(name: &str, kind: &Kind) -> Arc<Busy> {
    Arc::new(Busy(Manifest {
        name: name.into(),
        version: "1".into(),
        reconciles: vec![Selection {
            kind: kind.clone(),
            labels: LabelSelector::default(),
            fields: None,
            namespaces: vec![],
            companions: vec![],
        }],
        reads: vec![ReadDeclaration::new(kind.clone(), vec![])],
        indexes: vec![],
        writes: vec![],
        limits: Limits::default(),
        config_schema: None,
        optional: [].into(),
    }))
}

struct Host {
    hub: Mutex<Hub>,
    changed: Condvar,
    started: Instant,
    is_over: AtomicBool,
    /// Waits of the calm plugin's keys.
    waits: Mutex<Vec<Duration>>,
}

/// How long the keys of a calm plugin wait while another plugin has this many keys queued, sorted.
fn waits(backlog: usize) -> Vec<Duration> {
    let kinds = ["Calm", "Busy"].map(|kind| Kind::new("", "v1", kind));
    let mut hub = Hub::with_threads(THREADS);
    for (name, kind, count) in [("calm", &kinds[0], 0), ("busy", &kinds[1], backlog)] {
        hub.join(
            busy(name, kind),
            &ControllerSettings::default(),
            Duration::ZERO,
        )
        .expect("the names differ");
        fill(&mut hub, kind, count);
    }
    let host = Host {
        hub: Mutex::new(hub),
        changed: Condvar::new(),
        started: Instant::now(),
        is_over: AtomicBool::new(false),
        waits: Mutex::default(),
    };
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| host.work());
        }
        for number in 0..CHANGES {
            thread::sleep(PAUSE);
            host.change(&kinds[0], number);
        }
        host.is_over.store(true, Ordering::Relaxed);
        host.changed.notify_all();
    });
    let mut waits = host.waits.into_inner().expect("no thread has panicked");
    waits.sort_unstable();
    waits
}

fn fill(hub: &mut Hub, kind: &Kind, count: usize) {
    let wanted = hub.wanted();
    let (informer, _) = wanted
        .iter()
        .find(|(_, (informer_key, _))| informer_key.kind == *kind)
        .expect("read");
    let schema = hub.schema(*informer);
    let object = |number: usize| Object::parse(kind, &json(number, 1), &schema).expect("an object");
    let listing = Listing {
        objects: (0..count).map(object).collect(),
        resource_version: ResourceVersion::new("1"),
        ..Listing::default()
    };
    hub.apply(*informer, Delta::Replace(listing), Duration::ZERO);
}

fn json(number: usize, version: usize) -> String {
    format!(
        r#"{{"metadata":{{"namespace":"default","name":"o-{number}","resourceVersion":"{version}"}}}}"#
    )
}

impl Host {
    fn change(&self, kind: &Kind, number: usize) {
        let mut hub = self.hub.lock().expect("no thread has panicked");
        let wanted = hub.wanted();
        let (informer, _) = wanted
            .iter()
            .find(|(_, (informer_key, _))| informer_key.kind == *kind)
            .expect("read");
        let object = Object::parse(kind, &json(number, number + 2), &hub.schema(*informer));
        let delta = Delta::Upsert(object.expect("an object"));
        hub.apply(*informer, delta, self.started.elapsed());
        self.changed.notify_all();
    }

    fn work(&self) {
        let mut hub = self.hub.lock().expect("no thread has panicked");
        while !self.is_over.load(Ordering::Relaxed) {
            let now = self.started.elapsed();
            let Next::Run(reconcile) = hub.next(now, 0) else {
                let wait = self.changed.wait_timeout(hub, Duration::from_millis(50));
                hub = wait.expect("no thread has panicked").0;
                continue;
            };
            if reconcile.held().plugin_name() == "calm" {
                let mut waits = self.waits.lock().expect("no thread has panicked");
                waits.push(reconcile.waited());
            }
            drop(hub);
            let ran = reconcile.run();
            hub = self.hub.lock().expect("no thread has panicked");
            let now = self.started.elapsed();
            let Decision::Writing(writing) = hub.ran(ran, now) else {
                unreachable!("the guest does not fail");
            };
            let ControlFlow::Break(finished) = writing.advance() else {
                unreachable!("the guest writes nothing");
            };
            hub.finished(finished, now);
        }
    }
}
