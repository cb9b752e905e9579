//! The requests that kubectl makes, for tests.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use futures::stream::BoxStream;
use http::{Method, Request};
use kube::Client;
use kube::api::WatchEvent;
use serde_json::{Value, json};
use tokio::time::Instant;

/// How long a test waits for something that is promised within a second, as the machine may be
/// busy. `make bench` measures the promise itself.
const PATIENCE: Duration = Duration::from_secs(60);

/// An API server; objects are addressed by paths.
#[derive(Clone)]
pub struct Api {
    client: Client,
}

impl Api {
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    pub async fn get(&self, path: &str) -> Result<Option<Value>> {
        let request = Request::get(path).body(Vec::new())?;
        match self.client.request(request).await {
            Ok(value) => Ok(Some(value)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error).with_context(|| format!("GET {path}")),
        }
    }

    pub async fn create(&self, collection: &str, object: &Value) -> Result<Value> {
        self.send(Method::POST, collection, "application/json", object)
            .await
    }

    /// Creates an object as `kubectl create -f` does.
    pub async fn create_yaml(&self, collection: &str, yaml: &str) -> Result<()> {
        let request = Request::post(collection)
            .header(http::header::CONTENT_TYPE, "application/yaml")
            .body(yaml.as_bytes().to_vec())?;
        let created: Result<Value, _> = self.client.request(request).await;
        created
            .map(drop)
            .with_context(|| format!("POST {collection} of {yaml}"))
    }

    pub async fn update(&self, path: &str, object: &Value) -> Result<Value> {
        self.send(Method::PUT, path, "application/json", object)
            .await
    }

    /// Applies an object as `kubectl apply --server-side` does. A field that the server does not
    /// know is an error.
    pub async fn apply(&self, path: &str, object: &Value) -> Result<Value> {
        let path = format!("{path}?fieldManager=kubectl&fieldValidation=Strict");
        self.send(Method::PATCH, &path, "application/apply-patch+yaml", object)
            .await
    }

    pub async fn merge(&self, path: &str, patch: &Value) -> Result<Value> {
        self.send(Method::PATCH, path, "application/merge-patch+json", patch)
            .await
    }

    /// Deletes at once, as `kubectl delete --grace-period=0 --force` does.
    pub async fn delete(&self, path: &str) -> Result<()> {
        self.delete_with_grace(path, 0).await
    }

    /// Deletes with a grace period, in seconds: a pod with a node stays and is terminating.
    pub async fn delete_with_grace(&self, path: &str, seconds: u32) -> Result<()> {
        self.delete_with(path, &json!({"gracePeriodSeconds": seconds}))
            .await
    }

    /// Deletes with these DeleteOptions: `{"propagationPolicy": "Foreground"}`.
    pub async fn delete_with(&self, path: &str, options: &Value) -> Result<()> {
        self.delete_answered(path, options).await.map(drop)
    }

    /// As [`delete_with`](Self::delete_with), and returns the answer: the object if it stays for
    /// now, mostly a Status if it is gone.
    pub async fn delete_answered(&self, path: &str, options: &Value) -> Result<Value> {
        let mut options = options.clone();
        options["apiVersion"] = "v1".into();
        options["kind"] = "DeleteOptions".into();
        self.send(Method::DELETE, path, "application/json", &options)
            .await
    }

    /// Deletes the object that has this uid, if it is still there: at once, or with its own grace
    /// period. What depends on it is left to a garbage collector.
    pub async fn delete_uid(&self, path: &str, uid: &str, at_once: bool) -> Result<()> {
        let mut options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
            "preconditions": {"uid": uid},
        });
        if at_once {
            options["gracePeriodSeconds"] = 0.into();
        }
        let deleted = self.send(Method::DELETE, path, "application/json", &options);
        match deleted.await {
            // It is gone, or another one has its name.
            Err(error) if matches!(status_of(&error), Some(404 | 409)) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Opens a watch of a collection that begins after this resourceVersion.
    pub async fn watch(
        &self,
        collection: &str,
        version: u64,
    ) -> Result<BoxStream<'static, kube::Result<WatchEvent<Value>>>> {
        let path = format!(
            "{collection}?watch=true&allowWatchBookmarks=true&resourceVersion={version}\
             &timeoutSeconds=290"
        );
        let request = Request::get(&path).body(Vec::new())?;
        let events = self.client.request_events::<Value>(request).await;
        let events = events.with_context(|| format!("GET {path}"))?;
        Ok(events.boxed())
    }

    /// Waits until the object at `path` (`None` if there is none) is as wanted, and returns it. The
    /// error shows the object as it is then.
    pub async fn eventually(
        &self,
        path: &str,
        what: &str,
        is_wanted: impl Fn(Option<&Value>) -> bool,
    ) -> Result<Option<Value>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.get(path).await?;
            if is_wanted(found.as_ref()) {
                return Ok(found);
            }
            if Instant::now() > deadline {
                let found = found.map_or_else(|| "nothing".to_owned(), |found| found.to_string());
                bail!(
                    "{path} never was {what}; it is {}",
                    found.chars().take(2000).collect::<String>()
                );
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub async fn request_text(&self, method: Method, path: &str) -> Result<String> {
        let request = Request::builder()
            .method(method.clone())
            .uri(path)
            .body(Vec::new())?;
        self.client
            .request_text(request)
            .await
            .with_context(|| format!("{method} {path}"))
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Result<Value> {
        let request = Request::builder()
            .method(method.clone())
            .uri(path)
            .header("content-type", content_type);
        let request = request.body(body.to_string().into_bytes())?;
        self.client
            .request(request)
            .await
            .with_context(|| format!("{method} {path}"))
    }
}

/// The HTTP status with which the API server has refused a request; none if there is no answer.
pub fn status_of(error: &anyhow::Error) -> Option<u16> {
    match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) => Some(status.code),
        _ => None,
    }
}
