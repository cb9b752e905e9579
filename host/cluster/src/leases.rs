//! Reads and writes the Leases by which hosts agree on who runs what. Decides nothing.
//!
//! These requests have a connection and limits of their own: a renewal must never wait behind what
//! plugins write (kubernetes-sigs/kueue#15537, karpenter#2100).

mod record;

use std::time::Duration;

use http::{Method, Request, StatusCode};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, Preconditions};
use pilothouse_core::Kind;
use serde::Deserialize;
use tokio::time::Instant;

use crate::client::{Client, RequestError};
use crate::discovery::path;
pub use record::{record, time_of_day, with_record};

use crate::watch::{LineRead, Lines};

/// Largest answer, in bytes; a Lease is small.
const MAX_ANSWER: usize = 4 * 1024 * 1024;

/// How long the server is asked to keep a watch open.
const WATCH: Duration = Duration::from_secs(120);

/// A watch that brings nothing for this long is opened anew. A holder renews every few seconds.
const QUIET: Duration = Duration::from_secs(30);

const JSON: &str = "application/json";

/// Why a request about a Lease did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// There is no such Lease.
    #[error("there is no such Lease")]
    Absent,
    /// It has changed since it was read, or there is one already. Nothing was done.
    #[error("the Lease has changed meanwhile")]
    Conflict,
    /// The server has refused. Nothing was done.
    #[error("{0}")]
    Refused(RequestError),
    /// There is no answer that says whether it was done.
    #[error("{0}")]
    Unknown(RequestError),
}

impl LeaseError {
    fn of(error: RequestError) -> Self {
        match error.code() {
            Some(404) => Self::Absent,
            Some(409) => Self::Conflict,
            Some(400..500) => Self::Refused(error),
            _ => Self::Unknown(error),
        }
    }
}

/// Which Leases a watch or a list is about.
#[derive(Clone, Debug)]
pub enum LeaseSelection {
    /// The one of this name.
    Named(String),
    /// All with these labels (a label selector).
    Labelled(String),
}

impl LeaseSelection {
    fn parameter(&self) -> (&'static str, String) {
        match self {
            Self::Named(name) => ("fieldSelector", format!("metadata.name={name}")),
            Self::Labelled(selector) => ("labelSelector", selector.clone()),
        }
    }
}

/// The Leases of one namespace.
#[derive(Clone)]
pub struct Leases {
    client: Client,
    namespace: String,
    collection: String,
    /// Of each request; a watch is not limited by it.
    deadline: Duration,
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    items: Vec<Lease>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    what: String,
    object: serde_json::Value,
}

impl Leases {
    /// The client must have a connection of its own.
    pub fn new(client: Client, namespace: &str, deadline: Duration) -> Self {
        let kind = Kind::new("coordination.k8s.io", "v1", "Lease");
        Self {
            client,
            namespace: namespace.to_owned(),
            collection: path::collection(&kind, "leases", Some(namespace)),
            deadline,
        }
    }

    /// Their namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The Lease as the server has it now (a quorum read).
    pub async fn get(&self, name: &str) -> Result<Lease, LeaseError> {
        self.send(Method::GET, &self.one(name), Vec::new()).await
    }

    /// The Leases as the server has them now (a quorum read).
    pub async fn list(&self, selection: &LeaseSelection) -> Result<Vec<Lease>, LeaseError> {
        let query = path::query(&[selection.parameter()]);
        let uri = format!("{}{query}", self.collection);
        let list: List = self.send(Method::GET, &uri, Vec::new()).await?;
        Ok(list.items)
    }

    /// Creates a Lease. [`LeaseError::Conflict`]: there is one already.
    pub async fn create(&self, lease: &Lease) -> Result<Lease, LeaseError> {
        let body = serde_json::to_vec(lease).unwrap_or_default();
        self.send(Method::POST, &self.collection, body).await
    }

    /// Replaces a Lease, if its resourceVersion is still the one given.
    pub async fn update(&self, lease: &Lease) -> Result<Lease, LeaseError> {
        let name = lease.metadata.name.as_deref().unwrap_or_default();
        let body = serde_json::to_vec(lease).unwrap_or_default();
        self.send(Method::PUT, &self.one(name), body).await
    }

    /// Deletes a Lease, if it is still the one of this uid and resourceVersion.
    pub async fn delete(&self, name: &str, uid: &str, version: &str) -> Result<(), LeaseError> {
        let options = DeleteOptions {
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: Some(version.to_owned()),
            }),
            ..DeleteOptions::default()
        };
        let body = serde_json::to_vec(&options).unwrap_or_default();
        let answer: Result<serde_json::Value, _> =
            self.send(Method::DELETE, &self.one(name), body).await;
        answer.map(drop)
    }

    /// Watches Leases: first those that there are, then each change.
    pub async fn watch(&self, selection: &LeaseSelection) -> Result<LeaseWatch, LeaseError> {
        let timeout = ("timeoutSeconds", WATCH.as_secs().to_string());
        let query = [("watch", "true".to_owned()), selection.parameter(), timeout];
        let uri = format!("{}{}", self.collection, path::query(&query));
        let request = request(Method::GET, &uri, Vec::new()).map_err(LeaseError::Refused)?;
        let response = self.client.open(request, self.deadline).await;
        let response = response.map_err(LeaseError::of)?;
        if response.status() != StatusCode::OK {
            return Err(LeaseError::Absent);
        }
        Ok(LeaseWatch {
            lines: Lines::new(response.into_body(), MAX_ANSWER),
            until: Instant::now() + WATCH + QUIET,
        })
    }

    fn one(&self, name: &str) -> String {
        format!("{}/{}", self.collection, path::encode(name))
    }

    async fn send<T: for<'de> Deserialize<'de>>(
        &self,
        method: Method,
        uri: &str,
        body: Vec<u8>,
    ) -> Result<T, LeaseError> {
        let request = request(method, uri, body).map_err(LeaseError::Refused)?;
        let answer = self.client.fetch_once(&request, self.deadline, MAX_ANSWER);
        let body = answer.await.map_err(LeaseError::of)?;
        let parsed = serde_json::from_slice(&body);
        parsed.map_err(|error| LeaseError::Unknown(RequestError::Answer(error)))
    }
}

fn request(method: Method, uri: &str, body: Vec<u8>) -> Result<Request<Vec<u8>>, RequestError> {
    let request = Request::builder()
        .method(method)
        .uri(uri)
        .header(http::header::ACCEPT, JSON)
        .header(http::header::CONTENT_TYPE, JSON)
        .body(body);
    request.map_err(|error| RequestError::Transport(kube::Error::HttpError(error)))
}

/// An open watch of Leases.
pub struct LeaseWatch {
    lines: Lines,
    until: Instant,
}

/// A change that a watch has brought.
#[derive(Debug)]
pub enum LeaseChange {
    /// The Lease is like this.
    Is(Box<Lease>),
    /// The Lease of this name was deleted.
    Gone(String),
}

impl LeaseWatch {
    /// The next change. `None`: the watch has ended, for whatever reason.
    pub async fn next(&mut self) -> Option<LeaseChange> {
        loop {
            let Ok(LineRead::Line(line)) = self.lines.next(QUIET, self.until).await else {
                return None;
            };
            let event: Event = serde_json::from_slice(&line).ok()?;
            match &*event.what {
                "ADDED" | "MODIFIED" => {
                    let lease = serde_json::from_value(event.object).ok()?;
                    return Some(LeaseChange::Is(Box::new(lease)));
                }
                "DELETED" => {
                    let lease: Lease = serde_json::from_value(event.object).ok()?;
                    return Some(LeaseChange::Gone(lease.metadata.name?));
                }
                "BOOKMARK" => {}
                _ => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Scenario, ScriptedAnswer, json as answer, status, text};

    fn leases(scenario: &Scenario) -> Leases {
        Leases::new(scenario.client().into(), "home", Duration::from_secs(5))
    }

    fn lease() -> serde_json::Value {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "a", "namespace": "home", "uid": "u", "resourceVersion": "7"},
            "spec": {"holderIdentity": "me", "renewTime": "2026-01-02T03:04:05.000006Z"}})
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_read_and_replaced_as_it_was_read() {
        let scenario = Scenario::new([answer(&lease()), answer(&lease())]);
        let leases = leases(&scenario);
        let read = leases.get("a").await.unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), lease());
        leases.update(&read).await.unwrap();
        let paths: Vec<String> = scenario.lines();
        let path = "/apis/coordination.k8s.io/v1/namespaces/home/leases/a";
        assert_eq!(paths, [format!("GET {path}"), format!("PUT {path}")]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_not_done_is_told_from_what_may_have_been_done() {
        let refusal = |code, reason| status(code, reason, "text");
        let silent = ScriptedAnswer::Silence;
        let scenario = Scenario::new([
            refusal(404, "NotFound"),
            refusal(409, "Conflict"),
            refusal(403, "Forbidden"),
            text(500, "broken"),
            silent,
        ]);
        let leases = leases(&scenario);
        let mut found = Vec::new();
        for _ in 0..5 {
            found.push(leases.get("a").await.unwrap_err());
        }
        assert!(matches!(
            found[..],
            [
                LeaseError::Absent,
                LeaseError::Conflict,
                LeaseError::Refused(_),
                LeaseError::Unknown(_),
                LeaseError::Unknown(_)
            ]
        ));
    }
}
