//! The keys of one plugin that run now, and those among them whose shard was given up meanwhile.

use crate::hub::duties::{Duty, Relinquish};
use crate::model::subject_key::SubjectKey;
use crate::plan::Halt;

/// See the module's documentation. A plugin's concurrency keeps the list short.
#[derive(Default)]
pub(in crate::hub) struct RunningKeys {
    keys: Vec<Running>,
}

struct Running {
    key: SubjectKey,
    /// Stops its writes alone.
    halt: Halt,
    /// Its shard was given up since the key was handed out, and may have been gained again.
    is_lost: bool,
}

impl RunningKeys {
    /// A key is handed out. Returns what stops its writes: `all`, which stops all of the plugin's,
    /// or something that is for this key alone.
    pub fn begin(&mut self, key: &SubjectKey, all: &Halt) -> Halt {
        let halt = all.part();
        self.keys.push(Running {
            key: key.clone(),
            halt: halt.clone(),
            is_lost: false,
        });
        halt
    }

    /// A key is given back. Returns whether its shard was given up meanwhile.
    pub fn end(&mut self, key: &SubjectKey) -> bool {
        let at = self.keys.iter().position(|running| running.key == *key);
        at.is_some_and(|at| self.keys.swap_remove(at).is_lost)
    }

    /// Whether the shard of a running key was given up meanwhile.
    pub fn is_lost(&self, key: &SubjectKey) -> bool {
        let mut keys = self.keys.iter();
        keys.any(|running| running.is_lost && running.key == *key)
    }

    /// From now on only the keys of this duty are run.
    pub fn relinquish(&mut self, kept: &Duty, how: Relinquish) {
        for running in self.keys.iter_mut().filter(|it| !kept.has(&it.key)) {
            running.is_lost = true;
            if how == Relinquish::Stop {
                running.halt.halt();
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The running keys.
    pub fn keys(&self) -> impl Iterator<Item = &SubjectKey> {
        self.keys.iter().map(|running| &running.key)
    }

    /// The running keys whose shards were given up.
    pub fn lost(&self) -> impl Iterator<Item = &SubjectKey> {
        let lost = self.keys.iter().filter(|running| running.is_lost);
        lost.map(|running| &running.key)
    }
}
