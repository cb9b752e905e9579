//! The life of plugins: files of the directory are loaded as versions, versions are installed in
//! the hub, and versions that fail are rolled back or quarantined.

mod access_reviews;
mod code_room;
pub mod commands;
mod config_checks;
mod draining;
mod installer;
mod loading;
mod plugin_file;
mod plugin_list;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use pilothouse_core::PluginId;
use tokio::sync::mpsc;
use tracing::{error, info, warn};

use crate::directory::{
    Changes, DEFAULTS, Directory, DirectoryListing, OPEN_TO_GROUP, settings_of,
};
use crate::host_events::HostEvents;
use crate::reach::Reached;
use crate::settings::{self, HostDefaults, SettingsFile};
use crate::shared::{Cause, Shared};
use crate::status::StatusSources;
use crate::watches::Watches;
pub use code_room::CodeRoom;
use commands::{CommandError, CommandVerb, PluginCommand};
use draining::{Drained, Queued};
pub use installer::Installer;
use installer::Operator;
pub use loading::{AtOnce, FileLoader};
use loading::{Loaded, Loader, Loading};
use plugin_file::PluginFile;
pub use plugin_list::{PluginEntry, PluginList, PluginState};

/// How often missing kinds are checked for, and the directory is read, while a plugin waits. A CRD
/// may be created at any time.
pub const RECHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Installs the plugins of the directory in the hub, and removes them again.
pub struct Supervisor {
    directory: Directory,
    changes: Changes,
    loading: Loading,
    places: Installer,
    watches: Watches,
    shared: Arc<Shared>,
    announcer: HostEvents,
    /// Whether the API server has answered. Plugins are loaded before that, but installed only
    /// afterwards.
    server: Reached,
    commands: mpsc::Receiver<PluginCommand>,
    sources: StatusSources,
    slots: BTreeMap<String, PluginFile>,
    /// The text of the settings for all plugins when they were last read.
    defaults_text: Option<Result<String, String>>,
    /// The last valid settings for all plugins. While there are none, nothing is installed, because
    /// the settings may forbid it.
    defaults: Option<SettingsFile>,
    defaults_problem: Option<String>,
    /// The files that were logged because their group may write to them.
    open_to_group: BTreeSet<String>,
    host: HostDefaults,
}

/// The parts that the supervisor works with.
pub struct SupervisorParts {
    pub loader: Arc<dyn Loader>,
    pub at_once: AtOnce,
    pub directory: Directory,
    pub places: Installer,
    pub watches: Watches,
    pub shared: Arc<Shared>,
    pub announcer: HostEvents,
    pub sources: StatusSources,
    pub server: Reached,
    pub commands: mpsc::Receiver<PluginCommand>,
    pub host: HostDefaults,
}

impl Supervisor {
    pub fn new(parts: SupervisorParts) -> Self {
        Self {
            changes: Changes::of(&parts.directory),
            loading: Loading::new(parts.loader, parts.at_once),
            directory: parts.directory,
            places: parts.places,
            watches: parts.watches,
            shared: parts.shared,
            announcer: parts.announcer,
            server: parts.server,
            commands: parts.commands,
            sources: parts.sources,
            slots: BTreeMap::new(),
            defaults_text: None,
            defaults: None,
            defaults_problem: None,
            open_to_group: BTreeSet::new(),
            host: parts.host,
        }
    }

    /// Follows the directory. Ends only when a list-watch dies.
    pub async fn run(mut self) -> anyhow::Error {
        self.rescan();
        if self.slots.is_empty() {
            warn!("the plugin directory has no *.wasm file; copy a plugin there and it is loaded");
        }
        loop {
            self.settle().await;
            let is_reached = self.server.why_not().is_none();
            let is_waiting = self.slots.values().any(PluginFile::is_pending);
            tokio::select! {
                error = self.watches.failed() => return error,
                () = self.server.wait(), if !is_reached => {}
                loaded = self.loading.next() => self.loaded(loaded),
                () = self.changes.next() => self.rescan(),
                left = self.places.draining.next() => self.left(&left),
                () = self.shared.quarantine_began() => self.heal(),
                Some(command) = self.commands.recv() => {
                    let answer = match self.obey(&command) {
                        Ok(Done::Said(text)) => Ok(text),
                        Ok(Done::Resumed(file)) => Ok(self.resumed(&command.plugin, &file).await),
                        Ok(Done::Accepted(file, text)) => {
                            let state = self.resumed(&command.plugin, &file).await;
                            Ok(format!("{text}; {state}"))
                        }
                        Err(error) => Err(error),
                    };
                    // The client may have gone.
                    let _ = command.answer.send(answer);
                }
                // A file for which there was no room is loaded again then.
                () = tokio::time::sleep(RECHECK_INTERVAL), if is_waiting => self.rescan(),
            }
        }
    }

    /// Reads the directory, and begins to load what is new.
    fn rescan(&mut self) {
        let listing = match self.directory.list() {
            Ok(listing) => listing,
            Err(reason) => return warn!(%reason, "keeping the running plugins"),
        };
        self.read_defaults(&listing);
        for file in listing.open_to_group.difference(&self.open_to_group) {
            warn!(file, "{OPEN_TO_GROUP}");
        }
        self.open_to_group.clone_from(&listing.open_to_group);
        let is_gone = |file: &&String| !listing.plugins.contains_key(*file);
        let gone: Vec<String> = self.slots.keys().filter(is_gone).cloned().collect();
        for file in gone {
            self.remove(&file);
        }
        let defaults = self.defaults.as_ref();
        let requires_settings =
            defaults.is_some_and(|defaults| defaults.require_settings == Some(true));
        for (file, found) in listing.plugins {
            let slot = self.slots.entry(file.clone()).or_default();
            let before = slot.entry(&file);
            slot.set_defaults_problem(self.defaults_problem.as_ref());
            if slot.see(found, requires_settings) {
                slot.begins(self.loading.begin(&file, slot.known()));
            }
            report(&before, &slot.entry(&file));
        }
    }

    fn read_defaults(&mut self, listing: &DirectoryListing) {
        if self.defaults_text == listing.defaults && self.defaults.is_some() {
            return;
        }
        self.defaults_text.clone_from(&listing.defaults);
        let parsed = match &listing.defaults {
            None => Ok(SettingsFile::default()),
            Some(Ok(text)) => settings::parse_defaults(text),
            Some(Err(reason)) => Err(reason.clone()),
        };
        match parsed {
            Ok(defaults) => {
                self.defaults = Some(defaults);
                self.defaults_problem = None;
            }
            Err(reason) => {
                let file = DEFAULTS;
                error!(
                    file,
                    reason, "cannot read the settings for all plugins; keeping the earlier ones"
                );
                if self.defaults.is_none() {
                    self.defaults_problem = Some(format!("{file}: {reason}"));
                }
            }
        }
    }

    fn remove(&mut self, file: &str) {
        let Some(mut slot) = self.slots.remove(file) else {
            return;
        };
        self.places.retire(file, &mut slot, Queued::Run);
        self.places.is_known(file);
    }

    /// A draining plugin has ended: nothing of it runs any more.
    fn left(&mut self, left: &Drained) {
        self.places.vacate(&left.running);
        self.watches.adjust();
        let (plugin, dropped) = (left.running.name(), left.dropped);
        info!(plugin, dropped, "plugin removed");
    }

    fn loaded(&mut self, loaded: Loaded) {
        let file = loaded.file.clone();
        let Some(slot) = self.slots.get_mut(&file) else {
            return;
        };
        let before = slot.entry(&file);
        if slot.loaded(loaded) {
            report(&before, &slot.entry(&file));
        }
    }

    /// Installs each plugin that can run, as soon as it is ready, and applies settings that have
    /// changed.
    async fn settle(&mut self) {
        let is_reached = self.server.why_not().is_none();
        let operator = Operator::new(self.defaults.as_ref(), &self.host);
        let Some(operator) = operator.filter(|_| is_reached) else {
            return self.publish();
        };
        self.places.unknown.clear();
        // In the order of file names, which decides between two files with the same plugin name.
        for (file, slot) in &mut self.slots {
            if slot.is_loading_first() {
                self.places.unknown.insert(file.clone());
            }
            if self.places.settle(file, slot, &operator).await {
                self.watches.adjust();
            }
        }
        for id in self.places.take_outranked() {
            if let Some((file, slot)) = slot_of(&mut self.slots, id) {
                warn!(file, "the plugin stops: an earlier file has the same name");
                self.places.evict(file, slot);
            }
        }
        self.publish();
    }

    fn publish(&self) {
        let entries = self.slots.iter().map(|(file, slot)| slot.entry(file));
        let draining = self.places.draining.entries().cloned();
        self.sources.roster.set(entries.chain(draining).collect());
    }

    /// Handles versions that have gone into quarantine: rolls back to the previous version if there
    /// is one. If not, the hub tries the version again, less and less often.
    fn heal(&mut self) {
        for (id, quarantine) in self.shared.quarantined() {
            let Some((file, slot)) = slot_of(&mut self.slots, id) else {
                continue;
            };
            if !slot.quarantined(quarantine.until) {
                continue;
            }
            let Some(running) = &slot.running else {
                continue;
            };
            let (name, version) = (
                running.name().to_owned(),
                running.version.manifest.version.clone(),
            );
            let reason = &quarantine.reason;
            self.places.metrics.lives().quarantined(&name);
            let operator = Operator::new(self.defaults.as_ref(), &self.host);
            let barred = self.places.bars_return(file, slot, operator);
            if let Some(reason) = &barred {
                let plugin = &name;
                warn!(
                    plugin,
                    file, reason, "cannot roll back to the previous version"
                );
            }
            let restored = match barred {
                None => slot.roll_back(),
                Some(_) => None,
            };
            match restored {
                Some(restored) => {
                    error!(
                        plugin = name,
                        version,
                        restored,
                        file,
                        reason,
                        "plugin rolled back: it failed on most keys"
                    );
                    self.announcer.warn(
                        "PluginRolledBack",
                        format!("{name} {version} was replaced by {restored}: {reason}"),
                    );
                    self.places.metrics.lives().rolled_back(&name);
                    slot.note(format!("it was rolled back: {reason}"));
                }
                None => {
                    let seconds = quarantine.until.saturating_sub(self.shared.now()).as_secs();
                    error!(
                        plugin = name,
                        version,
                        file,
                        reason,
                        seconds,
                        "plugin in quarantine: it fails on most keys"
                    );
                    self.announcer.warn(
                        "PluginQuarantined",
                        format!("{name} {version} runs nothing for {seconds} s: {reason}"),
                    );
                }
            }
        }
    }

    /// The plugin's state after a command that should make it run. Something else may still keep it
    /// from running.
    async fn resumed(&mut self, name: &str, file: &str) -> String {
        self.settle().await;
        let mut plugins = self.sources.plugins().into_iter();
        match plugins.find(|plugin| plugin.file == file) {
            Some(plugin) => {
                let reason = plugin.reason.map(|reason| format!(": {reason}"));
                format!("{name} is {}{}", plugin.state, reason.unwrap_or_default())
            }
            None => format!("{name} has gone"),
        }
    }

    fn obey(&mut self, command: &PluginCommand) -> Result<Done, CommandError> {
        let name = &command.plugin;
        let known = || {
            let names = self.slots.values().filter_map(PluginFile::name);
            names.collect::<Vec<_>>().join(", ")
        };
        let unknown = CommandError::Unknown(name.clone(), known());
        let slots = self.slots.iter_mut().filter(|(file, slot)| {
            slot.name().as_ref() == Some(name) || file.strip_suffix(".wasm") == Some(name)
        });
        let mut slots: Vec<_> = slots.collect();
        if command.verb == CommandVerb::Accept {
            // If two files have the same plugin name, prefer the one that waits to be accepted.
            slots.sort_by_key(|(_, slot)| slot.not_accepted.is_empty());
        }
        let (file, slot) = slots.into_iter().next().ok_or(unknown)?;
        let operator = Operator::new(self.defaults.as_ref(), &self.host);
        match command.verb {
            CommandVerb::Pause => {
                slot.is_paused = true;
                info!(plugin = name, "plugin paused");
                Ok(Done::Said(format!(
                    "{name} is paused until it is resumed or the host starts again"
                )))
            }
            CommandVerb::Resume => {
                slot.is_paused = false;
                if slot.is_paused_by_settings() {
                    let text = format!(
                        "its settings say paused = true: take that out of {}, or of {DEFAULTS}",
                        settings_of(file)
                    );
                    return Err(CommandError::Impossible(text));
                }
                if let Some(running) = &slot.running {
                    self.shared
                        .change(Cause::Plugins, |hub, _| hub.pardon(running.id));
                }
                info!(plugin = name, "plugin resumed");
                Ok(Done::Resumed(file.clone()))
            }
            CommandVerb::Rollback => {
                if let Some(reason) = self.places.bars_return(file, slot, operator) {
                    let text = format!("the version before may not run: {reason}");
                    return Err(CommandError::Impossible(text));
                }
                let nothing = || "there is no earlier version that was fit to run".to_owned();
                let restored = slot.roll_back();
                let restored = restored.ok_or_else(|| CommandError::Impossible(nothing()))?;
                slot.note("it was rolled back by command".to_owned());
                info!(plugin = name, version = restored, "plugin rolled back");
                Ok(Done::Said(format!(
                    "{name} goes back to version {restored}, until there is another file"
                )))
            }
            CommandVerb::Accept => {
                let digest = command.digest.as_deref();
                let accepted = self.places.accept(file, slot, operator, digest);
                let text = accepted.map_err(CommandError::Impossible)?;
                Ok(Done::Accepted(file.clone(), text))
            }
        }
    }
}

/// The result of a command.
enum Done {
    /// The answer is complete.
    Said(String),
    /// The plugin of this file should run again. Its state is the answer.
    Resumed(String),
    /// The plugin of this file should run again. The answer is this text and its state.
    Accepted(String, String),
}

fn slot_of(
    slots: &mut BTreeMap<String, PluginFile>,
    id: PluginId,
) -> Option<(&String, &mut PluginFile)> {
    let is_it = |slot: &PluginFile| {
        slot.running
            .as_ref()
            .is_some_and(|running| running.id == id)
    };
    slots.iter_mut().find(|(_, slot)| is_it(slot))
}

/// Logs a problem with a file when it is new.
fn report(before: &PluginEntry, after: &PluginEntry) {
    let file = &after.file;
    match &after.state {
        PluginState::Failed(reason) if before.state != after.state => {
            error!(file, reason, "plugin not loaded");
        }
        // A version that is loaded already logs its wait in `Installer::wait`.
        PluginState::Waiting(reason) if before.state != after.state => {
            warn!(file, reason, "plugin waits");
        }
        PluginState::Joined(_) if before.problem != after.problem => {
            if let Some(reason) = &after.problem {
                error!(file, reason, "keeping the running version");
            }
        }
        _ => {}
    }
}
