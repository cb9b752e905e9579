//! The errors of informers whose list-watches fail at the moment.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};
use pilothouse_core::InformerKey;

/// Which list-watch of an informer: the one that feeds its cache, or the one that will replace it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    Follower,
    Successor,
}

/// An informer's error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InformerError {
    pub reason: String,
    /// True if the cache may be behind. It is not while a working list-watch waits for its
    /// successor.
    pub is_behind: bool,
}

/// The errors of all informers that have one.
#[derive(Clone, Default)]
pub struct WatchErrors(Arc<Mutex<BTreeMap<(InformerKey, Role), String>>>);

impl WatchErrors {
    /// One error for each informer. If both list-watches have one, that of the follower.
    pub fn all(&self) -> BTreeMap<InformerKey, InformerError> {
        let mut all = BTreeMap::new();
        for ((informer_key, role), reason) in &*self.lock() {
            all.entry(informer_key.clone())
                .or_insert_with(|| InformerError {
                    reason: reason.clone(),
                    is_behind: *role == Role::Follower,
                });
        }
        all
    }

    /// Whether the cache of an informer may be behind.
    pub fn is_behind(&self, informer_key: &InformerKey) -> bool {
        let place = (informer_key.clone(), Role::Follower);
        self.lock().contains_key(&place)
    }

    /// Sets or clears an error. Returns whether there was one before. Does nothing for a retired
    /// list-watch.
    pub(super) fn set(
        &self,
        informer_key: &InformerKey,
        role: Role,
        reason: Option<String>,
        is_retired: &AtomicBool,
    ) -> bool {
        let mut errors = self.lock();
        if is_retired.load(Ordering::SeqCst) {
            return false;
        }
        let place = (informer_key.clone(), role);
        let before = match reason {
            Some(reason) => errors.insert(place, reason),
            None => errors.remove(&place),
        };
        before.is_some()
    }

    /// Clears the error of a list-watch that has ended. Returns whether there was one.
    pub(super) fn forget(&self, informer_key: &InformerKey, role: Role) -> bool {
        self.lock().remove(&(informer_key.clone(), role)).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(InformerKey, Role), String>> {
        self.0.lock()
    }
}
