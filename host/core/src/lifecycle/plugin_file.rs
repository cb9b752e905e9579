//! One file of the plugin directory, and the versions of the plugin that came from it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::effect::Notice;
use super::entry::{PluginEntry, PluginState};
use super::event::{LoadOutcome, NotAccepted, RunTerms, SeenFile};
use super::handles::{Digest, Handles, SettingsHandle, VersionHandle, lack_of_settings};
use crate::hub::PluginId;
use crate::model::manifest::Manifest;
use crate::queue::Time;

/// Invariant: the running version goes on until something better is ready. `candidate` replaces it
/// as soon as it can.
pub(super) struct PluginFile<H: Handles> {
    file: String,
    /// The state of the file that was loaded last, or is being loaded.
    stamp: Option<H::Stamp>,
    /// The number of the last load.
    load: Option<u64>,
    is_loading: bool,
    /// The last valid settings.
    pub settings: H::Settings,
    /// Whether settings of its own are required and missing.
    lacks_settings: bool,
    problems: Problems,
    pub candidate: Option<FileVersion<H>>,
    /// What the candidate waits for, or the version to roll back to.
    waits_for: Option<String>,
    /// Whether the file waits to be loaded again because there was no room for its native code.
    lacks_room: bool,
    pub running: Option<RunningVersion<H>>,
    /// The version before the running one, if it was fit to run.
    pub previous: Option<FileVersion<H>>,
    /// The version to roll back to.
    pub restored: Option<FileVersion<H>>,
    /// The version that was rolled back. Its file is not tried again.
    rejected: Option<VersionLabel>,
    /// The version in the newest file, if that could be loaded.
    newest: Option<VersionLabel>,
    /// Whether the operator has paused the plugin by command.
    pub is_paused: bool,
    /// Whether the terms on which it was last run, or was to be run, may change although nothing
    /// tells of it.
    pub terms_may_change: bool,
    /// What the manifest asks for and the settings do not grant.
    pub not_granted: Vec<String>,
    /// What the candidate asks for and the operator has not accepted.
    pub not_accepted: Vec<String>,
    /// The end of the quarantine that was handled last.
    quarantine: Option<Time>,
}

/// What is wrong, each with its reason.
#[derive(Default)]
struct Problems {
    /// Why the newest file cannot be used.
    file: Option<String>,
    /// Why its newest settings cannot be read.
    settings: Option<String>,
    /// Why the settings for all plugins have never been valid.
    defaults: Option<String>,
    /// Why the running version is not given the current configuration.
    config: Option<String>,
    /// Why the plugin does not have the name in the current settings.
    name: Option<String>,
    /// Why the running version would not be installed under the current settings.
    pin: Option<String>,
}

/// A version of a plugin.
pub(super) struct FileVersion<H: Handles> {
    pub loaded: H::Version,
    /// The settings it was last installed with. It keeps them while no newer ones fit its schema.
    pub settings: Option<Arc<H::Settings>>,
}

impl<H: Handles> Clone for FileVersion<H> {
    fn clone(&self) -> Self {
        Self {
            loaded: self.loaded.clone(),
            settings: self.settings.clone(),
        }
    }
}

impl<H: Handles> FileVersion<H> {
    pub fn digest(&self) -> &Digest {
        self.loaded.digest()
    }

    pub fn manifest(&self) -> &Arc<Manifest> {
        self.loaded.manifest()
    }
}

/// Identifies a version.
#[derive(Clone)]
struct VersionLabel {
    digest: Digest,
    version: String,
}

impl VersionLabel {
    fn of<H: Handles>(version: &FileVersion<H>) -> Self {
        Self {
            digest: version.digest().clone(),
            version: version.manifest().version.clone(),
        }
    }
}

/// A plugin in the hub.
pub(super) struct RunningVersion<H: Handles> {
    pub id: PluginId,
    /// The plugin's name: that in the settings, or else that in the manifest.
    pub name: String,
    pub version: FileVersion<H>,
    pub terms: RunTerms<H>,
    /// The files that were being loaded for the first time when the plugin joined, and that come
    /// earlier. If one of them turns out to have the plugin's name, the plugin has to drain.
    pub outranked_by: BTreeSet<String>,
}

impl<H: Handles> PluginFile<H> {
    pub fn new(file: &str) -> Self {
        Self {
            file: file.to_owned(),
            stamp: None,
            load: None,
            is_loading: false,
            settings: H::Settings::default(),
            lacks_settings: false,
            problems: Problems::default(),
            candidate: None,
            waits_for: None,
            lacks_room: false,
            running: None,
            previous: None,
            restored: None,
            rejected: None,
            newest: None,
            is_paused: false,
            terms_may_change: false,
            not_granted: Vec::new(),
            not_accepted: Vec::new(),
            quarantine: None,
        }
    }

    /// The name of the file.
    pub fn name_of_file(&self) -> &str {
        &self.file
    }

    /// Takes note of the file as it is now, and of whether settings of its own are required.
    /// Returns whether the file has to be loaded.
    pub fn see(&mut self, seen: SeenFile<H>, requires_settings: bool) -> bool {
        self.lacks_settings = requires_settings && seen.settings.is_none();
        // The running version keeps the settings it had.
        if !self.lacks_settings {
            self.problems.settings = match seen.settings.unwrap_or_else(|| Ok(Default::default())) {
                Ok(settings) => {
                    self.settings = settings;
                    None
                }
                Err(reason) => Some(format!("settings: {reason}")),
            };
        }
        let stamp = match seen.wasm {
            Ok(stamp) => stamp,
            Err(reason) => {
                self.stamp = None;
                self.is_loading = false;
                self.lacks_room = false;
                self.load = None;
                self.problems.file = Some(reason);
                return false;
            }
        };
        // An unchanged file is loaded again only if there was no room for it before.
        if self.stamp.as_ref() == Some(&stamp) && (self.is_loading || !self.lacks_room) {
            return false;
        }
        self.stamp = Some(stamp);
        true
    }

    /// A load has begun. Earlier loads are ignored from now on.
    pub fn begins(&mut self, load: u64) {
        self.is_loading = true;
        self.load = Some(load);
    }

    /// The digests of the versions that need no compilation.
    pub fn known(&self) -> Vec<Digest> {
        let versions = self.versions().map(|version| version.digest().clone());
        let rejected = self.rejected.as_ref().map(|label| label.digest.clone());
        versions.chain(rejected).collect()
    }

    fn versions(&self) -> impl Iterator<Item = &FileVersion<H>> {
        let running = self.running.as_ref().map(|running| &running.version);
        let others = self.previous.iter().chain(&self.restored);
        running.into_iter().chain(others).chain(&self.candidate)
    }

    /// True if this is the result of the last load, and if the version that it found in the file
    /// was known when the load began, and is not any more. Then the file has to be loaded again.
    pub fn has_lost(&self, load: u64, result: &Result<LoadOutcome<H::Version>, String>) -> bool {
        let Ok(LoadOutcome::Known(digest)) = result else {
            return false;
        };
        Some(load) == self.load && !self.known().contains(digest)
    }

    /// Takes over the result of a load. Returns false if a later load has begun, so that this one
    /// is ignored.
    pub fn loaded(&mut self, load: u64, result: Result<LoadOutcome<H::Version>, String>) -> bool {
        if Some(load) != self.load {
            return false;
        }
        self.is_loading = false;
        let never_installed = |loaded| FileVersion {
            loaded,
            settings: None,
        };
        let result = result.map(|outcome| outcome.map(never_installed));
        self.newest = self.label(&result);
        // The file holds the version that was rolled back. That changes nothing.
        if matches!(&result, Ok(LoadOutcome::Known(digest)) if self.has_rejected(digest)) {
            return true;
        }
        let known = match &result {
            Ok(LoadOutcome::Known(digest)) => self.known_version(digest),
            _ => None,
        };
        self.waits_for = None;
        self.candidate = None;
        self.problems.file = None;
        self.lacks_room = false;
        match result {
            Err(reason) => self.problems.file = Some(reason),
            Ok(LoadOutcome::NoRoom(reason)) => {
                self.waits_for = Some(reason);
                self.lacks_room = true;
            }
            Ok(LoadOutcome::New(version)) => self.candidate = Some(version),
            Ok(LoadOutcome::Known(_)) => self.candidate = known,
        }
        true
    }

    /// The plugin in the newest file, if that is a new version: its name, the file it was found in,
    /// and its manifest.
    pub fn in_newest(&self) -> Option<(String, Option<H::Stamp>, Arc<Manifest>)> {
        let manifest = self.candidate.as_ref()?.manifest();
        let name = self.settings.name_of(manifest);
        Some((name, self.stamp.clone(), manifest.clone()))
    }

    /// A version that is known and does not run.
    fn known_version(&self, digest: &Digest) -> Option<FileVersion<H>> {
        let running = self.running.as_ref();
        if running.is_some_and(|running| running.version.digest() == digest) {
            return None;
        }
        let mut versions = self.versions();
        versions.find(|version| version.digest() == digest).cloned()
    }

    fn label(&self, result: &Result<LoadOutcome<FileVersion<H>>, String>) -> Option<VersionLabel> {
        match result {
            Ok(LoadOutcome::New(version)) => Some(VersionLabel::of(version)),
            Ok(LoadOutcome::Known(digest)) => {
                let known = self.versions().map(VersionLabel::of);
                let mut labels = known.chain(self.rejected.clone());
                labels.find(|label| label.digest == *digest)
            }
            Ok(LoadOutcome::NoRoom(_)) | Err(_) => None,
        }
    }

    fn has_rejected(&self, digest: &Digest) -> bool {
        let rejected = self.rejected.as_ref();
        rejected.is_some_and(|label| label.digest == *digest)
    }

    /// A message about the newest file. If another version runs, the message names both.
    fn said_of_file(&self, why: &str) -> String {
        let running = self.running.as_ref().map(|running| &running.version);
        match (running, &self.newest) {
            (Some(running), Some(newest)) if newest.digest != *running.digest() => {
                let (running, newest) = (&running.manifest().version, &newest.version);
                format!("running {running}, NOT the file's {newest}: {why}")
            }
            (Some(running), None) => {
                let running = &running.manifest().version;
                format!("running {running}, NOT what is in the file: {why}")
            }
            _ => why.to_owned(),
        }
    }

    /// A version has to wait. Returns what is told of it, if the reason is new.
    pub fn wait(&mut self, version: &FileVersion<H>, reason: &str) -> Option<Notice> {
        let is_news = self.waits_for.as_deref() != Some(reason);
        self.waits_for = Some(reason.to_owned());
        is_news.then(|| Notice::Waits {
            plugin: Some(self.settings.name_of(version.manifest())),
            file: self.file.clone(),
            reason: self.said_of_file(reason),
        })
    }

    /// A version waits to be accepted. Returns what is told of it, if that is new.
    pub fn wait_for_acceptance(
        &mut self,
        version: &FileVersion<H>,
        objection: NotAccepted,
    ) -> Option<Notice> {
        self.not_accepted = objection.more;
        self.wait(version, &objection.reason)
    }

    /// The running version is no longer held up. Only another version can still be waiting.
    pub fn waits_no_more(&mut self) {
        if self.candidate.is_none() && self.restored.is_none() && !self.lacks_room {
            self.waits_for = None;
        }
    }

    /// The candidate is refused for now. Returns what is told of it, if the reason is new.
    pub fn refuse(&mut self, reason: &str) -> Option<Notice> {
        self.waits_for = None;
        let is_news = self.problems.file.as_deref() != Some(reason);
        self.problems.file = Some(reason.to_owned());
        is_news.then(|| Notice::NotLoaded {
            file: self.file.clone(),
            reason: self.said_of_file(reason),
        })
    }

    /// Sets what is wrong with the configuration for the running version, which keeps its earlier
    /// settings. Returns what is told of it, if that is new.
    pub fn judged(&mut self, problem: Option<&str>) -> Option<Notice> {
        let reason = news(&mut self.problems.config, problem)?;
        Some(self.keeps_settings(reason))
    }

    /// Sets what is wrong with the name in the settings; the running plugin keeps its earlier name.
    /// Returns what is told of it, if that is new.
    pub fn named(&mut self, problem: Option<&str>) -> Option<Notice> {
        let reason = news(&mut self.problems.name, problem)?;
        Some(self.keeps_settings(reason))
    }

    fn keeps_settings(&self, reason: String) -> Notice {
        Notice::SettingsNotApplied {
            plugin: self.name(),
            file: self.file.clone(),
            reason,
        }
    }

    /// Sets what is wrong with the digest of the running version, which goes on. Returns what is
    /// told of it, if that is new.
    pub fn pinned(&mut self, problem: Option<&str>) -> Option<Notice> {
        let reason = news(&mut self.problems.pin, problem)?;
        Some(Notice::Unpinned {
            plugin: self.name(),
            file: self.file.clone(),
            reason,
        })
    }

    /// The plugin's name, if it is known.
    pub fn name(&self) -> Option<String> {
        let running = self.running.as_ref().map(|running| running.name.clone());
        let candidate = self.candidate.as_ref();
        running.or_else(|| Some(self.settings.name_of(candidate?.manifest())))
    }

    /// True if an operator may call the plugin by this name: its own, or that of its file.
    pub fn is_called(&self, name: &str) -> bool {
        self.name().as_deref() == Some(name) || self.file.strip_suffix(".wasm") == Some(name)
    }

    /// True if the operator's settings pause the running version.
    pub fn is_paused_by_settings(&self) -> bool {
        let running = self.running.as_ref();
        let settings = running.and_then(|running| running.version.settings.as_ref());
        settings.is_some_and(|settings| settings.is_paused())
    }

    /// The running version is in quarantine. Returns whether that is new.
    pub fn quarantined(&mut self, until: Time) -> bool {
        self.quarantine.replace(until) != Some(until)
    }

    /// Sets what is reported of the newest file while another version runs.
    pub fn note(&mut self, problem: String) {
        self.problems.file = Some(problem);
    }

    /// The candidate has been installed.
    pub fn is_let_in(&mut self) {
        self.candidate = None;
        self.waits_for = None;
        self.problems.file = None;
        self.problems.config = None;
        self.problems.name = None;
        self.problems.pin = None;
        self.rejected = None;
        // It was to replace the version that the candidate has replaced.
        let restored = self.restored.take();
        let running = self
            .running
            .as_ref()
            .map(|running| running.version.digest());
        let restored = restored.filter(|restored| Some(restored.digest()) != running);
        self.previous = restored.or_else(|| self.previous.take());
    }

    /// Orders a rollback to the previous version, and returns its version string. The running
    /// version is not tried again. `None` if there is no previous version.
    pub fn roll_back(&mut self) -> Option<String> {
        let running = self.running.as_ref()?;
        let version = self.previous.take()?;
        self.rejected = Some(VersionLabel::of(&running.version));
        let name = version.manifest().version.clone();
        self.restored = Some(version);
        Some(name)
    }

    /// The optional kinds that the running version works without.
    fn not_served(&self) -> Vec<String> {
        let running = self.running.iter();
        let absent = running.flat_map(|running| &running.terms.settings.grants.absent);
        absent.map(ToString::to_string).collect()
    }

    /// True while the plugin's name is not known yet: its first version is being loaded.
    pub fn is_loading_first(&self) -> bool {
        self.is_loading && self.running.is_none()
    }

    /// True if the file has to be looked at again although nothing changes.
    pub fn is_pending(&self) -> bool {
        let is_waiting = self.candidate.is_some() || self.restored.is_some();
        is_waiting || self.lacks_room || self.terms_may_change
    }

    /// Without valid settings no version is started. A running plugin goes on with the last valid
    /// ones.
    pub fn may_begin(&self) -> bool {
        let has_some = self.problems.settings.is_none() && !self.lacks_settings;
        has_some || self.running.is_some()
    }

    /// What the plugin waits for, if settings of its own are required and missing.
    pub fn wants_settings(&self) -> Option<String> {
        self.lacks_settings.then(|| lack_of_settings(&self.file))
    }

    /// Sets what is wrong with the settings for all plugins. `None` once they have been valid.
    pub fn set_defaults_problem(&mut self, problem: Option<&String>) {
        self.problems.defaults = problem.cloned();
    }

    /// What is told of the file, if it differs from this earlier entry.
    pub fn news_since(&self, before: &PluginEntry) -> Option<Notice> {
        let after = self.entry();
        let file = after.file;
        match after.state {
            PluginState::Failed(reason) if before.state != PluginState::Failed(reason.clone()) => {
                Some(Notice::NotLoaded { file, reason })
            }
            // What is told of a version that is loaded already, `wait` returns.
            PluginState::Waiting(reason)
                if before.state != PluginState::Waiting(reason.clone()) =>
            {
                let plugin = None;
                Some(Notice::Waits {
                    plugin,
                    file,
                    reason,
                })
            }
            PluginState::Joined(_) if before.problem != after.problem => {
                let reason = after.problem?;
                Some(Notice::KeepsRunning { file, reason })
            }
            _ => None,
        }
    }

    /// The file's entry in the list of plugins.
    pub fn entry(&self) -> PluginEntry {
        let running = self.running.as_ref().map(|running| &running.version);
        let version = running.or(self.candidate.as_ref());
        let of_file = |why: &String| self.said_of_file(why);
        let problems = &self.problems;
        let of_settings = problems.config.clone().or_else(|| problems.name.clone());
        let fault = problems.file.as_ref().map(of_file);
        let fault = fault.or(of_settings.filter(|_| running.is_some()));
        let fault = fault.or_else(|| problems.settings.clone());
        let fault = fault.or_else(|| problems.defaults.clone());
        let waits_for = self.waits_for.as_ref().map(of_file);
        let lesser = waits_for.clone().or_else(|| problems.pin.clone());
        let lesser = lesser.or_else(|| self.wants_settings());
        let state = match &self.running {
            Some(running) => PluginState::Joined(running.id),
            // While there is no room it is loaded again and again; that is reported as waiting.
            None if self.is_loading && !self.lacks_room => PluginState::Loading,
            None => match (&fault, &waits_for) {
                (Some(reason), _) => PluginState::Failed(reason.clone()),
                (_, Some(reason)) => PluginState::Waiting(reason.clone()),
                _ => PluginState::Loading,
            },
        };
        let previous = self.previous.as_ref();
        PluginEntry {
            file: self.file.clone(),
            name: self.name(),
            manifest: version.map(|version| version.manifest().clone()),
            digest: version.map(|version| version.digest().to_string()),
            problem: fault.or(lesser).filter(|_| self.running.is_some()),
            previous: previous.map(|version| version.manifest().version.clone()),
            not_granted: self.not_granted.clone(),
            not_accepted: self.not_accepted.clone(),
            not_served: self.not_served(),
            state,
        }
    }
}

/// Sets a problem, and returns it if it is new.
fn news(known: &mut Option<String>, problem: Option<&str>) -> Option<String> {
    let is_news = problem.is_some() && known.as_deref() != problem;
    *known = problem.map(str::to_owned);
    known.clone().filter(|_| is_news)
}
