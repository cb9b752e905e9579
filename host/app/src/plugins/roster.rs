//! What is known of every file of the plugin directory, for whoever asks.

use std::sync::{Arc, Mutex, PoisonError};

use pilothouse_core::hub::PluginId;
use pilothouse_core::manifest::Manifest;

/// How far a file of the plugin directory has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Being read and compiled.
    Loading,
    /// Loaded, but something it needs cannot be had yet.
    Waiting(String),
    /// Part of the hub; whether its caches are synced is the hub's to say.
    Joined(PluginId),
    /// Its file has gone, or what it may do; it is part of the hub until what it has begun is done.
    Leaving(PluginId),
    /// Not usable.
    Failed(String),
}

/// One file of the plugin directory.
#[derive(Clone, Debug)]
pub struct Entry {
    pub file: String,
    /// The plugin's, as far as it is known.
    pub name: Option<String>,
    /// Of the version that runs, or else of the one that is to run.
    pub manifest: Option<Arc<Manifest>>,
    /// SHA-256 of that version's bytes.
    pub digest: Option<String>,
    pub state: State,
    /// What is wrong with the newest file or its settings, although an earlier version or earlier settings are in use.
    pub problem: Option<String>,
    /// The version that `rollback` would bring back.
    pub previous: Option<String>,
    /// What the manifest asks for and the settings do not grant.
    pub not_granted: Vec<String>,
    /// What the version that is to run asks for and nobody has accepted.
    pub not_accepted: Vec<String>,
}

/// All files of the plugin directory, in the order of their names, then those that are leaving: their files may be there again.
#[derive(Default)]
pub struct Roster(Mutex<Vec<Entry>>);

impl Roster {
    pub fn entries(&self) -> Vec<Entry> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub fn set(&self, entries: Vec<Entry>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = entries;
    }
}
