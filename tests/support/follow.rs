//! Follows every change of the objects of a kind, without a gap.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures::TryStreamExt;
use k8s_openapi::jiff::Timestamp;
use kube::api::WatchEvent;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::{Api, status_of};

/// What has become of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Added,
    Modified,
    Deleted,
}

/// One change of an object, as the API server told it.
#[derive(Clone, Debug)]
pub struct Change {
    /// When it was told.
    pub at: Timestamp,
    /// The resourceVersion that the change made. The versions of all kinds are one sequence, that
    /// of etcd.
    pub version: u64,
    /// Such as `pods`.
    pub resource: &'static str,
    pub what: What,
    /// The object after the change, or as it was last.
    pub object: Arc<Value>,
}

/// Gives each change to all who have asked for it, in the same order.
#[derive(Clone, Default)]
pub struct Fan(Vec<mpsc::UnboundedSender<Change>>);

impl Fan {
    /// One more who is told of all changes.
    pub fn receiver(&mut self) -> mpsc::UnboundedReceiver<Change> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.0.push(sender);
        receiver
    }

    fn send(&self, change: &Change) {
        for sender in &self.0 {
            // Who has gone misses nothing.
            let _ = sender.send(change.clone());
        }
    }
}

/// Tells of all objects of a collection that are there, and then of every change. A watch that
/// breaks is resumed at the version that was told last.
///
/// Errors: the server no longer knows what came after that version, or has told something that
/// does not follow from what it told before (an object changes that was never added). So as long as
/// this runs, nothing was left out.
pub async fn follow(
    api: Api,
    resource: &'static str,
    collection: String,
    fan: Fan,
) -> Result<Infallible> {
    let list = api.get(&collection).await?;
    let list = list.with_context(|| format!("{resource} are not served"))?;
    let mut told = Told {
        resource,
        version: version_of(&list)?,
        known: BTreeMap::new(),
        fan,
    };
    for object in list["items"].as_array().into_iter().flatten() {
        told.tell(What::Added, object.clone(), version_of(object)?)?;
    }
    loop {
        told.watch(&api, &collection).await?;
        sleep(Duration::from_millis(50)).await;
    }
}

/// How far the changes of a kind have been told.
struct Told {
    resource: &'static str,
    version: u64,
    /// The objects that exist, by uid, each with its version.
    known: BTreeMap<String, u64>,
    fan: Fan,
}

impl Told {
    /// Watches until the watch ends or breaks.
    async fn watch(&mut self, api: &Api, collection: &str) -> Result<()> {
        let mut events = match api.watch(collection, self.version).await {
            Ok(events) => events,
            Err(error) if status_of(&error) == Some(410) => bail!(self.gap()),
            // The server is not there, or is only about to be.
            Err(_) => return Ok(()),
        };
        while let Ok(Some(event)) = events.try_next().await {
            match event {
                WatchEvent::Added(object) => self.event(What::Added, object)?,
                WatchEvent::Modified(object) => self.event(What::Modified, object)?,
                WatchEvent::Deleted(object) => self.event(What::Deleted, object)?,
                WatchEvent::Bookmark(bookmark) => {
                    self.version = bookmark.metadata.resource_version.parse()?;
                }
                WatchEvent::Error(status) if status.code == 410 => bail!(self.gap()),
                WatchEvent::Error(_) => return Ok(()),
            }
        }
        Ok(())
    }

    fn gap(&self) -> String {
        let Self {
            resource, version, ..
        } = self;
        format!("the changes of {resource} after version {version} are lost")
    }

    fn event(&mut self, what: What, object: Value) -> Result<()> {
        let version = version_of(&object)?;
        ensure!(
            version > self.version,
            "{} went back from version {} to {version}",
            self.resource,
            self.version
        );
        self.version = version;
        self.tell(what, object, version)
    }

    fn tell(&mut self, what: What, mut object: Value, version: u64) -> Result<()> {
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        let before = match what {
            What::Deleted => self.known.remove(uid),
            _ => self.known.insert(uid.to_owned(), version),
        };
        ensure!(
            before.is_some() == (what != What::Added),
            "{what:?} of what was at version {before:?}: {object}"
        );
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        self.fan.send(&Change {
            at: Timestamp::now(),
            version,
            resource: self.resource,
            what,
            object: Arc::new(object),
        });
        Ok(())
    }
}

fn version_of(object: &Value) -> Result<u64> {
    let version = object["metadata"]["resourceVersion"].as_str();
    let version = version.with_context(|| format!("no resourceVersion: {object}"))?;
    version
        .parse()
        .with_context(|| format!("resourceVersion {version} is no number"))
}
