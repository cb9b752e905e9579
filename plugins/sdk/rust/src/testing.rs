//! Native tests of a controller, with a cluster in memory that answers as the host does: all that
//! the host decides is decided by the host's own code (`pilothouse-core`), and all that an API
//! server does by a small one in memory.

mod actions;
mod caches;
mod confirming;
mod convert;
mod definition;
mod documents;
mod due;
mod failing;
mod guest;
mod sending;
mod server;
mod settled;
mod setup;
mod turns;
mod typed;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_core::{self as host, Rehearsal};
use serde_json::Value;

use crate::{Effect, Event, Host, Level, Manifest, ObjectRef, Query, ReadError, ServedKind};

pub use actions::to_json;
use caches::Caches;
pub use due::Run;
use failing::FailingWrites;
pub use failing::{Failing, WriteError};
use guest::{Guest, Reading};
use server::Server;

/// Checks a manifest as the host does.
///
/// # Errors
///
/// The host's message for a manifest that it would refuse.
pub fn check_manifest(manifest: &Manifest) -> Result<(), String> {
    checked(manifest).map(drop)
}

/// The manifest as the host reads it.
fn checked(manifest: &Manifest) -> Result<host::Manifest, String> {
    let read = host::Manifest::from_json(&manifest.to_json());
    let checked = read.and_then(|manifest| manifest.validate().map(|()| manifest));
    checked.map_err(|error| error.to_string())
}

/// A cluster in memory, seen through one manifest, all of which is granted.
///
/// What the host decides is decided by its own code: whether it refuses the manifest, what the
/// controller may read and what it sees, whether it refuses the outcome, which writes it sends, and
/// which keys it runs. A test therefore notices what is missing in the manifest. Each reconcile is
/// run twice, and must decide and read the same both times.
///
/// [`reconcile`](Self::reconcile) runs a key without performing its outcome. [`turn`](Self::turn)
/// also performs it, and the next reconcile sees the result. [`run_due`](Self::run_due) runs the
/// keys that the host would run.
pub struct FakeCluster {
    server: Server,
    guest: Arc<Guest>,
    caches: RefCell<Caches>,
    failing: FailingWrites,
    now: Duration,
    /// What a key that has not been run yet is given.
    first: Told,
    /// What the next reconcile of each key is given.
    turns: BTreeMap<host::SubjectKey, Told>,
    /// The last reconcile, until its outcome is performed.
    seen: RefCell<Option<Rehearsal>>,
}

/// What a reconcile is given of the ones before.
#[derive(Clone)]
struct Told {
    attempt: u32,
    previous: Vec<Effect>,
    memo: Option<String>,
}

impl FakeCluster {
    /// An empty cluster, at time 0, with the configuration `{}`.
    ///
    /// # Panics
    ///
    /// The host would refuse the manifest. See [`check_manifest`].
    #[must_use]
    #[allow(
        clippy::needless_pass_by_value,
        reason = "a manifest is made for its cluster, and for nothing else"
    )]
    pub fn new(manifest: Manifest) -> Self {
        let manifest = checked(&manifest)
            .unwrap_or_else(|reason| panic!("the host refuses the manifest: {reason}"));
        let guest = Arc::new(Guest::new(manifest));
        Self {
            server: Server::new(),
            caches: RefCell::new(Caches::new(&guest)),
            guest,
            failing: FailingWrites::default(),
            now: Duration::ZERO,
            first: Told {
                attempt: 1,
                previous: Vec::new(),
                memo: None,
            },
            turns: BTreeMap::new(),
            seen: RefCell::default(),
        }
    }

    /// The whole object, as it is stored. [`Host`] returns what the plugin sees of it.
    ///
    /// # Panics
    ///
    /// The kind of `object` is none.
    #[must_use]
    pub fn object(&self, object: &ObjectRef) -> Option<&Value> {
        let (kind, key) = convert::object_ref(object);
        self.server.get(&kind, &key)
    }

    /// The Events written so far, in their order. One that failed is not among them.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        self.server.events()
    }

    /// The lines logged so far, in the form `INFO message name=value`.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.guest.lines().all()
    }

    /// Reads from the cluster as it is, outside of any reconcile.
    fn read<T>(&self, read: impl FnOnce(&Reading<'_>) -> T) -> T {
        let mut rehearsal = self.rehearse(&host::SubjectKey::singleton());
        read(&Reading::new(&mut rehearsal.reader, self.guest.lines()))
    }
}

/// Reads of the cluster as it is, for the test itself.
impl Host for FakeCluster {
    fn get_json(&self, object: &ObjectRef) -> Result<Option<String>, ReadError> {
        self.read(|reading| reading.get_json(object))
    }

    fn list_json(&self, query: &Query) -> Result<String, ReadError> {
        self.read(|reading| reading.list_json(query))
    }

    fn list_page_json(
        &self,
        query: &Query,
        after: Option<&ObjectRef>,
        limit: u32,
    ) -> Result<String, ReadError> {
        self.read(|reading| reading.list_page_json(query, after, limit))
    }

    fn served_kinds(&self, pattern: &str) -> Result<Vec<ServedKind>, ReadError> {
        self.read(|host| host.served_kinds(pattern))
    }

    fn now(&self) -> Duration {
        self.now
    }

    fn log(&self, level: Level, message: &str, fields: &[(&str, &str)]) {
        self.guest.lines().add(level, message, fields);
    }
}
