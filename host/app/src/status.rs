//! What `/plugins` and `/readyz` say.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use pilothouse_core::hub::{Hub, SeatStatus};
use pilothouse_core::key::Kind;
use serde::Serialize;

use crate::plugins::{Entry, Roster, State};
use crate::shared::Shared;
use crate::watches::Troubles;

/// Where the answers come from.
#[derive(Clone)]
pub struct Sources {
    pub shared: Arc<Shared>,
    pub roster: Arc<Roster>,
    pub troubles: Troubles,
}

/// One element of `GET /plugins`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginStatus {
    pub file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub state: &'static str,
    /// Why the state is not `running`, or what is wrong although it is: a watch that fails, so that the cache may be behind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub kinds: Kinds,
    pub keys: Keys,
    pub reconciles: Reconciles,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<LastError>,
}

#[derive(Debug, Default, Serialize)]
pub struct Kinds {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    pub reads: Vec<String>,
    pub writes: Vec<String>,
}

#[derive(Debug, Default, Serialize)]
pub struct Keys {
    pub queued: usize,
    pub running: usize,
    pub delayed: usize,
    pub failed: usize,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reconciles {
    pub success: u64,
    pub requeue_after: u64,
    pub error: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LastError {
    pub object: String,
    pub message: String,
    pub seconds_ago: u64,
}

impl Sources {
    pub fn plugins(&self) -> Vec<PluginStatus> {
        let seats = self.shared.look(Hub::status);
        let troubles = self
            .troubles
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let entries = self.roster.entries();
        entries
            .iter()
            .map(|entry| self.plugin(entry, &seats, &troubles))
            .collect()
    }

    /// What keeps the host from being ready, and what is fine: one line each, as `/readyz?verbose` of Kubernetes components.
    /// A plugin that failed or waits for its kinds keeps nobody: it may never come, and the others run.
    pub fn readiness(&self) -> (bool, String) {
        let plugins = self.plugins();
        let is_pending = |plugin: &PluginStatus| matches!(plugin.state, "loading" | "syncing");
        let is_ready = !plugins.is_empty() && !plugins.iter().any(is_pending);
        let mut text = String::new();
        for plugin in &plugins {
            let mark = if is_pending(plugin) { '-' } else { '+' };
            let reason = plugin
                .reason
                .as_ref()
                .map(|reason| format!(": {reason}"))
                .unwrap_or_default();
            text += &format!("[{mark}]{} {}{reason}\n", plugin.file, plugin.state);
        }
        text += if is_ready {
            "readyz check passed\n"
        } else {
            "readyz check failed\n"
        };
        (is_ready, text)
    }

    fn plugin(
        &self,
        entry: &Entry,
        seats: &[SeatStatus],
        troubles: &BTreeMap<Kind, String>,
    ) -> PluginStatus {
        let manifest = entry.manifest.as_deref();
        let seat =
            manifest.and_then(|manifest| seats.iter().find(|seat| seat.name == manifest.name));
        let seat = seat.filter(|_| matches!(entry.state, State::Joined(_)));
        let (state, reason) = state(entry, seat, troubles);
        let text = |kind: &Kind| kind.to_string();
        PluginStatus {
            file: entry.file.clone(),
            name: manifest.map(|manifest| manifest.name.clone()),
            version: manifest.map(|manifest| manifest.version.clone()),
            state,
            reason,
            kinds: manifest.map_or_else(Kinds::default, |manifest| Kinds {
                subject: manifest.subject_kind().map(text),
                reads: manifest.reads.iter().map(|read| text(&read.kind)).collect(),
                writes: manifest
                    .writes
                    .iter()
                    .map(|write| text(&write.kind))
                    .collect(),
            }),
            keys: seat.map_or_else(Keys::default, |seat| Keys {
                queued: seat.queued,
                running: seat.running,
                delayed: seat.delayed,
                failed: seat.failing,
            }),
            reconciles: seat.map_or_else(Reconciles::default, |seat| Reconciles {
                success: seat.reconciles.success,
                requeue_after: seat.reconciles.requeue_after,
                error: seat.reconciles.error,
            }),
            last_error: seat
                .and_then(|seat| seat.last_error.as_ref())
                .map(|error| LastError {
                    object: error.key.to_string(),
                    message: error.message.clone(),
                    seconds_ago: self.shared.now().saturating_sub(error.at).as_secs(),
                }),
        }
    }
}

fn state(
    entry: &Entry,
    seat: Option<&SeatStatus>,
    troubles: &BTreeMap<Kind, String>,
) -> (&'static str, Option<String>) {
    match (&entry.state, seat) {
        (State::Loading, _) => ("loading", None),
        (State::Waiting(reason), _) => ("waiting", Some(reason.clone())),
        (State::Failed(reason), _) => ("failed", Some(reason.clone())),
        (State::Joined(_), None) => ("loading", None),
        (State::Joined(_), Some(seat)) => {
            let trouble = seat
                .reads
                .iter()
                .find_map(|(kind, _)| troubles.get(kind))
                .cloned();
            let unsynced = seat.reads.iter().find(|(_, is_synced)| !is_synced);
            match (unsynced, trouble) {
                // On what was seen last: the cache stays, and says so.
                (None, trouble) => ("running", trouble),
                (Some(_), Some(trouble)) => ("waiting", Some(trouble)),
                (Some((kind, _)), None) => {
                    ("syncing", Some(format!("waiting for the cache of {kind}")))
                }
            }
        }
    }
}
