//! Serves connections. The number per peer and the time per connection are limited, so that a
//! client that holds many neither uses up the host's descriptors nor delays a kubelet's probe.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Connections that are served at the same time. Others wait in the listener's queue.
const CONNECTIONS: usize = 256;
/// Connections of one peer. More are closed at once.
const OF_PEER: usize = 32;
/// The time limit for receiving a request's head.
const HEAD: Duration = Duration::from_secs(5);
/// The time limit for a request and its answer. Each connection serves one request.
const WHOLE: Duration = Duration::from_secs(30);

/// The number of connections of each peer.
type Peers = Arc<Mutex<HashMap<IpAddr, usize>>>;

/// One connection of a peer; counted until it is dropped.
struct Place {
    peers: Peers,
    peer: IpAddr,
}

impl Place {
    /// `None` if the peer has reached its limit.
    fn of(peers: &Peers, peer: IpAddr) -> Option<Self> {
        let mut counts = peers.lock();
        let count = counts.entry(peer).or_default();
        if *count == OF_PEER {
            return None;
        }
        *count += 1;
        let peers = peers.clone();
        Some(Self { peers, peer })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.peers.lock();
        if let Some(count) = counts.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.peer);
            }
        }
    }
}

/// Serves connections forever; an error concerns one connection only. `peer` returns who is at an
/// address, or `None` if that client's connections are not limited.
pub async fn serve<L: Listener>(
    mut listener: L,
    router: Router,
    peer: impl Fn(&L::Addr) -> Option<IpAddr>,
) {
    let free = Arc::new(Semaphore::new(CONNECTIONS));
    let peers = Peers::default();
    let mut connections = JoinSet::new();
    loop {
        // The semaphore is never closed.
        let permit = free.clone().acquire_owned().await;
        let (stream, address) = listener.accept().await;
        while connections.try_join_next().is_some() {}
        let place = peer(&address).map(|peer| Place::of(&peers, peer));
        if matches!(place, Some(None)) {
            continue;
        }
        let service = TowerToHyperService::new(router.clone());
        connections.spawn(async move {
            let _held = (permit, place);
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
    use std::net::SocketAddr;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpSocket, TcpStream};

    use super::*;

    async fn server() -> (SocketAddr, tokio::task::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/healthz", get(async || "ok"));
        let peer = |address: &SocketAddr| Some(address.ip());
        (address, tokio::spawn(serve(listener, router, peer)))
    }

    async fn ask(mut stream: TcpStream) -> String {
        let request = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
        let mut answer = String::new();
        let _ = stream.write_all(request).await;
        let _ = stream.read_to_string(&mut answer).await;
        answer
    }

    #[tokio::test(start_paused = true)]
    async fn who_sends_nothing_is_let_go() {
        let (address, server) = server().await;
        let mut silent = TcpStream::connect(address).await.unwrap();
        assert_eq!(silent.read(&mut [0]).await.unwrap(), 0, "it is closed");
        let answer = ask(TcpStream::connect(address).await.unwrap()).await;
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"),
            "{answer}"
        );
        server.abort();
    }

    #[tokio::test]
    async fn a_peer_that_holds_many_connections_keeps_no_other_waiting() {
        let (address, server) = server().await;
        let mut held = Vec::new();
        for _ in 0..2 * CONNECTIONS {
            held.push(TcpStream::connect(address).await.unwrap());
        }
        let other = TcpSocket::new_v4().unwrap();
        other.bind("127.0.0.2:0".parse().unwrap()).unwrap();
        let answer = ask(other.connect(address).await.unwrap()).await;
        assert!(answer.ends_with("ok"), "{answer}");
        server.abort();
    }
}
