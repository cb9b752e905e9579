//! The life of plugins: tells `core::lifecycle` what happens to them, and performs what it decides.

mod access_reviews;
mod code_room;
pub mod commands;
mod config_checks;
mod draining;
mod handles;
mod installer;
mod loading;
mod notices;
pub mod plugin_list;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use pilothouse_core::{Lifecycle, PluginState, RECHECK_INTERVAL, SeenDirectory, SeenFile, called};
use tokio::sync::mpsc;
use tracing::warn;

use crate::controllers::Controllers;
use crate::directory::{Changes, Directory, DirectoryListing, Found, OPEN_TO_GROUP, Stray};
use crate::informers::Watches;
use crate::patterns::Patterns;
use crate::reach::Reached;
use crate::settings::{self, SettingsFile};
use crate::shared::{Cause, Shared};
use crate::status::StatusSources;
pub use code_room::CodeRoom;
use draining::Draining;
pub use handles::PluginCommand;
use handles::{HostAnswer, HostEffect, HostEvent, HostHandles};
use installer::Installer;
pub use installer::InstallerParts;
pub use loading::{AtOnce, FileLoader};
use loading::{Loader, Loading};
pub use notices::Notices;
pub use plugin_list::PluginList;

/// Installs the plugins of the directory in the hub, and removes them again.
pub struct Supervisor {
    life: Lifecycle<HostHandles>,
    directory: Directory,
    changes: Changes,
    loading: Loading,
    installer: Installer,
    draining: Draining,
    watches: Watches,
    patterns: Patterns,
    shared: Arc<Shared>,
    notices: Notices,
    server: Reached,
    commands: mpsc::Receiver<PluginCommand>,
    sources: StatusSources,
    /// Which plugins run. `None`: the operator has been told what is doubtful about that.
    controllers: Option<Controllers>,
    /// The files that were logged because their group may write to them.
    open_to_group: BTreeSet<String>,
    /// The settings that were logged because they are for no plugin.
    strays: BTreeSet<Stray>,
}

/// The parts that the supervisor works with.
pub struct SupervisorParts {
    pub loader: Arc<dyn Loader>,
    pub at_once: AtOnce,
    pub directory: Directory,
    pub controllers: Controllers,
    pub installer: InstallerParts,
    pub watches: Watches,
    pub patterns: Patterns,
    pub shared: Arc<Shared>,
    pub notices: Notices,
    pub sources: StatusSources,
    pub server: Reached,
    pub commands: mpsc::Receiver<PluginCommand>,
}

impl Supervisor {
    pub fn new(parts: SupervisorParts) -> Self {
        let controllers = parts.controllers.clone();
        Self {
            life: Lifecycle::of_plugins(Box::new(move |names| controllers.is_on(names))),
            changes: Changes::of(&parts.directory),
            loading: Loading::new(parts.loader, parts.at_once),
            directory: parts.directory,
            installer: Installer::new(parts.installer),
            draining: Draining::default(),
            watches: parts.watches,
            patterns: parts.patterns,
            shared: parts.shared,
            notices: parts.notices,
            server: parts.server,
            commands: parts.commands,
            sources: parts.sources,
            controllers: Some(parts.controllers),
            open_to_group: BTreeSet::new(),
            strays: BTreeSet::new(),
        }
    }

    /// Follows the directory. Ends only when a list-watch dies.
    pub async fn run(mut self) -> anyhow::Error {
        let first = self.read_directory();
        self.happens(first).await;
        if self.life.is_empty() {
            warn!("the plugin directory has no *.wasm file; copy a plugin there and it is loaded");
        }
        let mut is_reached = false;
        loop {
            let is_waiting = self.life.is_waiting();
            let event = tokio::select! {
                error = self.watches.failed() => return error,
                () = self.server.wait(), if !is_reached => {
                    is_reached = true;
                    HostEvent::ServerReached
                }
                loaded = self.loading.next() => HostEvent::Loaded {
                    file: loaded.file,
                    load: loaded.load,
                    result: loaded.result,
                },
                () = self.changes.next() => self.read_directory(),
                drained = self.draining.next() => HostEvent::Drained {
                    plugin: drained.plugin,
                    dropped: drained.dropped,
                },
                () = self.shared.quarantine_began() => {
                    HostEvent::Quarantined(self.shared.quarantined())
                }
                () = self.patterns.changed() => {
                    self.watches.adjust();
                    continue;
                }
                () = self.shared.extents_changed() => {
                    self.watches.adjust();
                    continue;
                }
                Some(command) = self.commands.recv() => HostEvent::Command(command),
                // A file for which there was no room is loaded again then.
                () = tokio::time::sleep(RECHECK_INTERVAL), if is_waiting => self.read_directory(),
            };
            self.happens(event).await;
        }
    }

    /// Performs what is to be done for an event, and answers what is asked.
    async fn happens(&mut self, event: HostEvent) {
        let mut effects = VecDeque::from(self.life.handle(event, self.shared.now()));
        while let Some(effect) = effects.pop_front() {
            if let Some(answer) = self.perform(effect).await {
                let answered = HostEvent::Answered(answer);
                effects.extend(self.life.handle(answered, self.shared.now()));
            }
        }
        self.publish();
        self.tell_doubts();
    }

    /// Tells once what is doubtful about `--controllers`: when all files have been loaded, so that
    /// the plugins' names are known.
    fn tell_doubts(&mut self) {
        let entries = self.life.entries();
        let mut states = entries.iter().map(|entry| &entry.state);
        if states.any(|state| *state == PluginState::Loading) {
            return;
        }
        let Some(controllers) = self.controllers.take() else {
            return;
        };
        let files = entries.iter().map(|entry| called(&entry.file));
        let names = entries.iter().filter_map(|entry| entry.name.clone());
        let names: Vec<String> = files.chain(names).collect();
        for doubt in controllers.doubts(&names) {
            warn!("--controllers: {doubt}");
        }
    }

    async fn perform(&mut self, effect: HostEffect) -> Option<HostAnswer> {
        match effect {
            HostEffect::Ask(question) => return Some(self.installer.answer(question).await),
            HostEffect::Load { file, load, known } => self.loading.begin(file, load, known),
            HostEffect::Drain {
                plugin,
                name,
                patience,
            } => self.draining.begin(&self.shared, plugin, name, patience),
            HostEffect::Remove { plugin, name } => self.installer.remove(plugin, &name),
            HostEffect::Pardon(plugin) => {
                self.shared
                    .change(Cause::Plugins, |hub, _| hub.pardon(plugin));
            }
            HostEffect::Accept(version) => self.installer.accept(&version),
            HostEffect::Remember(version) => self.installer.remember(&version),
            HostEffect::AdjustWatches => {
                self.watches.adjust();
                self.patterns.plugins_changed();
            }
            HostEffect::Answer { reply, answer } => {
                // The client may have gone.
                let _ = reply.send(answer);
            }
            HostEffect::AnswerWithState {
                reply,
                file,
                plugin,
                done,
            } => {
                let state = self.state(&plugin, &file);
                let done = done.map(|done| format!("{done}; ")).unwrap_or_default();
                let _ = reply.send(Ok(format!("{done}{state}")));
            }
            HostEffect::Tell(notice) => self.notices.tell(notice),
        }
        None
    }

    /// Reads the directory. If that fails, what runs goes on.
    fn read_directory(&mut self) -> HostEvent {
        let listing = match self.directory.list() {
            Ok(listing) => listing,
            Err(reason) => {
                warn!(%reason, "keeping the running plugins");
                return HostEvent::Tick;
            }
        };
        for file in listing.open_to_group.difference(&self.open_to_group) {
            warn!(file, "{OPEN_TO_GROUP}");
        }
        self.open_to_group.clone_from(&listing.open_to_group);
        for stray in listing.strays.difference(&self.strays) {
            warn!(reason = %stray, "settings that are for no plugin");
        }
        self.strays.clone_from(&listing.strays);
        self.installer
            .keep(|file| listing.plugins.contains_key(file));
        HostEvent::DirectoryRead(seen(listing))
    }

    fn publish(&self) {
        self.sources.roster.set(self.life.entries());
    }

    /// The plugin's state after a command that should make it run. Something else may still keep it
    /// from running.
    fn state(&self, name: &str, file: &str) -> String {
        self.publish();
        let mut plugins = self.sources.plugins().into_iter();
        match plugins.find(|plugin| plugin.file == file) {
            Some(plugin) => {
                let reason = plugin.reason.map(|reason| format!(": {reason}"));
                format!("{name} is {}{}", plugin.state, reason.unwrap_or_default())
            }
            None => format!("{name} has gone"),
        }
    }
}

/// What the directory's files say.
fn seen(listing: DirectoryListing) -> SeenDirectory<HostHandles> {
    let file = |found: Found| SeenFile {
        wasm: found.wasm,
        settings: found
            .settings
            .map(|text| text.and_then(|text| settings::parse(&text))),
    };
    let plugins = listing.plugins.into_iter();
    SeenDirectory {
        defaults: match listing.defaults {
            None => Ok(SettingsFile::default()),
            Some(text) => text.and_then(|text| settings::parse_defaults(&text)),
        },
        plugins: plugins.map(|(name, found)| (name, file(found))).collect(),
    }
}
