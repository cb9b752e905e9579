//! A real API server for one test.
//!
//! By default it is the one in `tests/apiserver`. With `KUBEBUILDER_ASSETS` it is the `etcd` and
//! `kube-apiserver` in that directory (envtest's convention), with `PILOTHOUSE_TEST_KUBECONFIG` a
//! cluster that is already running.

mod envtest;
mod own;
mod writes;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use http::Method;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::Api;
use own::Own;
pub use own::Snapshot;
pub use writes::ServerWrite;

/// How the server is started. Only our own server honours these options.
#[derive(Clone, Debug, Default)]
pub struct ServerOptions {
    /// Checks permissions by RBAC rules. Otherwise every user with a token may do everything.
    pub rbac: bool,
    /// Further users: `TOKEN=USER[,GROUP...]`.
    pub tokens: Vec<String>,
    /// Sends every list and watch to etcd, where a compaction takes effect at once.
    pub no_watch_cache: bool,
    /// Has etcd tell watches every five seconds how far it is, as kubeadm does. Otherwise the
    /// bookmarks of a kind stay where they are while nothing of that kind changes.
    pub tells_progress: bool,
    /// Keeps a journal of who has changed what ([`Server::writes`]).
    pub records_writes: bool,
    /// Sends those who ask for objects of some namespaces only these (KEP-5866). Otherwise it sends
    /// all.
    pub selects_shards: bool,
}

pub struct Server {
    backend: Backend,
    kubeconfig: PathBuf,
    pub api: Api,
}

/// The server. Its processes end when this value is dropped.
enum Backend {
    /// `tests/apiserver`.
    Own(Own),
    /// The binaries of `KUBEBUILDER_ASSETS`.
    Envtest {
        etcd: Child,
        apiserver: Child,
        _directory: TempDir,
    },
    /// `PILOTHOUSE_TEST_KUBECONFIG`.
    Cluster,
}

impl Server {
    /// Starts a server with default options.
    pub async fn start() -> Result<Self> {
        Self::start_with(ServerOptions::default()).await
    }

    pub async fn start_with(options: ServerOptions) -> Result<Self> {
        if let Ok(kubeconfig) = std::env::var("PILOTHOUSE_TEST_KUBECONFIG") {
            Self::ready(Backend::Cluster, PathBuf::from(kubeconfig)).await
        } else if let Ok(assets) = std::env::var("KUBEBUILDER_ASSETS") {
            let (backend, kubeconfig) = envtest::start(Path::new(&assets)).await?;
            Self::ready(backend, kubeconfig).await
        } else {
            Self::start_own(options).await
        }
    }

    /// Starts the one in `tests/apiserver`, whatever the environment says: it can be stopped and
    /// compacted.
    pub async fn start_own(options: ServerOptions) -> Result<Self> {
        let own = Own::start(options).await?;
        let kubeconfig = own.kubeconfig();
        Self::ready(Backend::Own(own), kubeconfig).await
    }

    async fn ready(backend: Backend, kubeconfig: PathBuf) -> Result<Self> {
        let api = Api::new(client(&kubeconfig).await?);
        wait_until_ready(&api).await?;
        Ok(Self {
            backend,
            kubeconfig,
            api,
        })
    }

    /// Ends the server's processes and waits until they have ended. Dropping the server kills them.
    pub async fn stop(self) -> Result<()> {
        match self.backend {
            Backend::Own(mut own) => own.end().await,
            Backend::Envtest {
                mut etcd,
                mut apiserver,
                ..
            } => {
                end(&mut apiserver).await?;
                end(&mut etcd).await
            }
            Backend::Cluster => Ok(()),
        }
    }

    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns whether this is the server in `tests/apiserver`, whose requests can be counted and
    /// whose permissions can be chosen.
    pub fn is_own(&self) -> bool {
        matches!(self.backend, Backend::Own(_))
    }

    /// Writes a kubeconfig for another user of the server.
    pub fn kubeconfig_for(&self, token: &str) -> Result<PathBuf> {
        let text = std::fs::read_to_string(&self.kubeconfig)?;
        let mut config: Kubeconfig = Kubeconfig::from_yaml(&text)?;
        for user in &mut config.auth_infos {
            let info = user.auth_info.get_or_insert_default();
            info.token = Some(token.to_owned().into());
        }
        let path = self.own()?.path(&format!("kubeconfig-{token}"));
        std::fs::write(&path, serde_json::to_string(&config)?)?;
        Ok(path)
    }

    /// Stops the process as SIGSTOP does: connections stay open, and nothing answers. This and the
    /// methods up to [`Server::of_the_past`] work with our own server only.
    pub async fn pause(&self) -> Result<()> {
        self.own()?.signal("STOP").await
    }

    /// Ends [`Server::pause`].
    pub async fn resume(&self) -> Result<()> {
        self.own()?.signal("CONT").await
    }

    /// Kills the process, as `kill -9` does. No other program gets its port.
    pub async fn kill(&mut self) -> Result<()> {
        self.own_mut()?.kill().await
    }

    /// Starts the server after [`Server::kill`], on the same data and the same port.
    pub async fn start_again(&mut self) -> Result<()> {
        self.own_mut()?.spawn()?;
        wait_until_ready(&self.api).await
    }

    /// Ends the server, copies its data and starts it again.
    pub async fn save(&mut self) -> Result<Snapshot> {
        let own = self.own_mut()?;
        own.end().await?;
        let snapshot = own.save()?;
        self.start_again().await?;
        Ok(snapshot)
    }

    /// Restarts the server with earlier data, as if etcd was restored from a backup:
    /// resourceVersions go back.
    pub async fn restore(&mut self, snapshot: &Snapshot) -> Result<()> {
        let own = self.own_mut()?;
        own.end().await?;
        own.restore(snapshot)?;
        self.start_again().await
    }

    /// Starts another server with the same users and certificate and with this earlier data.
    pub async fn of_the_past(snapshot: &Snapshot) -> Result<Self> {
        let own = Own::start_from(snapshot, ServerOptions::default()).await?;
        let kubeconfig = own.kubeconfig();
        Self::ready(Backend::Own(own), kubeconfig).await
    }

    /// The server's port on 127.0.0.1.
    pub(crate) fn port(&self) -> Result<u16> {
        Ok(self.own()?.port())
    }

    fn own(&self) -> Result<&Own> {
        match &self.backend {
            Backend::Own(own) => Ok(own),
            _ => bail!("only our own server can do that"),
        }
    }

    fn own_mut(&mut self) -> Result<&mut Own> {
        match &mut self.backend {
            Backend::Own(own) => Ok(own),
            _ => bail!("only our own server can do that"),
        }
    }

    /// Compacts etcd: no resourceVersion handed out before can be watched from. Our own server
    /// only.
    pub async fn compact(&self) -> Result<()> {
        self.api
            .request_text(Method::POST, "/testing/compact")
            .await?;
        Ok(())
    }

    /// Returns how many watches of a resource (`pods`) are open now, from all clients.
    pub async fn open_watches(&self, resource: &str) -> Result<u64> {
        self.sum_of_requests("open", "watch", resource).await
    }

    /// Returns how many requests with this verb for this resource came since the start, from all
    /// clients.
    pub async fn requests(&self, verb: &str, resource: &str) -> Result<u64> {
        self.sum_of_requests("count", verb, resource).await
    }

    /// Returns the sum of one number in the server's records, over all clients and namespaces.
    async fn sum_of_requests(&self, number: &str, verb: &str, resource: &str) -> Result<u64> {
        let text = self
            .api
            .request_text(Method::GET, "/testing/requests")
            .await?;
        let answer: Value = serde_json::from_str(&text)?;
        let records = answer["requests"]
            .as_array()
            .context("no list of requests")?;
        let wanted = records
            .iter()
            .filter(|record| record["resource"] == resource && record["verb"] == verb);
        Ok(wanted.filter_map(|record| record[number].as_u64()).sum())
    }

    /// Returns the requests that may have changed something, without the first so many. Our own
    /// server only, with [`ServerOptions::records_writes`].
    pub async fn writes(&self, after: usize) -> Result<Vec<ServerWrite>> {
        let path = format!("/testing/writes?after={after}");
        let text = self.api.request_text(Method::GET, &path).await?;
        let mut answer: Value = serde_json::from_str(&text)?;
        Ok(serde_json::from_value(answer["writes"].take())?)
    }

    /// Creates a namespace for one test, so that tests can share a cluster.
    pub async fn namespace(&self) -> Result<String> {
        let object = serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "pilothouse-test-"}});
        let created = self.api.create("/api/v1/namespaces", &object).await?;
        let name = created["metadata"]["name"]
            .as_str()
            .context("a namespace without a name")?;
        Ok(name.to_owned())
    }
}

async fn client(kubeconfig: &Path) -> Result<kube::Client> {
    let config = Kubeconfig::read_from(kubeconfig)?;
    let config =
        kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    Ok(kube::Client::try_from(config)?)
}

async fn wait_until_ready(api: &Api) -> Result<()> {
    for _ in 0..600 {
        if api.request_text(Method::GET, "/readyz").await.is_ok()
            && api.get("/api/v1/namespaces/default").await?.is_some()
        {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("the API server does not get ready")
}

/// The process ends with the test. A Ctrl-C reaches only the test.
fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .process_group(0)
        .kill_on_drop(true);
    command
}

/// Sends SIGTERM and waits until the process has ended.
async fn end(child: &mut Child) -> Result<()> {
    if let Some(id) = child.id() {
        Command::new("kill")
            .arg("-TERM")
            .arg(id.to_string())
            .status()
            .await?;
    }
    child.wait().await?;
    Ok(())
}
