//! What the tests of the workload controllers need: a server, a host with some of them, and what a
//! kubelet would do to their pods.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::proxy::Proxy;
use crate::{Api, Host, Server, plugin_directory};

/// How long a test waits for what is promised within a second, as the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server, a host with these plugins, which are granted what they ask for, and a namespace.
/// Objects are named by their resource, such as `replicasets`, and their name.
pub struct WorkloadRig {
    pub server: Server,
    /// Between the host and the server, and not between the test and the server.
    pub proxy: Proxy,
    pub namespace: String,
    /// How long [`eventually_all`](Self::eventually_all) waits. Longer than a minute is for what is
    /// due only then.
    pub patience: Duration,
    plugins: TempDir,
    host: Option<Host>,
}

impl WorkloadRig {
    /// Starts everything, and waits until the host is ready.
    pub async fn start(plugins: &[&str]) -> Result<Self> {
        let mut rig = Self::without_host(plugins).await?;
        rig.start_host().await?;
        Ok(rig)
    }

    /// Starts the server and the proxy only, for what is there before the host. Call
    /// [`start_host`](Self::start_host) after it.
    pub async fn without_host(plugins: &[&str]) -> Result<Self> {
        Self::before(Server::start().await?, plugins).await
    }

    /// As [`without_host`](Self::without_host), with this server.
    pub async fn before(server: Server, plugins: &[&str]) -> Result<Self> {
        Ok(Self {
            proxy: Proxy::before(server.kubeconfig()).await?,
            namespace: server.namespace().await?,
            patience: PATIENCE,
            plugins: plugin_directory(plugins),
            host: None,
            server,
        })
    }

    /// Writes the settings of a plugin, for the host that is started after it.
    pub fn configure(&self, plugin: &str, settings: &str) -> Result<()> {
        let file = self.plugins.path().join(format!("{plugin}.toml"));
        Ok(std::fs::write(file, settings)?)
    }

    /// Kills the host, which has been started.
    pub async fn kill_host(&mut self) -> Result<()> {
        self.host().kill().await?;
        self.host = None;
        Ok(())
    }

    /// Starts the host, or another one in the place of the one before, and waits until it is ready.
    pub async fn start_host(&mut self) -> Result<()> {
        self.host = None;
        let kubeconfig: PathBuf = self.proxy.kubeconfig();
        self.host = Some(Host::ready(self.plugins.path(), &kubeconfig).await?);
        Ok(())
    }

    /// The host, which has been started.
    pub fn host(&mut self) -> &mut Host {
        self.host.as_mut().expect("the test has started the host")
    }

    /// The log of the host; empty if none runs.
    pub fn log(&self) -> String {
        self.host.as_ref().map(Host::log).unwrap_or_default()
    }

    pub fn api(&self) -> &Api {
        &self.server.api
    }

    /// The path of an object, or of all objects if the name is empty.
    pub fn path(&self, resource: &str, name: &str) -> String {
        path_of(&self.namespace, resource, name)
    }

    pub async fn create(&self, resource: &str, object: &Value) -> Result<Value> {
        self.api().create(&self.path(resource, ""), object).await
    }

    /// The object, which must be there.
    pub async fn get(&self, resource: &str, name: &str) -> Result<Value> {
        let found = self.api().get(&self.path(resource, name)).await?;
        found.with_context(|| format!("there is no {name} among the {resource}"))
    }

    /// The objects whose labels match this selector; all if it is empty.
    pub async fn list(&self, resource: &str, selector: &str) -> Result<Vec<Value>> {
        let encoded = selector
            .replace('=', "%3D")
            .replace(',', "%2C")
            .replace(' ', "%20");
        let path = format!("{}?labelSelector={encoded}", self.path(resource, ""));
        let list = self
            .api()
            .get(&path)
            .await?
            .context("the kind is not served")?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// Changes an object by a merge patch.
    pub async fn merge(&self, resource: &str, name: &str, patch: &Value) -> Result<Value> {
        self.api().merge(&self.path(resource, name), patch).await
    }

    /// Changes an object's status by a merge patch.
    pub async fn merge_status(&self, resource: &str, name: &str, status: &Value) -> Result<Value> {
        let path = format!("{}/status", self.path(resource, name));
        self.api().merge(&path, &json!({"status": status})).await
    }

    /// Deletes at once, without a grace period.
    pub async fn delete(&self, resource: &str, name: &str) -> Result<()> {
        self.api().delete(&self.path(resource, name)).await
    }

    /// Waits until the object is as wanted, and returns it.
    pub async fn eventually(
        &self,
        resource: &str,
        name: &str,
        what: &str,
        is_wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let path = self.path(resource, name);
        let found = self
            .api()
            .eventually(&path, what, |found| found.is_some_and(&is_wanted));
        Ok(found.await?.unwrap_or_default())
    }

    /// Waits until the objects whose labels match are as wanted, and returns them.
    pub async fn eventually_all(
        &self,
        resource: &str,
        selector: &str,
        what: &str,
        are_wanted: impl Fn(&[Value]) -> bool,
    ) -> Result<Vec<Value>> {
        let deadline = Instant::now() + self.patience;
        loop {
            let found = self.list(resource, selector).await?;
            if are_wanted(&found) {
                return Ok(found);
            }
            if Instant::now() > deadline {
                let found = json!(found).to_string();
                let start: String = found.chars().take(4000).collect();
                bail!("the {resource} of {selector:?} never were {what}; they are {start}");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until there are so many pods with these labels, and returns them.
    pub async fn eventually_pods(&self, selector: &str, count: usize) -> Result<Vec<Value>> {
        let what = format!("{count} pods");
        self.eventually_all("pods", selector, &what, |pods| pods.len() == count)
            .await
    }

    /// Says of a pod what a kubelet would say whose containers run: it is ready, or not yet.
    pub async fn set_pod_ready(&self, name: &str, is_ready: bool) -> Result<()> {
        let condition = json!({
            "type": "Ready", "status": if is_ready { "True" } else { "False" },
            "lastTransitionTime": now(),
        });
        let status = json!({"phase": "Running", "conditions": [condition]});
        self.merge_status("pods", name, &status).await.map(drop)
    }

    /// Says of a pod what a kubelet would say whose containers have ended: `Failed`, `Succeeded`.
    pub async fn set_pod_phase(&self, name: &str, phase: &str) -> Result<()> {
        self.merge_status("pods", name, &json!({"phase": phase}))
            .await
            .map(drop)
    }
}

/// The path of an object, or of all objects of the namespace if the name is empty. Nodes are in no
/// namespace.
pub fn path_of(namespace: &str, resource: &str, name: &str) -> String {
    let group = match resource {
        "daemonsets" | "deployments" | "replicasets" | "statefulsets" | "controllerrevisions" => {
            "apis/apps/v1"
        }
        "cronjobs" | "jobs" => "apis/batch/v1",
        "endpointslices" => "apis/discovery.k8s.io/v1",
        "events" => "apis/events.k8s.io/v1",
        "poddisruptionbudgets" => "apis/policy/v1",
        _ => "api/v1",
    };
    let path = match resource {
        "nodes" => format!("/{group}/nodes/{name}"),
        _ => format!("/{group}/namespaces/{namespace}/{resource}/{name}"),
    };
    path.trim_end_matches('/').to_owned()
}

/// The time, as objects have it.
pub fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The name of an object.
pub fn name_of(object: &Value) -> String {
    let name = object["metadata"]["name"].as_str();
    name.unwrap_or_default().to_owned()
}

/// One container with what pods commonly have.
pub fn containers(image: &str) -> Value {
    let environment: Vec<Value> = (0..20)
        .map(|number| json!({"name": format!("SETTING_{number}"), "value": "v".repeat(40)}))
        .collect();
    let probe = json!({"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10});
    json!([{
        "name": "main", "image": image, "env": environment,
        "ports": [{"name": "http", "containerPort": 8080}],
        "livenessProbe": probe, "readinessProbe": probe,
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"},
        },
    }])
}
