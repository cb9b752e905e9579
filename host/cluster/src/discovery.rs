//! Knows which kinds the server serves and under which paths: built-in kinds, CRDs and the kinds of
//! aggregated API servers.
//!
//! The answer is kept until a kind is requested that it does not contain. For those who ask again
//! and again it is kept as long as nothing tells of other kinds (`signs`). A group whose own server
//! is down hides no other group (client-go's `TestAggregatedServerGroupsAndResourcesWithErrors`).
//! The kinds of such a group are reported as unanswered, not as unknown.
//!
//! Whoever asks again names the documents that it has (`If-None-Match`, as client-go's cached
//! discovery does), and the server sends them only if they have changed.

mod asking;
mod catalog;
mod documents;
mod error;
pub(crate) mod path;
mod signs;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use pilothouse_core::{Kind, ServedKind};
use tokio::time::Instant;

pub use catalog::{Resource, Subresource};
pub use error::DiscoveryError;
pub use path::ResourcePathError;
pub use signs::Told;

use crate::client::Client;
use catalog::Catalog;
pub(crate) use signs::KindSigns;

/// Discovery data younger than this is not read again, so that many unknown kinds at once cost one
/// read.
const FRESH: Duration = Duration::from_secs(1);

/// How long an answer without a kind is good enough to say that the kind is not served. Of a large
/// cluster it has megabytes.
const ABSENT_FOR: Duration = Duration::from_secs(10);

/// A kind that was served is gone when no answer has had it for this long.
const GONE_AFTER: Duration = Duration::from_secs(20);

/// Data must be older than this before a mismatch with a kind's known scope makes the server be
/// asked again. Long, because most mismatches are mistakes of a plugin.
const DOUBTFUL: Duration = Duration::from_secs(60);

/// A cache of the server's discovery data.
pub struct Discovery {
    client: Client,
    known: RwLock<Option<Arc<Catalog>>>,
    /// When the server last answered. Held while asking: others wait for that answer.
    asked: tokio::sync::Mutex<Option<Instant>>,
    /// When the server last failed, and why. Callers within [`FRESH`] get the same error.
    failed: tokio::sync::Mutex<Option<(Instant, String)>>,
    /// The kinds that [`serves`](Self::serves) has found, and since when answers have left them
    /// out, if they do.
    missing: Mutex<BTreeMap<Kind, Option<Instant>>>,
    signs: Arc<KindSigns>,
}

impl Discovery {
    /// Asks nothing yet.
    pub fn new(client: impl Into<Client>) -> Self {
        Self {
            client: client.into(),
            known: RwLock::default(),
            asked: tokio::sync::Mutex::default(),
            failed: tokio::sync::Mutex::default(),
            missing: Mutex::default(),
            signs: Arc::default(),
        }
    }

    /// From now on the host is told of this. Whatever it is told of is to be passed on with
    /// [`note_change`](Self::note_change).
    pub fn set_told(&self, told: Told) {
        self.signs.set_told(told);
    }

    /// Kinds may have come or gone.
    pub fn note_change(&self) {
        self.signs.change();
    }

    pub(crate) fn signs(&self) -> &Arc<KindSigns> {
        &self.signs
    }

    /// Whether the server's last answer still says which kinds there are, to somebody who asks
    /// again each `period` where kinds may come and go unnoticed.
    pub async fn is_current(&self, period: Duration) -> bool {
        let Some(answered) = *self.asked.lock().await else {
            return false;
        };
        let is_whole = self.catalog().is_some_and(|catalog| catalog.is_whole());
        self.signs.is_good(answered, is_whole, period)
    }

    /// True if the server has said that it does not serve this kind.
    pub fn lacks(&self, kind: &Kind) -> bool {
        self.catalog().is_some_and(|catalog| {
            let is_forgotten = catalog.has_forgotten(kind);
            catalog.get(kind).is_none() && !is_forgotten && catalog.absence(kind).is_absence()
        })
    }

    /// The same as [`resolve_write`](Self::resolve_write), for somebody who waits for a kind: the
    /// server is not asked while nothing tells that it may have come.
    pub async fn look_for(
        &self,
        kind: &Kind,
        subresource: Option<&str>,
    ) -> Result<Arc<Resource>, DiscoveryError> {
        let find = |catalog: &Catalog| find(catalog, kind, subresource);
        let known = self.catalog().filter(|known| !known.has_forgotten(kind));
        // Others may be waiting for the server's answer. What is known need not wait for it.
        if let Some(found) = known.and_then(|known| find(&known).ok().flatten()) {
            return Ok(found);
        }
        let is_current = self.is_current(FRESH).await;
        let catalog = self.catalog().filter(|_| is_current);
        match catalog.filter(|catalog| !catalog.has_forgotten(kind)) {
            Some(catalog) => find(&catalog)?.ok_or_else(|| catalog.absence(kind)),
            None => self.resolve_write(kind, subresource).await,
        }
    }

    /// The resource of a kind. If the kind is not known yet, the server is asked, at most once a
    /// second.
    pub async fn resolve(&self, kind: &Kind) -> Result<Arc<Resource>, DiscoveryError> {
        self.look_up(kind, |catalog| Ok(catalog.get(kind))).await
    }

    /// The resource to which an object of this kind is written. Usually that is the kind's own;
    /// `policy/v1 Eviction` with the subresource `eviction` is written to pods.
    pub async fn resolve_write(
        &self,
        kind: &Kind,
        subresource: Option<&str>,
    ) -> Result<Arc<Resource>, DiscoveryError> {
        self.look_up(kind, |catalog| find(catalog, kind, subresource))
            .await
    }

    /// Whether the server serves a kind, or takes it as the body of this subresource. A kind that
    /// was served counts as served until the server has left it out for 20 seconds: much may be
    /// deleted when a kind goes, and a server that starts leaves kinds out for a moment.
    pub async fn serves(
        &self,
        kind: &Kind,
        subresource: Option<&str>,
    ) -> Result<bool, DiscoveryError> {
        let is_listed = self.lists(kind, subresource).await?;
        let mut missing = self.missing.lock();
        if is_listed {
            missing.insert(kind.clone(), None);
            return Ok(true);
        }
        let Some(since) = missing.get_mut(kind) else {
            return Ok(false);
        };
        let since = since.get_or_insert_with(Instant::now);
        let is_gone = since.elapsed() >= GONE_AFTER;
        if is_gone {
            missing.remove(kind);
        }
        Ok(!is_gone)
    }

    /// Whether the server's last answer has a kind. That it has not is believed while nothing tells
    /// of other kinds, or for [`ABSENT_FOR`], so that asking again and again costs little.
    async fn lists(&self, kind: &Kind, subresource: Option<&str>) -> Result<bool, DiscoveryError> {
        let find = |catalog: &Catalog| find(catalog, kind, subresource);
        let is_known = |catalog: Arc<Catalog>| find(&catalog).is_ok_and(|found| found.is_some());
        if self.catalog().is_some_and(is_known) {
            return Ok(true);
        }
        let is_fresh = self.is_current(ABSENT_FOR).await;
        let known = self.catalog();
        let catalog = match known.filter(|known| !known.has_forgotten(kind)) {
            Some(catalog) if is_fresh => catalog,
            // While the server does not answer, nothing comes.
            Some(catalog) => self.refresh().await.unwrap_or(catalog),
            None => self.refresh().await?,
        };
        if find(&catalog)?.is_some() {
            return Ok(true);
        }
        match catalog.absence(kind) {
            absence if absence.is_absence() && !catalog.has_forgotten(kind) => Ok(false),
            unknown => Err(unknown),
        }
    }

    async fn look_up(
        &self,
        kind: &Kind,
        find: impl Fn(&Catalog) -> Result<Option<Arc<Resource>>, DiscoveryError>,
    ) -> Result<Arc<Resource>, DiscoveryError> {
        if let Some(catalog) = self.catalog()
            && let Some(resource) = find(&catalog)?
        {
            return Ok(resource);
        }
        let catalog = self.refresh().await?;
        find(&catalog)?.ok_or_else(|| catalog.absence(kind))
    }

    /// Every kind that the server serves now, each in the version that the server prefers, ordered
    /// by group and kind. Kinds of a group whose own server does not answer are as they were.
    pub async fn kinds(&self) -> Result<Vec<ServedKind>, DiscoveryError> {
        self.refresh().await.map(|catalog| kinds_of(&catalog))
    }

    /// The same as of the server's last answer. `None`: it has given none.
    pub fn known_kinds(&self) -> Option<Vec<ServedKind>> {
        self.catalog().map(|catalog| kinds_of(&catalog))
    }

    /// Forgets a kind whose path no longer exists: everything known about it may be wrong.
    pub fn forget(&self, kind: &Kind) {
        let mut known = self.known.write();
        if let Some(catalog) = &mut *known {
            Arc::make_mut(catalog).remove(kind);
        }
    }

    /// Asks the server which kinds it serves, unless it was asked within `FRESH`.
    pub async fn ask_now(&self) -> Result<(), DiscoveryError> {
        self.refresh().await.map(drop)
    }

    /// Called when a kind's known scope does not fit a write: the kind may have been recreated with
    /// the other scope. Returns true if the data is old enough (`DOUBTFUL`) to ask the server
    /// again; then the kind is forgotten, so that the next `resolve` asks.
    pub async fn doubt(&self, kind: &Kind) -> bool {
        let asked = *self.asked.lock().await;
        let is_doubtful = asked.is_some_and(|asked| asked.elapsed() >= DOUBTFUL);
        if is_doubtful {
            self.forget(kind);
        }
        is_doubtful
    }

    fn catalog(&self) -> Option<Arc<Catalog>> {
        self.known.read().clone()
    }

    /// Asks the server again, unless that happened within [`FRESH`].
    async fn refresh(&self) -> Result<Arc<Catalog>, DiscoveryError> {
        let mut asked = self.asked.lock().await;
        if let (Some(at), Some(catalog)) = (*asked, self.catalog())
            && at.elapsed() < FRESH
        {
            return Ok(catalog);
        }
        let mut failed = self.failed.lock().await;
        if let Some((at, cause)) = &*failed
            && at.elapsed() < FRESH
        {
            return Err(DiscoveryError::Again(cause.clone()));
        }
        let mut catalog = match self.ask().await {
            Ok(Some(catalog)) => catalog,
            Ok(None) => {
                *asked = Some(Instant::now());
                return Ok(self.catalog().unwrap_or_default());
            }
            Err(error) => {
                *failed = Some((Instant::now(), error.to_string()));
                return Err(error);
            }
        };
        let before = self.catalog();
        catalog.report_failures(before.as_deref());
        if let Some(before) = &before {
            catalog.keep_unanswered(before);
        }
        let has_changed = |before: Arc<Catalog>| kinds_of(&before) != kinds_of(&catalog);
        if before.is_none_or(has_changed) {
            self.signs.change();
        }
        let catalog = Arc::new(catalog);
        *self.known.write() = Some(catalog.clone());
        *asked = Some(Instant::now());
        Ok(catalog)
    }
}

/// The resource of a kind, or the one that takes objects of this kind at a subresource.
fn find(
    catalog: &Catalog,
    kind: &Kind,
    subresource: Option<&str>,
) -> Result<Option<Arc<Resource>>, DiscoveryError> {
    match subresource {
        Some(subresource) => catalog.get_owner(kind, subresource),
        None => Ok(catalog.get(kind)),
    }
}

fn kinds_of(catalog: &Catalog) -> Vec<ServedKind> {
    let mut kinds = catalog.served();
    kinds.sort_by(|one, other| one.kind.cmp(&other.kind));
    kinds
}

#[cfg(test)]
mod tests;
