//! What a host holds of a plugin and a [`Lifecycle`](super::Lifecycle) only passes on.

use std::fmt::Debug;
use std::sync::Arc;

use crate::model::manifest::Manifest;

/// SHA-256 of a plugin's file, in hexadecimal.
pub type Digest = Arc<str>;

/// The file with the settings for all plugins.
pub const DEFAULTS_FILE: &str = "pilothouse.toml";

/// The file of a plugin's own settings: `a.toml` for `a.wasm`, and `a.wasm.toml` for `a.wasm.wasm`,
/// so that no two plugins share one.
pub fn settings_file_of(wasm: &str) -> String {
    let stem = wasm.strip_suffix(".wasm").unwrap_or(wasm);
    format!("{stem}.toml")
}

/// What a plugin waits for if settings of its own are required and missing.
pub fn lack_of_settings(wasm: &str) -> String {
    let own = settings_file_of(wasm);
    format!("there is no {own}, and {DEFAULTS_FILE} says require-settings = true")
}

/// The host's own types.
pub trait Handles {
    /// A version that has been loaded.
    type Version: VersionHandle;
    /// The operator's settings for a plugin.
    type Settings: SettingsHandle;
    /// How a plugin's guest is run.
    type Sandbox: Clone + PartialEq;
    /// Tells one state of a file from another.
    type Stamp: Clone + PartialEq;
    /// Where a command is answered.
    type Reply;
}

/// A version that has been loaded.
pub trait VersionHandle: Clone {
    /// SHA-256 of the version's file.
    fn digest(&self) -> &Digest;

    /// What the version declares about itself.
    fn manifest(&self) -> &Arc<Manifest>;
}

/// The operator's settings for a plugin. The default ones set nothing.
pub trait SettingsHandle: Clone + Default + Debug {
    /// These settings, with the defaults for what they do not set.
    fn or(&self, defaults: &Self) -> Self;

    /// The name of a plugin with this manifest.
    fn name_of(&self, manifest: &Manifest) -> String;

    /// The name that they give the plugin, if they do.
    fn own_name(&self) -> Option<&str>;

    /// Whether they pause the plugin.
    fn is_paused(&self) -> bool;

    /// Whether they give the plugin a configuration.
    fn has_config(&self) -> bool;

    /// Whether, as the settings for all plugins, they keep plugins without settings of their own
    /// from running.
    fn requires_settings(&self) -> bool;

    /// Why a file may not run: the settings name digests, and its own is not among them.
    fn unpinned(&self, file: &str, digest: &str) -> Option<String>;
}
