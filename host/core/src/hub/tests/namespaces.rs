//! Keys that are divided by namespace: what a host must cache, and what a key can read.

use super::*;
use crate::hub::duties::HeldShards;
use crate::model::division::Division;
use crate::model::extent::Extent;
use crate::model::namespaces::Namespaces;
use crate::plan::accepted::Trace;
use crate::reads::error::ReadError;

/// Two namespaces of different shards of two.
const MINE: &str = "default";
const OTHER: &str = "kube-system";

fn node() -> Kind {
    Kind::new("", "v1", "Node")
}

fn by_namespace() -> Division {
    Division::by_namespace(Division::into(2).shards)
}

fn settings() -> ControllerSettings {
    let mut settings = ControllerSettings {
        division: by_namespace(),
        ..ControllerSettings::default()
    };
    settings.grants.cluster_scoped.insert(node());
    settings
}

/// Reads services, pods and nodes.
fn reads_nodes() -> Manifest {
    let mut manifest = manifest("p");
    manifest.reads.push(ReadDeclaration::new(node(), vec![]));
    manifest
}

fn shard_of(namespace: &str) -> u32 {
    by_namespace().shard_of(ObjectKey::new(namespace, "web").parts())
}

fn of_shards(namespaces: &[&str]) -> Namespaces {
    let held: Vec<u32> = namespaces.iter().map(|name| shard_of(name)).collect();
    by_namespace().namespaces_of(|shard| held.contains(&shard))
}

fn hold(rig: &mut Rig, namespaces: &[&str]) {
    let held = HeldShards {
        of: by_namespace(),
        held: namespaces.iter().map(|name| shard_of(name)).collect(),
    };
    let duties = Duties::Shards(BTreeMap::from([("p".to_owned(), held)]));
    drop(rig.hub.set_duties(duties, Relinquish::Finish, rig.now));
}

/// A host that runs the keys of [`MINE`] alone, with that in its caches, and nothing else.
fn host(
    behaviour: impl Fn(&Request, &mut Reader) -> Result<Outcome, RunError> + Send + Sync + 'static,
) -> (Rig, PluginId) {
    let mut rig = Rig::default();
    hold(&mut rig, &[MINE]);
    let id = rig.join_with(reads_nodes(), &settings(), behaviour);
    list(&mut rig, &service(), &[MINE], &["a"]);
    list(&mut rig, &pod(), &[MINE], &[]);
    list(&mut rig, &node(), &[], &[]);
    (rig, id)
}

fn object_in(rig: &mut Rig, kind: &Kind, namespace: &str, name: &str) -> Object {
    rig.version += 1;
    let json = serde_json::json!({ "metadata": {
        "namespace": namespace, "name": name, "uid": "u",
        "resourceVersion": rig.version.to_string(),
    }});
    Object::parse(kind, &json.to_string(), &rig.hub.schema(rig.id(kind))).unwrap()
}

/// A list-watch that brings what is wanted has listed objects of these names in each of these
/// namespaces.
fn list(rig: &mut Rig, kind: &Kind, namespaces: &[&str], names: &[&str]) {
    let mut objects = vec![];
    for namespace in namespaces {
        for name in names {
            objects.push(object_in(rig, kind, namespace, name));
        }
    }
    let listing = Listing {
        objects,
        resource_version: ResourceVersion::new(&rig.version.to_string()),
        extent: wanted(rig, kind),
        ..Listing::default()
    };
    let id = rig.id(kind);
    rig.hub.apply(id, Delta::Replace(listing), rig.now);
}

fn wanted(rig: &Rig, kind: &Kind) -> Extent {
    rig.hub.wanted()[&rig.id(kind)].1
}

fn all_wanted(rig: &Rig) -> [Namespaces; 3] {
    [service(), pod(), node()].map(|kind| wanted(rig, &kind).namespaces)
}

fn cached(rig: &Rig, kind: &Kind) -> Vec<String> {
    let objects = rig.hub.snapshot().informers[rig.id(kind)].list(None);
    let keys = objects.map(|object| object.key().to_key().to_string());
    keys.collect()
}

#[test]
fn a_host_caches_the_namespaces_of_its_shards_and_all_of_what_has_none() {
    let (mut rig, _) = host(nothing);
    let mine = of_shards(&[MINE]);
    assert!(mine.has(MINE) && !mine.has(OTHER));
    assert_eq!(all_wanted(&rig), [mine, mine, Namespaces::ALL]);
    assert_eq!(rig.run(), ["a"]);
    hold(&mut rig, &[MINE, OTHER]);
    assert_eq!(all_wanted(&rig), [Namespaces::ALL; 3]);
    hold(&mut rig, &[]);
    let none = Namespaces::NONE;
    assert_eq!(all_wanted(&rig), [none, none, Namespaces::ALL]);
}

#[test]
fn a_standby_has_everything_whatever_is_divided() {
    let mut rig = Rig::default();
    let standby = Duties::Standby;
    drop(rig.hub.set_duties(standby, Relinquish::Finish, rig.now));
    rig.join_with(reads_nodes(), &settings(), nothing);
    assert_eq!(all_wanted(&rig), [Namespaces::ALL; 3]);
    let is_synced = |rig: &Rig| -> Vec<bool> {
        let reads = rig.hub.status(rig.now).remove(0).reads.into_iter();
        reads.map(|(_, is_synced)| is_synced).collect()
    };
    assert_eq!(is_synced(&rig), [false; 3]);
    list(&mut rig, &service(), &[MINE, OTHER], &["a"]);
    list(&mut rig, &pod(), &[MINE, OTHER], &[]);
    list(&mut rig, &node(), &[], &[]);
    assert_eq!((is_synced(&rig), rig.run()), (vec![true; 3], NONE));
    drop(rig.hub.set_duties(Duties::All, Relinquish::Finish, rig.now));
    rig.prove_all();
    assert_eq!(rig.run(), ["a"], "nothing is listed anew");
    drop(
        rig.hub
            .set_duties(Duties::Standby, Relinquish::Stop, rig.now),
    );
    assert_eq!(all_wanted(&rig), [Namespaces::ALL; 3]);
}

#[test]
fn another_plugin_that_reads_everything_has_everything_cached() {
    let (mut rig, _) = host(nothing);
    rig.run();
    let q = rig.join_with(manifest("q"), &ControllerSettings::default(), nothing);
    assert_eq!(all_wanted(&rig), [Namespaces::ALL; 3]);
    let mut duties = rig.hub.duties().clone();
    if let Duties::Shards(held) = &mut duties {
        let undivided = HeldShards {
            of: Division::UNDIVIDED,
            held: BTreeSet::from([0]),
        };
        held.insert("q".to_owned(), undivided);
    }
    drop(rig.hub.set_duties(duties, Relinquish::Finish, rig.now));
    rig.prove_all();
    assert_eq!(rig.run(), NONE, "it lacks the other namespaces");
    list(&mut rig, &service(), &[MINE, OTHER], &["a", "b"]);
    list(&mut rig, &pod(), &[MINE, OTHER], &[]);
    assert_eq!(rig.run(), ["a", "b"]);
    drop(rig.hub.leave(q));
    assert_eq!(wanted(&rig, &pod()).namespaces, of_shards(&[MINE]));
}

#[test]
fn a_gained_shard_runs_once_its_namespaces_are_listed_and_proven() {
    let (mut rig, _) = host(nothing);
    assert_eq!(rig.run(), ["a"]);
    hold(&mut rig, &[MINE, OTHER]);
    rig.prove_all();
    assert!(rig.hub.doubted().is_empty());
    assert_eq!(rig.run(), NONE, "nothing of them is there");
    let changed = object_in(&mut rig, &service(), MINE, "a");
    let services = rig.id(&service());
    rig.hub.apply(services, Delta::Upsert(changed), rig.now);
    assert_eq!(rig.run(), ["a"], "what was held goes on");
    list(&mut rig, &service(), &[MINE, OTHER], &["a", "b"]);
    rig.run();
    assert!(!rig.hub.status(rig.now)[0].pending_shards.is_empty());
    list(&mut rig, &pod(), &[MINE, OTHER], &["x"]);
    assert_eq!(rig.run(), ["a", "b"]);
    assert!(rig.hub.status(rig.now)[0].pending_shards.is_empty());
}

#[test]
fn objects_of_other_namespaces_are_no_part_of_a_proof() {
    for is_in_mine in [true, false] {
        let (mut rig, _) = host(nothing);
        rig.run();
        hold(&mut rig, &[]);
        hold(&mut rig, &[MINE]);
        let services = rig.hub.doubted().into_iter();
        let mut services = services.filter(|doubt| doubt.informer_key.kind == service());
        let services = services.next().expect("it is in doubt");
        let at = |number: u64| ResourceVersion::new(&number.to_string());
        let namespace = if is_in_mine { MINE } else { OTHER };
        let proof = Proof {
            version: at(rig.version + 10),
            objects: Some(BTreeMap::from([
                (ObjectKey::new(MINE, "a"), at(1)),
                (ObjectKey::new(namespace, "b"), at(rig.version + 9)),
            ])),
        };
        let is_over = rig.hub.prove(&services, &proof, rig.now);
        assert_eq!(is_over, !is_in_mine);
    }
}

#[test]
fn the_cache_of_an_informer_without_namespaces_is_emptied_and_filled_again() {
    let (mut rig, _) = host(nothing);
    rig.run();
    let services = rig.id(&service());
    rig.hub.vacate(services, rig.now);
    assert_eq!(cached(&rig, &service()), ["default/a"], "it is wanted");
    hold(&mut rig, &[]);
    rig.hub.vacate(services, rig.now);
    rig.hub.vacate(rig.id(&pod()), rig.now);
    assert_eq!(cached(&rig, &service()), NONE);
    hold(&mut rig, &[MINE]);
    rig.prove_all();
    assert_eq!(rig.run(), NONE, "it is not gone, but not listed");
    list(&mut rig, &service(), &[MINE], &["a"]);
    assert_eq!(rig.run(), NONE, "its pods are not listed");
    list(&mut rig, &pod(), &[MINE], &["x"]);
    assert_eq!(rig.run(), ["a"]);
}

#[test]
fn a_key_reads_its_own_namespace_and_what_has_none() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = seen.clone();
    let (mut rig, _) = host(move |_, reader| {
        let own = ObjectKey::new(MINE, "x");
        let other = ObjectKey::new(OTHER, "x");
        let everything = ListFilter::Everything;
        let note = |what: &str, result: Result<(), ReadError>| {
            let result = result.map_or_else(|error| error.to_string(), |()| "read".to_owned());
            noted.lock().unwrap().push(format!("{what}: {result}"));
        };
        note("get own", reader.get(&pod(), &own).map(drop));
        note("get other", reader.get(&pod(), &other).map(drop));
        let list = |reader: &mut Reader, kind: &Kind, namespace| {
            reader.list(kind, namespace, &everything).map(drop)
        };
        note("list own", list(reader, &pod(), Some(MINE)));
        note("list other", list(reader, &pod(), Some(OTHER)));
        note("list all", list(reader, &pod(), None));
        note("list nodes", list(reader, &node(), None));
        note(
            "get node",
            reader.get(&node(), &ObjectKey::new("", "n")).map(drop),
        );
        Ok(Outcome::default())
    });
    rig.run();
    let refused = r#"v1/Pod can be read in the key's own namespace "default" alone, because the plugin's settings divide its keys by namespace"#;
    assert_eq!(
        *seen.lock().unwrap(),
        [
            "get own: read".to_owned(),
            format!("get other: {refused}"),
            "list own: read".to_owned(),
            format!("list other: {refused}"),
            format!("list all: {refused}"),
            "list nodes: read".to_owned(),
            "get node: read".to_owned(),
        ]
    );
}

#[test]
fn a_write_to_a_namespace_that_is_not_cached_is_not_waited_for() {
    for (namespace, waits) in [(MINE, true), (OTHER, false)] {
        let (mut rig, _) = host(nothing);
        let reconcile = rig.take().unwrap();
        let writing = rig.ran(reconcile);
        let written = AcceptedWrite {
            kind: pod(),
            key: ObjectKey::new(namespace, "x"),
            trace: Trace::Version(ResourceVersion::new("1000")),
        };
        let executed = Executed {
            accepted: vec![written],
            ..Executed::default()
        };
        rig.end(writing, executed);
        let changed = object_in(&mut rig, &service(), MINE, "a");
        let services = rig.id(&service());
        rig.hub.apply(services, Delta::Upsert(changed), rig.now);
        assert_eq!(rig.take().is_none(), waits, "{namespace}");
    }
}

#[test]
fn plugins_whose_keys_have_no_namespace_or_that_read_patterns_cannot_be_divided_by_it() {
    let why = |manifest: &Manifest, settings: &ControllerSettings| {
        let why = settings.undividable(manifest)?;
        let (why, remedy) = why.split_once(", so its keys cannot be divided").unwrap();
        assert!(remedy.ends_with("from its settings"));
        Some(why.to_owned())
    };
    let of_services = reads_nodes();
    assert_eq!(why(&of_services, &settings()), None);
    let mut of_nodes = reads_nodes();
    of_nodes.reconciles[0].kind = node();
    let reason = "it reconciles v1/Node, which has no namespace";
    assert_eq!(why(&of_nodes, &settings()).as_deref(), Some(reason));
    let mut singleton = reads_nodes();
    singleton.reconciles.clear();
    let reason = "it reconciles no objects";
    assert_eq!(why(&singleton, &settings()).as_deref(), Some(reason));
    let of_patterns = patterns::reads_all("p");
    let reason = "it reads the pattern *";
    assert_eq!(why(&of_patterns, &settings()).as_deref(), Some(reason));
    let one_at_a_time = ControllerSettings {
        concurrency: 1,
        ..settings()
    };
    let reason = "it runs one key at a time (concurrency 1)";
    assert_eq!(why(&of_services, &one_at_a_time).as_deref(), Some(reason));
    let many = ControllerSettings {
        division: Division::by_namespace(Division::into(65).shards),
        ..settings()
    };
    let reason = "its keys can be divided by namespace into at most 64 shards: lower `shards` in its settings";
    assert_eq!(many.undividable(&of_services).as_deref(), Some(reason));
    let undivided = ControllerSettings {
        division: Division::UNDIVIDED,
        concurrency: 1,
        ..settings()
    };
    assert_eq!(undivided.undividable(&singleton), None);
}
