//! Guests of real toolchains, when their folder is named: `PILOTHOUSE_GUESTS=folder cargo test -p pilothouse-wasm -- --ignored`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use pilothouse_core::cache::{Delta, KindCache};
use pilothouse_core::manifest::Manifest;
use pilothouse_core::object::{Object, Schema};
use pilothouse_core::plugin::Plugin;
use pilothouse_core::reader::{KindScope, Reader, Scope};
use pilothouse_core::snapshot::Snapshot;
use pilothouse_wasm::{LimitPolicy, WasmPlugin, load};

use crate::support::{NOW_MS, engine, request};

fn load_guest(file: &str) -> WasmPlugin {
    let folder =
        std::env::var_os("PILOTHOUSE_GUESTS").expect("PILOTHOUSE_GUESTS names a folder of guests");
    let bytes = std::fs::read(PathBuf::from(folder).join(file)).unwrap();
    let started = Instant::now();
    let plugin = load(engine(), &bytes, &LimitPolicy::default())
        .unwrap_or_else(|error| panic!("{file}: {error}"));
    println!(
        "{file}: {} bytes, loaded in {:?}: {:?}",
        bytes.len(),
        started.elapsed(),
        plugin.manifest()
    );
    plugin
}

/// Reads all that the manifest names; there is one object of each kind, default/a.
fn reader_for(manifest: &Manifest) -> Reader {
    let (mut scope, mut kinds) = (Scope::default(), vec![]);
    for read in &manifest.reads {
        let mut cache = KindCache::new(read.kind.clone());
        let json =
            r#"{"metadata":{"name":"a","namespace":"default","uid":"u"},"data":{"who":"world"}}"#;
        let object = Object::parse(&read.kind, json, &Schema::default()).unwrap();
        cache.apply(Delta::Upsert(object));
        let place = KindScope {
            kind: kinds.len(),
            view: None,
            indexes: Default::default(),
        };
        scope.kinds.insert(read.kind.clone(), place);
        kinds.push(cache);
    }
    let snapshot = Snapshot {
        sequence: 1,
        kinds: Arc::new(kinds),
    };
    Reader::new(snapshot, Arc::new(scope), NOW_MS)
}

fn runs_the_same_each_time(file: &str) {
    let plugin = load_guest(file);
    let run = || {
        let mut reader = reader_for(plugin.manifest());
        let (result, stats) = plugin.run(&request("a"), &mut reader);
        (format!("{result:?}"), stats, reader.depends_on_time())
    };
    let (first, stats, depends_on_time) = run();
    println!("{file}: {first} {stats:?} depends on time: {depends_on_time}");
    assert!(
        !first.contains("Trap") && !first.contains("OverLimit") && !first.contains("Host"),
        "{first}"
    );
    let started = Instant::now();
    for _ in 0..100 {
        let (again, again_stats, _) = run();
        assert_eq!((again, again_stats.fuel), (first.clone(), stats.fuel));
    }
    println!("{file}: {:?} a run", started.elapsed() / 100);
}

#[test]
#[ignore = "needs guests in PILOTHOUSE_GUESTS"]
fn a_rust_guest_runs_the_same_each_time() {
    runs_the_same_each_time("hello-rust.wasm");
}

#[test]
#[ignore = "needs guests in PILOTHOUSE_GUESTS"]
fn a_larger_rust_guest_runs_the_same_each_time() {
    runs_the_same_each_time("endpoints.wasm");
}

#[test]
#[ignore = "needs guests in PILOTHOUSE_GUESTS"]
fn a_python_guest_runs_the_same_each_time() {
    runs_the_same_each_time("hello-python.wasm");
}
