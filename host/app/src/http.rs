//! The HTTP server: `/healthz`, `/readyz`, `/metrics`, `/plugins`, `/informers`. Only the host's
//! own socket also takes an operator's commands: `POST /plugins/NAME/pause`, `/resume`,
//! `/rollback`, `/accept`.

mod guard;
mod lately;
mod serving;
pub mod socket;

use std::io;
use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use anyhow::Context;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{from_fn, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use pilothouse_core::{CommandError, CommandVerb};
use pilothouse_wasm::Engine;
use serde::Serialize;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

use crate::address::Address;
use crate::hosts::Standing;
use crate::metrics::{Format, Metrics};
use crate::plugins::commands::Commands;
use crate::status::StatusSources;
use guard::{Guard, guard};
use lately::Lately;

/// The `Server` header of every answer. A client that does not find it has asked another program,
/// at a wrong address.
pub const SERVER: &str = concat!("pilothouse/", env!("CARGO_PKG_VERSION"));

/// The most threads that wait for the hub, or for an answer that is being made.
const WAITING: usize = 32;

/// The query of a command that applies only to the file with this digest begins with this.
pub const DIGEST: &str = "sha256=";

/// The parts of the host that requests are answered from.
#[derive(Clone)]
pub struct HttpState {
    engine: Engine,
    sources: StatusSources,
    metrics: Arc<Metrics>,
    commands: Commands,
    last: Arc<Last>,
}

/// The last answers to frequent requests.
#[derive(Default)]
struct Last {
    readiness: Lately<(bool, String)>,
    plugins: Lately<Bytes>,
    informers: Lately<Bytes>,
    open_metrics: Lately<Result<String, std::fmt::Error>>,
    classic_metrics: Lately<Result<String, std::fmt::Error>>,
}

impl HttpState {
    pub fn new(
        engine: Engine,
        sources: StatusSources,
        metrics: Arc<Metrics>,
        commands: Commands,
    ) -> Self {
        Self {
            engine,
            sources,
            metrics,
            commands,
            last: Arc::default(),
        }
    }

    /// Makes an answer or repeats the last one. Runs on a blocking thread, so that a wait for the
    /// hub does not delay other requests.
    async fn made<T: Clone + Send + 'static>(
        self,
        last: impl FnOnce(&Last) -> &Lately<T> + Send + 'static,
        make: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> T {
        let answer = spawn_blocking(move || {
            let clock = || self.sources.shared.now();
            last(&self.last).answer(clock, || make(&self))
        });
        match answer.await {
            Ok(answer) => answer,
            Err(error) => resume_unwind(error.into_panic()),
        }
    }
}

/// The HTTP server; it answers until it is dropped. It has a thread of its own, so that `/healthz`
/// can report it if all other threads wait for the hub.
pub struct Server {
    /// Ends the thread when it is dropped.
    _stop: oneshot::Sender<()>,
    ended: oneshot::Receiver<()>,
}

impl Server {
    /// Answers requests at an address, and takes commands at the socket if there is one. `said` is
    /// the address as the operator wrote it; `allowed` are further host names that a request may
    /// use.
    pub fn start(
        listener: TcpListener,
        said: &Address,
        allowed: &[String],
        commands: Option<UnixListener>,
        answers: HttpState,
    ) -> io::Result<Self> {
        let own = Guard::of(listener.local_addr()?, &said.host(), allowed);
        // A listener belongs to the runtime that opened it. These are moved to the thread's own
        // runtime.
        let listener = listener.into_std()?;
        let commands = commands.map(UnixListener::into_std).transpose()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(WAITING)
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        thread::Builder::new().name("http".into()).spawn(move || {
            // Dropped however the thread ends.
            let _end: oneshot::Sender<()> = end;
            let result: io::Result<()> = runtime.block_on(async {
                let listener = TcpListener::from_std(listener)?;
                let commands = commands.map(UnixListener::from_std).transpose()?;
                tokio::select! {
                    () = serve(listener, own, answers.clone()) => {}
                    () = obey(commands, answers) => {}
                    _ = stopped => {}
                }
                Ok(())
            });
            if let Err(error) = result {
                tracing::error!(%error, "cannot answer requests");
            }
            // A thread may still be waiting for the hub.
            runtime.shutdown_background();
        })?;
        Ok(Self { _stop: stop, ended })
    }

    /// Waits until the server ends, which happens only by a fault.
    pub async fn failed(&mut self) -> anyhow::Error {
        let _ = (&mut self.ended).await;
        anyhow::anyhow!("the HTTP server has ended; see above")
    }
}

/// Binds the address. This is done before anything else starts, so that an address already in use
/// is reported at once.
pub async fn bind(address: &Address) -> anyhow::Result<TcpListener> {
    let bound = async {
        let places = address.places_to_listen().await?;
        TcpListener::bind(&places[..]).await
    };
    bound.await.with_context(|| {
        format!("cannot listen on {address}; choose another address with --listen")
    })
}

/// Answers requests at the address.
async fn serve(listener: TcpListener, own: Guard, answers: HttpState) {
    let router = routes()
        .route("/plugins/{name}/{verb}", post(no_command))
        .layer(from_fn(move |request, next| {
            guard(own.clone(), request, next)
        }))
        .layer(map_response(named))
        .with_state(answers);
    let peer = |address: &SocketAddr| Some(address.ip());
    serving::serve(listener, router, peer).await;
}

/// Answers requests at the host's socket, and carries out their commands.
async fn obey(listener: Option<UnixListener>, answers: HttpState) {
    let Some(listener) = listener else {
        return std::future::pending().await;
    };
    let router = routes()
        .route("/plugins/{name}/{verb}", post(command))
        .layer(map_response(named))
        .with_state(answers);
    serving::serve(listener, router, |_| None).await;
}

fn routes() -> Router<HttpState> {
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

/// Healthy if the process answers, guests that run too long are still being stopped, the hub is not
/// stuck, and a leader that cannot renew has stopped.
async fn healthz(State(answers): State<HttpState>) -> Response {
    let ticker = "the epoch ticker has ended: timeouts are not kept";
    let ticker = (!answers.engine.is_ticking()).then(|| ticker.to_owned());
    let stuck = ticker.or_else(|| answers.sources.shared.stuck());
    let standing = answers.sources.standing.as_ref();
    match stuck.or_else(|| standing?.overdue()) {
        None => "ok".into_response(),
        Some(reason) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{reason}\n")).into_response(),
    }
}

async fn readyz(State(answers): State<HttpState>, RawQuery(query): RawQuery) -> Response {
    let standing = answers.sources.standing.as_ref();
    let why_idle = standing.and_then(Standing::why_idle);
    let readiness = answers.made(
        |last| &last.readiness,
        |answers| answers.sources.readiness(),
    );
    let (is_ready, text) = readiness.await;
    let is_verbose = query.is_some_and(|query| {
        query
            .split('&')
            .any(|part| part == "verbose" || part.starts_with("verbose="))
    });
    match (is_ready, is_verbose) {
        (true, false) => match why_idle {
            None => "ok".into_response(),
            Some(reason) => format!("ok: standby, {reason}\n").into_response(),
        },
        (true, true) => text.into_response(),
        (false, _) => (StatusCode::SERVICE_UNAVAILABLE, text).into_response(),
    }
}

async fn metrics(State(answers): State<HttpState>, headers: HeaderMap) -> Response {
    let accept = headers.get_all(header::ACCEPT).iter();
    let accept: Vec<&str> = accept.filter_map(|value| value.to_str().ok()).collect();
    let format = Format::accepted(&accept.join(","));
    let text = answers.made(
        move |last| match format {
            Format::OpenMetrics => &last.open_metrics,
            Format::Classic => &last.classic_metrics,
        },
        move |answers| answers.metrics.text(format),
    );
    match text.await {
        Ok(text) => ([(header::CONTENT_TYPE, format.content_type())], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn informers(State(answers): State<HttpState>) -> Response {
    let text = answers.made(
        |last| &last.informers,
        |answers| json(&answers.sources.informers()),
    );
    as_json(text.await)
}

async fn plugins(State(answers): State<HttpState>) -> Response {
    let text = answers.made(
        |last| &last.plugins,
        |answers| json(&answers.sources.plugins()),
    );
    as_json(text.await)
}

fn json(value: &impl Serialize) -> Bytes {
    // Cannot fail: there are only strings and numbers, with strings as keys.
    serde_json::to_vec(value).unwrap_or_default().into()
}

fn as_json(text: Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// Refuses a command, because a request at an address does not prove who sent it.
async fn no_command() -> Response {
    let text = "commands are taken at the host's own socket alone: use pilothouse pause, resume, rollback or accept where the host runs (in a cluster by kubectl exec)\n";
    (StatusCode::FORBIDDEN, text).into_response()
}

async fn command(
    State(answers): State<HttpState>,
    Path((name, word)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Response {
    let Some(verb) = CommandVerb::of(&word) else {
        let text = format!("no command {word:?}; there are pause, resume, rollback and accept\n");
        return (StatusCode::NOT_FOUND, text).into_response();
    };
    let digest = query
        .as_deref()
        .and_then(|query| query.strip_prefix(DIGEST));
    let digest = digest.map(str::to_owned);
    let done = answers.commands.give(name, verb, digest).await;
    let Last {
        readiness, plugins, ..
    } = &*answers.last;
    readiness.forget();
    plugins.forget();
    match done {
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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use pilothouse_wasm::EngineOptions;

    use super::*;
    use crate::informers::WatchErrors;
    use crate::plugins::commands;
    use crate::reach::Reaching;
    use crate::shared::{Cause, Shared};

    fn ask(place: SocketAddr, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(place).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    fn answer(mut stream: TcpStream) -> String {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[tokio::test]
    async fn the_host_says_that_it_lives_while_all_others_wait_for_the_hub() {
        let shared = Arc::new(Shared::new(1));
        let (_reaching, server) = Reaching::new();
        let watch_errors = WatchErrors::default();
        let metrics = Metrics::new(shared.clone(), watch_errors.clone(), "server");
        let sources = StatusSources {
            shared: shared.clone(),
            roster: Arc::default(),
            watch_errors,
            server,
            standing: None,
        };
        let engine = Engine::new(&EngineOptions::default()).unwrap();
        let (commands, _given) = commands::channel();
        let answers = HttpState::new(engine, sources, Arc::new(metrics), commands);
        let address = Address::to_listen("127.0.0.1:0").unwrap();
        let listener = bind(&address).await.unwrap();
        let place = listener.local_addr().unwrap();
        let _server = Server::start(listener, &address, &[], None, answers).unwrap();
        // The only thread of this runtime holds the hub, and does nothing else.
        let waiting = shared.read(Cause::Status, |_| {
            let waiting = ["/readyz", "/plugins", "/metrics"].map(|path| ask(place, path));
            let alive = answer(ask(place, "/healthz"));
            assert!(alive.ends_with("ok"), "{alive}");
            waiting
        });
        for stream in waiting {
            assert!(answer(stream).starts_with("HTTP/1.1 "));
        }
    }
}
