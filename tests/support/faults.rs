//! The setup of a fault test: a server, a proxy in front of it, a host with the endpoints plugin,
//! and Services whose Endpoints show what the host knows.
//!
//! ```ignore
//! #[tokio::test]
//! async fn a_watch_that_is_reset_is_resumed() -> Result<()> {
//!     let rig = FaultRig::start().await?;
//!     rig.web().await?;
//!     rig.proxy.reset(watches(ANY));
//!     rig.readdress("a", "10.1.1.1").await?;
//!     rig.is_right_within(HEALED).await
//! }
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::proxy::{Proxy, watches};
use crate::{Host, HostOptions, Server, ServerOptions, plugin_directory};

/// Everything must be right this long after a fault is over.
pub const HEALED: Duration = Duration::from_secs(10);

/// How a [`FaultRig`] is set up.
#[derive(Clone, Debug)]
pub struct FaultOptions {
    pub server: ServerOptions,
    pub guests: &'static [&'static str],
    /// The host connects to the server directly, not through the proxy.
    pub is_direct: bool,
    /// Further arguments of the host.
    pub arguments: &'static [&'static str],
}

impl Default for FaultOptions {
    fn default() -> Self {
        Self {
            server: ServerOptions::default(),
            guests: &["endpoints"],
            is_direct: false,
            arguments: &[],
        }
    }
}

impl FaultOptions {
    /// Options with a server without watch cache, in which a compaction takes effect at once.
    pub fn forgetful() -> Self {
        let server = ServerOptions {
            no_watch_cache: true,
            ..ServerOptions::default()
        };
        Self {
            server,
            ..Self::default()
        }
    }
}

/// A server, a proxy, a host and a namespace; see the module.
pub struct FaultRig {
    pub server: Server,
    pub proxy: Proxy,
    pub namespace: String,
    plugins: TempDir,
    kubeconfig: PathBuf,
    arguments: &'static [&'static str],
    host: Option<Host>,
}

/// Addresses by Service.
type Addresses = BTreeMap<String, BTreeSet<String>>;

impl FaultRig {
    /// Starts everything, with the endpoints plugin, and waits until the host is ready.
    pub async fn start() -> Result<Self> {
        Self::start_with(FaultOptions::default()).await
    }

    pub async fn start_with(options: FaultOptions) -> Result<Self> {
        let mut rig = Self::without_host(options).await?;
        rig.start_host().await?;
        Ok(rig)
    }

    /// Starts the server and the proxy only, for faults that come before the host starts. Call
    /// [`FaultRig::start_host`] after it.
    pub async fn without_host(options: FaultOptions) -> Result<Self> {
        let server = Server::start_own(options.server).await?;
        let proxy = Proxy::before(server.kubeconfig()).await?;
        Ok(Self {
            namespace: server.namespace().await?,
            plugins: plugin_directory(options.guests),
            kubeconfig: if options.is_direct {
                server.kubeconfig().into()
            } else {
                proxy.kubeconfig()
            },
            arguments: options.arguments,
            host: None,
            server,
            proxy,
        })
    }

    /// Starts the host and waits until it is ready.
    pub async fn start_host(&mut self) -> Result<()> {
        self.launch_host().await?;
        let host = self.host.as_mut().context("launched")?;
        host.wait_until_ready().await
    }

    /// Starts the host and waits until it listens.
    pub async fn launch_host(&mut self) -> Result<()> {
        let options = HostOptions {
            plugins: self.plugins.path().into(),
            kubeconfig: self.kubeconfig.clone(),
            arguments: self.arguments.iter().copied().map(str::to_owned).collect(),
            ..HostOptions::default()
        };
        self.host = Some(Host::start(&options).await?);
        Ok(())
    }

    pub fn host(&self) -> &Host {
        self.host.as_ref().expect("the test has started the host")
    }

    /// Returns the path of an object in the test's namespace, or of the collection if `name` is
    /// empty.
    pub fn path(&self, resource: &str, name: &str) -> String {
        let path = format!("/api/v1/namespaces/{}/{resource}/{name}", self.namespace);
        path.trim_end_matches('/').to_owned()
    }

    /// Creates the Service `web` with the pods `a` at 10.1.0.1 and `b` at 10.1.0.2, and waits for
    /// its Endpoints.
    pub async fn web(&self) -> Result<()> {
        self.service("web").await?;
        self.pod("a", "web", "10.1.0.1").await?;
        self.pod("b", "web", "10.1.0.2").await?;
        self.is_right_within(HEALED).await
    }

    /// Creates a Service; [`FaultRig::pod`] adds pods to it.
    pub async fn service(&self, name: &str) -> Result<()> {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"selector": {"app": name}, "ports": [{"port": 80}]},
        });
        self.create("services", &service).await
    }

    pub async fn delete_service(&self, name: &str) -> Result<()> {
        self.server.api.delete(&self.path("services", name)).await
    }

    /// Creates a ready pod of a Service.
    pub async fn pod(&self, name: &str, service: &str, ip: &str) -> Result<()> {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": service}},
            "spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "i"}]},
        });
        self.create("pods", &pod).await?;
        self.readdress(name, ip).await
    }

    pub async fn readdress(&self, pod: &str, ip: &str) -> Result<()> {
        let status = json!({"status": {
            "phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": "True"}],
        }});
        let path = format!("{}/status", self.path("pods", pod));
        self.server.api.merge(&path, &status).await.map(drop)
    }

    pub async fn delete_pod(&self, name: &str) -> Result<()> {
        self.server.api.delete(&self.path("pods", name)).await
    }

    pub async fn create(&self, resource: &str, object: &Value) -> Result<()> {
        let collection = self.path(resource, "");
        self.server.api.create(&collection, object).await.map(drop)
    }

    /// Waits until every Service has exactly the Endpoints that its pods make, and nothing else has
    /// any. It is an error if that takes longer than `time`.
    pub async fn is_right_within(&self, time: Duration) -> Result<()> {
        let deadline = Instant::now() + time;
        loop {
            let (found, wanted) = (self.found().await?, self.wanted().await?);
            if found == wanted {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "wrong after {time:?}: the Endpoints are {found:?}, not {wanted:?}\n{}",
                self.end_of_log()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Returns whether the Endpoints are not yet what they should be, which shows that a fault has
    /// an effect.
    pub async fn is_behind(&self) -> Result<bool> {
        Ok(self.found().await? != self.wanted().await?)
    }

    /// Waits until the Endpoints are right, and checks that nobody writes any for `time`. A cache
    /// that goes back for a moment would cause two writes.
    pub async fn stays_right_for(&self, time: Duration) -> Result<()> {
        self.is_right_within(HEALED).await?;
        let before = self.versions().await?;
        tokio::time::sleep(time).await;
        let after = self.versions().await?;
        let log = || self.end_of_log();
        ensure!(before == after, "{before:?} became {after:?}\n{}", log());
        Ok(())
    }

    /// Returns the last lines of the host's log.
    fn end_of_log(&self) -> String {
        let log = self.host().log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    /// Returns the names and resourceVersions of the Endpoints.
    async fn versions(&self) -> Result<Vec<Value>> {
        let endpoints = self.items("endpoints").await?;
        let metadata = endpoints.iter().map(|endpoints| &endpoints["metadata"]);
        Ok(metadata
            .map(|metadata| json!([metadata["name"], metadata["resourceVersion"]]))
            .collect())
    }

    /// Returns whether the host's watch delivered Endpoints with this address since
    /// [`Proxy::forget`].
    pub fn was_published(&self, ip: &str) -> bool {
        let lines = self.proxy.lines(watches("endpoints"));
        let address = format!("\"{ip}\"");
        lines.iter().any(|line| line.text.contains(&address))
    }

    async fn wanted(&self) -> Result<Addresses> {
        let services = self.items("services").await?;
        let pods = self.items("pods").await?;
        let behind = |service: &str| {
            let behind = pods
                .iter()
                .filter(|pod| pod["metadata"]["labels"]["app"] == service);
            let ips = behind.filter_map(|pod| pod["status"]["podIP"].as_str());
            ips.map(str::to_owned).collect()
        };
        let names = services.iter().map(name_of);
        Ok(names.map(|name| (name.to_owned(), behind(name))).collect())
    }

    async fn found(&self) -> Result<Addresses> {
        let endpoints = self.items("endpoints").await?;
        let all = endpoints.iter().map(|endpoints| {
            let subsets = endpoints["subsets"].as_array().into_iter().flatten();
            let addresses =
                subsets.flat_map(|subset| subset["addresses"].as_array().into_iter().flatten());
            let ips = addresses.filter_map(|address| address["ip"].as_str().map(str::to_owned));
            (name_of(endpoints).to_owned(), ips.collect())
        });
        Ok(all.collect())
    }

    async fn items(&self, resource: &str) -> Result<Vec<Value>> {
        let list = self.server.api.get(&self.path(resource, "")).await?;
        let mut list = list.with_context(|| format!("no list of {resource}"))?;
        Ok(match list["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        })
    }
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}
