//! Knows which kinds the server serves and under which paths: built-in kinds, CRDs and the kinds of
//! aggregated API servers.
//!
//! The answer is kept until a kind is requested that it does not contain. A group whose own server
//! is down hides no other group (client-go's `TestAggregatedServerGroupsAndResourcesWithErrors`).
//! The kinds of such a group are reported as unanswered, not as unknown.
//!
//! Whoever asks again names the documents that it has (`If-None-Match`, as client-go's cached
//! discovery does), and the server sends them only if they have changed.

mod catalog;
mod documents;
mod error;
pub(crate) mod path;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use http::HeaderValue;
use parking_lot::{Mutex, RwLock};
use pilothouse_core::{Kind, ServedKind};
use tokio::time::Instant;

pub use catalog::{Resource, Subresource};
pub use error::DiscoveryError;
pub use path::ResourcePathError;

use crate::client::{Answer, CanRepeat, Client, RequestError, Terms};
use catalog::Catalog;
use documents::Root;

/// Asks for aggregated discovery (KEP-3352): `v2`, stable since 1.30, or `v2beta1` of the servers
/// before that. Servers without it answer with the plain documents.
const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// Deadline for one document.
const DEADLINE: Duration = Duration::from_secs(30);

/// Largest document, in bytes. A cluster with a thousand CRDs has about 5 MB of discovery data.
const MAX_DOCUMENT: usize = 64 * 1024 * 1024;

/// Number of group versions read at the same time. Without aggregated discovery, each of them has a
/// document of its own.
const CONCURRENT_DOCUMENTS: usize = 4;

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

/// The two documents that lead to all others.
const ROOTS: [&str; 2] = ["/api", "/apis"];

/// A document, and the entity tag of this state of it, if it has one.
type Tagged<T> = (T, Option<HeaderValue>);

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
        let Some(subresource) = subresource else {
            return self.resolve(kind).await;
        };
        self.look_up(kind, |catalog| catalog.get_owner(kind, subresource))
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

    /// Whether the server's last answer has a kind. That it has not is believed for
    /// [`ABSENT_FOR`], so that asking again and again costs little.
    async fn lists(&self, kind: &Kind, subresource: Option<&str>) -> Result<bool, DiscoveryError> {
        let find = |catalog: &Catalog| match subresource {
            Some(subresource) => catalog.get_owner(kind, subresource),
            None => Ok(catalog.get(kind)),
        };
        let known = self.catalog();
        let is_known = |catalog: &Arc<Catalog>| find(catalog).is_ok_and(|found| found.is_some());
        if known.as_ref().is_some_and(is_known) {
            return Ok(true);
        }
        let asked = *self.asked.lock().await;
        let is_fresh = asked.is_some_and(|asked| asked.elapsed() < ABSENT_FOR);
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
        if let Some(before) = before {
            catalog.keep_unanswered(&before);
        }
        let catalog = Arc::new(catalog);
        *self.known.write() = Some(catalog.clone());
        *asked = Some(Instant::now());
        Ok(catalog)
    }

    /// Asks which kinds there are. `None`: those that are known.
    async fn ask(&self) -> Result<Option<Catalog>, DiscoveryError> {
        let Some(roots) = self.ask_roots().await else {
            return Ok(None);
        };
        let mut catalog = Catalog::default();
        let mut pending = Vec::new();
        let mut refused = Vec::new();
        for (path, answer) in ROOTS.into_iter().zip(roots) {
            match answer {
                Ok((Root::Aggregated { resources, stale }, tag)) => {
                    catalog.add(resources);
                    catalog.tags.extend(tag);
                    for api_version in stale {
                        catalog.fail(api_version, "its server does not answer".to_owned());
                    }
                }
                Ok((Root::Legacy(versions), _)) => pending.extend(versions),
                // A server that only serves CRDs has no core group
                // (`TestDiscoveryToleratesMissingCoreGroup`).
                Err(error) if error.code() == Some(404) => {}
                Err(error) => refused.push((path, error)),
            }
        }
        // One root that fails costs only its own kinds; without both there is nothing to go on.
        if refused.len() == 2 {
            let (_, error) = refused.swap_remove(1);
            return Err(match error.code() {
                Some(403) => DiscoveryError::Forbidden(error.to_string()),
                _ => DiscoveryError::Request(error),
            });
        }
        for (path, error) in refused {
            catalog.fail(path.to_owned(), error.to_string());
        }
        self.ask_versions(&mut catalog, pending).await;
        Ok(Some(catalog))
    }

    /// Reads the two documents. `None`: both are as they were.
    async fn ask_roots(&self) -> Option<Vec<Result<Tagged<Root>, RequestError>>> {
        let known = self.catalog();
        let tags = known.as_ref().and_then(|known| known.tags_of_all());
        let mut roots = Vec::new();
        for (number, path) in ROOTS.into_iter().enumerate() {
            let tag = tags.and_then(|tags| tags.get(number));
            roots.push(self.read(path, tag, documents::parse_root).await);
        }
        if tags.is_some() && roots.iter().all(is_unchanged) {
            return None;
        }
        for (path, root) in ROOTS.into_iter().zip(&mut roots) {
            if is_unchanged(root) {
                *root = self.read(path, None, documents::parse_root).await;
            }
        }
        Some(roots)
    }

    /// Servers before 1.26, and those behind a proxy that drops the Accept header, have one
    /// document per group and version.
    async fn ask_versions(&self, catalog: &mut Catalog, versions: Vec<String>) {
        let answers = stream::iter(versions).map(async |api_version| {
            let root = if api_version.contains('/') {
                "/apis"
            } else {
                "/api"
            };
            let path = format!("{root}/{api_version}");
            let answer = self
                .read(&path, None, |body| {
                    documents::parse_version(&api_version, body)
                })
                .await;
            (api_version, answer)
        });
        let answers: Vec<_> = answers.buffered(CONCURRENT_DOCUMENTS).collect().await;
        for (api_version, answer) in answers {
            match answer {
                Ok((resources, _)) => catalog.add(resources),
                Err(error) => catalog.fail(api_version, error.to_string()),
            }
        }
    }

    /// Reads a document, unless it is still the one with this tag: then the error's code is 304.
    async fn read<T>(
        &self,
        path: &str,
        tag: Option<&HeaderValue>,
        parse: impl Fn(&[u8]) -> serde_json::Result<T>,
    ) -> Result<Tagged<T>, RequestError> {
        let answer = match self.get(path, ACCEPT, tag).await {
            // The server is too old or too strict to ignore the media types it does not know.
            Err(error) if error.code() == Some(406) => {
                self.get(path, "application/json", None).await?
            }
            answer => answer?,
        };
        let parsed = parse(&answer.body).map_err(RequestError::Answer)?;
        Ok((parsed, answer.tag))
    }

    async fn get(
        &self,
        path: &str,
        accept: &str,
        tag: Option<&HeaderValue>,
    ) -> Result<Answer, RequestError> {
        let mut request = http::Request::get(path).header(http::header::ACCEPT, accept);
        if let Some(tag) = tag {
            request = request.header(http::header::IF_NONE_MATCH, tag);
        }
        let request = request
            .body(Vec::new())
            .map_err(|error| RequestError::Transport(kube::Error::HttpError(error)))?;
        let terms = Terms {
            deadline: DEADLINE,
            limit: MAX_DOCUMENT,
            can_repeat: CanRepeat::Read,
            plugin: None,
            needs_right: false,
        };
        self.client.fetch_tagged(&request, terms).await
    }
}

/// Whether the document is the one whose tag was named.
fn is_unchanged<T>(answer: &Result<T, RequestError>) -> bool {
    let error = answer.as_ref().err();
    error.and_then(RequestError::code) == Some(304)
}

fn kinds_of(catalog: &Catalog) -> Vec<ServedKind> {
    let mut kinds = catalog.served();
    kinds.sort_by(|one, other| one.kind.cmp(&other.kind));
    kinds
}

#[cfg(test)]
mod tests;
