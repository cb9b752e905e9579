//! How a plugin is run, as the operator decides.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::access::grants::Grants;
use crate::plan::write::Author;

/// How a plugin is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerSettings {
    /// The plugin's configuration, as JSON.
    pub config: String,
    /// How many keys may run at the same time: the manifest's limit, as far as it is granted.
    pub concurrency: u32,
    /// Into how many shards the plugin's keys are divided, so that several hosts can share them: at
    /// most [`MAX_SHARDS`](crate::MAX_SHARDS). All hosts must have the same number. A plugin of
    /// which one key may run at a time has one shard, or that would be one key on each host.
    pub shards: NonZeroU32,
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
            shards: NonZeroU32::MIN,
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
