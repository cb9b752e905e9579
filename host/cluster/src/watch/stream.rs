//! A watch's answer: lines of JSON, one event each, over a body that may stall, break or end.

use std::borrow::Cow;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use http_body_util::{BodyDataStream, BodyExt};
use kube::client::Body;
use pilothouse_core::key::ResourceVersion;
use pilothouse_core::object::{Object, Schema};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::{WatchError, list};
use crate::discovery::Resource;
use crate::request::{RequestError, Status};

/// What came over the wire, or did not.
#[derive(Debug)]
pub(super) enum Read {
    Line(Bytes),
    /// The server closed the stream. What may stand before it without a line's end comes again on the next watch.
    End,
    /// Nothing came for as long as was waited.
    Quiet,
}

/// Why no more lines can be read.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The connection broke.
    #[error("{0}")]
    Broken(#[source] RequestError),
    /// A line without end.
    #[error("an event is longer than {0} bytes")]
    TooLong(usize),
}

/// The lines of a body.
pub(super) struct Lines {
    body: BodyDataStream<Body>,
    buffer: BytesMut,
    /// No line ends before this place of the buffer.
    searched: usize,
    limit: usize,
}

impl Lines {
    pub(super) fn new(body: Body, limit: usize) -> Self {
        Self {
            body: body.into_data_stream(),
            buffer: BytesMut::new(),
            searched: 0,
            limit,
        }
    }

    /// The next line that is not empty. Each chunk shows that the server lives; `until` is when even that does not count any more.
    pub(super) async fn next(
        &mut self,
        quiet_limit: Duration,
        until: Instant,
    ) -> Result<Read, StreamError> {
        loop {
            if let Some(length) = self.buffer[self.searched..]
                .iter()
                .position(|byte| *byte == b'\n')
            {
                let end = self.searched + length;
                if end > self.limit {
                    return Err(StreamError::TooLong(self.limit));
                }
                let line = self.buffer.split_to(end + 1).freeze();
                self.searched = 0;
                if line.iter().any(|byte| !byte.is_ascii_whitespace()) {
                    return Ok(Read::Line(line));
                }
                continue;
            }
            self.searched = self.buffer.len();
            if self.searched > self.limit {
                return Err(StreamError::TooLong(self.limit));
            }
            let patience = until.min(Instant::now() + quiet_limit);
            match tokio::time::timeout_at(patience, self.body.next()).await {
                Err(_) => return Ok(Read::Quiet),
                Ok(None) => return Ok(Read::End),
                Ok(Some(Err(error))) => {
                    return Err(StreamError::Broken(RequestError::Transport(error)));
                }
                Ok(Some(Ok(chunk))) => self.buffer.extend_from_slice(&chunk),
            }
        }
    }
}

/// One event of a watch.
#[derive(Debug)]
pub(super) enum Event {
    Upsert(Object),
    Delete(Object),
    Bookmark(ResourceVersion),
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
    metadata: RawVersion,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawVersion {
    resource_version: String,
}

/// Reads an event, whichever of its two members comes first.
///
/// One that cannot be read is an error and never passed over: what it was about would stay in the cache as it was. client-go drops
/// objects of another kind with a log line (`TestReflectorWatchHandler`); here they end the watch too.
pub(super) fn parse(
    resource: &Resource,
    line: &[u8],
    schema: &Schema,
) -> Result<Event, WatchError> {
    let bad = |cause: String| WatchError::BadEvent {
        resource: resource.qualified_name(),
        cause,
    };
    let RawEvent { event_type, object } =
        serde_json::from_slice(line).map_err(|error| bad(error.to_string()))?;
    match &*event_type {
        "ADDED" | "MODIFIED" => Ok(Event::Upsert(list::parse(resource, object, schema)?)),
        "DELETED" => Ok(Event::Delete(list::parse(resource, object, schema)?)),
        "BOOKMARK" => {
            let bookmark: RawBookmark =
                serde_json::from_str(object.get()).map_err(|error| bad(error.to_string()))?;
            Ok(Event::Bookmark(ResourceVersion::new(
                &bookmark.metadata.resource_version,
            )))
        }
        "ERROR" => Ok(Event::Error(Status::parse(
            0,
            None,
            object.get().as_bytes(),
        ))),
        other => Err(bad(format!("its type is {other:?}"))),
    }
}
