//! How a plugin is run, as the operator decides.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::access::grants::Grants;
use crate::model::division::{DividedBy, Division};
use crate::model::key::Kind;
use crate::model::manifest::Manifest;
use crate::plan::write::Author;

/// How a plugin is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerSettings {
    /// The plugin's configuration, as JSON.
    pub config: String,
    /// How many keys may run at the same time: the manifest's limit, as far as it is granted.
    pub concurrency: u32,
    /// How the plugin's keys are divided, so that several hosts can share them. All hosts must
    /// divide them alike. A plugin of which one key may run at a time has one shard, or that would
    /// be one key on each host. Only a plugin whose subjects have namespaces can be divided by
    /// them; it can read what has a namespace in its key's namespace alone.
    pub division: Division,
    /// The plugin's share of the workers' time, relative to the other plugins' weights.
    pub weight: u32,
    /// Every subject is reconciled again after one to two times this period, even if nothing has
    /// changed. `None` disables the resync.
    pub resync: Option<Duration>,
    /// Whether the plugin may read the values of Secrets, if its manifest asks for them.
    pub secret_values: bool,
    /// The part of the manifest's requests that is granted.
    pub grants: Grants,
    /// While true, nothing of the plugin runs. Its caches are kept current and its keys are queued.
    pub is_paused: bool,
    /// Whether a version that fails on most of its keys is put in quarantine.
    pub quarantine: bool,
    /// The field manager of the plugin's writes. `None` means `pilothouse.dev/NAME`.
    pub field_manager: Option<String>,
    /// What the plugin's Events name as the controller that reports them. `None` means
    /// `pilothouse.dev/NAME`.
    pub reporting_controller: Option<String>,
    /// The user that the plugin's writes impersonate. `None` means the host's own user.
    pub user: Option<String>,
}

impl ControllerSettings {
    /// Why the keys of a plugin with this manifest cannot be divided as these settings say, if they
    /// cannot.
    pub fn undividable(&self, manifest: &Manifest) -> Option<String> {
        let Division { shards, by } = self.division;
        if shards == NonZeroU32::MIN && by == DividedBy::Name {
            return None;
        }
        // Two hosts would each run one of its keys.
        if self.concurrency == 1 {
            return Some("it runs one key at a time (concurrency 1), so its keys cannot be divided among hosts: remove `shards` from its settings".to_owned());
        }
        if by == DividedBy::Name {
            return None;
        }
        let most = Division::most(by);
        if shards.get() > most {
            return Some(format!(
                "its keys can be divided by namespace into at most {most} shards: lower `shards` in its settings"
            ));
        }
        let is_without = |kind: &Kind| self.grants.cluster_scoped.contains(kind);
        let mut subjects = manifest.reconciles.iter().map(|selection| &selection.kind);
        let why = if manifest.reconciles.is_empty() {
            "it reconciles no objects".to_owned()
        } else if let Some(kind) = subjects.find(|kind| is_without(kind)) {
            format!("it reconciles {kind}, which has no namespace")
        } else if let Some(read) = manifest.reads.iter().find(|read| read.kind.is_pattern()) {
            format!("it reads the pattern {}", read.kind)
        } else {
            return None;
        };
        Some(format!(
            "{why}, so its keys cannot be divided by namespace: remove `shard-by` from its settings"
        ))
    }

    /// The author of the writes of a plugin with this name. No other place decides its field
    /// manager.
    pub fn author(&self, plugin: &str) -> Author {
        let own = || Author::prefixed(plugin);
        Author {
            plugin: plugin.to_owned(),
            reporting_controller: self.reporting_controller.clone(),
            field_manager: self.field_manager.clone().unwrap_or_else(own),
            user: self.user.clone(),
        }
    }
}

/// The default concurrency is 16: reconciles are pure, so keys do not disturb each other, and a key
/// stays held while its writes are under way. Everything the manifest asks for is granted.
impl Default for ControllerSettings {
    fn default() -> Self {
        Self {
            config: "{}".into(),
            concurrency: 16,
            division: Division::UNDIVIDED,
            weight: 1,
            resync: None,
            secret_values: false,
            grants: Grants::as_requested(),
            is_paused: false,
            quarantine: true,
            field_manager: None,
            reporting_controller: None,
            user: None,
        }
    }
}
