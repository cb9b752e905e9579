//! Accepts the host's connections and serves their requests.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use http::header::{ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderValue, Request, Response, StatusCode, response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinSet;

use super::answer::Answer;
use super::lines::{self, Chunks, Lines};
use super::link::{Link, Mode, Open, Socket};
use super::port::Port;
use super::request::Seen;
use super::rule::{Rule, What};
use super::state::State;
use super::upstream::Upstream;

pub(super) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// Runs until the task is aborted, which ends the connections too.
pub(super) async fn run(port: Port, upstream: Arc<Upstream>, state: Arc<State>) {
    let mut connections = JoinSet::new();
    let mut number = 0;
    loop {
        state.until_listener_is_wanted(true).await;
        let listener = port.listen().expect("the port is ours");
        state.has_listener(true);
        loop {
            let stream = tokio::select! {
                stream = accept(&listener) => stream,
                () = state.until_listener_is_wanted(false) => break,
                // Takes the tasks of ended connections out of the set.
                Some(_) = connections.join_next() => continue,
            };
            if state.turns_away() {
                // This makes dropping the connection send a RST.
                let _ = stream.set_zero_linger();
                continue;
            }
            number += 1;
            connections.spawn(serve(stream, number, upstream.clone(), state.clone()));
        }
        drop(listener);
        state.has_listener(false);
    }
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        // Ignores connections that broke before they were accepted.
        if let Ok((stream, _)) = listener.accept().await {
            return stream;
        }
    }
}

async fn serve(stream: TcpStream, number: u64, upstream: Arc<Upstream>, state: Arc<State>) {
    let link = Arc::new(Link::new(number));
    state.add_link(&link);
    // Otherwise small lines wait for acknowledgements.
    let _ = stream.set_nodelay(true);
    let session = Arc::new(Session {
        link: link.clone(),
        state,
        upstream,
        sender: Mutex::default(),
        tasks: parking_lot::Mutex::default(),
        server_left: Arc::default(),
    });
    let service = service_fn(|request| {
        let session = session.clone();
        async move { Ok::<_, Infallible>(session.answer(request).await) }
    });
    let socket = TokioIo::new(Socket::new(stream, link.clone()));
    let mut connection = std::pin::pin!(http1::Builder::new().serve_connection(socket, service));
    loop {
        tokio::select! {
            _ = connection.as_mut() => return,
            () = link.until_reset() => return,
            // When the server closes its connection, the host's ends after the current answer.
            () = session.server_left.notified() => connection.as_mut().graceful_shutdown(),
        }
    }
}

/// A connection of the host, and the connection to the server that belongs to it.
struct Session {
    link: Arc<Link>,
    state: Arc<State>,
    upstream: Arc<Upstream>,
    sender: Mutex<Option<SendRequest<Full<Bytes>>>>,
    /// The task that drives the connection to the server.
    tasks: parking_lot::Mutex<JoinSet<()>>,
    server_left: Arc<Notify>,
}

/// The server's answer.
enum Answered {
    Whole(response::Parts, Bytes),
    Watch(response::Parts, Incoming),
}

impl Session {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let body = match body.collect().await {
            Ok(body) => body.to_bytes(),
            Err(_) => self.reset().await,
        };
        let seen = Seen::of(&head, body.clone(), self.link.id);
        let mut request = Request::from_parts(head, Full::new(body));
        let open = self.link.begin(&seen);
        self.state.record().request(&seen);
        let rules = self.state.rules_for(&seen);
        for rule in &rules {
            match &rule.what {
                What::Answer(answer) => return answer.clone().into_response(),
                What::Reset => self.reset().await,
                What::Hold => rule.lifted().await,
                What::Delay(time) => tokio::time::sleep(*time).await,
                What::PagesOf(objects) => set_limit(&mut request, *objects),
                _ => {}
            }
        }
        let carried = rules.iter().find(|rule| matches!(rule.what, What::Carry));
        let forwarded = match carried {
            Some(rule) => {
                self.clone()
                    .carry(rule.clone(), request, seen.clone())
                    .await
            }
            None => self.forward(request, &seen).await,
        };
        let answered = match forwarded {
            Ok(answered) => answered,
            // When the connection to the server breaks, so does the host's.
            Err(_) => self.reset().await,
        };
        for rule in &rules {
            match &rule.what {
                What::HoldAnswer => rule.lifted().await,
                What::Lose => self.reset().await,
                What::Replace(answer) => return answer.clone().into_response(),
                _ => {}
            }
        }
        self.respond(seen, answered, &rules, open)
    }

    /// Resets the connection and never returns: the task is dropped.
    async fn reset<T>(&self) -> T {
        self.link.set_mode(Mode::Reset);
        pending().await
    }

    /// Forwards the request once the rule is lifted, whether the client still waits or not.
    async fn carry(
        self: Arc<Self>,
        rule: Arc<Rule>,
        request: Request<Full<Bytes>>,
        seen: Seen,
    ) -> Result<Answered> {
        let carrying = tokio::spawn(async move {
            rule.lifted().await;
            self.forward(request, &seen).await
        });
        carrying.await?
    }

    async fn forward(&self, mut request: Request<Full<Bytes>>, seen: &Seen) -> Result<Answered> {
        let headers = request.headers_mut();
        headers.remove(HOST);
        headers.remove(TRANSFER_ENCODING);
        headers.insert(HOST, HeaderValue::from_static("server"));
        // Rules read bodies, so they must not be compressed.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let mut sender = self.sender.lock().await;
        if sender.is_none() {
            *sender = Some(self.connect().await?);
        }
        let sender = sender.as_mut().context("connected above")?;
        sender.ready().await?;
        let (mut parts, body) = sender.send_request(request).await?.into_parts();
        for header in [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING] {
            parts.headers.remove(header);
        }
        if seen.is_watch() && parts.status == StatusCode::OK {
            return Ok(Answered::Watch(parts, body));
        }
        let body = body.collect().await?.to_bytes();
        self.state.record().answer(seen, as_answer(&parts, &body));
        Ok(Answered::Whole(parts, body))
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>> {
        let (sender, connection) = self.upstream.connect().await?;
        let server_left = self.server_left.clone();
        let mut tasks = self.tasks.lock();
        tasks.spawn(async move {
            connection.await;
            server_left.notify_one();
        });
        Ok(sender)
    }

    fn respond(
        &self,
        seen: Seen,
        answered: Answered,
        rules: &[Arc<Rule>],
        open: Open,
    ) -> Response<Body> {
        let (mut parts, mut chunks): (_, Chunks) = match answered {
            Answered::Watch(parts, body) => {
                let orders = self.link.begin_stream();
                let lines = Lines::new(seen, self.state.clone(), orders, body);
                (parts, lines.into_chunks())
            }
            Answered::Whole(mut parts, body) => {
                parts.headers.insert(CONTENT_LENGTH, body.len().into());
                (parts, stream::once(async { Ok(body) }).boxed())
            }
        };
        parts.extensions.clear();
        for rule in rules {
            match rule.what {
                What::Slow(speed) => chunks = lines::slow(chunks, speed, rule.clone()),
                What::Truncate(bytes) => chunks = lines::truncate(chunks, bytes),
                _ => {}
            }
        }
        let body = chunks.map_ok(move |chunk| {
            // The request stays open until the body is dropped.
            let _ = &open;
            Frame::data(chunk)
        });
        let body = StreamBody::new(body);
        Response::from_parts(parts, BodyExt::boxed_unsync(body))
    }
}

/// Replaces the limit that a list asks for, if it asks for one.
fn set_limit(request: &mut Request<Full<Bytes>>, limit: u32) {
    let parameters = request.uri().query().unwrap_or_default().split('&');
    let replaced = parameters.map(|parameter| {
        if parameter.starts_with("limit=") {
            format!("limit={limit}")
        } else {
            parameter.to_owned()
        }
    });
    let query = replaced.collect::<Vec<_>>().join("&");
    let uri = format!("{}?{query}", request.uri().path());
    *request.uri_mut() = uri.parse().expect("as well-formed as it was");
}

fn as_answer(parts: &response::Parts, body: &Bytes) -> Answer {
    let header = |(name, value): (&http::HeaderName, &HeaderValue)| {
        let value = value.to_str().unwrap_or_default();
        (name.as_str().to_owned(), value.to_owned())
    };
    Answer {
        status: parts.status.as_u16(),
        headers: parts.headers.iter().map(header).collect(),
        body: String::from_utf8_lossy(body).into_owned(),
    }
}
