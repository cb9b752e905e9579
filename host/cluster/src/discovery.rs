//! Which kinds the server serves, and under which paths: of built-in kinds, of CRDs, of aggregated API servers.
//!
//! The answer is kept until a kind is asked for that is not in it. A group whose own server is down hides no other group
//! (client-go's `TestAggregatedServerGroupsAndResourcesWithErrors`); a kind of that group is then not "unknown" but unanswered.

mod catalog;
mod documents;

use std::sync::{Arc, RwLock};
use std::time::Duration;

use futures::{StreamExt, stream};
use pilothouse_core::key::Kind;
use tokio::time::Instant;

pub use catalog::{Resource, Subresource};

use crate::client::{CanRepeat, Client, Terms};
use crate::request::RequestError;
use catalog::Catalog;
use documents::Root;

/// Aggregated discovery (KEP-3352) in the version that is stable since 1.30, before that in beta, before that not at all.
const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// For one document.
const DEADLINE: Duration = Duration::from_secs(30);

/// A cluster with a thousand CRDs has some 5 MB of it.
const MAX_DOCUMENT: usize = 64 * 1024 * 1024;

/// Without aggregated discovery there is a document per group and version.
const CONCURRENT_DOCUMENTS: usize = 4;

/// What was read this recently is not read again, so that many unknown kinds at once cost one reading.
const FRESH: Duration = Duration::from_secs(1);

/// What was read longer ago than this may be asked for again because somebody takes a kind for what it is not, as far as is known.
/// Less often than mistakes are made.
const DOUBTFUL: Duration = Duration::from_secs(60);

/// Why a kind has no path.
#[derive(Debug, thiserror::Error)]
pub enum DiscoveryError {
    /// The server was asked and has none.
    #[error("the server has no kind {kind}{hint}")]
    UnknownKind {
        /// What was asked for.
        kind: Kind,
        /// Versions it does serve, or a kind of a similar name; may be empty.
        hint: String,
    },
    /// The part of the server that would know did not answer.
    #[error("whether there is a kind {kind} is not known: {cause}")]
    Unanswered {
        /// What was asked for.
        kind: Kind,
        /// Who did not answer, and why.
        cause: String,
    },
    /// The kind cannot be addressed by itself, only as part of another.
    #[error(
        "{kind} is the {subresource} of several kinds ({candidates}): name the one meant, with a patch"
    )]
    Ambiguous {
        /// What was asked for.
        kind: Kind,
        /// The subresource.
        subresource: String,
        /// Whose it is.
        candidates: String,
    },
    /// The kind can be read or created, but not listed and watched.
    #[error("{0} cannot be watched: the server offers no list and watch for it")]
    Unwatchable(Kind),
    /// 403.
    #[error("the host may not ask which kinds there are: {0}")]
    Forbidden(String),
    /// It was asked a moment ago, and failed.
    #[error("{0}")]
    Again(String),
    /// No answer to go by.
    #[error("the server does not say which kinds there are: {0}")]
    Request(#[source] RequestError),
}

impl DiscoveryError {
    /// Whether it is the server that fails, for all kinds alike.
    pub fn is_of_server(&self) -> bool {
        matches!(self, Self::Again(_) | Self::Request(_))
    }

    /// Whether nobody has said whether there is such a kind: asked again, somebody may.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.is_of_server() || matches!(self, Self::Unanswered { .. })
    }
}

/// Knows the server's kinds.
pub struct Discovery {
    client: Client,
    known: RwLock<Option<Arc<Catalog>>>,
    /// When the server was last asked. Held while asking: whoever comes meanwhile waits for that answer.
    asked: tokio::sync::Mutex<Option<Instant>>,
    /// When it last had no answer, and why. Whoever comes within [`FRESH`] gets the same.
    failed: tokio::sync::Mutex<Option<(Instant, String)>>,
}

impl Discovery {
    /// Nothing is asked yet.
    pub fn new(client: impl Into<Client>) -> Self {
        Self {
            client: client.into(),
            known: RwLock::default(),
            asked: tokio::sync::Mutex::default(),
            failed: tokio::sync::Mutex::default(),
        }
    }

    /// The resource behind a kind. The server is asked if the kind is not known yet, at most once a second.
    pub async fn resolve(&self, kind: &Kind) -> Result<Arc<Resource>, DiscoveryError> {
        self.look_up(kind, |catalog| Ok(catalog.get(kind))).await
    }

    /// The resource on which an object of this kind is written. Usually its own; `policy/v1 Eviction` with subresource
    /// `eviction` is written on pods.
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

    /// Forgets a kind: its path is no longer there, so that whatever was known of it may be wrong.
    pub fn forget(&self, kind: &Kind) {
        let mut known = self
            .known
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(catalog) = &mut *known {
            Arc::make_mut(catalog).remove(kind);
        }
    }

    /// Asks the server which kinds there are, unless that happened a moment ago.
    pub async fn ask_now(&self) -> Result<(), DiscoveryError> {
        self.refresh().await.map(drop)
    }

    /// Somebody takes a kind for what it is not, as far as is known: it may have been made anew with another scope. Says whether the
    /// server is worth asking again; then the kind is forgotten.
    pub async fn doubt(&self, kind: &Kind) -> bool {
        let asked = *self.asked.lock().await;
        let is_doubtful = asked.is_some_and(|asked| asked.elapsed() >= DOUBTFUL);
        if is_doubtful {
            self.forget(kind);
        }
        is_doubtful
    }

    fn catalog(&self) -> Option<Arc<Catalog>> {
        self.known
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
    }

    /// Asks the server anew, unless that happened within the last second.
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
            Ok(catalog) => catalog,
            Err(error) => {
                *failed = Some((Instant::now(), error.to_string()));
                return Err(error);
            }
        };
        if let Some(before) = self.catalog() {
            catalog.keep_unanswered(&before);
        }
        let catalog = Arc::new(catalog);
        *self
            .known
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner) = Some(catalog.clone());
        *asked = Some(Instant::now());
        Ok(catalog)
    }

    async fn ask(&self) -> Result<Catalog, DiscoveryError> {
        let mut catalog = Catalog::default();
        let mut pending = Vec::new();
        let mut refused = Vec::new();
        for path in ["/api", "/apis"] {
            match self.read(path, documents::parse_root).await {
                Ok(Root::Aggregated { resources, stale }) => {
                    catalog.add(resources);
                    for api_version in stale {
                        catalog.fail(api_version, "its server does not answer".to_owned());
                    }
                }
                Ok(Root::Legacy(versions)) => pending.extend(versions),
                // A server of CRDs alone has no core group (`TestDiscoveryToleratesMissingCoreGroup`).
                Err(error) if error.code() == Some(404) => {}
                Err(error) => refused.push((path, error)),
            }
        }
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
        Ok(catalog)
    }

    /// Before 1.26, and where a proxy drops the Accept header: a document per group and version.
    async fn ask_versions(&self, catalog: &mut Catalog, versions: Vec<String>) {
        let answers = stream::iter(versions).map(async |api_version| {
            let root = if api_version.contains('/') {
                "/apis"
            } else {
                "/api"
            };
            let path = format!("{root}/{api_version}");
            let answer = self
                .read(&path, |body| documents::parse_version(&api_version, body))
                .await;
            (api_version, answer)
        });
        let answers: Vec<_> = answers.buffered(CONCURRENT_DOCUMENTS).collect().await;
        for (api_version, answer) in answers {
            match answer {
                Ok(resources) => catalog.add(resources),
                Err(error) => catalog.fail(api_version, error.to_string()),
            }
        }
    }

    async fn read<T>(
        &self,
        path: &str,
        parse: impl Fn(&[u8]) -> serde_json::Result<T>,
    ) -> Result<T, RequestError> {
        let body = match self.get(path, ACCEPT).await {
            // A server so old, or so strict, that it does not pass over what it does not know.
            Err(error) if error.code() == Some(406) => self.get(path, "application/json").await?,
            answer => answer?,
        };
        parse(&body).map_err(RequestError::Answer)
    }

    async fn get(&self, path: &str, accept: &str) -> Result<Vec<u8>, RequestError> {
        let request = http::Request::get(path)
            .header(http::header::ACCEPT, accept)
            .body(Vec::new());
        let request =
            request.map_err(|error| RequestError::Transport(kube::Error::HttpError(error)))?;
        let terms = Terms {
            deadline: DEADLINE,
            limit: MAX_DOCUMENT,
            can_repeat: CanRepeat::Read,
            plugin: None,
        };
        self.client.fetch(&request, terms).await
    }
}

#[cfg(test)]
#[path = "discovery_tests.rs"]
mod tests;
