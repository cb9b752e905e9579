//! One page of a list: its request, and its objects out of the answer.

use http::Request;
use pilothouse_core::object::{Object, Schema};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::WatchError;
use super::settings::Settings;
use super::state::{Next, Paging};
use crate::discovery::Resource;
use crate::path;

/// Largest answer to one list. Unpaged, 100,000 pods are 440 MB.
pub(super) const MAX_LIST: usize = 2 * 1024 * 1024 * 1024;

/// Objects parsed before other tasks of the thread get a turn: about five milliseconds of work.
const PARSED_IN_A_ROW: usize = 100;

/// What a page says besides its objects.
pub(super) struct Page {
    pub(super) version: String,
    pub(super) token: Option<String>,
}

/// The path and query of a list or a watch of a kind, in all namespaces.
pub(super) fn request(resource: &Resource, next: &Next, settings: &Settings) -> Request<Vec<u8>> {
    let mut query = Vec::new();
    match next {
        Next::List {
            paging: Paging::After { token, .. },
            ..
        } => {
            // The token stands for version and match, and both beside it are an error (`TestListPager_List`).
            query.push(("limit", settings.page_size.to_string()));
            query.push(("continue", token.clone()));
        }
        Next::List {
            not_older_than,
            paging,
        } => {
            if *paging == Paging::First {
                query.push(("limit", settings.page_size.to_string()));
            }
            if let Some(version) = not_older_than {
                // Without the match, a limited list would be of exactly this version.
                query.push(("resourceVersion", version.to_string().to_owned()));
                query.push(("resourceVersionMatch", "NotOlderThan".to_owned()));
            }
        }
        Next::Watch { from, timeout } => {
            query.push(("watch", "true".to_owned()));
            query.push(("allowWatchBookmarks", "true".to_owned()));
            query.push(("resourceVersion", from.to_string()));
            query.push(("timeoutSeconds", timeout.as_secs().to_string()));
        }
    }
    let uri = format!(
        "{}{}",
        path::collection(&resource.kind, &resource.plural, None),
        path::query(&query)
    );
    Request::get(uri)
        .header(http::header::ACCEPT, "application/json")
        // From 1.37 on, servers compress each event of a watch by itself, which our stack would not decode.
        .header(http::header::ACCEPT_ENCODING, "identity")
        .body(Vec::new())
        .expect("path and query are percent-encoded")
}

#[derive(Deserialize)]
struct RawList<'a> {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: RawListMeta,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawListMeta {
    resource_version: String,
    r#continue: Option<String>,
}

/// Reads a page; its objects join `objects`. Each is copied out of the page, so that none keeps the page alive
/// (`TestReflectorListExtract`).
pub(super) async fn read(
    resource: &Resource,
    body: &[u8],
    schema: &Schema,
    objects: &mut Vec<Object>,
) -> Result<Page, WatchError> {
    let name = || resource.qualified_name();
    let list: RawList<'_> =
        serde_json::from_slice(body).map_err(|source| WatchError::NotAList {
            resource: name(),
            cause: source.to_string(),
        })?;
    // `TestIsUnsupportedTableObject`.
    if matches!(&*list.kind, "Table" | "Status") {
        return Err(WatchError::NotAList {
            resource: name(),
            cause: format!("it is a {}", list.kind),
        });
    }
    let items = list.items.unwrap_or_default();
    objects.reserve(items.len());
    for (number, raw) in items.into_iter().enumerate() {
        objects.push(parse(resource, raw, schema)?);
        if number % PARSED_IN_A_ROW == PARSED_IN_A_ROW - 1 {
            tokio::task::yield_now().await;
        }
    }
    let RawListMeta {
        resource_version,
        r#continue,
    } = list.metadata;
    Ok(Page {
        version: resource_version,
        token: r#continue.filter(|token| !token.is_empty()),
    })
}

pub(super) fn parse(
    resource: &Resource,
    raw: &RawValue,
    schema: &Schema,
) -> Result<Object, WatchError> {
    Object::parse(&resource.kind, raw.get(), schema).map_err(|source| WatchError::Undecodable {
        resource: resource.qualified_name(),
        object: name_of(raw.get()),
        source: Box::new(source),
    })
}

/// Which object it is, as far as that can be read.
fn name_of(raw: &str) -> String {
    #[derive(Deserialize)]
    struct Named {
        metadata: Names,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Names {
        namespace: String,
        name: String,
    }
    match serde_json::from_str::<Named>(raw) {
        Ok(Named { metadata }) if metadata.namespace.is_empty() => metadata.name,
        Ok(Named { metadata }) => format!("{}/{}", metadata.namespace, metadata.name),
        Err(_) => crate::request::flatten(raw, 80),
    }
}
