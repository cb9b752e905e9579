//! Parses one page of a list.

use pilothouse_core::Schema;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::change::{self, WatchChange};
use super::query::Query;
use crate::watch::error::WatchError;

/// Largest answer to one list, in bytes. Unpaged, 100,000 pods are 440 MB.
pub(crate) const MAX_LIST: usize = 2 * 1024 * 1024 * 1024;

/// Objects parsed before other tasks of the thread run: about five milliseconds of work.
const PARSED_IN_A_ROW: usize = 100;

/// The metadata of a page.
pub(crate) struct Page {
    pub(crate) version: String,
    pub(crate) token: Option<String>,
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

fn parse<'a>(query: &Query, body: &'a [u8]) -> Result<RawList<'a>, WatchError> {
    let bad = |cause: String| WatchError::NotAList {
        resource: query.name(),
        cause,
    };
    let list: RawList<'_> = serde_json::from_slice(body).map_err(|error| bad(error.to_string()))?;
    // `TestIsUnsupportedTableObject`.
    if matches!(&*list.kind, "Table" | "Status") {
        return Err(bad(format!("it is a {}", list.kind)));
    }
    Ok(list)
}

/// Parses a page and appends its objects to `objects`. Each is copied out of the page, so that no
/// object keeps the page in memory (`TestReflectorListExtract`).
pub(crate) async fn read(
    query: &Query,
    body: &[u8],
    schema: &Schema,
    objects: &mut Vec<WatchChange>,
) -> Result<Page, WatchError> {
    let list = parse(query, body)?;
    let items = list.items.unwrap_or_default();
    objects.reserve(items.len());
    for (number, raw) in items.into_iter().enumerate() {
        objects.push(change::upsert(&query.resource, raw, schema)?);
        if number % PARSED_IN_A_ROW == PARSED_IN_A_ROW - 1 {
            tokio::task::yield_now().await;
        }
    }
    Ok(Page {
        version: list.metadata.resource_version,
        token: list.metadata.r#continue.filter(|token| !token.is_empty()),
    })
}

/// The version of a list, without parsing its items. Also works for the front of a list that was
/// not read to its end, if its metadata comes first.
pub(crate) fn version(query: &Query, body: &[u8]) -> Result<String, WatchError> {
    if let Some(metadata) = front(body) {
        return Ok(metadata.resource_version);
    }
    Ok(parse(query, body)?.metadata.resource_version)
}

/// The list's own metadata, if it comes before the items, as from every API server written in Go.
fn front(body: &[u8]) -> Option<RawListMeta> {
    const METADATA: &[u8] = b"\"metadata\":";
    let find = |text: &[u8]| body.windows(text.len()).position(|part| part == text);
    let start = find(METADATA)?;
    if find(b"\"items\"").is_some_and(|items| items < start) {
        return None;
    }
    let mut values =
        serde_json::Deserializer::from_slice(&body[start + METADATA.len()..]).into_iter();
    let metadata: RawListMeta = values.next()?.ok()?;
    Some(metadata).filter(|metadata| !metadata.resource_version.is_empty())
}
