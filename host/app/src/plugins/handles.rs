//! What the host holds of plugins, as `core::lifecycle` passes it on.

use std::sync::Arc;

use pilothouse_core::{
    CommandAnswer, Digest, Handles, LifecycleAnswer, LifecycleCommand, LifecycleEffect,
    LifecycleEvent, LifecycleQuestion, Manifest, SettingsHandle, VersionHandle, VersionInFile,
};
use tokio::sync::oneshot;

use super::loading::LoadedVersion;
use crate::directory::Stamp;
use crate::settings::{Sandbox, SettingsFile};
use crate::trust;

/// The types of this host.
pub enum HostHandles {}

pub type HostEvent = LifecycleEvent<HostHandles>;
pub type HostEffect = LifecycleEffect<HostHandles>;
pub type HostQuestion = LifecycleQuestion<HostHandles>;
pub type HostAnswer = LifecycleAnswer<HostHandles>;
pub type PluginCommand = LifecycleCommand<HostHandles>;
pub type VersionWithSettings = VersionInFile<HostHandles>;

impl Handles for HostHandles {
    type Version = LoadedVersion;
    type Settings = SettingsFile;
    type Sandbox = Sandbox;
    type Stamp = Stamp;
    type Reply = oneshot::Sender<CommandAnswer>;
}

impl VersionHandle for LoadedVersion {
    fn digest(&self) -> &Digest {
        &self.digest
    }

    fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }
}

impl SettingsHandle for SettingsFile {
    fn or(&self, defaults: &Self) -> Self {
        SettingsFile::or(self, defaults)
    }

    fn name_of(&self, manifest: &Manifest) -> String {
        SettingsFile::name_of(self, manifest)
    }

    fn own_name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    fn is_paused(&self) -> bool {
        self.paused == Some(true)
    }

    fn has_config(&self) -> bool {
        !self.config.is_empty()
    }

    fn requires_settings(&self) -> bool {
        self.require_settings == Some(true)
    }

    fn unpinned(&self, file: &str, digest: &str) -> Option<String> {
        trust::unpinned(self, file, digest)
    }
}
