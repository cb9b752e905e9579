//! Connections that carry the writes of plugins, and nothing else: they send nothing once this host
//! has no right to write any more.
//!
//! A request that was handed to the HTTP client may wait there: for a connection, or because the
//! process is stopped at that moment. So the right is looked at once more where the bytes go to the
//! kernel, immediately before each system call.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::Config;
use kube::client::{Body, ConfigExt};
use tokio::net::TcpStream;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

use super::CONNECT_TIMEOUT;
use crate::client::WriteRight;

/// A client whose connections look at this right. As `kube::Client::try_from` makes one, but for
/// proxies: `None` if the configuration names one.
pub(super) fn client(
    config: &Config,
    right: Arc<WriteRight>,
) -> Result<Option<kube::Client>, kube::Error> {
    if config.proxy_url.is_some() {
        return Ok(None);
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let connector = RightfulConnector { tcp, right };
    let connector = config.rustls_https_connector_with_connector(connector)?;
    let http = HttpClient::builder(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http);
    let service: tower::util::BoxService<Request<Body>, Response<Incoming>, BoxError> =
        service.boxed();
    Ok(Some(kube::Client::new(
        service,
        config.default_namespace.clone(),
    )))
}

/// Opens the connections.
#[derive(Clone)]
struct RightfulConnector {
    tcp: HttpConnector,
    right: Arc<WriteRight>,
}

impl Service<Uri> for RightfulConnector {
    type Response = RightfulStream;
    type Error = <HttpConnector as Service<Uri>>::Error;
    type Future = BoxFuture<'static, Result<RightfulStream, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.tcp.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.tcp.call(uri);
        let right = self.right.clone();
        Box::pin(async move {
            let stream = connecting.await?;
            Ok(RightfulStream { stream, right })
        })
    }
}

/// A connection that can be written to only while the right lasts.
struct RightfulStream {
    stream: TokioIo<TcpStream>,
    right: Arc<WriteRight>,
}

impl RightfulStream {
    fn check(&self) -> io::Result<()> {
        match self.right.lasts() {
            true => Ok(()),
            false => Err(io::Error::other(
                "not sent: this host does not have the right to write any more",
            )),
        }
    }
}

impl Connection for RightfulStream {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}

impl Read for RightfulStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl Write for RightfulStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pilothouse_core::Time;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    fn configuration(address: &str) -> Config {
        let mut config = Config::new(format!("http://{address}").parse().unwrap());
        config.headers.push((
            http::header::USER_AGENT,
            http::HeaderValue::from_static("test"),
        ));
        config
    }

    fn post() -> Request<Body> {
        Request::post("/x")
            .body(Body::from(b"text".to_vec()))
            .unwrap()
    }

    /// Answers what comes, and tells how many bytes came on each connection.
    async fn serve(listener: TcpListener, seen: tokio::sync::mpsc::UnboundedSender<usize>) {
        while let Ok((mut stream, _)) = listener.accept().await {
            let seen = seen.clone();
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                let mut count = 0;
                while let Ok(read) = stream.read(&mut buffer).await {
                    count += read;
                    if read == 0 {
                        break;
                    }
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
                    stream.write_all(answer).await.ok();
                }
                seen.send(count).ok();
            });
        }
    }

    #[tokio::test]
    async fn a_request_that_waits_in_the_client_is_not_sent_once_the_right_is_over() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (tell, mut seen) = tokio::sync::mpsc::unbounded_channel();
        let server = tokio::spawn(serve(listener, tell));
        let right = Arc::new(WriteRight::none(Duration::ZERO, || Time::ZERO));
        right.set(Some(Duration::from_secs(1)));
        let client = client(&configuration(&address), right.clone())
            .unwrap()
            .unwrap();
        assert!(client.send(post()).await.is_ok());
        let waiting = client.send(post());
        right.set(None);
        let error = waiting.await.unwrap_err();
        let text = crate::client::one_line(&error);
        assert!(text.contains("does not have the right"), "{text}");
        drop(client);
        let count = seen.recv().await.unwrap();
        assert!(count < 300, "one request alone came, and not {count} bytes");
        server.abort();
    }
}
