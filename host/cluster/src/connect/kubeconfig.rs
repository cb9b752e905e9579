//! Chooses the cluster and the credentials, from kubeconfig files or from a pod's service account.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

use super::error::ConnectError;
use pilothouse_core::text::cut_line;

/// The flags that choose the cluster.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Use this file and no other.
    pub kubeconfig: Option<PathBuf>,
    /// Use this context instead of the current one.
    pub context: Option<String>,
}

/// The part of the process environment that chooses the cluster.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `KUBECONFIG`: a list of files.
    pub kubeconfig: Option<OsString>,
    /// The home directory.
    pub home: Option<PathBuf>,
    /// True if `KUBERNETES_SERVICE_HOST` is set, as it is in a pod.
    pub is_in_cluster: bool,
}

impl Environment {
    /// The environment of this process.
    pub fn of_process() -> Self {
        Self {
            kubeconfig: std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty()),
            home: std::env::home_dir(),
            is_in_cluster: std::env::var_os("KUBERNETES_SERVICE_HOST").is_some(),
        }
    }
}

/// The configuration, and a name for its source.
pub(super) async fn configure(
    options: &Options,
    environment: &Environment,
) -> Result<(Config, String), ConnectError> {
    let default = environment
        .home
        .as_ref()
        .map(|home| home.join(".kube/config"));
    if let Some(path) = &options.kubeconfig {
        return from_files(std::slice::from_ref(path), "named by a flag", options).await;
    }
    if let Some(list) = &environment.kubeconfig {
        let files: Vec<PathBuf> = std::env::split_paths(list)
            .filter(|path| !path.as_os_str().is_empty())
            .collect();
        if !files.is_empty() {
            return from_files(&files, "named by KUBECONFIG", options).await;
        }
    }
    if let Some(path) = default.as_ref().filter(|path| path.exists()) {
        return from_files(std::slice::from_ref(path), "the default", options).await;
    }
    if environment.is_in_cluster {
        let config = Config::incluster().map_err(ConnectError::InCluster)?;
        return Ok((config, "the pod's service account".to_owned()));
    }
    let default = default.map_or_else(
        || "~/.kube/config".to_owned(),
        |path| path.display().to_string(),
    );
    Err(ConnectError::NoConfiguration { default })
}

/// Reads and merges the files as kubectl does. A missing file is ignored if another one exists.
async fn from_files(
    files: &[PathBuf],
    origin: &'static str,
    options: &Options,
) -> Result<(Config, String), ConnectError> {
    let there: Vec<&PathBuf> = files.iter().filter(|path| path.exists()).collect();
    if there.is_empty() {
        let path = files.first().cloned().unwrap_or_default();
        return Err(ConnectError::Missing { path, origin });
    }
    let mut joined = Kubeconfig::default();
    for path in &there {
        let next = Kubeconfig::read_from(path).map_err(|error| unusable(path, error))?;
        joined = joined.merge(next).map_err(|error| unusable(path, error))?;
    }
    let names: Vec<String> = there
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let file = names.join(", ");
    let context = choose_context(&joined, &file, options)?;
    let options = KubeConfigOptions {
        context: Some(context.clone()),
        ..KubeConfigOptions::default()
    };
    match Config::from_custom_kubeconfig(joined, &options).await {
        Ok(config) => Ok((config, file)),
        Err(error) => Err(ConnectError::Context {
            file,
            context,
            cause: cut_line(&error.to_string(), 500),
        }),
    }
}

fn unusable(path: &Path, error: KubeconfigError) -> ConnectError {
    let path = path.to_owned();
    match error {
        KubeconfigError::ReadConfig(source, _) => ConnectError::Unreadable { path, source },
        // The YAML parser's message continues with an excerpt of the file over many lines: drop it.
        error => ConnectError::Broken {
            path,
            cause: cut_line(error.to_string().lines().next().unwrap_or_default(), 300),
        },
    }
}

fn choose_context(
    kubeconfig: &Kubeconfig,
    file: &str,
    options: &Options,
) -> Result<String, ConnectError> {
    let names: Vec<&str> = kubeconfig
        .contexts
        .iter()
        .map(|context| &*context.name)
        .collect();
    let known = || {
        if names.is_empty() {
            "none (the file has no contexts)".to_owned()
        } else {
            names.join(", ")
        }
    };
    let chosen = options
        .context
        .as_ref()
        .or(kubeconfig.current_context.as_ref())
        .filter(|name| !name.is_empty());
    let Some(context) = chosen else {
        return Err(ConnectError::NoContext {
            file: file.to_owned(),
            known: known(),
        });
    };
    if !names.contains(&&**context) {
        return Err(ConnectError::UnknownContext {
            file: file.to_owned(),
            context: context.clone(),
            known: known(),
        });
    }
    Ok(context.clone())
}
