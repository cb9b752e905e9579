//! The plugin `endpoints` at work, to measure how long its users wait while something else happens.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::Api;

/// A Service with ten pods, and its Endpoints.
pub struct Neighbour {
    api: Api,
    toggles: usize,
}

impl Neighbour {
    /// Creates them and waits until the Endpoints are complete.
    pub async fn new(api: &Api) -> Result<Self> {
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
        api.create(&path("services"), &service).await?;
        let neighbour = Self {
            api: api.clone(),
            toggles: 0,
        };
        for number in 0..10 {
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p{number}"), "labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]}});
            api.create(&path("pods"), &pod).await?;
            neighbour.set_ready(number, true).await?;
        }
        let is_complete = |found: Option<&Value>| ready(found) == 10;
        api.eventually(&path("endpoints/web"), "complete", is_complete)
            .await?;
        Ok(neighbour)
    }

    /// Changes the readiness of a pod. Returns how long it took until the Endpoints of its Service
    /// showed it, which includes the time of one or two GETs.
    pub async fn toggle(&mut self) -> Result<Duration> {
        let is_ready = self.toggles % 2 == 1;
        self.toggles += 1;
        self.set_ready(0, is_ready).await?;
        let started = Instant::now();
        let wanted = if is_ready { 10 } else { 9 };
        while ready(self.api.get(&path("endpoints/web")).await?.as_ref()) != wanted {}
        Ok(started.elapsed())
    }

    async fn set_ready(&self, number: usize, is_ready: bool) -> Result<()> {
        let ip = format!("10.1.0.{}", number + 1);
        let ready = json!({"type": "Ready", "status": if is_ready { "True" } else { "False" }});
        let status = json!({"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [ready]}});
        self.api
            .merge(&path(&format!("pods/p{number}/status")), &status)
            .await
            .map(drop)
    }
}

fn path(resource: &str) -> String {
    format!("/api/v1/namespaces/default/{resource}")
}

fn ready(endpoints: Option<&Value>) -> usize {
    endpoints
        .and_then(|found| Some(found["subsets"][0]["addresses"].as_array()?.len()))
        .unwrap_or_default()
}
