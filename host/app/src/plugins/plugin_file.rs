//! One file of the plugin directory, and the versions of the plugin that came from it.

use std::sync::Arc;

use pilothouse_core::{ControllerSettings, Plugin, PluginId, Time};
use pilothouse_wasm::WasmPlugin;

use super::access_reviews::AccessReviews;
use super::config_checks::ConfigChecks;
use super::loading::{Digest, LoadOutcome, Loaded, LoadedVersion};
use super::plugin_list::{PluginEntry, PluginState};
use crate::directory::{Found, Stamp};
use crate::settings::{self, Sandbox, SettingsFile};
use crate::trust::lack_of_settings;

/// Invariant: the running version goes on until something better is ready. `candidate` replaces it
/// as soon as it can.
#[derive(Default)]
pub struct PluginFile {
    /// The state of the file that was loaded last, or is being loaded.
    stamp: Option<Stamp>,
    ticket: Option<u64>,
    is_loading: bool,
    /// The text of the settings that was read last.
    settings_text: Option<Result<String, String>>,
    /// The last valid settings.
    pub settings: SettingsFile,
    settings_problem: Option<String>,
    /// Whether settings of its own are required and missing.
    lacks_settings: bool,
    defaults_problem: Option<String>,
    /// Which configurations fit which versions.
    pub fitting: ConfigChecks,
    /// Why the running version is not given the current configuration.
    config_problem: Option<String>,
    /// Why the plugin does not have the name in the current settings.
    name_problem: Option<String>,
    /// Why the newest file cannot be used.
    problem: Option<String>,
    pub candidate: Option<LoadedVersion>,
    /// What the candidate waits for.
    waits_for: Option<String>,
    /// Whether the file waits to be loaded again because there was no room for its native code.
    lacks_room: bool,
    pub running: Option<Running>,
    /// The version before the running one, if it was fit to run.
    pub previous: Option<LoadedVersion>,
    /// The version to roll back to.
    pub restored: Option<LoadedVersion>,
    /// The version that was rolled back. Its file is not tried again.
    rejected: Option<Label>,
    /// The version in the newest file, if that could be loaded.
    newest: Option<Label>,
    /// Whether the operator has paused the plugin by command.
    pub is_paused: bool,
    /// What the cluster lets the plugin's identity read.
    pub reviews: AccessReviews,
    /// What the manifest asks for and the settings do not grant.
    pub not_granted: Vec<String>,
    /// What the candidate asks for and the operator has not accepted.
    pub not_accepted: Vec<String>,
    /// Why the running version would not be installed under the current settings.
    pin_problem: Option<String>,
    /// The end of the quarantine that was handled last.
    quarantine: Option<Time>,
}

/// Identifies a version.
#[derive(Clone)]
struct Label {
    digest: Digest,
    version: String,
}

impl Label {
    fn of(version: &LoadedVersion) -> Self {
        Self {
            digest: version.digest.clone(),
            version: version.manifest.version.clone(),
        }
    }
}

/// A plugin in the hub.
pub struct Running {
    pub id: PluginId,
    pub version: LoadedVersion,
    /// The version's plugin, in its sandbox.
    pub plugin: Arc<WasmPlugin>,
    pub settings: ControllerSettings,
    pub sandbox: Sandbox,
}

impl Running {
    /// The plugin's name: that in the settings, or else that in the manifest.
    pub fn name(&self) -> &str {
        &self.plugin.manifest().name
    }
}

impl PluginFile {
    /// True if the operator's settings pause the running version.
    pub fn is_paused_by_settings(&self) -> bool {
        let running = self.running.as_ref();
        let settings = running.and_then(|running| running.version.accepted.as_ref());
        settings.is_some_and(|settings| settings.paused == Some(true))
    }

    /// Takes note of the file as it is now, and of whether settings of its own are required.
    /// Returns whether the file has to be loaded.
    pub fn see(&mut self, found: Found, requires_settings: bool) -> bool {
        let lacks_settings = requires_settings && found.settings.is_none();
        if self.settings_text != found.settings || self.lacks_settings != lacks_settings {
            // The running version keeps the settings it had.
            if !lacks_settings {
                self.read_settings(&found.settings);
            }
            self.settings_text = found.settings;
            self.lacks_settings = lacks_settings;
        }
        let stamp = match found.wasm {
            Ok(stamp) => stamp,
            Err(reason) => {
                self.stamp = None;
                self.is_loading = false;
                self.lacks_room = false;
                self.ticket = None;
                self.problem = Some(reason);
                return false;
            }
        };
        // An unchanged file is loaded again only if there was no room for it before.
        if self.stamp == Some(stamp) && (self.is_loading || !self.lacks_room) {
            return false;
        }
        self.stamp = Some(stamp);
        true
    }

    /// A load has begun. Earlier loads are ignored from now on.
    pub fn begins(&mut self, ticket: u64) {
        self.is_loading = true;
        self.ticket = Some(ticket);
    }

    fn read_settings(&mut self, text: &Option<Result<String, String>>) {
        let parsed = match text {
            None => Ok(SettingsFile::default()),
            Some(Ok(text)) => settings::parse(text),
            Some(Err(reason)) => Err(reason.clone()),
        };
        self.settings_problem = match parsed {
            Ok(settings) => {
                self.settings = settings;
                None
            }
            Err(reason) => Some(format!("settings: {reason}")),
        };
    }

    /// The digests of the versions that need no compilation.
    pub fn known(&self) -> Vec<Digest> {
        let versions = self.versions().map(|version| version.digest.clone());
        let rejected = self.rejected.as_ref().map(|label| label.digest.clone());
        versions.chain(rejected).collect()
    }

    fn versions(&self) -> impl Iterator<Item = &LoadedVersion> {
        let running = self.running.as_ref().map(|running| &running.version);
        running.into_iter().chain(&self.previous)
    }

    /// Takes over the result of a load. Returns false if a later load has begun, so that this one
    /// is ignored.
    pub fn loaded(&mut self, loaded: Loaded) -> bool {
        if Some(loaded.ticket) != self.ticket {
            return false;
        }
        self.is_loading = false;
        self.newest = match &loaded.result {
            Ok(LoadOutcome::New(version)) => Some(Label::of(version)),
            Ok(LoadOutcome::Known(digest)) => {
                let known = self.versions().map(Label::of);
                let mut labels = known.chain(self.rejected.clone());
                labels.find(|label| label.digest == *digest)
            }
            Ok(LoadOutcome::NoRoom(_)) | Err(_) => None,
        };
        // The file holds the version that was rolled back. That changes nothing.
        if matches!(&loaded.result, Ok(LoadOutcome::Known(digest)) if self.has_rejected(digest)) {
            return true;
        }
        self.waits_for = None;
        self.candidate = None;
        self.problem = None;
        self.lacks_room = false;
        match loaded.result {
            Err(reason) => self.problem = Some(reason),
            Ok(LoadOutcome::NoRoom(reason)) => {
                self.waits_for = Some(reason);
                self.lacks_room = true;
            }
            Ok(LoadOutcome::New(version)) => self.candidate = Some(version),
            Ok(LoadOutcome::Known(digest)) => {
                let is_running = |running: &Running| running.version.digest == digest;
                if !self.running.as_ref().is_some_and(is_running) {
                    let is_it = |version: &&LoadedVersion| version.digest == digest;
                    let known = self.versions().find(is_it).cloned();
                    self.candidate = known;
                }
            }
        }
        true
    }

    fn has_rejected(&self, digest: &Digest) -> bool {
        let rejected = self.rejected.as_ref();
        rejected.is_some_and(|label| label.digest == *digest)
    }

    /// A message about the newest file. If another version runs, the message names both.
    pub fn said_of_file(&self, why: &str) -> String {
        let running = self.running.as_ref().map(|running| &running.version);
        match (running, &self.newest) {
            (Some(running), Some(newest)) if newest.digest != running.digest => {
                let (running, newest) = (&running.manifest.version, &newest.version);
                format!("running {running}, NOT the file's {newest}: {why}")
            }
            (Some(running), None) => {
                let running = &running.manifest.version;
                format!("running {running}, NOT what is in the file: {why}")
            }
            _ => why.to_owned(),
        }
    }

    /// The candidate has to wait. Returns whether the reason is new.
    pub fn wait(&mut self, reason: String) -> bool {
        let is_news = self.waits_for.as_ref() != Some(&reason);
        self.waits_for = Some(reason);
        is_news
    }

    /// The running version is no longer held up. Only a candidate can still be waiting.
    pub fn waits_no_more(&mut self) {
        if self.candidate.is_none() && !self.lacks_room {
            self.waits_for = None;
        }
    }

    /// The candidate is refused for now. Returns whether the reason is new.
    pub fn refuse(&mut self, reason: String) -> bool {
        self.waits_for = None;
        let is_news = self.problem.as_ref() != Some(&reason);
        self.problem = Some(reason);
        is_news
    }

    /// Sets what is wrong with the configuration for the running version, which keeps its earlier
    /// settings. Returns whether that is new.
    pub fn judged(&mut self, problem: Option<String>) -> bool {
        let is_news = problem.is_some() && self.config_problem != problem;
        self.config_problem = problem;
        is_news
    }

    /// Sets what is wrong with the name in the settings; the running plugin keeps its earlier name.
    /// Returns whether that is new.
    pub fn named(&mut self, problem: Option<String>) -> bool {
        let is_news = problem.is_some() && self.name_problem != problem;
        self.name_problem = problem;
        is_news
    }

    /// Sets what is wrong with the digest of the running version, which goes on. Returns whether
    /// that is new.
    pub fn pinned(&mut self, problem: Option<String>) -> bool {
        let is_news = problem.is_some() && self.pin_problem != problem;
        self.pin_problem = problem;
        is_news
    }

    /// The plugin's name, if it is known.
    pub fn name(&self) -> Option<String> {
        let running = self
            .running
            .as_ref()
            .map(|running| running.name().to_owned());
        let candidate = self.candidate.as_ref();
        running.or_else(|| Some(self.settings.name_of(&candidate?.manifest)))
    }

    /// The running version is in quarantine. Returns whether that is new.
    pub fn quarantined(&mut self, until: Time) -> bool {
        self.quarantine.replace(until) != Some(until)
    }

    /// Sets what is reported of the newest file while another version runs.
    pub fn note(&mut self, problem: String) {
        self.problem = Some(problem);
    }

    /// The candidate has been installed.
    pub fn is_let_in(&mut self) {
        self.candidate = None;
        self.waits_for = None;
        self.problem = None;
        self.config_problem = None;
        self.name_problem = None;
        self.pin_problem = None;
        self.rejected = None;
    }

    /// Orders a rollback to the previous version, and returns its version string. The running
    /// version is not tried again. `None` if there is no previous version.
    pub fn roll_back(&mut self) -> Option<String> {
        let running = self.running.as_ref()?;
        let version = self.previous.take()?;
        self.rejected = Some(Label::of(&running.version));
        let name = version.manifest.version.clone();
        self.restored = Some(version);
        Some(name)
    }

    /// True while the plugin's name is not known yet: its first version is being loaded.
    pub fn is_loading_first(&self) -> bool {
        self.is_loading && self.running.is_none()
    }

    /// True if the slot has to be looked at again although nothing changes.
    pub fn is_pending(&self) -> bool {
        self.candidate.is_some() || self.lacks_room || self.reviews.is_needed()
    }

    /// Without valid settings no version is started. A running plugin goes on with the last valid
    /// ones.
    pub fn may_begin(&self) -> bool {
        let has_some = self.settings_problem.is_none() && !self.lacks_settings;
        has_some || self.running.is_some()
    }

    /// What the plugin waits for, if settings of its own are required and missing.
    pub fn wants_settings(&self, file: &str) -> Option<String> {
        self.lacks_settings.then(|| lack_of_settings(file))
    }

    /// Sets what is wrong with the settings for all plugins. `None` once they have been valid.
    pub fn set_defaults_problem(&mut self, problem: Option<&String>) {
        self.defaults_problem = problem.cloned();
    }

    /// The file's entry in the list of plugins.
    pub fn entry(&self, file: &str) -> PluginEntry {
        let running = self.running.as_ref().map(|running| &running.version);
        let version = running.or(self.candidate.as_ref());
        let of_file = |why: &String| self.said_of_file(why);
        let of_settings = self.config_problem.clone().or(self.name_problem.clone());
        let fault = self.problem.as_ref().map(of_file);
        let fault = fault.or(of_settings.filter(|_| running.is_some()));
        let fault = fault.or_else(|| self.settings_problem.clone());
        let fault = fault.or_else(|| self.defaults_problem.clone());
        let waits_for = self.waits_for.as_ref().map(of_file);
        let lesser = waits_for.clone().or_else(|| self.pin_problem.clone());
        let lesser = lesser.or_else(|| self.wants_settings(file));
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
        PluginEntry {
            file: file.to_owned(),
            name: self.name(),
            manifest: version.map(|version| version.manifest.clone()),
            digest: version.map(|version| version.digest.to_string()),
            problem: fault.or(lesser).filter(|_| self.running.is_some()),
            previous: self
                .previous
                .as_ref()
                .map(|version| version.manifest.version.clone()),
            not_granted: self.not_granted.clone(),
            not_accepted: self.not_accepted.clone(),
            state,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::Directory;

    #[test]
    fn a_file_for_which_there_is_no_room_waits_and_is_loaded_again() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("a.wasm"), "code").unwrap();
        let directory = Directory::open(place.path()).unwrap();
        let found = || directory.list().unwrap().plugins.remove("a.wasm").unwrap();
        let loaded = |ticket, result| Loaded {
            file: "a.wasm".into(),
            ticket,
            result,
        };
        let mut slot = PluginFile::default();
        assert!(slot.see(found(), false));
        slot.begins(1);
        slot.loaded(loaded(1, Ok(LoadOutcome::NoRoom("full".into()))));
        let waits = PluginState::Waiting("full".into());
        assert_eq!(slot.entry("a.wasm").state, waits);
        assert!(
            slot.is_pending() && slot.see(found(), false),
            "it is tried again"
        );
        slot.begins(2);
        assert!(!slot.see(found(), false), "once at a time");
        assert_eq!(slot.entry("a.wasm").state, waits, "until that is over");
        slot.loaded(loaded(2, Err("no plugin".into())));
        assert_eq!(
            slot.entry("a.wasm").state,
            PluginState::Failed("no plugin".into())
        );
        assert!(!slot.is_pending() && !slot.see(found(), false));
    }
}
