//! Guests written in WAT against the real world, and a snapshot for them to read.

use std::fs;
use std::path::Path;
use std::sync::{Arc, LazyLock, OnceLock};

use pilothouse_core::{
    Cache, Delta, Failure, InformerId, InformerKey, Kind, KindScope, Listing, NextRun, Object,
    ObjectKey, Outcome, Plugin, Reader, Request, ResourceVersion, RunError, Schema, Scope,
    Snapshot, SubjectKey,
};
use pilothouse_wasm::{Engine, EngineOptions, LimitPolicy, LoadError, WasmPlugin, load};
use tracing::Dispatch;
use tracing::subscriber::{DefaultGuard, NoSubscriber, Subscriber, set_default};
use wit_component::{StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The time of every test's reconcile.
pub const NOW_MS: u64 = 1_700_000_000_123;

/// A guest: a core module for the contract's world. The template uses the memory below 64 KiB; see
/// [`Guest::module`] for its layout.
pub struct Guest {
    abi: &'static str,
    name: &'static str,
    subject: &'static str,
    world: &'static str,
    packages: &'static str,
    items: &'static str,
    describe: &'static str,
    reconcile: &'static str,
    realloc: &'static str,
    pages: u32,
}

pub fn guest() -> Guest {
    Guest {
        abi: "0.2.0",
        name: "guest",
        subject: r#""singleton":true"#,
        world: "",
        packages: "",
        items: "",
        describe: "",
        reconcile: "",
        realloc: "",
        pages: 2,
    }
}

impl Guest {
    pub fn of_abi(self, abi: &'static str) -> Self {
        Self { abi, ..self }
    }

    /// `name` has at most 9 characters.
    pub fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// Lets it reconcile pods, so that it is given the key and its object.
    pub fn of_pods(self) -> Self {
        let subject = r#""reconciles":[{"kind":"v1/Pod"}],"reads":[{"kind":"v1/Pod"}]"#;
        Self { subject, ..self }
    }

    /// Adds these lines of WIT to its world, with the packages they use.
    pub fn of_world_with(self, world: &'static str, packages: &'static str) -> Self {
        Self {
            world,
            packages,
            ..self
        }
    }

    /// Adds these core imports, globals and functions.
    pub fn with(self, items: &'static str) -> Self {
        Self { items, ..self }
    }

    pub fn describing(self, describe: &'static str) -> Self {
        Self { describe, ..self }
    }

    pub fn reconciling(self, reconcile: &'static str) -> Self {
        Self { reconcile, ..self }
    }

    pub fn reallocating(self, realloc: &'static str) -> Self {
        Self { realloc, ..self }
    }

    pub fn with_pages(self, pages: u32) -> Self {
        Self { pages, ..self }
    }

    /// The core module. Its memory, by address:
    ///
    /// - 64: "v1/Pod"
    /// - 72: "Pod"
    /// - 80: "default"
    /// - 96: "a"
    /// - 1024: the answer of `describe`, and after it the manifest: a singleton that reads nothing,
    ///   unless it is [`of_pods`](Self::of_pods)
    /// - 2048: the answer of `reconcile`; all zero is an outcome without actions. Its stages are at
    ///   2056, `next` at 2072
    ///
    /// The request is at `$request`: the kind of its key at 4, the name at 20, the object at 28,
    /// the configuration at 64.
    ///
    /// - 3072: the answers of imports
    pub fn module(&self) -> Vec<u8> {
        let Self {
            abi,
            name,
            subject,
            items,
            describe,
            reconcile,
            realloc,
            pages,
            ..
        } = self;
        let manifest = format!(r#"{{"name":"{name}","version":"1.0.0",{subject}}}"#);
        let (bytes, manifest) = (manifest.len(), manifest.replace('"', "\\22"));
        let plugin = format!("pilothouse:controller/plugin@{abi}");
        let text = format!(
            r#"(module {items}
                (memory (export "memory") {pages})
                (data (i32.const 64) "v1/Pod") (data (i32.const 72) "Pod") (data (i32.const 80) "default") (data (i32.const 96) "a")
                (data (i32.const 1024) "\08\04\00\00\{bytes:02x}\00\00\00{manifest}")
                (global $heap (mut i32) (i32.const 65536))
                (func $alloc (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                    {realloc}
                    (global.set $heap (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
                    (global.get $heap)
                    (global.set $heap (i32.add (global.get $heap) (local.get 3))))
                ;; The answer is a failure to retry, with this text.
                (func $fail (param $text i32) (param $bytes i32)
                    (i32.store8 (i32.const 2048) (i32.const 1))
                    (i32.store (i32.const 2060) (local.get $text))
                    (i32.store (i32.const 2064) (local.get $bytes)))
                (func (export "{plugin}#describe") (result i32) {describe} (i32.const 1024))
                (func (export "{plugin}#reconcile") (param $request i32) (result i32)
                    {reconcile} (i32.const 2048)))"#
        );
        let mut module = wat::parse_str(&text).unwrap();
        self.embed_world(&mut module);
        module
    }

    fn embed_world(&self, module: &mut Vec<u8>) {
        let mut resolve = Resolve::default();
        if !self.packages.is_empty() {
            resolve.push_source("packages.wit", self.packages).unwrap();
        }
        let wit = contract(self.abi).replacen(
            "  import snapshot;",
            &format!("  import snapshot;\n{}", self.world),
            1,
        );
        let package = resolve.push_source("controller.wit", &wit).unwrap();
        let world = resolve
            .select_world(&[package], Some("controller"))
            .unwrap();
        embed_component_metadata(module, &resolve, world, StringEncoding::UTF8).unwrap();
    }

    pub fn load(&self) -> Result<WasmPlugin, LoadError> {
        self.load_with(engine(), &LimitPolicy::default())
    }

    pub fn load_with(
        &self,
        engine: &Engine,
        policy: &LimitPolicy,
    ) -> Result<WasmPlugin, LoadError> {
        load(engine, &self.module(), policy)
    }

    pub fn plugin(&self) -> WasmPlugin {
        self.load().unwrap()
    }

    /// The error of one run for default/a.
    pub fn run_error(&self) -> RunError {
        self.plugin()
            .reconcile(&request("a"), &mut reader())
            .unwrap_err()
    }

    pub fn load_error(&self) -> String {
        self.load().err().expect("it loads").to_string()
    }
}

/// The files of the contract as one text, at another version.
fn contract(abi: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "wit"))
        .collect();
    files.sort();
    let texts = files.iter().map(|file| fs::read_to_string(file).unwrap());
    let lines: Vec<String> = texts
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let body = lines
        .iter()
        .filter(|line| !line.starts_with("package "))
        .map(|line| format!("{line}\n"));
    format!(
        "package pilothouse:controller@{abi};\n{}",
        body.collect::<String>()
    )
}

/// One engine for all tests, because the pool reserves a lot of address space.
pub fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new(&EngineOptions::default()).unwrap())
}

/// Little enough fuel that a guest which uses all of it is done long before the timeout, even on a
/// busy machine.
pub fn little_fuel() -> LimitPolicy {
    let mut policy = LimitPolicy::default();
    policy.default.fuel = 10_000_000;
    policy
}

/// A request of this name. Guests that are [`of_pods`](Guest::of_pods) get a [`pod_request`].
pub fn request(name: &str) -> Request {
    Request {
        key: SubjectKey {
            object: ObjectKey::new("default", name),
            ..SubjectKey::singleton()
        },
        attempt: 1,
        previous: vec![],
        memo: None,
        config: "{}".into(),
    }
}

/// A request for the pod of this name.
pub fn pod_request(name: &str) -> Request {
    let pod = Arc::new(Kind::new("", "v1", "Pod"));
    Request {
        key: SubjectKey::of(&pod, ObjectKey::new("default", name)),
        ..request(name)
    }
}

/// A reader of pods. There are default/a and default/b.
pub fn reader() -> Reader {
    let pod = Kind::new("", "v1", "Pod");
    let mut pods = Cache::new(InformerKey::all(pod.clone()));
    let parse = |name: &str| {
        let json =
            format!(r#"{{"metadata":{{"name":"{name}","namespace":"default","uid":"{name}"}}}}"#);
        Object::parse(&pod, &json, &Schema::default()).unwrap()
    };
    pods.apply(Delta::Replace(Listing {
        objects: vec![parse("a"), parse("b")],
        resource_version: ResourceVersion::new("1"),
        ..Listing::default()
    }));
    let snapshot = Snapshot {
        sequence: 1,
        informers: Arc::new([pods].into_iter().collect()),
    };
    reader_of(snapshot, InformerId::first_at(0))
}

pub fn reader_of(snapshot: Snapshot, informer: InformerId) -> Reader {
    let mut scope = Scope::default();
    let pods = KindScope::whole(informer);
    scope.kinds.insert(Kind::new("", "v1", "Pod"), pods);
    Reader::new(snapshot, Arc::new(scope), NOW_MS)
}

/// The time in milliseconds after which an outcome asks to be run again.
pub fn after(outcome: &Outcome) -> u128 {
    match &outcome.follow_up.next {
        NextRun::After(delay) => delay.as_millis(),
        other => panic!("no time: {other:?}"),
    }
}

/// The text a guest failed with. Test guests return what they read in this way.
pub fn said(error: RunError) -> String {
    match error {
        RunError::Failure(Failure::Retry(text)) => text,
        other => panic!("not a failure to retry: {other}"),
    }
}

/// Core imports and calls that several guests use.
pub const GET: &str = r#"(import "pilothouse:controller/snapshot@0.2.0" "get"
    (func $get (param i32 i32 i32 i32 i32 i32 i32)))"#;
pub const GET_A: &str = "(call $get (i32.const 64) (i32.const 6) (i32.const 80) (i32.const 7) (i32.const 96) (i32.const 1) (i32.const 3072))";
/// Gets default/a and fails with the result as its text.
pub const SAY_A: &str = "(call $get (i32.const 64) (i32.const 6) (i32.const 80) (i32.const 7) (i32.const 96) (i32.const 1) (i32.const 3072))
    (call $fail (i32.load (i32.const 3080)) (i32.load (i32.const 3084)))";
pub const LOG: &str =
    r#"(import "pilothouse:controller/log@0.2.0" "log" (func $log (param i32 i32 i32 i32 i32)))"#;

/// Gives `subscriber` this thread's log until the guard is dropped.
///
/// While there is one subscriber in the process, `tracing` asks the thread that reaches a line for
/// the first time whether anybody wants it, and keeps the answer for all threads. Another test's
/// thread has no subscriber, and the line would be lost here. With a second subscriber all are
/// asked.
pub fn subscribed(subscriber: impl Subscriber + Send + Sync) -> DefaultGuard {
    static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));
    LazyLock::force(&SECOND);
    set_default(subscriber)
}
