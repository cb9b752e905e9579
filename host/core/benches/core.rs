//! Measures the cost of caches, read sets and the queue. One run prints figures per operation, and
//! the targets for them.
#![allow(clippy::disallowed_types, reason = "a benchmark measures real time")]

use std::hint::black_box;
use std::process::Command;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use pilothouse_core::{
    Backoff, Cache, Delta, Detail, FieldPath, Filter, InformerId, InformerKey, Kind, KindScope,
    LabelSelector, ListFilter, Listing, NORMAL, Object, ObjectKey, Origin, Read, ReadSets, Reader,
    Requirement, ResourceVersion, Scope, ScopePart, Snapshot, Source, SubjectKey, Subscribed,
    Subscription, WorkQueue,
};

#[path = "support/pods.rs"]
mod pods;

use pods::{kind, pod_json};

/// The informer of pods.
const INFORMER: InformerId = InformerId::first_at(0);
const PODS: usize = 100_000;
const KEYS: usize = 10_000;
/// Keys that list a pattern.
const PATTERN_KEYS: usize = 50_000;
const UPDATES: usize = PODS / 10;
const ROUNDS: usize = 5;

/// The argument that makes this program measure only read sets.
const READ_SETS: &str = "--read-sets";

fn main() {
    // `cargo test` runs benchmarks too, to see that they build.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    if std::env::args().any(|argument| argument == READ_SETS) {
        read_sets();
        return;
    }
    println!(
        "core: {PODS} pods of {} bytes as the server sends them",
        pod_json(0, 0).len()
    );
    let cache = caches();
    // Measured in a process of its own, whose heap has no holes that would hide what is allocated.
    let child = std::env::current_exe().and_then(|this| Command::new(this).arg(READ_SETS).status());
    assert!(child.is_ok_and(|status| status.success()), "no figures");
    matching(&cache);
    queue();
}

fn path(text: &str) -> FieldPath {
    FieldPath::parse(text).expect("a constant path")
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

/// The best of several rounds. Whatever else the machine does meanwhile can only make a round
/// slower.
fn best(mut round: impl FnMut(usize) -> Duration) -> Duration {
    let rounds = (0..ROUNDS).map(&mut round);
    rounds.min().unwrap_or_default()
}

fn row(what: &str, figure: &str, target: &str) {
    println!("  {what:<52} {figure:>14}   {target}");
}

fn caches() -> Cache {
    let mut cache = Cache::new(InformerKey::all(kind()));
    let indexes = [
        ".spec.nodeName",
        ".metadata.ownerReferences[*].uid",
        ".metadata.labels.app",
    ];
    let subscribed = cache.join(&Subscription {
        detail: Detail::Full,
        fields: [".spec.nodeName", ".status.phase", ".status.podIP"]
            .map(path)
            .into(),
        indexes: indexes.map(|index| vec![path(index)]).into(),
        manager: None,
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
        informers: Arc::new([cache.clone()].into_iter().collect()),
    };
    let cloning = per_operation(1_000_000, |_| drop(black_box(snapshot.clone())));
    row("snapshot clone", &format!("{cloning:.1?}"), "<= 200 ns");

    let mut update = |is_renewed| best(|_| updating(&mut cache, is_renewed));
    let figure = format!("{:.1?}", update(false));
    row(
        "update with three indexes, a snapshot held",
        &figure,
        "<= 10 us",
    );
    let figure = format!("{:.1?}", update(true));
    row("the same, a new snapshot for each", &figure, "");

    let snapshot = Snapshot {
        sequence: 0,
        informers: Arc::new([cache.clone()].into_iter().collect()),
    };
    let scope = Arc::new(scope(subscribed));
    let listing = best(|_| {
        per_operation(100, |node| {
            let filter = ListFilter::Index("node".into(), format!("node-{node}"));
            let mut reader = Reader::new(snapshot.clone(), scope.clone(), 0);
            black_box(reader.list(&kind(), None, &filter).expect("a list"));
        })
    });
    row(
        "list of 1,000 by index",
        &format!("{listing:.1?}"),
        "<= 200 us",
    );
    lists_by_label(&snapshot, &scope);
    cache
}

/// The ten pods of an app, of the 2,000 pods of its namespace.
fn lists_by_label(snapshot: &Snapshot, scope: &Arc<Scope>) {
    let app = |number: usize| format!("app-{number}");
    let by_labels = |requirement: Requirement| {
        ListFilter::Labels(LabelSelector {
            requirements: vec![requirement],
        })
    };
    let none = |at: usize| format!("none-{at}");
    let time = |filter: &dyn Fn(usize) -> ListFilter| {
        best(|_| {
            per_operation(1_000, |number| {
                let (number, namespace) = (number * 7, format!("ns-{}", number * 7 % 50));
                let mut reader = Reader::new(snapshot.clone(), scope.clone(), 0);
                let list = reader.list(&kind(), Some(&namespace), &filter(number));
                assert_eq!(list.expect("a list").lines().count(), 12);
            })
        })
    };
    let by_label = time(&|number| by_labels(Requirement::Equals("app".into(), app(number))));
    row(
        "list 10 of 2,000 pods by a label",
        &format!("{by_label:.1?}"),
        "<= 20 us",
    );
    let by_index = time(&|number| ListFilter::Index("app".into(), app(number)));
    row(
        "the same by an index of that label",
        &format!("{by_index:.1?}"),
        "",
    );
    let by_look = time(&|number| {
        let values = (0..8).map(none).chain([app(number)]);
        by_labels(Requirement::OneOf("app".into(), values.collect()))
    });
    row(
        "the same with a look at each, for one of nine values",
        &format!("{by_look:.1?}"),
        "",
    );
}

/// The scope of a plugin with these view and index ids.
fn scope(subscribed: Subscribed) -> Scope {
    let part = ScopePart {
        namespace: None,
        informer: INFORMER,
        subscribed,
        is_narrowed: false,
        is_divisible: false,
    };
    let of_pods = KindScope {
        parts: vec![part],
        indexes: [("node".to_owned(), 0), ("app".to_owned(), 2)].into(),
    };
    Scope {
        kinds: [(kind(), of_pods)].into(),
        ..Scope::default()
    }
}

/// Updates a tenth of all pods, which are parsed beforehand. Parts that a snapshot shares are
/// copied before they are changed. This happens once if the snapshot is held from the beginning,
/// and for each update if a new snapshot follows each, as when a key runs after each.
fn updating(cache: &mut Cache, is_renewed: bool) -> Duration {
    let newest = usize::try_from(cache.resource_version().last_digits()).unwrap_or_default();
    let updates = (0..UPDATES).map(|number| parse(cache, number * 7 % PODS, newest + 1 + number));
    let mut updates = updates.collect::<Vec<_>>().into_iter();
    let mut held = cache.clone();
    per_operation(UPDATES, |_| {
        if let Some(object) = updates.next() {
            let changes = cache.apply(Delta::Upsert(object));
            assert!(!changes.is_empty(), "an update is a change");
        }
        if is_renewed {
            held = cache.clone();
        }
        black_box(&held);
    })
}

/// The three reads of a key: an object, the objects with a label in a namespace, and the objects
/// with an indexed value.
fn reads_of(number: usize) -> [Read; 3] {
    let namespace: Arc<str> = format!("ns-{}", number % 50).into();
    let app = Requirement::Equals("app".into(), format!("app-{number}"));
    let selector = LabelSelector {
        requirements: vec![app],
    };
    let owner = format!("22222222-2222-3333-4444-{number:012}");
    [
        Read::Object(
            INFORMER,
            ObjectKey::new(&namespace, &format!("pod-{number}")),
        ),
        Read::List(
            Source::Informer(INFORMER),
            Some(namespace),
            Filter::Labels(selector),
        ),
        Read::List(
            Source::Informer(INFORMER),
            None,
            Filter::Index(1, owner.as_str().into()),
        ),
    ]
}

fn key(number: usize) -> SubjectKey {
    static KIND: LazyLock<Arc<Kind>> = LazyLock::new(|| Arc::new(Kind::new("", "v1", "Service")));
    SubjectKey::of(&KIND, ObjectKey::new("default", &format!("key-{number}")))
}

fn read_sets() {
    let per_read = |before: usize, sets: &ReadSets| {
        format!("{} B", resident().saturating_sub(before) / sets.len())
    };
    let made: Vec<(SubjectKey, [Read; 3])> = (0..KEYS)
        .map(|number| (key(number), reads_of(number)))
        .collect();
    let mut sets = ReadSets::default();
    let before = resident();
    for (key, reads) in made {
        sets.set(&key, reads.into());
    }
    let figure = per_read(before, &sets);
    row("memory per recorded read", &figure, "<= 200 B");

    let mut with_texts = ReadSets::default();
    let before = resident();
    let registering = per_operation(KEYS, |number| {
        with_texts.set(&key(number), reads_of(number).into());
    });
    let figure = per_read(before, &with_texts);
    row("the same, with its names, values and selector", &figure, "");
    row(
        "make and register three reads of a key",
        &format!("{registering:.1?}"),
        "",
    );
    pattern_lists();
}

/// Keys that each list all kinds by an owner's uid, as a garbage collector's do.
fn pattern_lists() {
    let uid = |number: usize| Arc::from(format!("22222222-2222-3333-4444-{number:012}"));
    let list = |number| {
        let all = Source::Pattern("*".into());
        Read::List(all, None, Filter::Index(0, uid(number)))
    };
    let mut sets = ReadSets::default();
    let before = resident();
    for number in 0..PATTERN_KEYS {
        sets.set(&key(number), [list(number)].into());
    }
    assert_eq!((sets.len(), sets.coarse()), (PATTERN_KEYS, 0));
    let of_key = resident().saturating_sub(before) / PATTERN_KEYS;
    let figure = format!("{of_key} B");
    row(
        "memory of a key that lists a pattern of any size",
        &figure,
        "<= 500 B",
    );
}

fn matching(cache: &Cache) {
    let mut sets = ReadSets::default();
    (0..KEYS).for_each(|number| sets.set(&key(number), reads_of(number).into()));
    let mut changing = cache.clone();
    let changes: Vec<_> = (0..10_000)
        .flat_map(|number| {
            let object = parse(&changing, number * 3 % PODS, number + 1_000_000);
            changing.apply(Delta::Upsert(object))
        })
        .collect();
    let mut woken = 0;
    let matching = per_operation(changes.len(), |number| {
        woken += sets
            .touched(
                Origin::of(INFORMER, None),
                &changes[number].key().to_key(),
                &changes[number],
            )
            .keys
            .len();
    });
    black_box(woken);
    row(
        "match one change against 30,000 reads",
        &format!("{matching:.1?}"),
        "<= 20 us",
    );
}

fn queue() {
    let keys: Vec<SubjectKey> = (0..1_000).map(key).collect();
    let mut queue = WorkQueue::new(Backoff::default());
    let reconcile = per_operation(2_000_000, |number| {
        queue.add(&keys[number % keys.len()], NORMAL, Duration::ZERO);
        if let Some(taken) = queue.next(Duration::ZERO) {
            queue.done(&taken.key, Duration::ZERO);
        }
    });
    let rate = 1.0 / reconcile.as_secs_f64() / 1e6;
    row(
        "queue: add, next, done",
        &format!("{reconcile:.0?}"),
        &format!("{rate:.1} M/s, >= 1 M/s"),
    );
}
