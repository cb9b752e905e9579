//! `/healthz`, `/readyz`, `/metrics`, `/plugins`, `/informers`; and, at the host's own socket alone, what an operator tells
//! it about a plugin: `POST /plugins/NAME/pause`, `/resume`, `/rollback`, `/accept`.

mod guard;
mod serving;
pub mod socket;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{from_fn, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use pilothouse_wasm::Engine;
use tokio::net::{TcpListener, UnixListener};

use crate::address::Address;
use crate::metrics::{Format, Metrics};
use crate::plugins::commands::{CommandError, Commands, Verb};
use crate::status::Sources;
use guard::{Guard, guard};

/// How the host names itself in every answer: whoever asks at a wrong address finds that out.
pub const SERVER: &str = concat!("pilothouse/", env!("CARGO_PKG_VERSION"));

/// What the query of a command begins with that is about one file and no other.
pub const DIGEST: &str = "sha256=";

#[derive(Clone)]
pub struct Answers {
    pub engine: Engine,
    pub sources: Sources,
    pub metrics: Arc<Metrics>,
    pub commands: Commands,
}

/// Takes the address, so that one already in use is known before anything else starts.
pub async fn bind(address: &Address) -> anyhow::Result<TcpListener> {
    let bound = async {
        let places = address.places_to_listen().await?;
        TcpListener::bind(&places[..]).await
    };
    bound.await.with_context(|| {
        format!("cannot listen on {address}; choose another address with --listen")
    })
}

/// Answers whoever asks at an address, which was `said` so.
pub async fn serve(listener: TcpListener, said: &Address, answers: Answers) -> std::io::Result<()> {
    let own = Guard::of(listener.local_addr()?, &said.host());
    let router = routes()
        .route("/plugins/{name}/{verb}", post(no_command))
        .layer(from_fn(move |request, next| {
            guard(own.clone(), request, next)
        }))
        .layer(map_response(named))
        .with_state(answers);
    let peer = |address: &SocketAddr| Some(address.ip());
    serving::serve(listener, router, peer).await;
    Ok(())
}

/// Answers whoever may write to the host's socket, and does what they say.
pub async fn obey(listener: UnixListener, answers: Answers) {
    let router = routes()
        .route("/plugins/{name}/{verb}", post(command))
        .layer(map_response(named))
        .with_state(answers);
    serving::serve(listener, router, |_| None).await;
}

fn routes() -> Router<Answers> {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/plugins", get(plugins))
        .route("/informers", get(informers))
        .fallback(not_found)
}

async fn named(mut response: Response) -> Response {
    let name = HeaderValue::from_static(SERVER);
    response.headers_mut().insert(header::SERVER, name);
    response
}

/// The process answers, and guests that run too long are still being stopped.
async fn healthz(State(answers): State<Answers>) -> Response {
    if answers.engine.is_ticking() {
        "ok".into_response()
    } else {
        (
            StatusCode::INTERNAL_SERVER_ERROR,
            "the epoch ticker has ended: timeouts are not kept\n",
        )
            .into_response()
    }
}

async fn readyz(State(answers): State<Answers>, RawQuery(query): RawQuery) -> Response {
    let (is_ready, text) = answers.sources.readiness();
    let is_verbose = query.is_some_and(|query| {
        query
            .split('&')
            .any(|part| part == "verbose" || part.starts_with("verbose="))
    });
    match (is_ready, is_verbose) {
        (true, false) => "ok".into_response(),
        (true, true) => text.into_response(),
        (false, _) => (StatusCode::SERVICE_UNAVAILABLE, text).into_response(),
    }
}

async fn metrics(State(answers): State<Answers>, headers: HeaderMap) -> Response {
    let accept = headers.get_all(header::ACCEPT).iter();
    let accept: Vec<&str> = accept.filter_map(|value| value.to_str().ok()).collect();
    let format = Format::accepted(&accept.join(","));
    match answers.metrics.text(format) {
        Ok(text) => ([(header::CONTENT_TYPE, format.content_type())], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn informers(State(answers): State<Answers>) -> Response {
    Json(answers.sources.informers()).into_response()
}

async fn plugins(State(answers): State<Answers>) -> Response {
    Json(answers.sources.plugins()).into_response()
}

/// An address says nothing of who asks.
async fn no_command() -> Response {
    let text = "commands are taken at the host's own socket alone: use pilothouse pause, resume, rollback or accept where the host runs (in a cluster by kubectl exec)\n";
    (StatusCode::FORBIDDEN, text).into_response()
}

async fn command(
    State(answers): State<Answers>,
    Path((name, word)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Response {
    let Some(verb) = Verb::of(&word) else {
        let text = format!("no command {word:?}; there are pause, resume, rollback and accept\n");
        return (StatusCode::NOT_FOUND, text).into_response();
    };
    let digest = query
        .as_deref()
        .and_then(|query| query.strip_prefix(DIGEST));
    let digest = digest.map(str::to_owned);
    match answers.commands.give(name, verb, digest).await {
        Ok(text) => format!("{text}\n").into_response(),
        Err(error) => {
            let status = match error {
                CommandError::Unknown(..) => StatusCode::NOT_FOUND,
                CommandError::Impossible(_) => StatusCode::CONFLICT,
                CommandError::Stopping => StatusCode::SERVICE_UNAVAILABLE,
            };
            (status, format!("{error}\n")).into_response()
        }
    }
}

async fn not_found() -> Response {
    let text = "not found; there are /healthz, /readyz, /metrics, /plugins and /informers\n";
    (StatusCode::NOT_FOUND, text).into_response()
}
