//! The plugin files and the plugins that are draining, as far as they concern each other: by their
//! names, and by their order.

use std::collections::BTreeMap;
use std::time::Duration;

use super::command::CommandVerb;
use super::effect::LifecycleEffect;
use super::entry::{PluginEntry, PluginState};
use super::handles::Handles;
use super::plugin_file::{FileVersion, PluginFile, RunningVersion};
use crate::hub::PluginId;

/// Queued keys of a draining plugin may run for this long, as when the host itself stops: a change
/// that was seen is acted upon.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// The queued keys are dropped: the plugin may not run any more, or will run them under another
/// name.
pub(super) const NO_PATIENCE: Duration = Duration::ZERO;

/// See the module's documentation.
pub(super) struct PluginFiles<H: Handles> {
    /// By file name. The order decides between two files with the same plugin name.
    files: BTreeMap<String, PluginFile<H>>,
    /// The plugins that are draining, by plugin name. Invariant: none of these names is installed.
    draining: BTreeMap<String, DrainingPlugin<H>>,
}

/// A plugin that is draining. Its version is kept for as long as something of it may run.
struct DrainingPlugin<H: Handles> {
    id: PluginId,
    entry: PluginEntry,
    _version: FileVersion<H>,
}

impl<H: Handles> Default for PluginFiles<H> {
    fn default() -> Self {
        Self {
            files: BTreeMap::new(),
            draining: BTreeMap::new(),
        }
    }
}

impl<H: Handles> PluginFiles<H> {
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    pub fn get(&self, name: &str) -> Option<&PluginFile<H>> {
        self.files.get(name)
    }

    pub fn get_mut(&mut self, name: &str) -> Option<&mut PluginFile<H>> {
        self.files.get_mut(name)
    }

    /// A file, and whether a plugin of a name is draining.
    pub fn get_with_draining(
        &mut self,
        name: &str,
    ) -> Option<(&mut PluginFile<H>, impl Fn(&str) -> bool)> {
        let draining = &self.draining;
        let drains = |plugin: &str| draining.contains_key(plugin);
        Some((self.files.get_mut(name)?, drains))
    }

    pub fn get_or_new(&mut self, name: &str) -> &mut PluginFile<H> {
        let file = self.files.entry(name.to_owned());
        file.or_insert_with(|| PluginFile::new(name))
    }

    /// The files, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &PluginFile<H>)> {
        self.files.iter()
    }

    /// The files' entries, then those of the draining plugins.
    pub fn entries(&self) -> Vec<PluginEntry> {
        let files = self.files.values().map(PluginFile::entry);
        let draining = self.draining.values().map(|plugin| plugin.entry.clone());
        files.chain(draining).collect()
    }

    /// Removes the files that are not there any more, and drains their plugins.
    pub fn keep(&mut self, is_there: impl Fn(&str) -> bool) -> Vec<LifecycleEffect<H>> {
        let is_gone = |file: &&String| !is_there(file);
        let gone: Vec<String> = self.files.keys().filter(is_gone).cloned().collect();
        let mut drains = Vec::new();
        for file in gone {
            drains.extend(self.retire(&file, PATIENCE));
            self.files.remove(&file);
            self.is_known(&file);
        }
        drains
    }

    /// A file's plugin name is known now, or the file is gone. It cannot displace a plugin of the
    /// same name any more.
    pub fn is_known(&mut self, file: &str) {
        let files = self.files.values_mut();
        for running in files.filter_map(|file| file.running.as_mut()) {
            running.outranked_by.remove(file);
        }
    }

    /// Drains a file's running plugin, if there is one.
    pub fn retire(&mut self, file: &str, patience: Duration) -> Option<LifecycleEffect<H>> {
        let file = self.files.get_mut(file)?;
        let entry = file.entry();
        let RunningVersion {
            id, name, version, ..
        } = file.running.take()?;
        let state = PluginState::Draining(id);
        let plugin = DrainingPlugin {
            id,
            entry: PluginEntry { state, ..entry },
            _version: version,
        };
        self.draining.insert(name.clone(), plugin);
        Some(LifecycleEffect::Drain {
            plugin: id,
            name,
            patience,
        })
    }

    /// Drains a file's running plugin and drops its queued keys. Its version becomes the candidate,
    /// so that it is installed again when it may run, unless there is another one or it is being
    /// rolled back.
    pub fn evict(&mut self, name: &str) -> Option<LifecycleEffect<H>> {
        let running = self.files.get(name)?.running.as_ref();
        let version = running.map(|running| running.version.clone());
        let drain = self.retire(name, NO_PATIENCE);
        let file = self.files.get_mut(name)?;
        let is_rolled_back = file.restored.is_some();
        file.candidate = file
            .candidate
            .take()
            .or(version.filter(|_| !is_rolled_back));
        drain
    }

    /// Nothing of a draining plugin runs any more. Returns its name.
    pub fn drained(&mut self, id: PluginId) -> Option<String> {
        let mut draining = self.draining.iter();
        let (name, _) = draining.find(|(_, plugin)| plugin.id == id)?;
        let name = name.clone();
        self.draining.remove(&name);
        Some(name)
    }

    /// The file of a plugin that runs.
    pub fn of_plugin(&self, id: PluginId) -> Option<String> {
        let is_it = |file: &PluginFile<H>| {
            let running = file.running.as_ref();
            running.is_some_and(|running| running.id == id)
        };
        let mut files = self.files.iter();
        let (name, _) = files.find(|(_, file)| is_it(file))?;
        Some(name.clone())
    }

    /// The running plugin of another file that has this name.
    pub fn namesake(&self, plugin: &str, file: &str) -> Option<&RunningVersion<H>> {
        let others = self.files.iter().filter(|(other, _)| *other != file);
        let mut running = others.filter_map(|(_, other)| other.running.as_ref());
        running.find(|running| running.name == plugin)
    }

    /// The file that a command is about.
    pub fn called(&self, plugin: &str, verb: CommandVerb) -> Option<String> {
        let files = self.files.iter().filter(|(_, file)| file.is_called(plugin));
        let mut files: Vec<_> = files.collect();
        if verb == CommandVerb::Accept {
            // If two files have the same plugin name, prefer the one that waits to be accepted.
            files.sort_by_key(|(_, file)| file.not_accepted.is_empty());
        }
        files.first().map(|(name, _)| (*name).clone())
    }
}
