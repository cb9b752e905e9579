//! A garbage collector: what the owners of an object leave behind is deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::{Api, Change, Doings, What, name_of, path_of};

/// How long an attempt that had no answer waits for the next.
const PAUSE: Duration = Duration::from_millis(200);

/// Deletes what has owners, all of which have been deleted. It judges by the changes that it is
/// told of, so the kinds of the owners must be among them.
pub async fn collect_garbage(
    api: Api,
    mut changes: mpsc::UnboundedReceiver<Change>,
    doings: Doings,
) -> Infallible {
    let mut collector = Collector::default();
    loop {
        tokio::select! {
            Some(change) = changes.recv() => collector.learn(&change),
            () = sleep(PAUSE), if !collector.garbage.is_empty() => {}
        }
        while let Ok(change) = changes.try_recv() {
            collector.learn(&change);
        }
        let garbage: Vec<_> = collector.garbage.clone().into_iter().collect();
        for (uid, path) in garbage {
            doings.add(&uid);
            // Without an answer it is tried again.
            if api.delete_uid(&path, &uid, false).await.is_ok() {
                collector.garbage.remove(&uid);
            }
        }
    }
}

#[derive(Default)]
struct Collector {
    deleted: BTreeSet<String>,
    /// The objects that name an owner: by its uid, their uids.
    dependents: BTreeMap<String, BTreeSet<String>>,
    /// Of each object that has owners: its path, and their uids.
    owned: BTreeMap<String, (String, Vec<String>)>,
    /// What is to be deleted: paths by uid.
    garbage: BTreeMap<String, String>,
}

impl Collector {
    fn learn(&mut self, change: &Change) {
        let metadata = &change.object["metadata"];
        let uid = text(&metadata["uid"]);
        if change.what == What::Deleted {
            self.owned.remove(&uid);
            self.garbage.remove(&uid);
            for dependent in self.dependents.remove(&uid).unwrap_or_default() {
                self.deleted.insert(uid.clone());
                self.judge(&dependent);
            }
            self.deleted.insert(uid);
            return;
        }
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let owners: Vec<String> = owners.map(|owner| text(&owner["uid"])).collect();
        for owner in &owners {
            let dependents = self.dependents.entry(owner.clone()).or_default();
            dependents.insert(uid.clone());
        }
        let namespace = text(&metadata["namespace"]);
        let path = path_of(&namespace, change.resource, &name_of(&change.object));
        self.owned.insert(uid.clone(), (path, owners));
        if metadata["deletionTimestamp"].is_null() {
            self.judge(&uid);
        }
    }

    fn judge(&mut self, uid: &str) {
        let Some((path, owners)) = self.owned.get(uid) else {
            return;
        };
        if !owners.is_empty() && owners.iter().all(|owner| self.deleted.contains(owner)) {
            self.garbage.insert(uid.to_owned(), path.clone());
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
