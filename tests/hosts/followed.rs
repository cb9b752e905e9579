//! All changes of some kinds since the beginning.

use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_tests::{Api, Change, Fan, follow};
use tokio::task::JoinSet;

/// Follows the changes until it is dropped.
#[derive(Default)]
pub struct Followed {
    changes: Arc<Mutex<Vec<Change>>>,
    following: JoinSet<()>,
    /// Why a change may be missing.
    lost: Arc<Mutex<Option<String>>>,
}

impl Followed {
    /// From now on the changes of this collection too.
    pub fn add(&mut self, api: &Api, resource: &'static str, collection: String) {
        let mut fan = Fan::default();
        let mut told = fan.receiver();
        let (api, changes) = (api.clone(), self.changes.clone());
        let lost = self.lost.clone();
        self.following.spawn(async move {
            let failed = follow(api, resource, collection, fan).await;
            *lost.lock() = Some(format!("{resource}: {failed:?}"));
        });
        self.following.spawn(async move {
            while let Some(change) = told.recv().await {
                changes.lock().push(change);
            }
        });
    }

    /// The changes so far, in the server's order. Panics if one may be missing.
    pub fn sorted(&self) -> Vec<Change> {
        assert_eq!(*self.lost.lock(), None, "all changes were followed");
        let mut changes = self.changes.lock().clone();
        changes.sort_by_key(|change| change.version);
        changes
    }

    /// The changes as they come, for others.
    pub fn shared(&self) -> Arc<Mutex<Vec<Change>>> {
        self.changes.clone()
    }
}
