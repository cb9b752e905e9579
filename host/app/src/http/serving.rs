//! Answers connections: a few at a time, and none for long, so that whoever holds many keeps no
//! descriptor of the host's.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Answered at the same time. Others wait in the listener's queue.
const CONNECTIONS: usize = 64;
/// To send a request's head.
const HEAD: Duration = Duration::from_secs(5);
/// For a request and its answer. There is one on each connection.
const WHOLE: Duration = Duration::from_secs(30);

/// Never ends: what fails concerns one connection.
pub async fn serve(mut listener: impl Listener, router: Router) {
    let free = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // It is never closed.
        let permit = free.clone().acquire_owned().await;
        let (stream, _) = listener.accept().await;
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let _permit = permit;
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            let _ = timeout(WHOLE, connection).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_sends_nothing_is_let_go_and_keeps_nobody_waiting() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/healthz", get(async || "ok"));
        let server = tokio::spawn(serve(listener, router));
        let mut silent = Vec::new();
        for _ in 0..2 * CONNECTIONS {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
            .await
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"),
            "{answer}"
        );
        server.abort();
    }
}
