//! The body of an answer on its way to the host: a watch passes line by line, everything else as a
//! whole.

use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::link::Order;
use super::request::Seen;
use super::rule::Rule;
use super::state::State;

pub(super) type Chunks = BoxStream<'static, io::Result<Bytes>>;

/// The lines of a watch as the rules in force change them.
pub(super) struct Lines {
    seen: Seen,
    state: Arc<State>,
    rules_changed: watch::Receiver<()>,
    orders: mpsc::UnboundedReceiver<Order>,
    body: Incoming,
    /// The beginning of a line whose end has not come yet.
    unfinished: BytesMut,
    /// Events that are held back so that later ones come before them.
    held: Vec<(Instant, String)>,
    /// The lines to send, each with the time at which it is due.
    queue: VecDeque<(Instant, Bytes)>,
    /// How the server ended the body.
    ended: Option<io::Result<()>>,
}

impl Lines {
    pub(super) fn new(
        seen: Seen,
        state: Arc<State>,
        orders: mpsc::UnboundedReceiver<Order>,
        body: Incoming,
    ) -> Self {
        Self {
            seen,
            rules_changed: state.rules_changed(),
            state,
            orders,
            body,
            unfinished: BytesMut::new(),
            held: Vec::new(),
            queue: VecDeque::new(),
            ended: None,
        }
    }

    pub(super) fn into_chunks(self) -> Chunks {
        stream::unfold(self, async |mut lines| {
            let next = lines.next().await?;
            Some((next, lines))
        })
        .boxed()
    }

    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            let is_stalled = self.state.is_stalled(&self.seen);
            // The end comes after all lines. A stalled watch does not end.
            if !is_stalled && self.queue.is_empty() && self.ended.is_some() {
                return self.ended.take()?.err().map(Err);
            }
            let due = self.queue.front().map(|(due, _)| *due);
            tokio::select! {
                biased;
                // Orders come first. They are obeyed also while the watch is stalled.
                order = self.orders.recv() => match order {
                    Some(Order::Line(line)) => self.push(&line, Instant::now()),
                    Some(Order::Close) | None => return None,
                },
                () = until(due), if !is_stalled => {
                    let (_, line) = self.queue.pop_front()?;
                    self.state.record().sent(&line);
                    return Some(Ok(line));
                }
                _ = self.rules_changed.changed() => {
                    if self.state.to_reverse(&self.seen) == 0 {
                        self.release();
                    }
                }
                frame = self.body.frame(), if self.ended.is_none() => match frame {
                    Some(Ok(frame)) => self.receive(&frame.into_data().unwrap_or_default()),
                    Some(Err(error)) => self.end(Err(io::Error::other(error))),
                    None => self.end(Ok(())),
                },
            }
        }
    }

    fn receive(&mut self, data: &Bytes) {
        self.unfinished.extend_from_slice(data);
        while let Some(end) = self.unfinished.iter().position(|byte| *byte == b'\n') {
            let line = self.unfinished.split_to(end + 1);
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            let (lines, delay) = self.state.pass_line(&self.seen, line);
            for line in lines {
                self.order(line, Instant::now() + delay);
            }
        }
    }

    fn end(&mut self, end: io::Result<()>) {
        self.release();
        self.ended = Some(end);
    }

    /// Holds a line back if it must be reversed with later ones; otherwise queues it.
    fn order(&mut self, line: String, due: Instant) {
        let count = self.state.to_reverse(&self.seen);
        // A bookmark's resourceVersion covers the events that are held, so they must be sent before
        // it.
        if count == 0 || line.contains(r#""type":"BOOKMARK""#) {
            self.release();
            return self.push(&line, due);
        }
        self.held.push((due, line));
        if self.held.len() >= count {
            self.held.reverse();
            self.release();
            self.state.reversed(&self.seen);
        }
    }

    fn release(&mut self) {
        for (due, line) in std::mem::take(&mut self.held) {
            self.push(&line, due);
        }
    }

    /// Queues a line, to be sent no earlier than the lines before it.
    fn push(&mut self, line: &str, due: Instant) {
        let last = self.queue.back().map_or(due, |(last, _)| *last);
        self.queue
            .push_back((due.max(last), format!("{line}\n").into()));
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => pending().await,
    }
}

/// Passes a tenth of the bytes per second ten times a second, until the rule is lifted.
pub(super) fn slow(chunks: Chunks, bytes_per_second: usize, rule: Arc<Rule>) -> Chunks {
    let size = (bytes_per_second / 10).max(1);
    let pieces = chunks.flat_map(move |chunk| {
        let pieces: Vec<_> = match chunk {
            Ok(bytes) => bytes
                .chunks(size)
                .map(|piece| Ok(bytes.slice_ref(piece)))
                .collect(),
            Err(error) => vec![Err(error)],
        };
        stream::iter(pieces)
    });
    let paced = pieces.then(move |piece| {
        let rule = rule.clone();
        async move {
            let _ = timeout(Duration::from_millis(100), rule.lifted()).await;
            piece
        }
    });
    paced.boxed()
}

/// Passes this many bytes and then fails, which breaks the connection.
pub(super) fn truncate(chunks: Chunks, bytes: usize) -> Chunks {
    let kept = chunks.scan(bytes, |left, chunk| {
        let chunk = chunk.map(|bytes| {
            let kept = bytes.slice(..bytes.len().min(*left));
            *left -= kept.len();
            kept
        });
        let is_over = *left == 0;
        async move { Some((chunk, is_over)) }
    });
    // Gives the bytes before the error the time to be sent.
    let broken = stream::once(async {
        sleep(Duration::from_millis(50)).await;
        Err(io::Error::other("cut by the test"))
    });
    take_through(kept).chain(broken).boxed()
}

/// Passes the chunks up to and including the first one that is marked as the last.
fn take_through(
    chunks: impl Stream<Item = (io::Result<Bytes>, bool)> + Send + 'static,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    stream::unfold(Some(Box::pin(chunks)), async |chunks| {
        let mut chunks = chunks?;
        let (chunk, is_over) = chunks.next().await?;
        Some((chunk, (!is_over).then_some(chunks)))
    })
}
