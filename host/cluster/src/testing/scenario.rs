//! A scripted API server for tests: it answers in order and records the requests. It uses no socket
//! and never really waits: time is tokio's, paused.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// One step on the wire after the head of an answer.
#[derive(Clone, Debug)]
pub(crate) enum WirePart {
    Data(String),
    Bytes(&'static [u8]),
    Pause(Duration),
    Break,
    Hang,
}

/// One answer of the script.
#[derive(Clone, Debug)]
pub(crate) enum ScriptedAnswer {
    Http {
        code: u16,
        headers: Vec<(&'static str, String)>,
        parts: Vec<WirePart>,
    },
    /// The connection is refused.
    Refused,
    /// The request is never answered.
    Silence,
    /// The request is answered, but only after this time.
    Late(Duration, Box<ScriptedAnswer>),
}

pub(crate) fn json(body: &Value) -> ScriptedAnswer {
    text(200, &body.to_string())
}

pub(crate) fn text(code: u16, body: &str) -> ScriptedAnswer {
    ScriptedAnswer::Http {
        code,
        headers: vec![],
        parts: vec![WirePart::Data(body.to_owned())],
    }
}

/// A refusal with a Status.
pub(crate) fn status(code: u16, reason: &str, message: &str) -> ScriptedAnswer {
    let body = serde_json::json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message});
    text(code, &body.to_string())
}

/// The answer about an object that is not there: the only one that names it.
pub(crate) fn absent(name: &str) -> ScriptedAnswer {
    let message = format!("pods {name:?} not found");
    let body = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404,
        "reason": "NotFound", "message": message, "details": {"name": name, "kind": "pods"},
    });
    text(404, &body.to_string())
}

/// A watch that brings these lines. Then it is closed, unless `end` is another end.
pub(crate) fn stream(lines: &[Value], end: Option<WirePart>) -> ScriptedAnswer {
    let parts = lines
        .iter()
        .map(|line| WirePart::Data(format!("{line}\n")))
        .chain(end);
    ScriptedAnswer::Http {
        code: 200,
        headers: vec![],
        parts: parts.collect(),
    }
}

/// An answer that begins and never continues.
pub(crate) fn stalled() -> ScriptedAnswer {
    ScriptedAnswer::Http {
        code: 200,
        headers: vec![],
        parts: vec![WirePart::Data("{".into()), WirePart::Hang],
    }
}

impl ScriptedAnswer {
    pub(crate) fn with_header(mut self, name: &'static str, value: &str) -> Self {
        if let Self::Http { headers, .. } = &mut self {
            headers.push((name, value.to_owned()));
        }
        self
    }
}

/// A request, as it reached the server.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// `GET /api/v1/pods?limit=500`.
    pub(crate) line: String,
    pub(crate) content_type: String,
    pub(crate) accept: String,
    /// The entity tag in `If-None-Match`; empty if there is none.
    pub(crate) tag: String,
    /// The impersonated user; empty if there is none.
    pub(crate) user: String,
    pub(crate) body: Value,
    /// Time since the first request.
    pub(crate) at: Duration,
}

struct Shared {
    script: VecDeque<ScriptedAnswer>,
    seen: Vec<Seen>,
    started: Option<Instant>,
}

/// The script of one test.
#[derive(Clone)]
pub(crate) struct Scenario {
    shared: Arc<Mutex<Shared>>,
    exhausted: watch::Sender<bool>,
}

impl Scenario {
    /// Gives these answers in this order, whatever is requested.
    pub(crate) fn new(script: impl IntoIterator<Item = ScriptedAnswer>) -> Self {
        let shared = Shared {
            script: script.into_iter().collect(),
            seen: vec![],
            started: None,
        };
        Self {
            shared: Arc::new(Mutex::new(shared)),
            exhausted: watch::channel(false).0,
        }
    }

    pub(crate) fn client(&self) -> Client {
        let scenario = self.clone();
        Client::new(
            tower::service_fn(move |request| scenario.clone().answer(request)),
            "default",
        )
    }

    /// Waits until a request comes for which the script has no answer.
    pub(crate) async fn is_played(&self) {
        self.exhausted
            .subscribe()
            .wait_for(|exhausted| *exhausted)
            .await
            .unwrap();
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.lock().unwrap().seen.clone()
    }

    /// The requests' first lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.line).collect()
    }

    async fn answer(
        self,
        request: Request<Body>,
    ) -> Result<Response<StreamBody<Frames>>, BoxError> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let header = |name| {
            head.headers
                .get(name)
                .map(|value| value.to_str().unwrap().to_owned())
                .unwrap_or_default()
        };
        let answer = {
            let mut shared = self.shared.lock().unwrap();
            let at = shared.started.get_or_insert_with(Instant::now).elapsed();
            shared.seen.push(Seen {
                line: format!("{} {}", head.method, head.uri),
                content_type: header(http::header::CONTENT_TYPE),
                accept: header(http::header::ACCEPT),
                tag: header(http::header::IF_NONE_MATCH),
                user: header(http::HeaderName::from_static("impersonate-user")),
                body: serde_json::from_slice(&body).unwrap_or_default(),
                at,
            });
            shared.script.pop_front()
        };
        let answer = match answer {
            Some(ScriptedAnswer::Late(time, answer)) => {
                tokio::time::sleep(time).await;
                Some(*answer)
            }
            answer => answer,
        };
        match answer {
            Some(ScriptedAnswer::Http {
                code,
                headers,
                parts,
            }) => {
                let response = headers.iter().fold(
                    Response::builder().status(code),
                    |response, (name, value)| response.header(*name, value),
                );
                Ok(response.body(StreamBody::new(frames(parts))).unwrap())
            }
            Some(ScriptedAnswer::Refused) => Err("Connection refused (os error 111)".into()),
            Some(ScriptedAnswer::Silence | ScriptedAnswer::Late(..)) => Ok(silence().await),
            None => {
                self.exhausted.send_replace(true);
                Ok(silence().await)
            }
        }
    }
}

async fn silence() -> Response<StreamBody<Frames>> {
    let never: Infallible = std::future::pending().await;
    match never {}
}

type Frames = stream::BoxStream<'static, Result<Frame<Bytes>, BoxError>>;

fn frames(parts: Vec<WirePart>) -> Frames {
    let frames = stream::unfold(VecDeque::from(parts), async |mut parts| {
        loop {
            match parts.pop_front()? {
                WirePart::Data(text) => return Some((Ok(Frame::data(Bytes::from(text))), parts)),
                WirePart::Bytes(bytes) => {
                    return Some((Ok(Frame::data(Bytes::from_static(bytes))), parts));
                }
                WirePart::Pause(time) => tokio::time::sleep(time).await,
                WirePart::Break => {
                    return Some((Err("connection reset by peer".into()), VecDeque::new()));
                }
                WirePart::Hang => std::future::pending().await,
            }
        }
    });
    Box::pin(frames)
}
