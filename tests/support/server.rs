//! A real API server for one test.
//!
//! By default the one in `tests/apiserver`. With `KUBEBUILDER_ASSETS` the `etcd` and `kube-apiserver` found there (envtest's
//! convention), with `PILOTHOUSE_TEST_KUBECONFIG` a cluster that is already running.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use http::Method;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::Api;

/// What the server is started with.
#[derive(Clone, Debug, Default)]
pub struct ServerOptions {
    /// Check permissions by RBAC rules. Otherwise whoever has a token may do everything.
    pub rbac: bool,
    /// Further users: `TOKEN=USER[,GROUP...]`.
    pub tokens: Vec<String>,
    /// Every list and watch goes to etcd, where a compaction is felt at once.
    pub no_watch_cache: bool,
}

pub struct Server {
    backend: Backend,
    kubeconfig: PathBuf,
    pub api: Api,
}

/// Who serves. Processes end with the value.
enum Backend {
    /// `tests/apiserver`.
    Own { child: Child, directory: TempDir },
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
    /// A server with default options.
    pub async fn start() -> Result<Self> {
        Self::start_with(ServerOptions::default()).await
    }

    pub async fn start_with(options: ServerOptions) -> Result<Self> {
        let (backend, kubeconfig) =
            if let Ok(kubeconfig) = std::env::var("PILOTHOUSE_TEST_KUBECONFIG") {
                (Backend::Cluster, PathBuf::from(kubeconfig))
            } else if let Ok(assets) = std::env::var("KUBEBUILDER_ASSETS") {
                envtest(Path::new(&assets)).await?
            } else {
                own(tempfile::tempdir()?, options).await?
            };
        let api = Api::new(client(&kubeconfig).await?);
        wait_until_ready(&api).await?;
        Ok(Self {
            backend,
            kubeconfig,
            api,
        })
    }

    /// Ends the server's processes and waits for their end. Dropping the server kills them.
    pub async fn stop(self) -> Result<()> {
        match self.backend {
            Backend::Own { mut child, .. } => end(&mut child).await,
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

    /// Whether requests can be counted and permissions be chosen: not on a cluster that is not ours.
    pub fn is_own(&self) -> bool {
        matches!(self.backend, Backend::Own { .. })
    }

    /// A kubeconfig for another user of the server.
    pub fn kubeconfig_for(&self, token: &str) -> Result<PathBuf> {
        let text = std::fs::read_to_string(&self.kubeconfig)?;
        let mut config: Kubeconfig = Kubeconfig::from_yaml(&text)?;
        for user in &mut config.auth_infos {
            let info = user.auth_info.get_or_insert_default();
            info.token = Some(token.to_owned().into());
        }
        let Backend::Own { directory, .. } = &self.backend else {
            bail!("only our own server has further users");
        };
        let path = directory.path().join(format!("kubeconfig-{token}"));
        std::fs::write(&path, serde_json::to_string(&config)?)?;
        Ok(path)
    }

    /// Forgets the past: no resourceVersion handed out before can be watched from. Our own server only.
    pub async fn compact(&self) -> Result<()> {
        self.api
            .request_text(Method::POST, "/testing/compact")
            .await?;
        Ok(())
    }

    /// How many watches of a resource (`pods`) are open now, whoever opened them.
    pub async fn open_watches(&self, resource: &str) -> Result<u64> {
        self.sum_of_requests("open", "watch", resource).await
    }

    /// How many requests with this verb came since the start.
    pub async fn requests(&self, verb: &str, resource: &str) -> Result<u64> {
        self.sum_of_requests("count", verb, resource).await
    }

    /// Adds up one number of the server's own records, over all clients and namespaces.
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

    /// A namespace for one test, so that tests can share a cluster.
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

async fn wait_for_file(path: &Path, child: &mut Child) -> Result<()> {
    for _ in 0..1200 {
        if path.is_file() {
            return Ok(());
        }
        if let Some(status) = child.try_wait()? {
            bail!("the API server ended with {status} before it was ready");
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    bail!("the API server has not written {} in 30 s", path.display())
}

/// Ends with the test, which alone gets a Ctrl-C.
fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .process_group(0)
        .kill_on_drop(true);
    command
}

/// SIGTERM, and the process's end.
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

async fn own(directory: TempDir, options: ServerOptions) -> Result<(Backend, PathBuf)> {
    let binary = std::env::var("PILOTHOUSE_TESTSERVER")
        .context("PILOTHOUSE_TESTSERVER is not set; run `make test`")?;
    let kubeconfig = directory.path().join("kubeconfig");
    let mut command = command(Path::new(&binary));
    command
        .arg("--data-dir")
        .arg(directory.path().join("data"))
        .arg("--kubeconfig")
        .arg(&kubeconfig);
    command.args([
        "--authorization-mode",
        if options.rbac { "rbac" } else { "always-allow" },
    ]);
    for token in &options.tokens {
        command.args(["--token", token]);
    }
    if options.no_watch_cache {
        command.arg("--watch-cache=false");
    }
    let log = std::fs::File::create(directory.path().join("log"))?;
    let mut child = command
        .stderr(log)
        .spawn()
        .with_context(|| format!("cannot start {binary}"))?;
    if let Err(error) = wait_for_file(&kubeconfig, &mut child).await {
        let log = std::fs::read_to_string(directory.path().join("log")).unwrap_or_default();
        return Err(error.context(log));
    }
    Ok((Backend::Own { child, directory }, kubeconfig))
}

/// What controller-runtime's envtest does: etcd and kube-apiserver on free ports, a token file for the administrator.
async fn envtest(assets: &Path) -> Result<(Backend, PathBuf)> {
    let directory = tempfile::tempdir()?;
    let path = |name: &str| directory.path().join(name);
    let (etcd_port, peer_port, port) = (free_port()?, free_port()?, free_port()?);
    let etcd = command(&assets.join("etcd"))
        .arg("--data-dir")
        .arg(path("etcd"))
        .args([
            "--listen-client-urls",
            &format!("http://127.0.0.1:{etcd_port}"),
        ])
        .args([
            "--advertise-client-urls",
            &format!("http://127.0.0.1:{etcd_port}"),
        ])
        .args([
            "--listen-peer-urls",
            &format!("http://127.0.0.1:{peer_port}"),
            "--unsafe-no-fsync",
        ])
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start etcd of KUBEBUILDER_ASSETS")?;
    std::fs::write(
        path("tokens.csv"),
        "pilothouse-test,admin,admin,system:masters\n",
    )?;
    let key = std::process::Command::new("openssl")
        .args(["genrsa", "-out"])
        .arg(path("sa.key"))
        .arg("2048")
        .output();
    ensure!(
        key.context("openssl is needed for KUBEBUILDER_ASSETS")?
            .status
            .success(),
        "openssl cannot make a key"
    );
    let apiserver = command(&assets.join("kube-apiserver"))
        .args(["--etcd-servers", &format!("http://127.0.0.1:{etcd_port}")])
        .args([
            "--secure-port",
            &port.to_string(),
            "--bind-address",
            "127.0.0.1",
            "--authorization-mode",
            "RBAC",
        ])
        .arg("--cert-dir")
        .arg(path("certs"))
        .arg("--token-auth-file")
        .arg(path("tokens.csv"))
        .arg("--service-account-signing-key-file")
        .arg(path("sa.key"))
        .arg("--service-account-key-file")
        .arg(path("sa.key"))
        .args([
            "--service-account-issuer",
            "https://kubernetes.default.svc",
            "--service-cluster-ip-range",
            "10.0.0.0/24",
        ])
        .args(["--disable-admission-plugins", "ServiceAccount"])
        .stderr(std::fs::File::create(path("log"))?)
        .spawn()
        .context("cannot start kube-apiserver of KUBEBUILDER_ASSETS")?;
    let kubeconfig = path("kubeconfig");
    let config = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": format!("https://127.0.0.1:{port}"), "insecure-skip-tls-verify": true}}],
        "users": [{"name": "test", "user": {"token": "pilothouse-test"}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    });
    std::fs::write(&kubeconfig, config.to_string())?;
    Ok((
        Backend::Envtest {
            etcd,
            apiserver,
            _directory: directory,
        },
        kubeconfig,
    ))
}

fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?
        .local_addr()?
        .port())
}
