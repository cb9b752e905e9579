//! From flags and environment to a client, and to the certainty that a Kubernetes API server answers it.
//!
//! The order is kubectl's: an explicit file, `KUBECONFIG`, `~/.kube/config`, the pod's service account. Every error is one line
//! that names the file or the server and what to do about it.

mod kubeconfig;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use http::HeaderValue;
use kube::Config;
use kube::client::ClientBuilder;
use kube::config::InClusterError;
use serde::Deserialize;

use crate::client::Client;
use crate::discovery::DiscoveryError;
use crate::request::{RequestError, fetch, one_line};
use kubeconfig::configure;

/// A connection that takes longer is given up. Short, because a retry follows: after an outage the first one should not be spent
/// waiting for a packet that was lost while the server was gone.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Where to connect to, as flags say it.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// This file and no other.
    pub kubeconfig: Option<PathBuf>,
    /// This context instead of the current one.
    pub context: Option<String>,
}

/// What the process environment says.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `KUBECONFIG`: a list of files.
    pub kubeconfig: Option<OsString>,
    /// The home directory.
    pub home: Option<PathBuf>,
    /// Whether `KUBERNETES_SERVICE_HOST` is set, as it is in a pod.
    pub is_in_cluster: bool,
}

impl Environment {
    /// This process's.
    pub fn of_process() -> Self {
        Self {
            kubeconfig: std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty()),
            home: std::env::home_dir(),
            is_in_cluster: std::env::var_os("KUBERNETES_SERVICE_HOST").is_some(),
        }
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The file is not there.
    #[error("kubeconfig {} ({origin}) does not exist: correct the path or create the file", .path.display())]
    Missing { path: PathBuf, origin: &'static str },
    /// The file cannot be read.
    #[error("kubeconfig {} cannot be read: {source}: check its permissions", .path.display())]
    Unreadable {
        path: PathBuf,
        source: std::io::Error,
    },
    /// The file is not YAML, or not a kubeconfig.
    #[error("kubeconfig {} is not valid: {cause}: correct the file", .path.display())]
    Broken { path: PathBuf, cause: String },
    /// There is no such context.
    #[error("kubeconfig {file} has no context {context:?}: choose one of {known}")]
    UnknownContext {
        file: String,
        context: String,
        known: String,
    },
    /// None was chosen.
    #[error("kubeconfig {file} has no current context: set one, or choose one of {known}")]
    NoContext { file: String, known: String },
    /// What the context refers to is missing or cannot be read.
    #[error("kubeconfig {file}, context {context:?}: {cause}: correct the file")]
    Context {
        file: String,
        context: String,
        cause: String,
    },
    /// No configuration anywhere.
    #[error(
        "no cluster configuration found: pass a kubeconfig file, set KUBECONFIG, create {default}, or run in a pod with a service account"
    )]
    NoConfiguration { default: String },
    /// In a pod, but its service account cannot be used.
    #[error(
        "in-cluster configuration cannot be used: {0}: check that the pod's service account token is mounted"
    )]
    InCluster(#[source] InClusterError),
    /// TLS or credentials cannot be set up.
    #[error("{origin}: no client can be made for {server}: {cause}")]
    Client {
        origin: String,
        server: String,
        cause: String,
    },
    /// Nobody answers.
    #[error(
        "API server {server} (from {origin}) cannot be reached: {cause}: check that it runs, its address and its certificate authority"
    )]
    Unreachable {
        origin: String,
        server: String,
        cause: RequestError,
    },
    /// It answers, and cannot serve yet.
    #[error("API server {server} (from {origin}) is not ready: {cause}")]
    NotReady {
        origin: String,
        server: String,
        cause: String,
    },
    /// 401.
    #[error(
        "API server {server} refuses the credentials in {origin} (401): renew the token or certificate ({message})"
    )]
    Unauthorized {
        origin: String,
        server: String,
        message: String,
    },
    /// Something answers, but not with a Kubernetes version.
    #[error(
        "{server} (from {origin}) does not answer like a Kubernetes API server: {cause}: check the address"
    )]
    NotKubernetes {
        origin: String,
        server: String,
        cause: String,
    },
}

impl ConnectError {
    /// 401.
    pub fn is_of_credentials(&self) -> bool {
        matches!(self, Self::Unauthorized { .. })
    }
}

/// A client, and where it leads.
#[derive(Clone)]
pub struct Connection {
    /// Sends as `pilothouse/<version>`, and nothing twice that it was not told to.
    pub client: Client,
    /// The server's URL.
    pub server: String,
    /// Its host and port, as client-go's metrics name it.
    pub host: String,
    /// Where that was found: the file, or "the pod's service account".
    pub origin: String,
}

impl Connection {
    /// Makes a client; nothing is sent yet. Must be called within a tokio runtime.
    pub async fn open(options: &Options, environment: &Environment) -> Result<Self, ConnectError> {
        let (config, origin) = configure(options, environment).await?;
        Self::with_config(config, origin)
    }

    fn with_config(mut config: Config, origin: String) -> Result<Self, ConnectError> {
        let server = config.cluster_url.to_string();
        let host = config.cluster_url.authority().map(ToString::to_string);
        // kube's policy repeats any request after 429, 503 and 504, POST included: four objects for one create with a
        // generated name. What may be repeated is decided per request, in `watch` and `write`.
        config.default_retry = false;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.headers.push((
            http::header::USER_AGENT,
            HeaderValue::from_static(USER_AGENT),
        ));
        match ClientBuilder::try_from(config) {
            Ok(builder) => Ok(Self {
                client: builder.build().into(),
                host: host.unwrap_or_default(),
                server,
                origin,
            }),
            Err(error) => Err(ConnectError::Client {
                cause: one_line(&error),
                origin,
                server,
            }),
        }
    }

    /// Asks the server for its version, `v1.36.2`: it is there, and knows us.
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
        match fetch(&self.client, request, deadline, 1024 * 1024).await {
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
            // Hardened clusters close /version to all but monitoring; that is an answer too.
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
    /// The server answers, but does not say which kinds there are.
    pub fn not_ready(&self, cause: &DiscoveryError) -> ConnectError {
        ConnectError::NotReady {
            origin: self.origin.clone(),
            server: self.server.clone(),
            cause: cause.to_string(),
        }
    }
}

/// Who we are to the server: flow control and audit go by it.
const USER_AGENT: &str = concat!("pilothouse/", env!("CARGO_PKG_VERSION"));

#[cfg(test)]
#[path = "connect_tests.rs"]
mod tests;
