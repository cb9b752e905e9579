//! Makes a client from flags and environment, and checks that a Kubernetes API server answers it.
//!
//! The configuration is searched for in kubectl's order: an explicit file, `KUBECONFIG`,
//! `~/.kube/config`, the pod's service account. Every error is one line that names the file or the
//! server and the remedy.

mod error;
mod kubeconfig;
mod rightful;

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use kube::Config;
use kube::client::ClientBuilder;
use serde::Deserialize;

use crate::client::{Client, RequestError, WriteRight, one_line};
use crate::discovery::DiscoveryError;
pub use error::ConnectError;
use kubeconfig::configure;
pub use kubeconfig::{Environment, Options};

/// Time allowed for setting up a connection. Short, because a retry follows: after an outage, the
/// first attempt must not wait long for a packet that was lost while the server was down.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Largest answer to the question for the server's version, in bytes.
const MAX_ANSWER: usize = 1024 * 1024;

/// A client, and the server that it talks to.
#[derive(Clone)]
pub struct Connection {
    /// Sends the user agent `pilothouse/<version>`, and repeats only the requests for which the
    /// sender allows it.
    pub client: Client,
    /// The server's URL.
    pub server: String,
    /// The server's host and port, as in client-go's metrics.
    pub host: String,
    /// The namespace of the configuration: the pod's own, or that of the kubeconfig's context.
    pub namespace: String,
    /// Source of the configuration: the file, or "the pod's service account".
    pub origin: String,
    config: Config,
}

impl Connection {
    /// Makes a client and sends nothing yet. Must be called within a tokio runtime.
    pub async fn open(options: &Options, environment: &Environment) -> Result<Self, ConnectError> {
        let (config, origin) = configure(options, environment).await?;
        Self::with_config(config, origin)
    }

    fn with_config(mut config: Config, origin: String) -> Result<Self, ConnectError> {
        let namespace = config.default_namespace.clone();
        let server = config.cluster_url.to_string();
        let host = config.cluster_url.authority().map(ToString::to_string);
        // kube's own policy repeats any request after 429, 503 and 504, POST included: one create
        // with a generated name could make four objects. Here each request decides for itself, in
        // `watch` and `write`.
        config.default_retry = false;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.headers.push((
            http::header::USER_AGENT,
            HeaderValue::from_static(USER_AGENT),
        ));
        match ClientBuilder::try_from(config.clone()) {
            Ok(builder) => Ok(Self {
                client: builder.build().into(),
                host: host.unwrap_or_default(),
                namespace,
                server,
                origin,
                config,
            }),
            Err(error) => Err(ConnectError::Client {
                cause: one_line(&error),
                origin,
                server,
            }),
        }
    }

    /// From now on the client sends the writes of plugins only while this right lasts.
    ///
    /// They have connections of their own, unless the configuration names a proxy: then the right
    /// is looked at before a write is handed to the HTTP client, and not after that.
    pub fn limit_to(&mut self, right: &Arc<WriteRight>) -> Result<(), ConnectError> {
        let writer = rightful::client(&self.config, right.clone());
        let writer = writer.map_err(|error| ConnectError::Client {
            cause: one_line(&error),
            origin: self.origin.clone(),
            server: self.server.clone(),
        })?;
        self.client = self.client.clone().with_right(right.clone(), writer);
        Ok(())
    }

    /// Asks the server for its version, such as `v1.36.2`. Success means that the server is up and
    /// accepts the credentials. The result is "version unknown" if `/version` is forbidden.
    pub async fn check(&self, deadline: Duration) -> Result<String, ConnectError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Version {
            git_version: String,
        }
        let (server, origin) = (self.server.clone(), self.origin.clone());
        let request = http::Request::get("/version")
            .body(Vec::new())
            .expect("a constant path");
        match self.client.fetch_once(&request, deadline, MAX_ANSWER).await {
            Ok(body) => match serde_json::from_slice::<Version>(&body) {
                Ok(version) => Ok(version.git_version),
                Err(cause) => Err(ConnectError::NotKubernetes {
                    origin,
                    server,
                    cause: cause.to_string(),
                }),
            },
            Err(RequestError::Status(status)) if status.code == 401 => {
                Err(ConnectError::Unauthorized {
                    origin,
                    server,
                    message: status.to_string(),
                })
            }
            // Hardened clusters allow /version only to monitoring; a 403 proves that the server is
            // up.
            Err(RequestError::Status(status)) if status.code == 403 => {
                Ok("version unknown".to_owned())
            }
            Err(RequestError::Status(status)) if status.code == 429 || status.code >= 500 => {
                Err(ConnectError::NotReady {
                    origin,
                    server,
                    cause: status.to_string(),
                })
            }
            Err(RequestError::Status(status)) => Err(ConnectError::NotKubernetes {
                origin,
                server,
                cause: status.to_string(),
            }),
            Err(cause) => Err(ConnectError::Unreachable {
                origin,
                server,
                cause,
            }),
        }
    }
}

impl Connection {
    /// The error for a server that answers, but whose discovery fails with `cause`.
    pub fn not_ready(&self, cause: &DiscoveryError) -> ConnectError {
        ConnectError::NotReady {
            origin: self.origin.clone(),
            server: self.server.clone(),
            cause: cause.to_string(),
        }
    }
}

/// The user agent; flow control and audit identify the host by it.
const USER_AGENT: &str = concat!("pilothouse/", env!("CARGO_PKG_VERSION"));

#[cfg(test)]
mod tests;
