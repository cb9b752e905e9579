//! `make run`: an API server, the host with the shipped plugins, and a Service whose pods are
//! created, turn ready, change and are deleted.

use std::time::Duration;

use anyhow::{Context, Result};
use http::Method;
use pilothouse_tests::{Api, Host, Server};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints/web";

#[tokio::main]
async fn main() -> Result<()> {
    println!("==> starting an API server");
    let server = Server::start().await?;
    println!("==> starting pilothouse");
    let plugins = std::env::var("PILOTHOUSE_GUESTS")
        .context("PILOTHOUSE_GUESTS is not set; run `make run`")?;
    let host = Host::ready(plugins.as_ref(), server.kubeconfig()).await?;
    let shown = tokio::select! {
        shown = show(&server, &host) => shown,
        interrupted = tokio::signal::ctrl_c() => interrupted.map_err(anyhow::Error::from),
    };
    println!("\nstopping");
    let (status, _) = host.terminate().await?;
    server.stop().await?;
    shown.and_then(|()| {
        if status.success() {
            Ok(())
        } else {
            anyhow::bail!("pilothouse ended with {status}")
        }
    })
}

async fn show(server: &Server, host: &Host) -> Result<()> {
    let (_, status) = host.get("/plugins").await?;
    for plugin in serde_json::from_str::<Vec<Value>>(&status)? {
        println!(
            "    plugin {} {} is {}",
            text(&plugin["name"]),
            text(&plugin["version"]),
            text(&plugin["state"])
        );
    }
    println!("==> a Service, and pods that come and go; what the endpoints plugin makes of it:\n");
    Story {
        api: &server.api,
        started: Instant::now(),
    }
    .tell()
    .await?;
    println!("\nEverything keeps running. Try, from another terminal:\n");
    println!(
        "  kubectl --kubeconfig {} get endpoints,services,pods",
        server.kubeconfig().display()
    );
    println!(
        "  kubectl --kubeconfig {} label pod blue-1 app=other --overwrite",
        server.kubeconfig().display()
    );
    println!("  curl http://{}/plugins", host.address());
    println!("\nCtrl-C ends it.");
    watch(&server.api).await
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

/// The steps of the demonstration.
struct Story<'a> {
    api: &'a Api,
    started: Instant,
}

impl Story<'_> {
    async fn tell(&self) -> Result<()> {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
        });
        self.api.create(SERVICES, &service).await?;
        self.show("service web, for pods with app=web, is created", "")
            .await?;
        self.create_pod("blue-1").await?;
        self.set_status("blue-1", "10.1.0.1", false).await?;
        self.show("pod blue-1 starts", "!10.1.0.1").await?;
        self.set_status("blue-1", "10.1.0.1", true).await?;
        self.show("pod blue-1 turns ready", "10.1.0.1").await?;
        self.create_pod("blue-2").await?;
        self.set_status("blue-2", "10.1.0.2", true).await?;
        self.show("pod blue-2 comes, ready", "10.1.0.1 10.1.0.2")
            .await?;
        self.set_status("blue-1", "10.1.0.1", false).await?;
        self.show("pod blue-1 fails its readiness probe", "10.1.0.2 !10.1.0.1")
            .await?;
        self.api
            .merge(
                &format!("{PODS}/blue-2"),
                &json!({"metadata": {"labels": {"app": "other"}}}),
            )
            .await?;
        self.show("pod blue-2 is labelled app=other", "!10.1.0.1")
            .await?;
        self.api
            .merge(
                &format!("{PODS}/blue-2"),
                &json!({"metadata": {"labels": {"app": "web"}}}),
            )
            .await?;
        self.set_status("blue-1", "10.1.0.1", true).await?;
        self.show("both are well again", "10.1.0.1 10.1.0.2")
            .await?;
        self.api.delete(&format!("{PODS}/blue-2")).await?;
        self.show("pod blue-2 is deleted", "10.1.0.1").await
    }

    async fn create_pod(&self, name: &str) -> Result<()> {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "example.dev/web", "ports": [{"name": "http", "containerPort": 8080}]}]},
        });
        self.api.create(PODS, &pod).await.map(drop)
    }

    async fn set_status(&self, name: &str, ip: &str, is_ready: bool) -> Result<()> {
        let ready = json!({"type": "Ready", "status": if is_ready { "True" } else { "False" }});
        let status = json!({"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [ready]}});
        self.api
            .merge(&format!("{PODS}/{name}/status"), &status)
            .await
            .map(drop)
    }

    /// Prints what was done, waits for the Endpoints that must follow, and prints how long they
    /// took.
    async fn show(&self, what: &str, wanted: &str) -> Result<()> {
        println!("{:7.2}s  {what}", self.started.elapsed().as_secs_f64());
        let done = Instant::now();
        let is_wanted =
            |found: Option<&Value>| found.is_some_and(|found| describe(found) == wanted);
        self.api.eventually(ENDPOINTS, wanted, is_wanted).await?;
        let shown = if wanted.is_empty() { "nobody" } else { wanted };
        println!(
            "          -> endpoints web: {shown}   (after {} ms)",
            done.elapsed().as_millis()
        );
        sleep(Duration::from_millis(400)).await;
        Ok(())
    }
}

/// Returns the ready addresses, then the others, each with a `!` before it.
fn describe(endpoints: &Value) -> String {
    let collect = |list: &str, mark: &str| {
        let subsets = endpoints["subsets"].as_array().into_iter().flatten();
        let addresses = subsets.flat_map(|subset| subset[list].as_array().into_iter().flatten());
        let mut addresses: Vec<String> = addresses
            .map(|address| format!("{mark}{}", text(&address["ip"])))
            .collect();
        addresses.sort();
        addresses
    };
    let mut all = collect("addresses", "");
    all.extend(collect("notReadyAddresses", "!"));
    all.join(" ")
}

/// Prints the Endpoints whenever they change.
async fn watch(api: &Api) -> Result<()> {
    let mut last = None;
    loop {
        let found = api.get(ENDPOINTS).await?.map(|found| describe(&found));
        if last.is_some() && last.as_ref() != Some(&found) {
            println!(
                "          -> endpoints web: {}",
                found.as_deref().unwrap_or("gone")
            );
        }
        last = Some(found);
        // Fails when the server no longer answers, which ends the demonstration.
        api.request_text(Method::GET, "/readyz").await?;
        sleep(Duration::from_millis(200)).await;
    }
}
