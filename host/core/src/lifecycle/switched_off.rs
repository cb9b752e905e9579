//! The plugin files that the operator has switched off for this host. They are not loaded.
//!
//! A plugin is called as its file is, without `.wasm`, and as its settings or its manifest name it.
//! The manifest is known once the file has been loaded, which is too late for a plugin that is
//! switched off by its file's name, and early enough for one that only its manifest names.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::entry::{PluginEntry, PluginState};
use super::event::SeenFile;
use super::handles::{Handles, SettingsHandle};
use crate::model::manifest::Manifest;

/// Whether a plugin with these names may run.
pub type IsOn = Box<dyn Fn(&[&str]) -> bool + Send + Sync>;

/// See the module's documentation.
pub(super) struct SwitchedOff<H: Handles> {
    is_on: IsOn,
    files: BTreeMap<String, OffFile<H>>,
}

struct OffFile<H: Handles> {
    /// The plugin's name, or what it is called as long as that is not known.
    name: String,
    /// The manifest that was found in the file, and the file in which it was found.
    loaded: Option<(H::Stamp, Arc<Manifest>)>,
}

impl<H: Handles> Default for SwitchedOff<H> {
    fn default() -> Self {
        Self::new(Box::new(|_| true))
    }
}

impl<H: Handles> SwitchedOff<H> {
    pub fn new(is_on: IsOn) -> Self {
        Self {
            is_on,
            files: BTreeMap::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Takes the files that are switched off out of what the directory has. Returns those that were
    /// not switched off before, with the plugins' names.
    pub fn take(&mut self, seen: &mut BTreeMap<String, SeenFile<H>>) -> Vec<(String, String)> {
        let mut before = std::mem::take(&mut self.files);
        let mut news = Vec::new();
        seen.retain(|file, found| {
            let known = before.remove(file);
            let was_off = known.is_some();
            let loaded = known.and_then(|off| off.loaded);
            let loaded = loaded.filter(|(stamp, _)| found.wasm.as_ref() == Ok(stamp));
            let settings = found
                .settings
                .as_ref()
                .and_then(|settings| settings.as_ref().ok());
            let own_name = settings.and_then(SettingsHandle::own_name);
            let in_manifest = loaded.as_ref().map(|(_, manifest)| manifest.name.as_str());
            let name = own_name.or(in_manifest).map(ToOwned::to_owned);
            let name = name.unwrap_or_else(|| called(file));
            let is_on = self.is_on(file, &name);
            if !is_on {
                if !was_off {
                    news.push((file.clone(), name.clone()));
                }
                self.files.insert(file.clone(), OffFile { name, loaded });
            }
            is_on
        });
        news
    }

    /// Whether a plugin of this name in this file may run.
    pub fn is_on(&self, file: &str, name: &str) -> bool {
        (self.is_on)(&[&called(file), name])
    }

    /// A file turns out to hold a plugin that is switched off.
    pub fn add(
        &mut self,
        file: &str,
        name: String,
        stamp: Option<H::Stamp>,
        manifest: Arc<Manifest>,
    ) {
        let loaded = stamp.map(|stamp| (stamp, manifest));
        self.files.insert(file.to_owned(), OffFile { name, loaded });
    }

    pub fn entries(&self) -> impl Iterator<Item = PluginEntry> {
        self.files.iter().map(|(file, off)| PluginEntry {
            file: file.clone(),
            name: Some(off.name.clone()),
            manifest: None,
            digest: None,
            state: PluginState::Off,
            problem: None,
            previous: None,
            not_granted: Vec::new(),
            not_accepted: Vec::new(),
            not_served: Vec::new(),
        })
    }
}

/// What a plugin is called by its file's name: cargo writes `_` for the `-` that a plugin's name
/// can have.
pub fn called(file: &str) -> String {
    let stem = file.strip_suffix(".wasm").unwrap_or(file);
    stem.replace('_', "-")
}
