//! Why informers are not being followed at the moment.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pilothouse_core::source::Source;

/// Which list-watch of an informer: the one that feeds its cache, or one that is to take its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    Follower,
    Successor,
}

/// What is wrong with an informer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub reason: String,
    /// Whether the cache may be behind. It is not while a list-watch that works is waiting for its successor.
    pub is_behind: bool,
}

/// Those of all informers that are in trouble.
#[derive(Clone, Default)]
pub struct Troubles(Arc<Mutex<BTreeMap<(Source, Role), String>>>);

impl Troubles {
    /// One for each informer: that of the list-watch that feeds it, if both are in trouble.
    pub fn all(&self) -> BTreeMap<Source, Trouble> {
        let mut all = BTreeMap::new();
        for ((source, role), reason) in &*self.lock() {
            all.entry(source.clone()).or_insert_with(|| Trouble {
                reason: reason.clone(),
                is_behind: *role == Role::Follower,
            });
        }
        all
    }

    /// Says whether there was trouble before. A list-watch that is retired has nothing to say.
    pub(super) fn set(
        &self,
        source: &Source,
        role: Role,
        reason: Option<String>,
        is_retired: &AtomicBool,
    ) -> bool {
        let mut troubles = self.lock();
        if is_retired.load(Ordering::SeqCst) {
            return false;
        }
        let place = (source.clone(), role);
        let before = match reason {
            Some(reason) => troubles.insert(place, reason),
            None => troubles.remove(&place),
        };
        before.is_some()
    }

    /// Of a list-watch that has ended. Says whether it was in trouble.
    pub(super) fn forget(&self, source: &Source, role: Role) -> bool {
        self.lock().remove(&(source.clone(), role)).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(Source, Role), String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
