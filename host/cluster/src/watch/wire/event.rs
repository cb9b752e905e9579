//! Parses one line of a watch.

use std::borrow::Cow;
use std::collections::BTreeMap;

use pilothouse_core::{ResourceVersion, Schema};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::change::{self, WatchChange};
use crate::client::Status;
use crate::discovery::Resource;
use crate::watch::error::WatchError;

/// The annotation of the bookmark that ends the initial objects (the marker).
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// One event of a watch.
#[derive(Debug)]
pub(crate) enum WatchEvent {
    Change(WatchChange),
    Bookmark {
        version: ResourceVersion,
        ends_initial: bool,
    },
    Error(Status),
}

#[derive(Deserialize)]
struct RawEvent<'a> {
    #[serde(rename = "type", borrow)]
    event_type: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct RawBookmark {
    metadata: RawMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMetadata {
    resource_version: String,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

/// Parses an event; its two members may come in either order.
///
/// An unreadable event is an error and never skipped, because the cache would keep the old state of
/// its object. If the event's object can be identified, only that object becomes unreadable.
/// client-go drops objects of another kind with a log line (`TestReflectorWatchHandler`).
pub(crate) fn parse(
    resource: &Resource,
    line: &[u8],
    schema: &Schema,
) -> Result<WatchEvent, WatchError> {
    let bad = |cause: String| WatchError::BadEvent {
        resource: resource.qualified_name(),
        cause,
    };
    let RawEvent { event_type, object } =
        serde_json::from_slice(line).map_err(|error| bad(error.to_string()))?;
    match &*event_type {
        "ADDED" | "MODIFIED" => Ok(WatchEvent::Change(change::upsert(
            resource, object, schema,
        )?)),
        "DELETED" => Ok(WatchEvent::Change(change::delete(resource, object)?)),
        "BOOKMARK" => {
            let RawBookmark { metadata } =
                serde_json::from_str(object.get()).map_err(|error| bad(error.to_string()))?;
            let annotations = metadata.annotations.unwrap_or_default();
            let marker = annotations.get(INITIAL_EVENTS_END);
            Ok(WatchEvent::Bookmark {
                version: ResourceVersion::new(&metadata.resource_version),
                ends_initial: marker.is_some_and(|value| value == "true"),
            })
        }
        "ERROR" => Ok(WatchEvent::Error(Status::parse(
            0,
            None,
            object.get().as_bytes(),
        ))),
        other => Err(bad(format!("its type is {other:?}"))),
    }
}
