//! Whatever fails on the way, and however often, the cache ends in the server's state and never
//! goes back on the way.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pilothouse_core::{Cache, Delta, Detail, InformerKey, ObjectKey, ResourceVersion, Schema};
use proptest::prelude::*;

use crate::testing::Model;
use crate::testing::pods;
use crate::watch::machine::is_older;
use crate::watch::{CacheSink, ListWatch, WatchSettings, WatchState};

/// One thing that happens to the server.
#[derive(Clone, Debug)]
enum Step {
    Put(u8),
    Delete(u8),
    Compact,
    Restart(u64),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..6u8).prop_map(Step::Put),
        3 => (0..6u8).prop_map(Step::Delete),
        1 => Just(Step::Compact),
        1 => (0..20u64).prop_map(Step::Restart),
        6 => (0..8000u64).prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 0..120)
}

/// A cache, and the changes that a plugin would have been told.
struct Held {
    cache: Cache,
    /// The result of applying those changes to an empty map.
    replayed: BTreeMap<ObjectKey, ResourceVersion>,
    /// The newest version of each key, deleted ones included.
    newest: BTreeMap<ObjectKey, ResourceVersion>,
    state: Option<WatchState>,
}

#[derive(Clone)]
struct Sink(Arc<Mutex<Held>>);

impl Held {
    /// Checks that no version of a key is older than the one before, whether of an object or of a
    /// deletion.
    fn see(&mut self, key: &ObjectKey, version: &ResourceVersion) {
        let before = self.newest.insert(key.clone(), version.clone());
        if let Some(before) = before {
            assert!(
                !is_older(version, &before),
                "{key}: {version:?} after {before:?}"
            );
        }
    }
}

impl CacheSink for Sink {
    fn schema(&self) -> Arc<Schema> {
        self.0.lock().unwrap().cache.schema().clone()
    }

    fn apply(&mut self, delta: Delta) {
        let mut held = self.0.lock().unwrap();
        if let Delta::Delete {
            key,
            resource_version,
        } = &delta
        {
            let newest = held.newest.entry(key.clone()).or_default();
            *newest = resource_version.clone().max(newest.clone());
        }
        for change in held.cache.apply(delta) {
            let key = change.key().to_key();
            let before = held.replayed.get(&key).cloned();
            let old = change.old.map(|old| old.resource_version().clone());
            assert_eq!(
                before, old,
                "{key}: each change starts where the last one ended"
            );
            match change.new {
                Some(new) => {
                    let version = new.resource_version().clone();
                    held.see(&key, &version);
                    held.replayed.insert(key, version);
                }
                None => {
                    held.replayed.remove(&key);
                }
            }
        }
    }

    fn state(&mut self, state: WatchState) {
        self.0.lock().unwrap().state = Some(state);
    }

    fn rolled_back(&mut self, from: &ResourceVersion, to: &ResourceVersion, _: bool) {
        panic!("the server never went back from {from:?} to {to:?}");
    }
}

impl Sink {
    fn objects(&self) -> BTreeMap<String, String> {
        let held = self.0.lock().unwrap();
        let objects = held.cache.list(None);
        objects
            .map(|object| {
                (
                    object.key().name.to_owned(),
                    object.resource_version().to_string(),
                )
            })
            .collect()
    }

    fn replayed(&self) -> BTreeMap<String, String> {
        let held = self.0.lock().unwrap();
        let replayed = held.replayed.iter();
        replayed
            .map(|(key, version)| (key.name.to_string(), version.to_string()))
            .collect()
    }
}

async fn act(model: &Model, steps: &[Step]) {
    for step in steps {
        match step {
            Step::Put(name) => model.put(&format!("p{name}")),
            Step::Delete(name) => model.delete(&format!("p{name}")),
            Step::Compact => model.compact(),
            Step::Restart(seconds) => model.restart(Duration::from_secs(*seconds)),
            Step::Wait(millis) => tokio::time::sleep(Duration::from_millis(*millis)).await,
        }
    }
}

/// Runs a phase with faults and then one without. At most a minute later, the cache must show the
/// server's state.
async fn survive(seed: u64, is_streaming: bool, steps: &[Step]) {
    let model = Model::new(seed);
    let informer_key = InformerKey::all(pods().kind);
    let settings = WatchSettings {
        is_streaming,
        page_size: 2,
        ..WatchSettings::default()
    };
    let held = Held {
        cache: Cache::new(informer_key.clone()),
        replayed: BTreeMap::new(),
        newest: BTreeMap::new(),
        state: None,
    };
    let sink = Sink(Arc::new(Mutex::new(held)));
    let list_watch = ListWatch::new(
        model.client().into(),
        Arc::new(pods()),
        informer_key,
        Detail::Full,
        settings,
        seed,
    );
    let mut writer = sink.clone();
    let began = tokio::time::Instant::now();
    let acted = async {
        act(&model, steps).await;
        model.heal();
        for _ in 0..120 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let is_watching = sink.0.lock().unwrap().state == Some(WatchState::Watching);
            if is_watching && sink.objects() == model.state() {
                break;
            }
        }
    };
    tokio::select! {
        never = list_watch.run(&mut writer) => match never {},
        () = acted => {}
    }
    assert_eq!(
        sink.objects(),
        model.state(),
        "the cache is the server's state"
    );
    assert_eq!(
        sink.replayed(),
        model.state(),
        "and so are the changes, one after the other"
    );
    assert_eq!(sink.0.lock().unwrap().state, Some(WatchState::Watching));
    // Each page is a request. One attempt may be a stream, a list of three pages and a watch.
    let allowed = 8 * (began.elapsed().as_secs() as usize + 5);
    assert!(model.requests() < allowed, "{} requests", model.requests());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_cache_survives_whatever_goes_wrong(seed: u64, is_streaming: bool, steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(survive(seed, is_streaming, &steps));
    }
}
