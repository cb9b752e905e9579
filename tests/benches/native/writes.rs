//! Sends what a controller has decided.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::future::join_all;
use http::{Method, Request};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use parking_lot::{Mutex, RwLock};
use pilothouse_sdk::{
    Action, ActionResult, Effect, EffectVerb, Event, EventType, ObjectRef, Outcome, PatchType,
};
use pilothouse_tests::path_of;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::caches::Caches;
use super::{DEPLOYMENT, POD, REPLICA_SET};

/// Most requests of one reconcile that are under way at a time, as in the host.
const MOST_AT_ONCE: usize = 16;

/// What has become of an outcome.
pub struct Done {
    pub effects: Vec<Effect>,
    pub has_failed: bool,
    /// How far the watches must have come to show all of it.
    pub versions: Vec<(&'static str, u64)>,
}

pub struct Writer {
    client: Client,
    /// How many requests were sent.
    pub sent: AtomicU64,
}

/// One request, and what it is about.
struct Call {
    method: Method,
    path: String,
    content_type: &'static str,
    body: Value,
    object: ObjectRef,
    verb: EffectVerb,
}

impl Writer {
    pub fn new(client: Client) -> Self {
        let sent = AtomicU64::new(0);
        Self { client, sent }
    }

    /// Sends the stages one after the other.
    pub async fn carry_out(
        &self,
        caches: &RwLock<Caches>,
        outcome: &Outcome,
        budget: &Mutex<Budget>,
    ) -> Done {
        let mut done = Done {
            effects: Vec::new(),
            has_failed: false,
            versions: Vec::new(),
        };
        for stage in &outcome.stages {
            if done.has_failed && !stage.always {
                continue;
            }
            let calls = stage.actions.iter().filter(|action| match action {
                Action::Event(event) => budget.lock().takes(&event.object),
                _ => true,
            });
            let calls: Result<Vec<Call>> = calls
                .map(|action| self.call(action, &caches.read()))
                .collect();
            let calls = calls.expect("the benchmark's actions can be sent");
            self.send_stage(&calls, &mut done).await;
        }
        done
    }

    /// Sends one request, then two, four and so on, and no create after one that has failed.
    async fn send_stage(&self, calls: &[Call], done: &mut Done) {
        let (mut rest, mut at_once) = (calls, 1);
        let mut creates = true;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(at_once.min(rest.len()));
            let now = now
                .iter()
                .filter(|call| creates || call.verb != EffectVerb::Create);
            let answers = join_all(now.map(async |call| (call, self.send(call).await))).await;
            for (call, answer) in answers {
                let effect = effect(call, &answer);
                let is_well = matches!(effect.outcome, ActionResult::Done(_));
                if let (true, Some(kind)) = (is_well, kind_of(call))
                    && let Some(version) = answer.as_ref().ok().and_then(version_in)
                {
                    done.versions.push((kind, version));
                }
                creates &= is_well || call.verb != EffectVerb::Create;
                done.has_failed |= !is_well && call.verb != EffectVerb::Event;
                done.effects.push(effect);
            }
            (rest, at_once) = (later, (2 * at_once).min(MOST_AT_ONCE));
        }
    }

    async fn send(&self, call: &Call) -> kube::Result<Value> {
        self.sent.fetch_add(1, Ordering::Relaxed);
        let request = Request::builder()
            .method(call.method.clone())
            .uri(&call.path)
            .header("content-type", call.content_type);
        let request = request.body(call.body.to_string().into_bytes());
        self.client
            .request(request.map_err(kube::Error::HttpError)?)
            .await
    }

    fn call(&self, action: &Action, caches: &Caches) -> Result<Call> {
        match action {
            Action::Create(create) => {
                let body: Value = serde_json::from_str(&create.object)?;
                let object = named(&body);
                Ok(Call {
                    method: Method::POST,
                    path: path(&object, false)?,
                    content_type: "application/json",
                    body,
                    object,
                    verb: EffectVerb::Create,
                })
            }
            Action::Patch(patch) => {
                let mut body: Value = serde_json::from_str(&patch.body)?;
                if body["metadata"]["resourceVersion"].is_string() {
                    let version = caches.version(&patch.object).context("it is cached")?;
                    body["metadata"]["resourceVersion"] = version.into();
                }
                let mut path = path(&patch.object, true)?;
                path.extend(patch.subresource.iter().flat_map(|name| ["/", name]));
                Ok(Call {
                    method: Method::PATCH,
                    path,
                    content_type: match patch.patch_type {
                        PatchType::JsonPatch => "application/json-patch+json",
                        PatchType::MergePatch => "application/merge-patch+json",
                        PatchType::StrategicMergePatch => "application/strategic-merge-patch+json",
                    },
                    body,
                    object: patch.object.clone(),
                    verb: EffectVerb::Patch,
                })
            }
            Action::Delete(delete) => Ok(Call {
                method: Method::DELETE,
                path: path(&delete.object, true)?,
                content_type: "application/json",
                body: json!({
                    "apiVersion": "v1", "kind": "DeleteOptions",
                    "preconditions": {"uid": delete.uid},
                }),
                object: delete.object.clone(),
                verb: EffectVerb::Delete,
            }),
            Action::Event(event) => self.event(event),
            other => bail!("neither controller does this here: {other:?}"),
        }
    }

    fn event(&self, event: &Event) -> Result<Call> {
        let object = &event.object;
        let now = Timestamp::now();
        let (api_version, kind) = object
            .kind
            .rsplit_once('/')
            .context("a kind has a version")?;
        let number = now.as_nanosecond() + i128::from(self.sent.load(Ordering::Relaxed));
        let body = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": {
                "namespace": object.namespace, "name": format!("{}.{number:x}", object.name),
            },
            "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
            "reportingController": "native", "reportingInstance": "native",
            "regarding": {
                "apiVersion": api_version, "kind": kind, "namespace": object.namespace,
                "name": object.name,
            },
            "reason": event.reason, "action": event.action, "note": event.note,
            "type": match event.event_type {
                EventType::Normal => "Normal",
                EventType::Warning => "Warning",
            },
        });
        Ok(Call {
            method: Method::POST,
            path: path_of(&object.namespace, "events", ""),
            content_type: "application/json",
            body,
            object: object.clone(),
            verb: EffectVerb::Event,
        })
    }
}

/// The reference to the object that a body is of.
fn named(body: &Value) -> ObjectRef {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = format!("{}/{}", text(&body["apiVersion"]), text(&body["kind"]));
    let metadata = &body["metadata"];
    ObjectRef::new(
        &kind,
        &text(&metadata["namespace"]),
        &text(&metadata["name"]),
    )
}

fn path(object: &ObjectRef, with_name: bool) -> Result<String> {
    let resource = match object.kind.as_str() {
        DEPLOYMENT => "deployments",
        REPLICA_SET => "replicasets",
        POD => "pods",
        other => bail!("neither controller writes a {other} here"),
    };
    let name = if with_name { object.name.as_str() } else { "" };
    Ok(path_of(&object.namespace, resource, name))
}

/// The kind whose watch shows this write.
fn kind_of(call: &Call) -> Option<&'static str> {
    let mut kinds = [DEPLOYMENT, REPLICA_SET, POD].into_iter();
    kinds.find(|kind| *kind == call.object.kind && call.verb != EffectVerb::Event)
}

fn version_in(answer: &Value) -> Option<u64> {
    let version = answer["metadata"]["resourceVersion"].as_str()?;
    version.parse().ok()
}

fn effect(call: &Call, answer: &kube::Result<Value>) -> Effect {
    let mut object = call.object.clone();
    let outcome = match answer {
        Ok(answer) => {
            if call.verb == EffectVerb::Create {
                object.name = named(answer).name;
            }
            ActionResult::Done(version_in(answer).map(|version| version.to_string()))
        }
        Err(kube::Error::Api(status)) => match (status.code, call.verb) {
            (404, EffectVerb::Delete) => ActionResult::Done(None),
            (404, _) => ActionResult::NotFound(status.message.clone()),
            (409, EffectVerb::Create) => ActionResult::AlreadyExists(status.message.clone()),
            (409, _) => ActionResult::Conflict(status.message.clone()),
            _ => ActionResult::Failed(status.message.clone()),
        },
        Err(error) => ActionResult::Failed(error.to_string()),
    };
    Effect {
        object,
        verb: call.verb,
        outcome,
    }
}

/// How many Events a controller may write: as many as the host lets a plugin. Of one controller 100
/// and then ten a second, of them 25 about one object.
pub struct Budget {
    left: f64,
    filled: Instant,
    about: HashMap<String, u32>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            left: 100.0,
            filled: Instant::now(),
            about: HashMap::new(),
        }
    }
}

impl Budget {
    fn takes(&mut self, object: &ObjectRef) -> bool {
        let passed: Duration = self.filled.elapsed();
        self.filled += passed;
        self.left = (self.left + 10.0 * passed.as_secs_f64()).min(100.0);
        let about = self.about.entry(object.name.clone()).or_default();
        let is_taken = *about < 25 && self.left >= 1.0;
        if is_taken {
            *about += 1;
            self.left -= 1.0;
        }
        is_taken
    }
}
