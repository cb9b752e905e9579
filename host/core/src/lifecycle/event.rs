//! What happens to plugins, and the answers to what a [`Lifecycle`](super::Lifecycle) asks.

use std::collections::BTreeMap;

use super::command::LifecycleCommand;
use super::handles::{Digest, Handles};
use crate::hub::{ControllerSettings, JoinError, PluginId, Quarantine};

/// What happens to plugins.
pub enum LifecycleEvent<H: Handles> {
    /// The plugin directory has been read.
    DirectoryRead(SeenDirectory<H>),
    /// A load has ended.
    Loaded {
        /// The file that was loaded.
        file: String,
        /// The number of the load. Only a file's last one counts.
        load: u64,
        /// The version, or why the file cannot be used.
        result: Result<LoadOutcome<H::Version>, String>,
    },
    /// The API server has answered. Nothing is installed before.
    ServerReached,
    /// These plugins are in quarantine.
    Quarantined(Vec<(PluginId, Quarantine)>),
    /// Nothing runs any more of a plugin that was to be drained.
    Drained {
        /// The plugin.
        plugin: PluginId,
        /// The number of keys that were still queued.
        dropped: usize,
    },
    /// An operator asks for something.
    Command(LifecycleCommand<H>),
    /// The answer to the question that was asked last.
    Answered(LifecycleAnswer<H>),
    /// Time has passed: what waits is tried again.
    Tick,
}

/// The contents of the plugin directory.
pub struct SeenDirectory<H: Handles> {
    /// The settings for all plugins, or why they cannot be read.
    pub defaults: Result<H::Settings, String>,
    /// The plugin files, by name.
    pub plugins: BTreeMap<String, SeenFile<H>>,
}

/// The files of one plugin.
pub struct SeenFile<H: Handles> {
    /// The `.wasm` file, or why it cannot be used.
    pub wasm: Result<H::Stamp, String>,
    /// The settings beside it, or why they cannot be read. `None` if there are none.
    pub settings: Option<Result<H::Settings, String>>,
}

/// What a load has brought.
#[derive(Clone)]
pub enum LoadOutcome<V> {
    /// A version that is known already.
    Known(Digest),
    /// Another version.
    New(V),
    /// There is no room for its native code now, with the reason.
    NoRoom(String),
}

impl<V> LoadOutcome<V> {
    /// The same with another form of a new version.
    pub(super) fn map<W>(self, form: impl FnOnce(V) -> W) -> LoadOutcome<W> {
        match self {
            Self::Known(digest) => LoadOutcome::Known(digest),
            Self::New(version) => LoadOutcome::New(form(version)),
            Self::NoRoom(reason) => LoadOutcome::NoRoom(reason),
        }
    }
}

/// An answer to a [`LifecycleQuestion`](super::LifecycleQuestion). Where an answer is an
/// `Option<String>`, it is the reason why the plugin has to wait.
pub enum LifecycleAnswer<H: Handles> {
    /// Whether the configuration fits the version's schema.
    Config(Result<(), String>),
    /// What the version asks for beyond what was accepted, if it does.
    Acceptance(Option<NotAccepted>),
    /// How the version is run, with the reads that the cluster forbids to its identity, and the
    /// optional kinds that it does not serve. An error if that cannot be known now.
    Access {
        /// Whether another answer may be given later, although nothing tells of it: the
        /// permissions of an identity may be revoked, and optional kinds may come and go.
        may_change: bool,
        /// How it is run.
        terms: Result<RunTerms<H>, String>,
    },
    /// Whether there is room for its list-watches.
    Watches(Option<String>),
    /// Whether the cluster serves its kinds.
    Kinds(Option<String>),
    /// The version has been installed, or not.
    Installed(Result<Installed, JoinError>),
}

/// How a version is run.
pub struct RunTerms<H: Handles> {
    /// As the hub gets it.
    pub settings: Box<ControllerSettings>,
    /// As its guest gets it.
    pub sandbox: H::Sandbox,
    /// The identity under which it reads and writes, as text.
    pub identity: Option<String>,
}

impl<H: Handles> Clone for RunTerms<H> {
    fn clone(&self) -> Self {
        Self {
            settings: self.settings.clone(),
            sandbox: self.sandbox.clone(),
            identity: self.identity.clone(),
        }
    }
}

/// A version that asks for more than has been accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAccepted {
    /// What has not been accepted, one line each.
    pub more: Vec<String>,
    /// The same for people, with what to do about it.
    pub reason: String,
}

/// A version that has been installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Installed {
    /// Its plugin in the hub.
    pub plugin: PluginId,
    /// Whether a rollback may return to the version that it has replaced, if it has.
    pub was_fit: bool,
    /// Whether the plugin is in quarantine all the same.
    pub is_quarantined: bool,
}
