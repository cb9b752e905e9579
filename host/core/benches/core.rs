//! What caches, read sets and queue cost. One run prints figures per operation and the targets they are held against.
#![allow(clippy::disallowed_types, reason = "a benchmark measures real time")]

use std::collections::BTreeSet;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pilothouse_core::backoff::Backoff;
use pilothouse_core::cache::{Cache, Delta, Listing, Wish};
use pilothouse_core::fields::FieldPath;
use pilothouse_core::key::{Kind, ObjectKey, ResourceVersion};
use pilothouse_core::object::Object;
use pilothouse_core::queue::{NORMAL, WorkQueue};
use pilothouse_core::reader::{Filter, Read};
use pilothouse_core::reads::ReadSets;
use pilothouse_core::selector::{LabelSelector, Requirement};
use pilothouse_core::snapshot::Snapshot;
use pilothouse_core::source::{Payload, Source};

const PODS: usize = 100_000;
const KEYS: usize = 10_000;

fn main() {
    // `cargo test` runs benches too, to see that they build.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    println!(
        "core: {PODS} pods of {} bytes as the server sends them",
        pod_json(0, 0).len()
    );
    let cache = caches();
    read_sets(&cache);
    queue();
}

/// A pod as a real cluster has them: about 4 KB of JSON.
fn pod_json(number: usize, version: usize) -> String {
    let (app, node) = (number % KEYS, number % 100);
    let filler = "x".repeat(1200);
    format!(
        r#"{{"metadata":{{"name":"pod-{number}","namespace":"ns-{}","uid":"11111111-2222-3333-4444-{number:012}","resourceVersion":"{version}","creationTimestamp":"2026-01-01T00:00:00Z","labels":{{"app":"app-{app}","pod-template-hash":"5d9c7b8f6c"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"app-{app}-5d9c7b8f6c","uid":"22222222-2222-3333-4444-{app:012}","controller":true,"blockOwnerDeletion":true}}],"managedFields":[{{"manager":"kubelet","operation":"Update","fieldsV1":{{"f:status":{{"f:conditions":{{"x":"{filler}"}}}}}}}}]}},"spec":{{"nodeName":"node-{node}","containers":[{{"name":"main","image":"example.dev/app:{app}","env":[{{"name":"A","value":"{filler}"}}],"ports":[{{"name":"http","containerPort":8080,"protocol":"TCP"}}],"resources":{{"limits":{{"cpu":"1","memory":"1Gi"}}}}}}],"serviceAccountName":"default"}},"status":{{"phase":"Running","podIP":"10.0.{}.{}","conditions":[{{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:10Z","message":"{}"}}]}}}}"#,
        app % 50,
        number / 250 % 256,
        number % 250,
        "y".repeat(1000)
    )
}

fn path(text: &str) -> FieldPath {
    FieldPath::parse(text).expect("a constant path")
}

fn kind() -> Kind {
    Kind::new("", "v1", "Pod")
}

fn parse(cache: &Cache, number: usize, version: usize) -> Object {
    Object::parse(cache.kind(), &pod_json(number, version), cache.schema()).expect("a pod")
}

/// Resident bytes of this process.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .unwrap_or_default();
    pages * 4096
}

fn per_operation(count: usize, mut operation: impl FnMut(usize)) -> Duration {
    let started = Instant::now();
    (0..count).for_each(&mut operation);
    started.elapsed() / u32::try_from(count).unwrap_or(u32::MAX)
}

fn row(what: &str, figure: &str, target: &str) {
    println!("  {what:<52} {figure:>14}   {target}");
}

fn caches() -> Cache {
    let mut cache = Cache::new(Source::all(kind()));
    let indexes = [
        ".spec.nodeName",
        ".metadata.ownerReferences[*].uid",
        ".metadata.labels.app",
    ];
    cache.join(&Wish {
        payload: Payload::Full,
        fields: [".spec.nodeName", ".status.phase", ".status.podIP"]
            .map(path)
            .into(),
        indexes: indexes.map(|index| vec![path(index)]).into(),
    });
    let parsing = per_operation(5_000, |number| drop(black_box(parse(&cache, number, 1))));
    row(
        "parse, normalise, cut one view and three indexes",
        &format!("{parsing:.1?}"),
        "",
    );

    let before = resident();
    let objects: Vec<Object> = (0..PODS).map(|number| parse(&cache, number, 1)).collect();
    let text: usize = objects.iter().map(|object| object.json().len()).sum();
    let started = Instant::now();
    cache.apply(Delta::Replace(Listing {
        objects,
        resource_version: ResourceVersion::new("1"),
        ..Listing::default()
    }));
    let storing = started.elapsed() / u32::try_from(PODS).unwrap_or(u32::MAX);
    row(
        "store one object of a first list",
        &format!("{storing:.1?}"),
        "",
    );
    let above = resident().saturating_sub(before).saturating_sub(text) / PODS;
    row(
        "memory per pod above its text",
        &format!("{above} B"),
        "<= 600 B",
    );

    let snapshot = Snapshot {
        sequence: 0,
        informers: Arc::new(vec![Arc::new(cache.clone())]),
    };
    let cloning = per_operation(1_000_000, |_| drop(black_box(snapshot.clone())));
    row("snapshot clone", &format!("{cloning:.1?}"), "<= 200 ns");

    // Objects parsed beforehand, and a snapshot held: the update copies what the snapshot shares.
    let updates: Vec<Object> = (0..10_000)
        .map(|number| parse(&cache, number * 7 % PODS, number + 2))
        .collect();
    let held = cache.clone();
    let mut updates = updates.into_iter();
    let updating = per_operation(10_000, |_| {
        if let Some(object) = updates.next() {
            cache.apply(Delta::Upsert(object));
        }
    });
    drop(held);
    row(
        "update with three indexes, a snapshot held",
        &format!("{updating:.1?}"),
        "<= 10 us",
    );

    let listing = per_operation(1_000, |number| {
        let node = format!("node-{}", number % 100);
        let mut text = String::new();
        for pod in cache.list_by_index(0, &node) {
            text.push_str(pod.view(Some(0)));
        }
        black_box(text);
    });
    row(
        "list of 1,000 by index",
        &format!("{listing:.1?}"),
        "<= 200 us",
    );
    cache
}

fn read_sets(cache: &Cache) {
    let reads_of = |number: usize| -> BTreeSet<Read> {
        let namespace: Arc<str> = format!("ns-{}", number % 50).into();
        let app = Requirement::Equals("app".into(), format!("app-{number}"));
        let selector = LabelSelector {
            requirements: vec![app],
        };
        let owner = format!("22222222-2222-3333-4444-{number:012}");
        [
            Read::Object(0, ObjectKey::new(&namespace, &format!("pod-{number}"))),
            Read::List(0, Some(namespace), Filter::Labels(selector)),
            Read::List(0, None, Filter::Index(1, owner.as_str().into())),
        ]
        .into()
    };
    let keys: Vec<(ObjectKey, BTreeSet<Read>)> = (0..KEYS)
        .map(|number| {
            (
                ObjectKey::new("default", &format!("key-{number}")),
                reads_of(number),
            )
        })
        .collect();
    let mut sets = ReadSets::default();
    let before = resident();
    let mut keys = keys.into_iter();
    let registering = per_operation(KEYS, |_| {
        if let Some((key, reads)) = keys.next() {
            sets.set(&key, reads);
        }
    });
    let memory = resident().saturating_sub(before) / sets.len();
    row(
        "register three reads of a key",
        &format!("{registering:.1?}"),
        "",
    );
    row(
        "memory per recorded read",
        &format!("{memory} B"),
        "<= 200 B",
    );

    let mut changing = cache.clone();
    let changes: Vec<_> = (0..10_000)
        .flat_map(|number| {
            let object = parse(&changing, number * 3 % PODS, number + 20_000);
            changing.apply(Delta::Upsert(object))
        })
        .collect();
    let mut woken = 0;
    let matching = per_operation(changes.len(), |number| {
        woken += sets.touched(0, &changes[number], None).len();
    });
    black_box(woken);
    row(
        "match one change against 30,000 reads",
        &format!("{matching:.1?}"),
        "<= 20 us",
    );
}

fn queue() {
    let keys: Vec<ObjectKey> = (0..1_000)
        .map(|number| ObjectKey::new("default", &format!("key-{number}")))
        .collect();
    let mut queue = WorkQueue::new(Backoff::default());
    let turn = per_operation(2_000_000, |number| {
        queue.add(&keys[number % keys.len()], NORMAL, Duration::ZERO);
        if let Some(taken) = queue.next(Duration::ZERO) {
            queue.done(&taken.key, Duration::ZERO);
        }
    });
    let rate = 1.0 / turn.as_secs_f64() / 1e6;
    row(
        "queue: add, next, done",
        &format!("{turn:.0?}"),
        &format!("{rate:.1} M/s, >= 1 M/s"),
    );
}
