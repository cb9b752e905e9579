//! What is to be done for plugins.

use std::sync::Arc;
use std::time::Duration;

use super::command::CommandAnswer;
use super::event::RunTerms;
use super::handles::{Digest, Handles};
use crate::hub::PluginId;
use crate::model::manifest::Manifest;

/// What is to be done, in order.
pub enum LifecycleEffect<H: Handles> {
    /// Load a file. A file whose digest is known need not be compiled.
    Load {
        /// The file.
        file: String,
        /// The number of this load, for its result.
        load: u64,
        /// The digests of the versions that are known.
        known: Vec<Digest>,
    },
    /// Find out, or install, and answer. Always the last effect: nothing else is decided before.
    Ask(LifecycleQuestion<H>),
    /// Drain a plugin, and say when nothing of it runs any more.
    Drain {
        /// The plugin.
        plugin: PluginId,
        /// Its name.
        name: String,
        /// For how long its queued keys may run. After that only running ones are awaited, which
        /// have deadlines of their own. Zero: the queued keys are dropped.
        patience: Duration,
    },
    /// Remove a plugin that has drained from the hub.
    Remove {
        /// The plugin.
        plugin: PluginId,
        /// Its name.
        name: String,
    },
    /// End a plugin's quarantine: the operator asks for another attempt.
    Pardon(PluginId),
    /// Record that the operator accepts what a version asks for.
    Accept(VersionInFile<H>),
    /// Record what a version asks for that has been installed, if it is run with what it asks for.
    Remember(VersionInFile<H>),
    /// The hub may want other informers now.
    AdjustWatches,
    /// Answer a command.
    Answer {
        /// Where.
        reply: H::Reply,
        /// The answer.
        answer: CommandAnswer,
    },
    /// Answer a command with the plugin's state.
    AnswerWithState {
        /// Where.
        reply: H::Reply,
        /// The plugin's file.
        file: String,
        /// The plugin, as the command names it.
        plugin: String,
        /// What was done, if there is more to say than the state.
        done: Option<String>,
    },
    /// Tell the operator.
    Tell(Notice),
}

/// What has to be found out or done before more can be decided.
pub enum LifecycleQuestion<H: Handles> {
    /// Does the configuration fit the version's schema?
    Config(VersionInFile<H>),
    /// Does the version ask for more than was accepted?
    Acceptance(VersionInFile<H>),
    /// How is the version run, and what does the cluster let its identity read?
    Access(VersionInFile<H>),
    /// Is there room for the list-watches of a plugin that is granted this?
    Watches(Arc<Manifest>),
    /// Does the cluster serve the kinds of a plugin that is granted this?
    Kinds(Arc<Manifest>),
    /// Install a plugin.
    Join {
        /// Its name.
        name: String,
        /// The version.
        version: H::Version,
        /// How it is run.
        terms: RunTerms<H>,
    },
    /// Swap a plugin's version, or the settings that its keys have to run again for.
    Swap {
        /// The plugin.
        plugin: PluginId,
        /// Its name.
        name: String,
        /// The version.
        version: H::Version,
        /// How it is run.
        terms: RunTerms<H>,
        /// Whether it is the same version in the same sandbox, which keeps its instances.
        is_same: bool,
    },
    /// Change settings of a plugin that no key has to run again for.
    Configure {
        /// The plugin.
        plugin: PluginId,
        /// How it is run.
        terms: RunTerms<H>,
    },
}

/// A version of a file, with settings for it.
pub struct VersionInFile<H: Handles> {
    /// The file.
    pub file: String,
    /// The version.
    pub version: H::Version,
    /// The settings.
    pub settings: Arc<H::Settings>,
}

/// What the operator is told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields have the names of the log's fields")]
pub enum Notice {
    /// The settings for all plugins cannot be read.
    DefaultsUnreadable { reason: String },
    /// The file cannot be used, and nothing runs in its place.
    NotLoaded { file: String, reason: String },
    /// The file waits. The plugin's name is known once it has been loaded.
    Waits {
        plugin: Option<String>,
        file: String,
        reason: String,
    },
    /// The file cannot be used; what runs goes on.
    KeepsRunning { file: String, reason: String },
    /// The settings name other digests than the running version's, which goes on.
    Unpinned {
        plugin: Option<String>,
        file: String,
        reason: String,
    },
    /// The running version keeps its earlier settings.
    SettingsNotApplied {
        plugin: Option<String>,
        file: String,
        reason: String,
    },
    /// A version has replaced another.
    Swapped { plugin: String },
    /// A new version runs.
    Loaded {
        plugin: String,
        version: String,
        digest: Digest,
        file: String,
    },
    /// The plugin asks for more than it is granted.
    NotGranted {
        plugin: String,
        file: String,
        not_granted: Vec<String>,
    },
    /// The plugin is given a configuration that nothing checks.
    UncheckedConfig { plugin: String, file: String },
    /// An earlier version runs again.
    RunsEarlier {
        plugin: String,
        version: String,
        file: String,
        reason: Option<String>,
    },
    /// The plugin runs with other settings.
    SettingsApplied {
        plugin: String,
        file: String,
        is_quarantined: bool,
        is_paused: bool,
    },
    /// A version has gone into quarantine.
    QuarantineBegan { plugin: String },
    /// There is no version to roll back to, so that the hub tries this one again.
    Quarantined {
        plugin: String,
        version: String,
        file: String,
        reason: String,
        seconds: u64,
    },
    /// The previous version may not run either.
    CannotRollBack {
        plugin: String,
        file: String,
        reason: String,
    },
    /// A version that failed is replaced by the previous one.
    RolledBack {
        plugin: String,
        version: String,
        restored: String,
        file: String,
        reason: String,
    },
    /// A version is replaced by the previous one, by command.
    RolledBackByCommand { plugin: String, version: String },
    /// The operator has accepted what a version asks for.
    Accepted {
        plugin: String,
        version: String,
        file: String,
        digest: Digest,
        more: Vec<String>,
    },
    /// The plugin is paused, by command.
    Paused { plugin: String },
    /// The plugin is resumed, by command.
    Resumed { plugin: String },
    /// An earlier file has the same plugin name.
    Outranked { file: String },
    /// The operator has switched the plugin off for this host.
    SwitchedOff { file: String, plugin: String },
    /// Nothing of the plugin is left.
    Removed { plugin: String, dropped: usize },
}
