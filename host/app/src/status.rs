//! The contents of `/plugins`, `/informers` and `/readyz`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pilothouse_core::{
    BrokenKey, ControllerStatus, Detail, DividedBy, Hub, InformerKey, InformerStatus, Kind,
    LoopingKey, Manifest, PluginEntry, PluginState, SubjectKey, Time,
};
use serde::Serialize;

use crate::hosts::{SharingState, Standing};
use crate::informers::{InformerError, WatchErrors};
use crate::plugins::plugin_list::PluginList;
use crate::reach::Reached;
use crate::shared::{Cause, Shared};

/// The parts of the host that the status is read from.
#[derive(Clone)]
pub struct StatusSources {
    pub shared: Arc<Shared>,
    pub roster: Arc<PluginList>,
    pub watch_errors: WatchErrors,
    pub server: Reached,
    /// `None` for a host that takes no part in an election.
    pub standing: Option<Standing>,
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
    /// SHA-256 of the version's file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    pub state: &'static str,
    /// Why the state is not `running`. For a running plugin, why its cache may be behind: a
    /// list-watch fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What is wrong with the newest file or its settings, while earlier ones are in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The version that a rollback would bring back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
    /// What the manifest asks for and the settings do not grant.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_granted: Vec<String>,
    /// What a waiting version asks for beyond what has been accepted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_accepted: Vec<String>,
    /// The optional kinds that the cluster does not serve.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_served: Vec<String>,
    /// Who runs its keys, if several hosts share the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shards: Option<Shards>,
    pub kinds: Kinds,
    pub keys: Keys,
    /// Keys that fail each time they run, and that run only from time to time: the first of them,
    /// with the reasons. The metrics have the total.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub broken: Vec<Broken>,
    /// Keys that are slowed down because nothing but their own writes makes them run again: the
    /// first of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub looping: Vec<Looping>,
    /// Its share of the caches; a shared cache is divided evenly among its users.
    pub cached_bytes: usize,
    pub reconciles: Reconciles,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<LastErrorStatus>,
}

/// Who runs the keys of a plugin.
#[derive(Debug, Serialize)]
pub struct Shards {
    /// Into how many shards they are divided.
    pub of: u32,
    /// They are divided by namespace, and not by name.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_namespace: bool,
    /// Those that this host runs.
    pub here: BTreeSet<u32>,
    /// Those of `here` that wait until the caches were shown to be up to date.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub pending: BTreeSet<u32>,
    /// Those of other hosts, by member.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub elsewhere: BTreeMap<String, BTreeSet<u32>>,
}

impl Shards {
    fn of(controller: &ControllerStatus, sharing: &SharingState) -> Self {
        let division = controller.division;
        let mut elsewhere: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
        for (shard, owner) in &sharing.owners {
            if *shard.plugin == *controller.name && shard.of == division && *owner != sharing.member
            {
                let shards = elsewhere.entry(owner.to_string()).or_default();
                shards.insert(shard.index);
            }
        }
        Self {
            of: division.shards.get(),
            by_namespace: division.by == DividedBy::Namespace,
            here: controller.held_shards.clone(),
            pending: controller.pending_shards.clone(),
            elsewhere,
        }
    }

    /// Who runs what, for a table.
    fn text(&self) -> Option<String> {
        if self.elsewhere.is_empty() && self.here.len() == self.of as usize {
            return None;
        }
        let here = self.here.len();
        let others = self.elsewhere.iter();
        let others = others.map(|(member, shards)| format!("{} at {member}", shards.len()));
        let parts: Vec<String> = std::iter::once(format!("{here} here"))
            .filter(|_| here > 0)
            .chain(others)
            .collect();
        let all = match self.of {
            1 => String::new(),
            of => format!("of {of} shards "),
        };
        match parts.is_empty() {
            true => Some("no host runs it yet".to_owned()),
            false => Some(format!("{all}{}", parts.join(", "))),
        }
    }
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Kinds {
    /// None for a singleton.
    pub reconciles: Vec<String>,
    pub reads: Vec<String>,
    /// Kinds of the patterns among the reads that keys have asked about, and that are cached.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub of_patterns: Vec<String>,
    /// Kinds of the patterns that keys have asked about, and that the server has not listed yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unlisted: Vec<String>,
    /// Kinds of the patterns that keys have asked about, and that there is no room for, and why.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<String, String>,
    pub writes: Vec<String>,
}

#[derive(Debug, Default, Serialize)]
pub struct Keys {
    pub queued: usize,
    pub running: usize,
    pub delayed: usize,
    pub failed: usize,
}

/// A key that a plugin reconciles. A singleton's has no kind, and an empty object.
#[derive(Debug, Serialize)]
pub struct KeyStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    pub object: String,
}

impl KeyStatus {
    fn of(key: &SubjectKey) -> Self {
        Self {
            kind: key.kind.as_ref().map(ToString::to_string),
            object: key.object.to_string(),
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Broken {
    #[serde(flatten)]
    pub key: KeyStatus,
    pub failures: u32,
    pub reason: String,
    /// Time until it is retried; `None` if only a change brings it back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_seconds: Option<u64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Looping {
    #[serde(flatten)]
    pub key: KeyStatus,
    /// Consecutive reconciles that nothing but the key's own writes has caused.
    pub runs: u32,
    /// What changes each time, as a JSON Pointer into the object that is written.
    pub field: String,
}

/// One element of `GET /informers`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InformerState {
    /// What the informer watches: kind, namespace, selectors.
    pub informer: String,
    /// How much of each object is fetched and kept.
    pub detail: &'static str,
    /// The objects of which namespaces: `all`, or how many of 64 parts of them.
    pub namespaces: String,
    pub synced: bool,
    /// Why the cache may be behind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub objects: usize,
    pub bytes: usize,
    pub resource_version: String,
    /// The plugins that use it.
    pub users: Vec<String>,
    /// Objects that exist but cannot be read, with the reasons.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unreadable: BTreeMap<String, String>,
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
pub struct LastErrorStatus {
    #[serde(flatten)]
    pub key: KeyStatus,
    pub message: String,
    pub seconds_ago: u64,
}

fn looping(keys: &[LoopingKey]) -> Vec<Looping> {
    keys.iter()
        .map(|looping| Looping {
            key: KeyStatus::of(&looping.key),
            runs: looping.runs,
            field: looping.field.clone(),
        })
        .collect()
}

fn broken(keys: &[BrokenKey]) -> Vec<Broken> {
    keys.iter()
        .map(|broken| Broken {
            key: KeyStatus::of(&broken.key),
            failures: broken.failures,
            reason: broken.reason.clone(),
            retry_seconds: broken.retry_in.map(|time| time.as_secs()),
        })
        .collect()
}

impl StatusSources {
    pub fn informers(&self) -> Vec<InformerState> {
        let informers = self.shared.read(Cause::Status, Hub::informers);
        let watch_errors = self.watch_errors.all();
        let state = |informer: InformerStatus| InformerState {
            informer: informer.informer_key.to_string(),
            detail: match informer.extent.detail {
                Detail::Metadata => "metadata",
                Detail::WithoutValues => "without values",
                Detail::Full => "full",
            },
            namespaces: informer.extent.namespaces.to_string(),
            synced: informer.is_synced,
            reason: reason(watch_errors.get(&informer.informer_key)),
            objects: informer.objects,
            bytes: informer.bytes,
            resource_version: informer.resource_version.to_string(),
            users: informer.users,
            unreadable: informer
                .unreadable
                .iter()
                .map(|(key, reason)| (key.to_string(), reason.clone()))
                .collect(),
        };
        informers.into_iter().map(state).collect()
    }

    pub fn plugins(&self) -> Vec<PluginStatus> {
        let controllers = self.shared.status();
        let watch_errors = self.watch_errors.all();
        let entries = self.roster.entries();
        entries
            .iter()
            .map(|entry| self.plugin(entry, &controllers, &watch_errors))
            .collect()
    }

    /// Whether the host is ready, and one line for each plugin, as in `/readyz?verbose` of
    /// Kubernetes components. A plugin that failed to load, or that waits for a kind the cluster
    /// does not serve, does not hold back readiness: it may never become ready, and the others run.
    pub fn readiness(&self) -> (bool, String) {
        let plugins = self.plugins();
        let is_pending = |plugin: &PluginStatus| matches!(plugin.state, "loading" | "syncing");
        let server = self.server.why_not();
        // A host whose plugins have all failed or are switched off (or that has none) is not ready.
        let is_useless = |plugin: &PluginStatus| matches!(plugin.state, "failed" | "off");
        let is_ready =
            server.is_none() && !plugins.iter().all(is_useless) && !plugins.iter().any(is_pending);
        let mut text = String::new();
        if let Some(reason) = server {
            text += &format!("[-]api-server: {reason}\n");
        }
        if let Some(standing) = &self.standing {
            let state = match (standing.why_idle(), standing.sharing()) {
                (Some(reason), _) => format!("standby: {reason}"),
                (None, None) => "leads".to_owned(),
                (None, Some(sharing)) => format!("one of {} members", sharing.members),
            };
            text += &format!("[+]hosts {state}\n");
        }
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
        entry: &PluginEntry,
        controllers: &[ControllerStatus],
        watch_errors: &BTreeMap<InformerKey, InformerError>,
    ) -> PluginStatus {
        let manifest = entry.manifest.as_deref();
        let name = entry.name.as_ref();
        let controller = name.and_then(|name| {
            controllers
                .iter()
                .find(|controller| controller.name == *name)
        });
        let controller = controller.filter(|_| {
            matches!(
                entry.state,
                PluginState::Joined(_) | PluginState::Draining(_)
            )
        });
        let (state, reason) = state(entry, controller, watch_errors, self.shared.now());
        let standing = self.standing.as_ref();
        let sharing = standing.and_then(Standing::sharing);
        let shards = sharing.zip(controller);
        let shards = shards.map(|(sharing, controller)| Shards::of(controller, &sharing));
        let why_idle = standing.and_then(Standing::why_idle);
        let (state, reason) = match (why_idle, &shards) {
            (Some(why_idle), _) if state == "running" => {
                ("standby", Some(reason.unwrap_or(why_idle)))
            }
            (None, Some(shards)) if state == "running" => {
                let is_idle = shards.here.is_empty();
                let state = if is_idle { "standby" } else { state };
                (state, reason.or_else(|| shards.text()))
            }
            _ => (state, reason),
        };
        // Nothing is installed before the server has answered.
        let server = self.server.why_not().filter(|_| state == "loading");
        let reason = reason.or(server);
        PluginStatus {
            file: entry.file.clone(),
            name: name.cloned(),
            version: manifest.map(|manifest| manifest.version.clone()),
            digest: entry.digest.clone(),
            state,
            reason,
            problem: entry.problem.clone(),
            previous: entry.previous.clone(),
            not_granted: entry.not_granted.clone(),
            not_accepted: entry.not_accepted.clone(),
            not_served: entry.not_served.clone(),
            shards,
            kinds: manifest.map_or_else(Kinds::default, |manifest| kinds(manifest, controller)),
            keys: controller.map_or_else(Keys::default, |controller| Keys {
                queued: controller.keys.queued,
                running: controller.keys.running,
                delayed: controller.keys.delayed,
                failed: controller.keys.failing,
            }),
            broken: controller.map_or_else(Vec::new, |controller| broken(&controller.keys.broken)),
            looping: controller
                .map_or_else(Vec::new, |controller| looping(&controller.keys.looping)),
            cached_bytes: controller.map_or(0, |controller| controller.cached_bytes),
            reconciles: controller.map_or_else(Reconciles::default, |controller| Reconciles {
                success: controller.reconciles.success,
                requeue_after: controller.reconciles.requeue_after,
                error: controller.reconciles.error,
            }),
            last_error: controller
                .and_then(|controller| controller.last_error.as_ref())
                .map(|error| LastErrorStatus {
                    key: KeyStatus::of(&error.key),
                    message: error.message.clone(),
                    seconds_ago: self.shared.now().saturating_sub(error.at).as_secs(),
                }),
        }
    }
}

/// The kinds that a manifest names, and those that its patterns have led to.
fn kinds(manifest: &Manifest, controller: Option<&ControllerStatus>) -> Kinds {
    let text = |kind: &Kind| kind.to_string();
    let of_patterns = controller.map_or(&[][..], |controller| &controller.of_patterns);
    let which = |is_wanted: bool| {
        let kinds = of_patterns.iter();
        let kinds = kinds.filter(|(_, is_listed)| *is_listed == is_wanted);
        kinds.map(|(kind, _)| text(kind)).collect()
    };
    let refused = controller.map_or(&[][..], |controller| &controller.refused_kinds);
    let refused = refused.iter();
    let selections = manifest.reconciles.iter();
    let reads = manifest.reads.iter();
    let writes = manifest.writes.iter();
    Kinds {
        reconciles: selections.map(|selection| text(&selection.kind)).collect(),
        reads: reads.map(|read| text(&read.kind)).collect(),
        of_patterns: which(true),
        unlisted: which(false),
        refused: refused
            .map(|(kind, reason)| (text(kind), reason.to_string()))
            .collect(),
        writes: writes.map(|write| text(&write.kind)).collect(),
    }
}

fn reason(error: Option<&InformerError>) -> Option<String> {
    error.map(|error| error.reason.clone())
}

fn state(
    entry: &PluginEntry,
    controller: Option<&ControllerStatus>,
    watch_errors: &BTreeMap<InformerKey, InformerError>,
    now: Time,
) -> (&'static str, Option<String>) {
    match (&entry.state, controller) {
        (PluginState::Loading, _) => ("loading", None),
        (PluginState::Waiting(reason), _) => ("waiting", Some(reason.clone())),
        (PluginState::Off, _) => ("off", Some("--controllers switches it off".to_owned())),
        (PluginState::Failed(reason), _) => ("failed", Some(reason.clone())),
        (PluginState::Draining(_), _) => ("draining", None),
        (PluginState::Joined(_), None) => ("loading", None),
        (PluginState::Joined(_), Some(controller)) if controller.is_paused => ("paused", None),
        (PluginState::Joined(_), Some(controller))
            if let Some(quarantine) = &controller.quarantine =>
        {
            let seconds = quarantine.until.saturating_sub(now).as_secs();
            let reason = format!("{}; tried again in {seconds} s", quarantine.reason);
            ("quarantined", Some(reason))
        }
        (PluginState::Joined(_), Some(controller)) => {
            let error = controller
                .reads
                .iter()
                .find_map(|(informer, _)| watch_errors.get(informer));
            let unsynced = controller.reads.iter().find(|(_, is_synced)| !is_synced);
            match (unsynced, error) {
                // A list-watch that fails does not stop the plugin, which runs on the last known
                // state.
                (None, error) => ("running", reason(error.filter(|error| error.is_behind))),
                (Some(_), Some(error)) => ("waiting", Some(error.reason.clone())),
                (Some((informer, _)), None) => (
                    "syncing",
                    Some(format!("waiting for the cache of {informer}")),
                ),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reach::Reaching;

    #[test]
    fn a_plugin_that_is_not_let_in_for_want_of_a_server_says_so() {
        let (_reaching, server) = Reaching::new();
        let sources = StatusSources {
            shared: Arc::new(Shared::new(1)),
            roster: Arc::default(),
            watch_errors: WatchErrors::default(),
            server,
            standing: None,
        };
        sources.roster.set(vec![PluginEntry {
            file: "a.wasm".into(),
            name: None,
            manifest: None,
            digest: None,
            state: PluginState::Loading,
            problem: None,
            previous: None,
            not_granted: Vec::new(),
            not_accepted: Vec::new(),
            not_served: Vec::new(),
        }]);
        let plugins = sources.plugins();
        let (state, reason) = (plugins[0].state, plugins[0].reason.as_deref());
        let why_not = "the API server has not answered yet";
        assert_eq!((state, reason), ("loading", Some(why_not)));
    }
    #[test]
    fn a_table_says_who_runs_a_plugin_unless_this_host_runs_all_of_it() {
        let shards = |of, here: &[u32], elsewhere: &[(&str, &[u32])]| Shards {
            of,
            by_namespace: false,
            here: here.iter().copied().collect(),
            pending: BTreeSet::new(),
            elsewhere: elsewhere
                .iter()
                .map(|(member, shards)| ((*member).to_owned(), shards.iter().copied().collect()))
                .collect(),
        };
        let text = |shards: Shards| shards.text().unwrap_or_default();
        assert_eq!(text(shards(1, &[0], &[])), "");
        assert_eq!(text(shards(2, &[0, 1], &[])), "");
        assert_eq!(text(shards(1, &[], &[("b", &[0])])), "1 at b");
        assert_eq!(
            text(shards(4, &[0, 3], &[("b", &[1]), ("c", &[2])])),
            "of 4 shards 2 here, 1 at b, 1 at c"
        );
        assert_eq!(text(shards(1, &[], &[])), "no host runs it yet");
    }
}
