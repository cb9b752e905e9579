//! Asks the server which kinds it serves, in the form that it speaks.

use std::time::Duration;

use futures::{StreamExt, stream};
use http::HeaderValue;

use super::catalog::Catalog;
use super::documents::{self, Root};
use super::{Discovery, DiscoveryError};
use crate::client::{Answer, CanRepeat, RequestError, Terms};

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

/// The two documents that lead to all others.
pub(super) const ROOTS: [&str; 2] = ["/api", "/apis"];

/// A document, and the entity tag of this state of it, if it has one.
type Tagged<T> = (T, Option<HeaderValue>);

impl Discovery {
    /// Asks which kinds there are. `None`: those that are known.
    pub(super) async fn ask(&self) -> Result<Option<Catalog>, DiscoveryError> {
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
