//! Which keys a change is about, and which of them are to run.

use std::collections::{HashMap, HashSet, VecDeque};

use kube::core::DynamicObject;
use parking_lot::Mutex;
use pilothouse_sdk::{Effect, ObjectRef};
use tokio::sync::Notify;

use super::{DEPLOYMENT, POD, REPLICA_SET};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub kind: &'static str,
    namespace: String,
    name: String,
}

impl Key {
    pub fn object(&self) -> ObjectRef {
        ObjectRef::new(self.kind, &self.namespace, &self.name)
    }
}

/// The object's own key, if its kind has a controller here, and that of its controller.
pub fn of(kind: &'static str, object: &DynamicObject) -> Vec<Key> {
    let key = |kind, name: &str| Key {
        kind,
        namespace: object.metadata.namespace.clone().unwrap_or_default(),
        name: name.to_owned(),
    };
    let own = (kind != POD).then(|| key(kind, object.metadata.name.as_deref().unwrap_or("")));
    let owners = object.metadata.owner_references.iter().flatten();
    let mut controllers = owners.filter(|owner| owner.controller == Some(true));
    let controller = controllers.next().and_then(|owner| {
        let kind = [DEPLOYMENT, REPLICA_SET].into_iter();
        let mut kind = kind.filter(|kind| *kind == format!("{}/{}", owner.api_version, owner.kind));
        Some(key(kind.next()?, &owner.name))
    });
    own.into_iter().chain(controller).collect()
}

/// What is known of a key from its last run.
#[derive(Default)]
pub struct Memory {
    pub previous: Vec<Effect>,
    pub memo: Option<String>,
    /// How often it has failed in a row.
    pub failures: u32,
}

/// The keys of one controller. None runs twice at once, and each that is added runs again.
#[derive(Default)]
pub struct Queue {
    state: Mutex<State>,
    added: Notify,
}

#[derive(Default)]
struct State {
    line: VecDeque<Key>,
    /// Those in the line, and those that join it when they have run.
    queued: HashSet<Key>,
    running: HashSet<Key>,
    memories: HashMap<Key, Memory>,
}

impl Queue {
    pub fn add(&self, key: Key) {
        let mut state = self.state.lock();
        if state.queued.insert(key.clone()) && !state.running.contains(&key) {
            state.line.push_back(key);
            self.added.notify_one();
        }
    }

    /// Waits for a key, which then runs until [`done`](Self::done).
    pub async fn next(&self) -> (Key, Memory) {
        loop {
            if let Some(taken) = self.take() {
                return taken;
            }
            self.added.notified().await;
        }
    }

    fn take(&self) -> Option<(Key, Memory)> {
        let mut state = self.state.lock();
        let key = state.line.pop_front()?;
        state.queued.remove(&key);
        state.running.insert(key.clone());
        if !state.line.is_empty() {
            self.added.notify_one();
        }
        let memory = state.memories.remove(&key).unwrap_or_default();
        Some((key, memory))
    }

    pub fn done(&self, key: &Key, memory: Memory) {
        let mut state = self.state.lock();
        state.running.remove(key);
        state.memories.insert(key.clone(), memory);
        if state.queued.contains(key) {
            state.line.push_back(key.clone());
            self.added.notify_one();
        }
    }
}
