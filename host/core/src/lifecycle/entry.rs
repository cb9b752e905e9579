//! What is shown of a plugin file.

use std::sync::Arc;

use crate::hub::PluginId;
use crate::model::manifest::Manifest;

/// How far a file of the plugin directory has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PluginState {
    /// Being read and compiled.
    Loading,
    /// Loaded, but something it needs is not available yet.
    Waiting(String),
    /// Installed in the hub. The hub knows whether its caches are synced.
    Joined(PluginId),
    /// Its file is gone, or it may not run any more. It stays in the hub until what it has begun is
    /// done.
    Draining(PluginId),
    /// The operator has switched it off for this host, and it is not loaded.
    Off,
    /// Not usable.
    Failed(String),
}

/// One file of the plugin directory.
#[derive(Clone, Debug)]
pub struct PluginEntry {
    /// The file's name.
    pub file: String,
    /// The plugin's name, if it is known.
    pub name: Option<String>,
    /// The manifest of the running version, or else of the candidate.
    pub manifest: Option<Arc<Manifest>>,
    /// SHA-256 of that version's bytes.
    pub digest: Option<String>,
    /// How far it has come.
    pub state: PluginState,
    /// What is wrong with the newest file or its settings, while an earlier version or earlier
    /// settings are in use.
    pub problem: Option<String>,
    /// The version that `rollback` would bring back.
    pub previous: Option<String>,
    /// What the manifest asks for and the settings do not grant.
    pub not_granted: Vec<String>,
    /// What the candidate asks for and the operator has not accepted.
    pub not_accepted: Vec<String>,
    /// The optional kinds that the cluster does not serve.
    pub not_served: Vec<String>,
}
