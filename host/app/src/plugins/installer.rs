//! Answers what `core::lifecycle` asks: about configurations, acceptance, access, room and kinds.
//! Installs versions in the hub.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pilothouse_cluster::ApiCluster;
use pilothouse_core::{
    Installed, JoinError, Kind, Manifest, NotAccepted, Plugin, PluginId, RunTerms, Wants,
};
use pilothouse_wasm::WasmPlugin;
use tracing::info;

use super::access_reviews::{AccessReviews, Silence};
use super::config_checks::ConfigChecks;
use super::handles::{HostAnswer, HostHandles, HostQuestion, VersionWithSettings};
use super::loading::LoadedVersion;
use crate::informers::{Budget, WatchLimit};
use crate::kinds;
use crate::metrics::Metrics;
use crate::schema::Schemas;
use crate::settings::HostDefaults;
use crate::shared::{Cause, Shared};
use crate::trust::{self, AcceptedStore, Asked, Verdict};

/// The parts that an installer works with.
pub struct InstallerParts {
    pub schemas: Schemas,
    pub cluster: Arc<ApiCluster>,
    pub shared: Arc<Shared>,
    pub metrics: Arc<Metrics>,
    pub budget: Budget,
    pub watch_limit: WatchLimit,
    pub accepted: AcceptedStore,
    pub host: HostDefaults,
}

/// See the module's documentation.
pub struct Installer {
    parts: InstallerParts,
    silence: Silence,
    /// What has been found out about the plugin of each file.
    findings: BTreeMap<String, Findings>,
    /// The plugins in the hub, each in its sandbox.
    installed: BTreeMap<PluginId, Arc<WasmPlugin>>,
}

#[derive(Default)]
struct Findings {
    /// Which configurations fit which versions.
    fitting: ConfigChecks,
    /// What the cluster lets the plugin's identity read.
    reviews: AccessReviews,
}

impl Installer {
    pub fn new(parts: InstallerParts) -> Self {
        Self {
            parts,
            silence: Silence::default(),
            findings: BTreeMap::new(),
            installed: BTreeMap::new(),
        }
    }

    /// Forgets what was found out about the plugins of files that have gone.
    pub fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        self.findings.retain(|file, _| is_there(file));
    }

    pub async fn answer(&mut self, question: HostQuestion) -> HostAnswer {
        match question {
            HostQuestion::Config(asked) => HostAnswer::Config(self.check_config(asked).await),
            HostQuestion::Acceptance(asked) => HostAnswer::Acceptance(self.beyond_accepted(&asked)),
            HostQuestion::Access(asked) => HostAnswer::Access {
                may_change: asked.settings.identity.is_some()
                    || !asked.version.manifest.optional.is_empty(),
                terms: self.terms(asked).await,
            },
            HostQuestion::Watches(granted) => HostAnswer::Watches(self.crowd(&granted)),
            HostQuestion::Kinds(granted) => HostAnswer::Kinds(self.obstacle(&granted).await),
            HostQuestion::Join {
                name,
                version,
                terms,
            } => HostAnswer::Installed(self.join(&name, &version, &terms)),
            HostQuestion::Swap {
                plugin,
                name,
                version,
                terms,
                is_same,
            } => {
                let same = self.installed.get(&plugin).filter(|_| is_same).cloned();
                let instance = same.unwrap_or_else(|| in_sandbox(&name, &version, &terms));
                HostAnswer::Installed(self.swap(plugin, instance, &terms))
            }
            HostQuestion::Configure { plugin, terms } => {
                let shared = &self.parts.shared;
                shared.change(Cause::Plugins, |hub, now| {
                    hub.configure(plugin, &terms.settings, now);
                });
                HostAnswer::Installed(Ok(self.installed(plugin, true)))
            }
        }
    }

    /// Removes a plugin that has drained from the hub.
    pub fn remove(&mut self, plugin: PluginId, name: &str) {
        self.parts.shared.leave(plugin);
        self.installed.remove(&plugin);
        self.parts.metrics.remove_plugin(name);
        self.parts.cluster.forget(name);
    }

    fn findings(&mut self, file: String) -> &mut Findings {
        self.findings.entry(file).or_default()
    }

    async fn check_config(&mut self, asked: VersionWithSettings) -> Result<(), String> {
        let schemas = self.parts.schemas.clone();
        let config = asked.settings.config_json();
        let fitting = &mut self.findings(asked.file).fitting;
        let fits = fitting.ask(&schemas, &asked.version, config).await;
        fits.map_err(|fault| fault.to_string())
    }

    /// How a version is run with these settings, and what the cluster lets its identity read.
    async fn terms(&mut self, asked: VersionWithSettings) -> Result<RunTerms<HostHandles>, String> {
        let (manifest, settings) = (&asked.version.manifest, &asked.settings);
        let discovery = self.parts.cluster.discovery();
        let absent = kinds::absent(discovery, manifest).await?;
        let cluster_scoped = self.cluster_scoped(manifest, &absent).await;
        let concurrency = asked.version.plugin.limits().concurrency;
        let mut for_hub = settings.for_hub(&self.parts.host, concurrency, cluster_scoped);
        if let Some(why) = for_hub.undividable(manifest) {
            return Err(why);
        }
        for_hub.grants.absent = absent;
        let reads = for_hub.grants.reads(manifest);
        let identity = settings.identity.as_ref();
        let findings = self.findings.entry(asked.file).or_default();
        let (cluster, silence) = (&self.parts.cluster, &mut self.silence);
        let review = findings.reviews.ask(cluster, identity, &reads, silence);
        for_hub.grants.forbidden = review.await?;
        Ok(RunTerms {
            settings: Box::new(for_hub),
            sandbox: settings.for_sandbox(),
            identity: identity.map(ToString::to_string),
        })
    }

    /// The kinds of a manifest that are cluster-scoped. Unknown kinds are taken to be namespaced.
    async fn cluster_scoped(&self, manifest: &Manifest, absent: &BTreeSet<Kind>) -> BTreeSet<Kind> {
        let mut found = BTreeSet::new();
        for kind in manifest
            .kinds()
            .into_iter()
            .filter(|kind| !absent.contains(*kind) && !kind.is_pattern())
        {
            let resource = self.parts.cluster.discovery().look_for(kind, None).await;
            if resource.is_ok_and(|resource| !resource.is_namespaced) {
                found.insert(kind.clone());
            }
        }
        found
    }

    /// Why the list-watches that a plugin needs exceed the limit, if they do. A running version
    /// keeps those it has.
    fn crowd(&self, granted: &Manifest) -> Option<String> {
        let limit = self.parts.watch_limit;
        let shared = &self.parts.shared;
        shared.read(Cause::Plugins, |hub| limit.refusal(hub, granted))
    }

    /// Why one of the kinds that a plugin is granted is not available, if so.
    async fn obstacle(&self, granted: &Manifest) -> Option<String> {
        if let Some(reason) = self.parts.budget.is_used_up(&self.parts.shared) {
            return Some(reason);
        }
        let obstacles = kinds::obstacles(self.parts.cluster.discovery(), granted).await;
        obstacles.into_iter().next()
    }

    fn join(
        &mut self,
        name: &str,
        version: &LoadedVersion,
        terms: &RunTerms<HostHandles>,
    ) -> Result<Installed, JoinError> {
        let instance = in_sandbox(name, version, terms);
        let plugin = self.parts.shared.join(instance.clone(), &terms.settings)?;
        self.installed.insert(plugin, instance);
        self.parts.metrics.add_plugin(name);
        Ok(self.installed(plugin, false))
    }

    fn swap(
        &mut self,
        plugin: PluginId,
        instance: Arc<WasmPlugin>,
        terms: &RunTerms<HostHandles>,
    ) -> Result<Installed, JoinError> {
        let shared = &self.parts.shared;
        let was_fit = shared.read(Cause::Plugins, |hub| hub.may_roll_back_to(plugin));
        let longest = shared.replace(plugin, instance.clone(), &terms.settings)?;
        // No key was handed out during this time.
        let took_us = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
        let name = &instance.manifest().name;
        let old = self.installed.get(&plugin);
        let digest = |instance: &WasmPlugin| instance.report().digest;
        if old.is_some_and(|old| digest(old) == digest(&instance)) {
            info!(plugin = name, took_us, "plugin settings replaced");
        } else {
            info!(plugin = name, took_us, "plugin version replaced");
        }
        self.installed.insert(plugin, instance);
        Ok(self.installed(plugin, was_fit))
    }

    fn installed(&self, plugin: PluginId, was_fit: bool) -> Installed {
        let quarantined = self.parts.shared.quarantined();
        Installed {
            plugin,
            was_fit,
            is_quarantined: quarantined.iter().any(|(id, _)| *id == plugin),
        }
    }

    /// What a version asks for beyond what was accepted, if that matters under these settings.
    fn beyond_accepted(&self, asked: &VersionWithSettings) -> Option<NotAccepted> {
        let parts = &self.parts;
        let name = asked.settings.name_of(&asked.version.manifest);
        let version = asked_for(asked, &name);
        trust::beyond_accepted(&asked.settings, &parts.host, &parts.accepted, version)
    }

    /// Accepts what a version asks for.
    pub fn accept(&mut self, accepted: &VersionWithSettings) {
        let manifest = &accepted.version.manifest;
        let name = accepted.settings.name_of(manifest);
        let asked = asked_for(accepted, &name);
        self.parts.accepted.accept(asked, &Wants::of(manifest));
    }

    /// Records what a version asks for that has been installed, if it is granted what was accepted.
    /// Later versions are compared with it.
    pub fn remember(&mut self, installed: &VersionWithSettings) {
        let (version, settings) = (&installed.version, &installed.settings);
        if !trust::is_by_acceptance(settings, &self.parts.host) {
            return;
        }
        let name = settings.name_of(&version.manifest);
        let (asked, wants) = (asked_for(installed, &name), Wants::of(&version.manifest));
        match self.parts.accepted.judge(asked, &wants) {
            Verdict::First => info!(
                plugin = name,
                version = version.manifest.version,
                file = installed.file,
                digest = &*version.digest,
                "accepted what the plugin asks for, as the first of its name (pilothouse check shows it); a version that asks for more will wait"
            ),
            Verdict::Accepted => {}
            // The operator has named this file. It stays accepted when its digest is taken out of
            // the settings.
            Verdict::More(_) | Verdict::Unreadable(_)
                if trust::is_pinned(settings, &version.digest) => {}
            Verdict::More(_) | Verdict::Unreadable(_) => return,
        }
        self.parts.accepted.accept(asked, &wants);
    }
}

/// A version under a name, in its sandbox.
fn in_sandbox(
    name: &str,
    version: &LoadedVersion,
    terms: &RunTerms<HostHandles>,
) -> Arc<WasmPlugin> {
    let sandbox = &terms.sandbox;
    let instance = version.plugin.named(name, &sandbox.policy, sandbox.options);
    Arc::new(instance)
}

fn asked_for<'a>(version: &'a VersionWithSettings, name: &'a str) -> Asked<'a> {
    Asked {
        file: &version.file,
        name,
        digest: &version.version.digest,
        manifest: &version.version.manifest,
    }
}
