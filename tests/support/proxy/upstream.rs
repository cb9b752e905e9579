//! Connections to the real server.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context, Result};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use kube::client::ConfigExt;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

pub(super) struct Upstream {
    host: String,
    /// A test may choose another port.
    port: AtomicU16,
    /// `None` for `http`.
    tls: Option<TlsConnector>,
}

/// A sender of requests, and the future that must be polled for it to make progress.
pub(super) type Connection = (SendRequest<Full<Bytes>>, BoxFuture<'static, ()>);

impl Upstream {
    pub(super) async fn of(kubeconfig: Kubeconfig) -> Result<Self> {
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        let url = &config.cluster_url;
        let is_plain = url.scheme_str() == Some("http");
        let tls = if is_plain {
            None
        } else {
            let mut tls = config.rustls_client_config()?;
            tls.alpn_protocols = vec![b"http/1.1".to_vec()];
            Some(TlsConnector::from(Arc::new(tls)))
        };
        Ok(Self {
            host: url.host().context("a server without a host")?.to_owned(),
            port: AtomicU16::new(url.port_u16().unwrap_or(if is_plain { 80 } else { 443 })),
            tls,
        })
    }

    /// Sets the port for new connections.
    pub(super) fn set_port(&self, port: u16) {
        self.port.store(port, Ordering::Relaxed);
    }

    pub(super) async fn connect(&self) -> Result<Connection> {
        let port = self.port.load(Ordering::Relaxed);
        let stream = TcpStream::connect((self.host.as_str(), port)).await?;
        stream.set_nodelay(true)?;
        match &self.tls {
            None => handshake(stream).await,
            Some(tls) => {
                let name = ServerName::try_from(self.host.clone()).map_err(io::Error::other)?;
                handshake(tls.connect(name, stream).await?).await
            }
        }
    }
}

async fn handshake(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> Result<Connection> {
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // The error is dropped here: requests that wait for an answer fail.
    Ok((sender, connection.map(drop).boxed()))
}
