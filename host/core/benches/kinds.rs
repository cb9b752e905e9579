//! Measures what it costs, for each kind, when all kinds of a pattern get informers at once, are
//! listed one after the other, and go: with more kinds each must cost the same.
#![allow(clippy::disallowed_types, reason = "a benchmark measures real time")]

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pilothouse_core::{
    ControllerSettings, Decision, Delta, Detail, Exchange, Granted, Grants, Hub, InformerId, Kind,
    KindName, LabelSelector, Limits, ListFilter, Listing, Manifest, Next, Object, Outcome, Plugin,
    ReadDeclaration, ReadError, ReadGrant, Reader, Reconcile, Request, ResourceVersion, RunError,
    Selection, ServedKind,
};

/// How many kinds there are.
const KINDS: [usize; 3] = [50, 200, 800];

/// Measured so often; the shortest time counts.
const TIMES: usize = 5;

/// How long a kind may take to be listed.
const LONGEST_LIST: Duration = Duration::from_secs(10);

fn main() {
    // `cargo test` runs benchmarks too, to see that they build.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    println!("kinds: two plugins that read `*`, one of which reconciles it; for each kind");
    let figures = KINDS.map(|kinds| {
        let runs = (0..TIMES).map(|_| Costs::of(kinds));
        runs.reduce(Costs::least).expect("measured at least once")
    });
    let counts = KINDS.map(|kinds| format!("{kinds:>9}"));
    println!("  {:<44}{}   most / fewest", "kinds", counts.concat());
    row("get informers", &figures, |costs| costs.begin);
    row("first list, and what is next", &figures, |costs| costs.list);
    row("run its key", &figures, |costs| costs.run);
    row("too late", &figures, |costs| costs.late);
    row("first list after that", &figures, |costs| costs.late_list);
    row("no longer served", &figures, |costs| costs.end);
}

/// What each kind costs under the hub's lock.
#[derive(Clone, Copy, Default)]
struct Costs {
    begin: Duration,
    list: Duration,
    run: Duration,
    late: Duration,
    late_list: Duration,
    end: Duration,
}

impl Costs {
    fn of(kinds: usize) -> Self {
        let each = |time: Duration| time / u32::try_from(kinds).unwrap_or(u32::MAX);
        let (mut bench, begin) = Bench::new(kinds);
        let list = bench.list_all();
        let run = bench.running;
        let end = timed(|| drop(bench.hub.set_kinds(vec![], bench.now)));
        let (mut bench, _) = Bench::new(kinds);
        bench.now += LONGEST_LIST;
        let late = timed(|| bench.run());
        let late_list = bench.list_all();
        Self {
            begin: each(begin),
            list: each(list),
            run: each(run),
            late: each(late),
            late_list: each(late_list),
            end: each(end),
        }
    }

    fn least(self, other: Self) -> Self {
        Self {
            begin: self.begin.min(other.begin),
            list: self.list.min(other.list),
            run: self.run.min(other.run),
            late: self.late.min(other.late),
            late_list: self.late_list.min(other.late_list),
            end: self.end.min(other.end),
        }
    }
}

fn row(what: &str, figures: &[Costs; 3], of: impl Fn(&Costs) -> Duration) {
    let times = figures.each_ref().map(of);
    let texts = times.map(|time| format!("{:>9}", format!("{time:.1?}")));
    let ratio = times[2].as_secs_f64() / times[0].as_secs_f64();
    println!("  {what:<44}{}   {ratio:.1}, target: <= 2", texts.concat());
}

fn timed(what: impl FnOnce()) -> Duration {
    let started = Instant::now();
    what();
    started.elapsed()
}

struct Bench {
    hub: Hub,
    now: Duration,
    /// How long keys have run.
    running: Duration,
}

impl Bench {
    /// So many kinds are served, and have got informers: how long that took under the hub's lock.
    fn new(kinds: usize) -> (Self, Duration) {
        let mut bench = Self {
            hub: Hub::default(),
            now: Duration::ZERO,
            running: Duration::ZERO,
        };
        for plugin in [collector(), lister()] {
            let joined = bench.hub.join(Arc::new(plugin), &settings(), bench.now);
            joined.expect("another name");
        }
        let owner = bench.informers()[0].clone();
        bench.list(&owner);
        let kinds = (0..kinds).map(served).collect();
        drop(bench.hub.set_kinds(kinds, bench.now));
        bench.run();
        let begin = bench.widen();
        (bench, begin)
    }

    fn informers(&self) -> Vec<(InformerId, Kind)> {
        let wanted = self.hub.wanted().into_iter();
        wanted.map(|(id, (key, _))| (id, key.kind)).collect()
    }

    fn widen(&mut self) -> Duration {
        let mut preparation = None;
        let mut waiting = timed(|| preparation = self.hub.prepare_widening(10_000, self.now));
        let mut preparation = preparation.expect("kinds were asked about");
        loop {
            preparation.build(self.now);
            let mut exchange = None;
            waiting += timed(|| exchange = Some(self.hub.exchange(preparation, self.now)));
            match exchange.expect("it was exchanged") {
                Exchange::Again(again) => preparation = *again,
                Exchange::Done(_) => return waiting,
                Exchange::Refused(error, _) => panic!("{error}"),
            }
        }
    }

    /// The first list of every kind arrives, and a worker asks for a key each time.
    fn list_all(&mut self) -> Duration {
        let informers = self.informers();
        let mut waiting = Duration::ZERO;
        for informer in &informers[1..] {
            waiting += self.list(informer);
            let mut next = None;
            waiting += timed(|| next = Some(self.hub.next(self.now, 0)));
            let started = Instant::now();
            if let Some(Next::Run(reconcile)) = next {
                self.finish(*reconcile);
                self.run();
            }
            self.running += started.elapsed();
        }
        waiting
    }

    fn list(&mut self, (id, kind): &(InformerId, Kind)) -> Duration {
        let json = r#"{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"1"}}"#;
        let object = Object::parse(kind, json, &self.hub.schema(*id)).expect("an object");
        let listing = Listing {
            objects: vec![object],
            resource_version: ResourceVersion::new("1"),
            extent: Detail::Metadata.into(),
            ..Listing::default()
        };
        timed(|| {
            self.hub.apply(*id, Delta::Replace(listing), self.now);
        })
    }

    /// Runs every key that is due.
    fn run(&mut self) {
        while let Next::Run(reconcile) = self.hub.next(self.now, 0) {
            self.finish(*reconcile);
        }
    }

    fn finish(&mut self, reconcile: Reconcile) {
        let finished = match self.hub.ran(reconcile.run(), self.now) {
            Decision::Finished(finished) => finished,
            Decision::Writing(writing) => match writing.advance() {
                ControlFlow::Break(finished) => finished,
                ControlFlow::Continue(_) => panic!("it writes nothing"),
            },
            Decision::Confirming(_) | Decision::Fetching(_) => panic!("it asks nothing"),
        };
        drop(self.hub.finished(finished, self.now));
    }
}

fn served(number: usize) -> ServedKind {
    ServedKind {
        kind: Kind::new("bench.dev", "v1", &format!("Kind{number}")),
        versions: vec!["v1".into()],
        resource: format!("kind{number}s"),
        is_namespaced: true,
        verbs: ["delete", "get", "list", "watch"].map(String::from).into(),
        subresources: vec![],
    }
}

fn any() -> Kind {
    "*".parse().expect("a pattern")
}

fn settings() -> ControllerSettings {
    let kind = KindName::of(&any());
    ControllerSettings {
        grants: Grants {
            what: Granted::Listed {
                reads: vec![ReadGrant {
                    kind,
                    namespaces: [].into(),
                }],
                writes: vec![],
                events: false,
            },
            ..Grants::default()
        },
        ..ControllerSettings::default()
    }
}

/// A plugin that reads `*`, and the objects of it that its key asks for.
struct Pattern {
    manifest: Manifest,
    lists: bool,
}

impl Plugin for Pattern {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn reconcile(&self, _: &Request, reader: &mut Reader) -> Result<Outcome, RunError> {
        if self.lists {
            let listed = reader.list(&any(), None, &ListFilter::Everything);
            if let Err(error @ ReadError::NotYet(_)) = listed {
                return Err(RunError::Trap(error.to_string()));
            }
        }
        Ok(Outcome::default())
    }
}

/// A plugin whose keys are all objects.
fn collector() -> Pattern {
    Pattern {
        manifest: manifest("collector", any(), vec![]),
        lists: false,
    }
}

/// A plugin with one key, which lists all objects.
fn lister() -> Pattern {
    let owner = Kind::new("", "v1", "ConfigMap");
    let read = ReadDeclaration::new(owner.clone(), vec![".data".into()]);
    Pattern {
        manifest: manifest("lister", owner, vec![read]),
        lists: true,
    }
}

fn manifest(name: &str, reconciles: Kind, mut reads: Vec<ReadDeclaration>) -> Manifest {
    reads.push(ReadDeclaration::new(any(), vec![".metadata.labels".into()]));
    Manifest {
        name: name.into(),
        version: "1".into(),
        reconciles: vec![Selection {
            kind: reconciles,
            labels: LabelSelector::default(),
            fields: None,
            namespaces: vec![],
            companions: vec![],
        }],
        reads,
        indexes: vec![],
        writes: vec![],
        limits: Limits::default(),
        config_schema: None,
        optional: [].into(),
    }
}
