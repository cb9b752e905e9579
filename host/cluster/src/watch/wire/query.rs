//! Builds the requests of a list-watch, for one informer and as much as it brings.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use pilothouse_core::{Detail, Extent, InformerKey, Namespaces, ObjectKey, ResourceVersion};

use crate::client::METADATA_LIST;
use crate::discovery::Resource;
use crate::discovery::path;
use crate::watch::machine::{NextRequest, Paging};
use crate::watch::settings::WatchSettings;

const JSON: &str = "application/json";
/// A server that does not know the first media type answers with the second.
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json";

/// The parts that all requests of a list-watch share.
pub(crate) struct Query {
    pub(crate) informer_key: InformerKey,
    pub(crate) resource: Arc<Resource>,
    pub(crate) extent: Extent,
    /// The server has refused to select namespaces. What it sends of others is dropped anyway.
    pub(crate) is_selector_refused: bool,
}

type Parameters = Vec<(&'static str, String)>;

impl Query {
    /// The resource, named as in RBAC rules.
    pub(crate) fn name(&self) -> String {
        self.resource.qualified_name()
    }

    /// `list` or `watch`, as in RBAC rules.
    pub(crate) fn verb(next: &NextRequest) -> &'static str {
        match next {
            NextRequest::List { .. } | NextRequest::Probe => "list",
            NextRequest::Stream { .. } | NextRequest::Watch { .. } => "watch",
        }
    }

    /// Builds a list, a watch or a probe.
    pub(crate) fn request(
        &self,
        next: &NextRequest,
        timeout: Duration,
        settings: &WatchSettings,
    ) -> Result<Request<Vec<u8>>, http::Error> {
        let mut query = match next {
            NextRequest::List {
                not_older_than,
                paging,
            } => list(not_older_than.as_ref(), paging, settings),
            NextRequest::Probe => vec![("limit", "1".to_owned())],
            NextRequest::Stream { not_older_than } => {
                let mut query = watch(not_older_than.as_ref());
                query.push(("sendInitialEvents", "true".to_owned()));
                query.push(("resourceVersionMatch", "NotOlderThan".to_owned()));
                query
            }
            NextRequest::Watch { from, .. } => watch(Some(from)),
        };
        // Also beside a token, which holds the position but not the selectors. Not for a probe: if
        // few objects match, the server would read all of them to find one.
        if *next != NextRequest::Probe {
            self.select(&mut query);
        }
        if Self::verb(next) == "watch" {
            query.push(("timeoutSeconds", timeout.as_secs().to_string()));
        }
        let namespace = self.informer_key.namespace.as_deref();
        let namespace = namespace.filter(|_| self.resource.is_namespaced);
        let resource = &self.resource;
        let collection = path::collection(&resource.kind, &resource.plural, namespace);
        get(
            &format!("{collection}{}", path::query(&query)),
            self.accept(next),
        )
    }

    fn select(&self, query: &mut Parameters) {
        let labels = self.informer_key.labels.to_string();
        if !labels.is_empty() {
            query.push(("labelSelector", labels));
        }
        if let Some(fields) = &self.informer_key.fields {
            query.push(("fieldSelector", fields.to_string()));
        }
        query.extend(self.shards().map(|shards| ("shardSelector", shards)));
    }

    /// The selector of the wanted namespaces. Servers that do not select by it ignore it.
    pub(crate) fn shards(&self) -> Option<String> {
        let namespaces = self.extent.namespaces;
        let is_sent = self.resource.is_namespaced && !self.is_selector_refused;
        (is_sent && namespaces != Namespaces::ALL).then(|| shard_selector(namespaces))
    }

    fn accept(&self, next: &NextRequest) -> &'static str {
        match (next, self.extent.detail) {
            (NextRequest::Probe, _) | (NextRequest::List { .. }, Detail::Metadata) => METADATA_LIST,
            (_, Detail::Metadata) => METADATA,
            _ => JSON,
        }
    }

    /// A request for one object, or `None` if its name makes no valid request.
    pub(crate) fn object(&self, key: &ObjectKey) -> Option<Request<Vec<u8>>> {
        let path = path::object(&self.resource, key, None).ok()?;
        let accept = match self.extent.detail {
            Detail::Metadata => METADATA,
            _ => JSON,
        };
        get(&path, accept).ok()
    }
}

/// Objects of these namespaces, as server-side sharded list and watch (KEP-5866) selects them.
fn shard_selector(namespaces: Namespaces) -> String {
    let ranges = namespaces.ranges().into_iter();
    let ranges = ranges.map(|(from, to)| {
        format!("shardRange(object.metadata.namespace,'0x{from:016x}','0x{to:016x}')")
    });
    ranges.collect::<Vec<_>>().join("||")
}

fn list(
    not_older_than: Option<&ResourceVersion>,
    paging: &Paging,
    settings: &WatchSettings,
) -> Parameters {
    let mut query = Vec::new();
    if *paging != Paging::Whole {
        query.push(("limit", settings.page_size.to_string()));
    }
    if let Paging::After { token, .. } = paging {
        // The token contains version and match. Either beside it is an error
        // (`TestListPager_List`).
        query.push(("continue", token.clone()));
    } else if let Some(version) = not_older_than {
        // Without the match, a limited list would be at exactly this version.
        query.push(("resourceVersion", version.to_string()));
        query.push(("resourceVersionMatch", "NotOlderThan".to_owned()));
    }
    query
}

fn watch(version: Option<&ResourceVersion>) -> Parameters {
    let mut query = vec![
        ("watch", "true".to_owned()),
        ("allowWatchBookmarks", "true".to_owned()),
    ];
    query.extend(version.map(|version| ("resourceVersion", version.to_string())));
    query
}

/// Fails if the URI is invalid. A URI has at most 64 KB, and names, versions and tokens are
/// whatever the server sent.
fn get(uri: &str, accept: &'static str) -> Result<Request<Vec<u8>>, http::Error> {
    Request::get(uri)
        .header(http::header::ACCEPT, accept)
        // From 1.37 on, servers compress each event of a watch separately, which our HTTP stack
        // would not decode.
        .header(http::header::ACCEPT_ENCODING, "identity")
        .body(Vec::new())
}
