//! Runs a list-watch against a script of answers and records the results, one line each.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_core::{
    Delta, Detail, Extent, InformerKey, Kind, Listing, Object, ResourceVersion, Schema, Unreadable,
};
use serde_json::{Value, json};

use super::scenario::{Scenario, ScriptedAnswer, json as answer};
use crate::discovery::Resource;
use crate::watch::{CacheSink, ListWatch, WatchSettings, WatchState};

/// Records each call as one line.
#[derive(Default)]
pub(crate) struct Record(pub(crate) Vec<String>);

impl CacheSink for Record {
    fn schema(&self) -> Arc<Schema> {
        Arc::default()
    }

    fn apply(&mut self, delta: Delta) {
        let name = |object: &Object| format!("{}@{}", object.key(), object.resource_version());
        self.0.push(match delta {
            Delta::Replace(Listing {
                objects,
                unreadable,
                resource_version,
                is_rollback,
                ..
            }) => {
                let unreadable = unreadable.iter().map(|object| format!("{}?", object.key));
                let names: Vec<String> = objects.iter().map(name).chain(unreadable).collect();
                format!(
                    "replace [{}] at {}{}",
                    names.join(" "),
                    resource_version,
                    if is_rollback { ", rolled back" } else { "" }
                )
            }
            Delta::Upsert(object) => format!("upsert {}", name(&object)),
            Delta::Read(object) => format!("read {}", name(&object)),
            Delta::Delete {
                key,
                resource_version,
            } => format!("delete {key}@{}", resource_version),
            Delta::Unreadable(Unreadable {
                key,
                resource_version,
                reason,
            }) => format!("unreadable {key}@{}: {reason}", resource_version),
            Delta::Bookmark(version) => format!("bookmark {}", version),
        });
    }

    fn state(&mut self, state: WatchState) {
        self.0.push(match state {
            WatchState::Error(error) | WatchState::Unreachable(error) => format!("! {error}"),
            state => format!("{state:?}"),
        });
    }

    fn stale(&mut self, version: &ResourceVersion) {
        self.0.push(format!("stale {}", version));
    }

    fn rolled_back(&mut self, from: &ResourceVersion, to: &ResourceVersion, _: bool) {
        self.0.push(format!("rolled back from {from} to {to}"));
    }
}

/// A sink with little room: from the start, or only after the first list.
#[derive(Default)]
pub(crate) struct Cramped {
    pub(crate) record: Record,
    pub(crate) has_room_at_first: bool,
}

impl CacheSink for Cramped {
    fn schema(&self) -> Arc<Schema> {
        self.record.schema()
    }

    fn apply(&mut self, delta: Delta) {
        self.record.apply(delta);
    }

    fn state(&mut self, state: WatchState) {
        self.record.state(state);
    }

    fn room(&self) -> usize {
        let is_list = |line: &String| line.starts_with("replace");
        if self.has_room_at_first && !self.record.0.iter().any(is_list) {
            return usize::MAX;
        }
        300
    }
}

pub(crate) fn pod(name: &str, version: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": version}})
}

pub(crate) fn page(version: &str, items: &[Value], token: &str) -> ScriptedAnswer {
    answer(
        &json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": version, "continue": token}, "items": items}),
    )
}

pub(crate) fn event(event_type: &str, object: &Value) -> Value {
    json!({"type": event_type, "object": object})
}

pub(crate) fn bookmark(version: &str) -> Value {
    event(
        "BOOKMARK",
        &json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": version, "creationTimestamp": null}}),
    )
}

pub(crate) fn error_event(code: u16, reason: &str) -> Value {
    event(
        "ERROR",
        &json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": format!("it is {reason}")}),
    )
}

/// The bookmark that ends a stream's initial objects.
pub(crate) fn marker(version: &str) -> Value {
    let mut marker = bookmark(version);
    marker["object"]["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    marker
}

/// A request as most assertions show it: without the random timeout, the percent-encoding and the
/// constant parameters.
fn short(line: &str) -> String {
    let line = line
        .replace("GET /api/v1/pods?", "")
        .replace("watch=true&allowWatchBookmarks=true", "watch")
        .replace(
            "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            " stream",
        )
        .replace("watch&resourceVersion=", "watch ");
    let line = line.split("&timeoutSeconds").next().unwrap_or_default();
    if line == "limit=1" {
        return "probe".to_owned();
    }
    match line.strip_suffix(" stream") {
        Some(watch) => watch.replace("watch", "stream"),
        None => line.to_owned(),
    }
}

pub(crate) struct Played {
    pub(crate) requests: Vec<String>,
    pub(crate) record: Vec<String>,
    pub(crate) at: Vec<Duration>,
}

impl Played {
    pub(crate) fn has_error(&self) -> bool {
        self.record.iter().any(|line| line.starts_with('!'))
    }

    /// The times between each request and the next.
    pub(crate) fn gaps(&self) -> Vec<Duration> {
        self.at.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }
}

pub(crate) fn lists() -> WatchSettings {
    WatchSettings {
        is_streaming: false,
        ..WatchSettings::default()
    }
}

pub(crate) fn pods() -> Resource {
    Resource {
        kind: Kind::new("", "v1", "Pod"),
        plural: "pods".into(),
        is_namespaced: true,
        verbs: vec!["list".into(), "watch".into()],
        subresources: vec![],
    }
}

pub(crate) fn list_watch(
    scenario: &Scenario,
    informer_key: InformerKey,
    extent: impl Into<Extent>,
    settings: WatchSettings,
) -> ListWatch {
    let mut resource = pods();
    resource.kind = informer_key.kind.clone();
    ListWatch::new(
        scenario.client().into(),
        Arc::new(resource),
        informer_key,
        extent,
        settings,
        7,
    )
}

/// Runs a list-watch of pods until it sends a request for which the script has no answer. That
/// request is the last one recorded.
pub(crate) async fn play_with(
    settings: WatchSettings,
    script: impl IntoIterator<Item = ScriptedAnswer>,
) -> Played {
    let scenario = Scenario::new(script);
    let informer_key = InformerKey::all(pods().kind);
    let list_watch = list_watch(&scenario, informer_key, Detail::Full, settings);
    let mut record = Record::default();
    tokio::select! {
        never = list_watch.run(&mut record) => match never {},
        () = scenario.is_played() => {}
    }
    let seen = scenario.seen();
    Played {
        requests: seen.iter().map(|seen| short(&seen.line)).collect(),
        at: seen.iter().map(|seen| seen.at).collect(),
        record: record.0,
    }
}

/// With lists and watches only.
pub(crate) async fn play(script: impl IntoIterator<Item = ScriptedAnswer>) -> Played {
    play_with(lists(), script).await
}

/// With streams, where they work.
pub(crate) async fn play_streaming(script: impl IntoIterator<Item = ScriptedAnswer>) -> Played {
    play_with(WatchSettings::default(), script).await
}
