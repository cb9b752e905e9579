//! Why there is no connection: one line that names the file or the server, and the remedy.

use std::path::PathBuf;

use kube::config::InClusterError;

use crate::client::RequestError;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The file does not exist.
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
    /// The file has no context of this name.
    #[error("kubeconfig {file} has no context {context:?}: choose one of {known}")]
    UnknownContext {
        file: String,
        context: String,
        known: String,
    },
    /// The file has no current context, and no context was chosen.
    #[error("kubeconfig {file} has no current context: set one, or choose one of {known}")]
    NoContext { file: String, known: String },
    /// A file or credential that the context refers to is missing or cannot be read.
    #[error("kubeconfig {file}, context {context:?}: {cause}: correct the file")]
    Context {
        file: String,
        context: String,
        cause: String,
    },
    /// No configuration was found anywhere.
    #[error(
        "no cluster configuration found: pass a kubeconfig file, set KUBECONFIG, create {default}, or run in a pod with a service account"
    )]
    NoConfiguration { default: String },
    /// The process is in a pod, but its service account cannot be used.
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
    /// The server gives no answer.
    #[error(
        "API server {server} (from {origin}) cannot be reached: {cause}: check that it runs, its address and its certificate authority"
    )]
    Unreachable {
        origin: String,
        server: String,
        cause: RequestError,
    },
    /// The server answers, but cannot serve yet.
    #[error("API server {server} (from {origin}) is not ready: {cause}")]
    NotReady {
        origin: String,
        server: String,
        cause: String,
    },
    /// The server answers 401.
    #[error(
        "API server {server} refuses the credentials in {origin} (401): renew the token or certificate ({message})"
    )]
    Unauthorized {
        origin: String,
        server: String,
        message: String,
    },
    /// The server answers, but not with a Kubernetes version.
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
    /// True if the server refuses the credentials (401).
    pub fn is_of_credentials(&self) -> bool {
        matches!(self, Self::Unauthorized { .. })
    }
}
