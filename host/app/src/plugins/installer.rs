//! Installs plugin versions in the hub. Decides whether a version can run, with which settings, and
//! which version it replaces.

mod acceptance;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pilothouse_cluster::{ApiCluster, Identity};
use pilothouse_core::{ControllerSettings, JoinError, Kind, Manifest, PluginId};
use pilothouse_wasm::WasmPlugin;
use tracing::{error, info, warn};

use super::access_reviews::Silence;
use super::draining::{Draining, Queued};
use super::loading::LoadedVersion;
use super::plugin_file::{PluginFile, Running};
use crate::directory::settings_of;
use crate::kinds;
use crate::metrics::Metrics;
use crate::schema::Schemas;
use crate::settings::{HostDefaults, Sandbox, SettingsFile};
use crate::shared::{Cause, Shared};
use crate::trust::{self, AcceptedStore};
use crate::watches::{Budget, WatchLimit};

/// Installs and removes plugin versions.
pub struct Installer {
    pub schemas: Schemas,
    pub cluster: Arc<ApiCluster>,
    pub shared: Arc<Shared>,
    pub metrics: Arc<Metrics>,
    pub budget: Budget,
    pub watch_limit: WatchLimit,
    pub draining: Draining,
    pub silence: Silence,
    accepted: AcceptedStore,
    /// The files earlier in the order than the one being processed that are being loaded for the
    /// first time, so that their plugins' names are not known yet.
    pub unknown: BTreeSet<String>,
    /// For each plugin, the files that were unknown when it joined. Of two files with the same
    /// plugin name the first one runs, whichever is ready first. If one of these files turns out to
    /// have the plugin's name, the plugin has to drain.
    outrank: BTreeMap<PluginId, BTreeSet<String>>,
    /// The plugins that have to drain for an earlier file of the same name.
    outranked: Vec<PluginId>,
}

/// Why a version is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entrance {
    /// It is the newest.
    New,
    /// It runs already, and its settings may have changed.
    Again,
    /// It is rolled back to.
    Back,
}

const SETTINGS_NOT_APPLIED: &str = "settings not applied; keeping the earlier ones";

/// What a plugin waits for if another plugin of its name is draining.
const NAMESAKE_DRAINS: &str = "the plugin of this name that was removed is still draining";

/// The operator's settings for all plugins.
#[derive(Clone, Copy)]
pub struct Operator<'a> {
    pub defaults: &'a SettingsFile,
    pub host: &'a HostDefaults,
}

impl<'a> Operator<'a> {
    /// `None` while the settings for all plugins have never been valid. Nothing is installed then.
    pub fn new(defaults: Option<&'a SettingsFile>, host: &'a HostDefaults) -> Option<Self> {
        defaults.map(|defaults| Self { defaults, host })
    }
}

/// Why a version cannot be installed.
enum Refusal {
    Join(JoinError),
    /// Another plugin of its name has to drain first.
    NotYet,
}

impl Installer {
    pub fn new(
        schemas: Schemas,
        cluster: Arc<ApiCluster>,
        shared: Arc<Shared>,
        metrics: Arc<Metrics>,
        budget: Budget,
        watch_limit: WatchLimit,
        accepted: AcceptedStore,
    ) -> Self {
        Self {
            schemas,
            cluster,
            shared,
            metrics,
            budget,
            watch_limit,
            draining: Draining::default(),
            silence: Silence::default(),
            accepted,
            unknown: BTreeSet::new(),
            outrank: BTreeMap::new(),
            outranked: Vec::new(),
        }
    }

    /// Takes the plugins that have to drain for an earlier file of the same name.
    pub fn take_outranked(&mut self) -> Vec<PluginId> {
        std::mem::take(&mut self.outranked)
    }

    /// A file's plugin name is known now, or the file is gone. It cannot displace a plugin of the
    /// same name any more.
    pub fn is_known(&mut self, file: &str) {
        for files in self.outrank.values_mut() {
            files.remove(file);
        }
    }

    /// Rolls back if that was ordered; otherwise applies changed settings to the running version.
    /// Then installs the candidate, if it can run. Returns whether the hub may want other informers
    /// now.
    pub async fn settle(
        &mut self,
        file: &str,
        slot: &mut PluginFile,
        operator: &Operator<'_>,
    ) -> bool {
        let mut has_changed = false;
        slot.not_accepted.clear();
        let running = slot.running.as_ref().map(|running| &running.version);
        if let Some(version) = slot.restored.take() {
            has_changed |= self
                .enter(file, slot, version, Entrance::Back, operator)
                .await;
        } else if let Some(version) = running.cloned() {
            has_changed |= self
                .enter(file, slot, version, Entrance::Again, operator)
                .await;
        }
        let may_begin = slot.may_begin();
        if let Some(version) = slot.candidate.clone().filter(|_| may_begin) {
            has_changed |= self
                .enter(file, slot, version, Entrance::New, operator)
                .await;
        } else if let (Some(version), Some(reason)) =
            (slot.candidate.clone(), slot.wants_settings(file))
        {
            self.wait(file, slot, &version, &reason);
        }
        has_changed
    }

    /// Installs a version with the current settings. Returns whether that has changed anything.
    async fn enter(
        &mut self,
        file: &str,
        slot: &mut PluginFile,
        version: LoadedVersion,
        entrance: Entrance,
        operator: &Operator<'_>,
    ) -> bool {
        let Some(settings) = self
            .settings(file, slot, &version, entrance, operator)
            .await
        else {
            return false;
        };
        let version = LoadedVersion {
            accepted: Some(settings.clone()),
            ..version
        };
        let mut settings = SettingsFile::clone(&settings);
        // A command cannot resume what the settings pause.
        settings.paused = Some(slot.is_paused || settings.paused == Some(true));
        let name = settings.name_of(&version.manifest);
        if !self.is_trusted(file, slot, &version, entrance, &settings, operator.host) {
            return false;
        }
        let is_by_acceptance = trust::is_by_acceptance(&settings, operator.host);
        let is_pinned = trust::is_pinned(&settings, &version.digest);
        let (identity, sandbox) = (settings.identity.clone(), settings.for_sandbox());
        let cluster_scoped = self.cluster_scoped(&version.manifest).await;
        let concurrency = version.plugin.limits().concurrency;
        let mut settings = settings.for_hub(operator.host, concurrency, cluster_scoped);
        let reads = settings.grants.reads(&version.manifest);
        match slot
            .reviews
            .ask(&self.cluster, identity.as_ref(), &reads, &mut self.silence)
            .await
        {
            Ok(forbidden) => settings.grants.forbidden = forbidden,
            // A running version keeps the reads it was allowed; a new one is not started without a
            // review.
            Err(reason) => {
                self.wait(file, slot, &version, &reason);
                return false;
            }
        }
        if entrance == Entrance::Again {
            slot.waits_no_more();
        }
        let is_as_before = |running: &&mut Running| {
            entrance == Entrance::Again
                && running.settings == settings
                && running.sandbox == sandbox
                && running.name() == name
        };
        if let Some(running) = slot.running.as_mut().filter(is_as_before) {
            running.version = version;
            slot.named(None);
            return false;
        }
        let granted = settings.grants.limit(&version.manifest);
        if let Some(reason) = has_no_subject(&granted, identity.as_ref()) {
            self.wait(file, slot, &version, &reason);
            return self.suspend(file, slot, entrance);
        }
        if self.draining.has(&name) {
            self.wait(file, slot, &version, NAMESAKE_DRAINS);
            return false;
        }
        // A version that is rolled back to has run before, and it replaces a worse one, so it does
        // not have to wait for room.
        if entrance != Entrance::Back
            && let Some(reason) = self.crowd(&granted)
        {
            self.wait(file, slot, &version, &reason);
            return false;
        }
        if entrance == Entrance::New
            && let Some(reason) = self.obstacle(&granted).await
        {
            self.wait(file, slot, &version, &reason);
            return false;
        }
        let not_granted = missing(&version.manifest, &granted);
        let (waiting, entering) = (version.clone(), version.clone());
        match self.put(file, slot, &name, version, settings, sandbox) {
            Ok(()) => {
                slot.not_granted = not_granted;
                slot.named(None);
                if entrance == Entrance::New {
                    slot.is_let_in();
                }
                if is_by_acceptance {
                    self.remember(file, &name, &entering, is_pinned);
                }
                self.tell(file, slot, entrance);
                true
            }
            Err(Refusal::NotYet) => {
                self.wait(file, slot, &waiting, NAMESAKE_DRAINS);
                false
            }
            Err(Refusal::Join(error @ JoinError::DuplicateName(_)))
                if entrance == Entrance::Again =>
            {
                let reason = error.to_string();
                if slot.named(Some(reason.clone())) {
                    let plugin = slot.name();
                    error!(plugin, file, reason, "{SETTINGS_NOT_APPLIED}");
                }
                false
            }
            // The host is stopping. What is queued still runs, as it would have without this
            // version.
            Err(Refusal::Join(JoinError::Draining)) => false,
            Err(Refusal::Join(error)) => {
                refuse(file, slot, &error.to_string());
                self.suspend(file, slot, entrance)
            }
        }
    }

    /// The current settings, if the configuration in them fits the version's schema, and if they do
    /// not grant a running version more than was accepted. Otherwise a running version keeps the
    /// settings it was installed with, and so does one that is rolled back to; a new version is
    /// refused (`None`).
    async fn settings(
        &self,
        file: &str,
        slot: &mut PluginFile,
        version: &LoadedVersion,
        entrance: Entrance,
        operator: &Operator<'_>,
    ) -> Option<Arc<SettingsFile>> {
        let settings = slot.settings.or(operator.defaults);
        let config = settings.config_json();
        let fits = slot.fitting.ask(&self.schemas, version, config).await;
        let reason = fits.err().map(|fault| fault.to_string());
        let reason = reason.or_else(|| match entrance {
            Entrance::Again => self.widened(file, slot, version, &settings, operator.host),
            _ => None,
        });
        if entrance == Entrance::New {
            let Some(reason) = reason else {
                return Some(Arc::new(settings));
            };
            refuse(file, slot, &reason);
            return None;
        }
        let accepted = reason.as_ref().and(version.accepted.clone());
        if slot.judged(reason.clone()) {
            error!(plugin = slot.name(), file, reason, "{SETTINGS_NOT_APPLIED}");
        }
        Some(accepted.unwrap_or_else(|| Arc::new(settings)))
    }

    fn wait(&self, file: &str, slot: &mut PluginFile, version: &LoadedVersion, reason: &str) {
        let plugin = slot.settings.name_of(&version.manifest);
        if slot.wait(reason.to_owned()) {
            let reason = slot.said_of_file(reason);
            warn!(plugin, file, reason, "plugin waits");
        }
    }

    /// Evicts the running version if it may not run with the current settings. It must not go on
    /// with the earlier ones. Returns whether it did.
    fn suspend(&mut self, file: &str, slot: &mut PluginFile, entrance: Entrance) -> bool {
        if entrance != Entrance::Again {
            return false;
        }
        self.evict(file, slot);
        true
    }

    /// Drains the running plugin and drops its queued keys. Its version becomes the candidate, if
    /// there is no other, so that it is installed again when it may run.
    pub fn evict(&mut self, file: &str, slot: &mut PluginFile) {
        let version = slot.running.as_ref().map(|running| running.version.clone());
        self.retire(file, slot, Queued::Drop);
        slot.candidate = slot.candidate.take().or(version);
    }

    /// Drains the running plugin, if there is one.
    pub fn retire(&mut self, file: &str, slot: &mut PluginFile, queued: Queued) {
        let entry = slot.entry(file);
        if let Some(running) = slot.running.take() {
            self.draining.begin(&self.shared, running, queued, entry);
        }
    }

    /// Removes a plugin that has drained from the hub.
    pub fn vacate(&mut self, running: &Running) {
        self.shared.leave(running.id);
        self.outrank.remove(&running.id);
        self.metrics.remove_plugin(running.name());
        self.cluster.forget(running.name());
    }

    fn put(
        &mut self,
        file: &str,
        slot: &mut PluginFile,
        name: &str,
        version: LoadedVersion,
        settings: ControllerSettings,
        sandbox: Sandbox,
    ) -> Result<(), Refusal> {
        let own = slot.running.as_ref().map(|running| running.id);
        let namesake = self.shared.read(Cause::Plugins, |hub| hub.id_of(name));
        if let Some(namesake) = namesake.filter(|namesake| Some(*namesake) != own) {
            let outrank = self.outrank.get(&namesake);
            // This file comes first in the order, and its name was not known when the other plugin
            // joined.
            if outrank.is_some_and(|files| files.contains(file)) {
                self.outranked.push(namesake);
                return Err(Refusal::NotYet);
            }
            return Err(Refusal::Join(JoinError::DuplicateName(name.to_owned())));
        }
        let plugin = running_as(slot, name, &version, &sandbox).unwrap_or_else(|| {
            let (policy, options) = (&sandbox.policy, sandbox.options);
            Arc::new(version.plugin.named(name, policy, options))
        });
        let was_fit = slot.running.as_ref().is_some_and(|running| {
            self.shared
                .read(Cause::Plugins, |hub| hub.may_roll_back_to(running.id))
        });
        let is_same = |running: &&Running| running.name() == name;
        let id = match slot.running.as_ref().filter(is_same) {
            None => {
                let joined = self.shared.join(plugin.clone(), &settings);
                let id = joined.map_err(Refusal::Join)?;
                self.outrank.insert(id, self.unknown.clone());
                self.is_known(file);
                self.metrics.add_plugin(name);
                if slot.running.is_some() {
                    // The plugin has a new name. Its old entry in the hub drains, and the keys are
                    // the new one's now.
                    slot.previous = None;
                    self.retire(file, slot, Queued::Drop);
                }
                id
            }
            Some(running) => {
                let id = running.id;
                let is_light = running.version.digest == version.digest
                    && running.sandbox == sandbox
                    && is_light(&running.settings, &settings);
                if is_light {
                    self.shared
                        .change(Cause::Plugins, |hub, now| hub.configure(id, &settings, now));
                } else {
                    let replaced = self.shared.replace(id, plugin.clone(), &settings);
                    let longest = replaced.map_err(Refusal::Join)?;
                    // No key was handed out during this time.
                    let took_us = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
                    info!(plugin = name, took_us, "plugin version replaced");
                }
                id
            }
        };
        let old = slot.running.as_ref().map(|running| &running.version);
        if let Some(old) = old.filter(|old| old.digest != version.digest) {
            self.metrics.lives().swapped(name);
            if was_fit {
                slot.previous = Some(old.clone());
            }
        }
        slot.running = Some(Running {
            id,
            version,
            plugin,
            settings,
            sandbox,
        });
        Ok(())
    }

    fn tell(&self, file: &str, slot: &PluginFile, entrance: Entrance) {
        let Some(running) = &slot.running else {
            return;
        };
        let manifest = &running.version.manifest;
        let (plugin, version) = (running.name(), &manifest.version);
        if manifest.config_schema.is_none() && !slot.settings.config.is_empty() {
            warn!(
                plugin,
                file, "the plugin has no config-schema; its configuration is passed unchecked"
            );
        }
        match entrance {
            Entrance::Again => return self.tell_settings(plugin, file, running),
            Entrance::Back => {
                let reason = slot.entry(file).problem;
                return warn!(
                    plugin,
                    version, file, reason, "running an earlier version of the plugin"
                );
            }
            Entrance::New => {}
        }
        info!(
            plugin,
            version,
            digest = &running.version.digest[..12],
            file,
            "plugin loaded"
        );
        if !slot.not_granted.is_empty() {
            let not_granted = slot.not_granted.join(", ");
            let settings = settings_of(file);
            warn!(
                plugin,
                not_granted,
                "the plugin asks for more than it is granted; pilothouse check prints the [grants] table for {settings} that grants it"
            );
        }
    }

    /// Logs that settings were applied. Settings that do not make keys run again do not end a
    /// quarantine.
    fn tell_settings(&self, plugin: &str, file: &str, running: &Running) {
        let quarantined = self.shared.quarantined();
        if quarantined.iter().any(|(id, _)| *id == running.id) {
            info!(
                plugin,
                file, "settings applied; the plugin stays in quarantine"
            );
        } else if running.settings.is_paused {
            info!(plugin, file, "settings applied; the plugin is paused");
        } else {
            info!(plugin, file, "plugin runs with other settings");
        }
    }

    /// The kinds of a manifest that are cluster-scoped. Unknown kinds are taken to be namespaced.
    async fn cluster_scoped(&self, manifest: &Manifest) -> BTreeSet<Kind> {
        let mut found = BTreeSet::new();
        for kind in manifest.kinds() {
            let resource = self.cluster.discovery().resolve(kind).await;
            if resource.is_ok_and(|resource| !resource.is_namespaced) {
                found.insert(kind.clone());
            }
        }
        found
    }

    /// Why the list-watches that a plugin needs exceed the limit, if they do. A running version
    /// keeps those it has.
    fn crowd(&self, granted: &Manifest) -> Option<String> {
        let limit = self.watch_limit;
        self.shared
            .read(Cause::Plugins, |hub| limit.refusal(hub, granted))
    }

    /// Why one of the kinds that a plugin is granted is not available, if so.
    async fn obstacle(&self, granted: &Manifest) -> Option<String> {
        if let Some(reason) = self.budget.is_used_up(&self.shared) {
            return Some(reason);
        }
        let obstacles = kinds::obstacles(self.cluster.discovery(), granted).await;
        obstacles.into_iter().next()
    }
}

/// Refuses the candidate, and logs why if that is new.
fn refuse(file: &str, slot: &mut PluginFile, reason: &str) {
    if slot.refuse(reason.to_owned()) {
        let reason = slot.said_of_file(reason);
        error!(file, reason, "plugin not loaded");
    }
}

/// The running plugin, if it is this version in this sandbox under this name. It is reused so that
/// a change of other settings does not lose its record or its kept instances.
fn running_as(
    slot: &PluginFile,
    name: &str,
    version: &LoadedVersion,
    sandbox: &Sandbox,
) -> Option<Arc<WasmPlugin>> {
    let is_it = |running: &&Running| {
        running.version.digest == version.digest
            && running.sandbox == *sandbox
            && running.name() == name
    };
    slot.running
        .as_ref()
        .filter(is_it)
        .map(|running| running.plugin.clone())
}

/// Why the plugin would have no keys: it is not granted to read its own kind.
fn has_no_subject(granted: &Manifest, identity: Option<&Identity>) -> Option<String> {
    let kind = granted.subject_kind()?;
    if granted.reads.iter().any(|read| read.kind == *kind) {
        return None;
    }
    Some(match identity {
        Some(identity) => format!("{identity} may not list and watch {kind}"),
        None => format!("{kind} is read in none of the namespaces that the settings name"),
    })
}

/// True if this change needs no key to run again.
fn is_light(old: &ControllerSettings, new: &ControllerSettings) -> bool {
    let same = ControllerSettings {
        concurrency: old.concurrency,
        weight: old.weight,
        resync: old.resync,
        is_paused: old.is_paused,
        ..new.clone()
    };
    same == *old
}

/// What is asked for and not granted, one line each.
fn missing(asked: &Manifest, granted: &Manifest) -> Vec<String> {
    let is_read = |kind: &Kind| granted.reads.iter().any(|read| read.kind == *kind);
    let reads = asked.reads.iter().filter(|read| !is_read(&read.kind));
    let reads = reads.map(|read| format!("read {}", read.kind));
    let have: BTreeMap<_, _> = granted
        .writes
        .iter()
        .map(|write| ((&write.kind, &write.subresource), &write.verbs))
        .collect();
    let writes = asked.writes.iter().flat_map(|write| {
        let verbs = have.get(&(&write.kind, &write.subresource));
        let missing = write
            .verbs
            .iter()
            .filter(move |verb| !verbs.is_some_and(|verbs| verbs.contains(verb)));
        missing.map(move |verb| {
            let subresource = write.subresource.as_deref();
            let subresource = subresource.map(|name| format!("/{name}"));
            let subresource = subresource.unwrap_or_default();
            format!("{} {}{subresource}", verb.as_str(), write.kind)
        })
    });
    reads.chain(writes).collect()
}
