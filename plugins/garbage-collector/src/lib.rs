//! Deletes what has lost its owners, and finishes deletions that wait for dependents or orphan
//! them.
//!
//! The rules are those of kube-controller-manager's garbage collector
//! (`pkg/controller/garbagecollector` in kubernetes/kubernetes). The README lists them, with the
//! differences.

mod collect;
mod dependents;
mod events;
mod item;
mod owners;
mod release;

use pilothouse_sdk::{
    Controller, Failure, Host, Limits, Manifest, Outcome, Read, Request, Selection, Verb,
};

use item::{FOREGROUND, Item, ORPHAN};

/// Every kind that the cluster serves.
const EVERY_KIND: &str = "*";

/// Kinds that are no part of the graph: nobody owns anything by an Event, and there may be more of
/// them than of all other objects.
const IGNORED: [&str; 2] = ["v1/Event", "events.k8s.io/v1/Event"];

/// The index of objects by the uids of their owners.
const BY_OWNER: &str = "owner";

/// The index of objects by their own uid.
const BY_UID: &str = "uid";

/// As many workers as kube-controller-manager has (`--concurrent-gc-syncs`).
const CONCURRENCY: u32 = 20;

/// The garbage collector.
pub struct GarbageCollector;

impl Controller for GarbageCollector {
    fn manifest() -> Manifest {
        let fields = [".metadata.ownerReferences", ".metadata.finalizers"];
        let read = Read::new(EVERY_KIND, fields);
        let read = IGNORED.into_iter().fold(read, Read::except);
        let version = env!("CARGO_PKG_VERSION");
        Manifest::new("garbage-collector", version, Selection::of(EVERY_KIND))
            .reads_only(read)
            .indexes(BY_OWNER, EVERY_KIND, [".metadata.ownerReferences[*].uid"])
            .indexes(BY_UID, EVERY_KIND, [".metadata.uid"])
            .writes(EVERY_KIND, [Verb::Patch, Verb::Delete])
            .limits(Limits {
                concurrency: Some(CONCURRENCY),
                ..Limits::default()
            })
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let key = request.key();
        // What is gone wakes those that have read it: its dependents have keys of their own.
        let Some(item) = request.object::<Item>()? else {
            return Ok(Outcome::done());
        };
        let metadata = &item.metadata;
        let outcome = if metadata.is_being_deleted() {
            if metadata.has_finalizer(ORPHAN) {
                release::orphan(key, metadata, host)?
            } else if metadata.has_finalizer(FOREGROUND) {
                release::when_unblocked(key, metadata, host)?
            } else {
                Outcome::done()
            }
        } else if metadata.owner_references.is_empty() {
            Outcome::done()
        } else {
            collect::collect(request, metadata, host)?
        };
        if outcome.stages.is_empty() || item::is_deletable(&key.kind, host)? {
            return Ok(outcome);
        }
        Ok(Outcome::done())
    }
}

pilothouse_sdk::register!(GarbageCollector);
