//! Reads the body of an answer, by lines or as a whole, over a connection that may stall, break or
//! end.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use http_body_util::{BodyDataStream, BodyExt};
use kube::client::Body;
use tokio::time::Instant;

use crate::client::RequestError;
use crate::watch::error::StreamError;

/// The result of reading once.
#[derive(Debug)]
pub(crate) enum LineRead {
    Line(Bytes),
    /// The server closed the stream. An incomplete last line is dropped; it comes again on the next
    /// watch.
    WatchEnd,
    /// Nothing came for as long as the caller was ready to wait.
    Quiet,
}

/// Why a body was not read to its end.
#[derive(Debug)]
pub(crate) enum BodyError {
    /// Nothing came for as long as the caller was ready to wait.
    Quiet,
    /// It kept coming, and was not complete in time.
    Late,
    /// The connection broke, or the body is too large.
    Failed(RequestError),
}

/// The lines of a body.
///
/// Not tokio-util's `LinesCodec`: at the end of the stream that returns an incomplete line as if it
/// were whole, and it takes a line that is not UTF-8 for an error of the connection.
pub(crate) struct Lines {
    body: BodyDataStream<Body>,
    buffer: BytesMut,
    /// There is no line break before this offset in the buffer.
    searched: usize,
    limit: usize,
}

impl Lines {
    pub(crate) fn new(body: Body, limit: usize) -> Self {
        Self {
            body: body.into_data_stream(),
            buffer: BytesMut::new(),
            searched: 0,
            limit,
        }
    }

    /// The next line that is not empty. Every chunk restarts the `quiet_limit`; after `until`,
    /// chunks do not help any more.
    pub(crate) async fn next(
        &mut self,
        quiet_limit: Duration,
        until: Instant,
    ) -> Result<LineRead, StreamError> {
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
                    return Ok(LineRead::Line(line));
                }
                continue;
            }
            self.searched = self.buffer.len();
            if self.searched > self.limit {
                return Err(StreamError::TooLong(self.limit));
            }
            let patience = until.min(Instant::now() + quiet_limit);
            match tokio::time::timeout_at(patience, self.body.next()).await {
                Err(_) => return Ok(LineRead::Quiet),
                Ok(None) => return Ok(LineRead::WatchEnd),
                Ok(Some(Err(error))) => {
                    return Err(StreamError::Broken(RequestError::Transport(error)));
                }
                Ok(Some(Ok(chunk))) => self.buffer.extend_from_slice(&chunk),
            }
        }
    }
}

/// The whole body: at most `limit` bytes, complete by `until`, and never quiet for longer than
/// `quiet_limit`. Whenever some of it comes, `heard` is set to the time.
pub(crate) async fn read_all(
    body: Body,
    quiet_limit: Duration,
    until: Instant,
    limit: usize,
    heard: &mut Instant,
) -> Result<Vec<u8>, BodyError> {
    let (all, is_whole) = read_front(body, quiet_limit, until, limit, heard).await?;
    if is_whole {
        Ok(all)
    } else {
        Err(BodyError::Failed(RequestError::TooLarge(limit)))
    }
}

/// The first `limit` bytes of the body, and whether that is all of it. Otherwise like [`read_all`].
pub(crate) async fn read_front(
    body: Body,
    quiet_limit: Duration,
    until: Instant,
    limit: usize,
    heard: &mut Instant,
) -> Result<(Vec<u8>, bool), BodyError> {
    let mut data = body.into_data_stream();
    let mut all = Vec::new();
    loop {
        let quiet_until = Instant::now() + quiet_limit;
        let read = tokio::time::timeout_at(until.min(quiet_until), data.next()).await;
        let Ok(chunk) = read else {
            return Err(if quiet_until <= until {
                BodyError::Quiet
            } else {
                BodyError::Late
            });
        };
        *heard = Instant::now();
        match chunk {
            None => return Ok((all, true)),
            Some(chunk) => {
                let chunk =
                    chunk.map_err(|error| BodyError::Failed(RequestError::Transport(error)))?;
                if all.len() + chunk.len() > limit {
                    all.extend_from_slice(&chunk[..limit - all.len()]);
                    return Ok((all, false));
                }
                all.extend_from_slice(&chunk);
            }
        }
    }
}
