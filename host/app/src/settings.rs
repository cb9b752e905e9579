//! The operator's settings for a plugin: `NAME.toml` beside `NAME.wasm`. `pilothouse.toml` in the
//! same directory has the same keys, and applies to all plugins. docs/settings.md lists them.

mod grants;
mod parse;
mod quantity;

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use pilothouse_cluster::Identity;
use pilothouse_core::{ControllerSettings, Division, Granted, Grants, Kind, Manifest};
use pilothouse_wasm::{LimitPolicy, RunOptions};
use serde::Deserialize;

pub use grants::GrantSetting;
pub use parse::{digest, parse, parse_defaults};
pub use quantity::{bytes, duration, size};

/// The contents of one settings file. What it does not set is `None`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SettingsFile {
    /// The plugin's name, instead of the one in its manifest.
    #[serde(default, deserialize_with = "parse::name")]
    pub name: Option<String>,
    /// The field manager that owns the fields the plugin writes, instead of one with the plugin's
    /// name.
    #[serde(default, deserialize_with = "parse::field_manager")]
    pub field_manager: Option<String>,
    /// What the plugin's Events name as the controller that reports them, instead of its own name.
    #[serde(default, deserialize_with = "parse::reporting_controller")]
    pub reporting_controller: Option<String>,
    /// SHA-256 of the files that may run, in hexadecimal. `None`: any file.
    #[serde(default, deserialize_with = "parse::digests")]
    pub sha256: Option<BTreeSet<String>>,
    /// Whether a plugin without a settings file of its own waits for one.
    pub require_settings: Option<bool>,
    /// Whether the plugin is paused: it runs nothing.
    pub paused: Option<bool>,
    /// What the plugin may do of what its manifest asks for.
    pub grants: Option<GrantSetting>,
    /// Restricts the plugin to these namespaces; an empty list means all.
    pub namespaces: Option<BTreeSet<String>>,
    /// Whether it may read the values of Secrets.
    pub secret_values: Option<bool>,
    /// The service account that the plugin's writes are made as. It must also be allowed to read
    /// what the plugin reads.
    #[serde(default, deserialize_with = "parse::identity")]
    pub identity: Option<Identity>,
    /// Its share of the workers' time. The default is 1.
    #[serde(default, deserialize_with = "parse::at_least_one")]
    pub weight: Option<u32>,
    /// The number of keys that may run at the same time.
    #[serde(default, deserialize_with = "parse::at_least_one")]
    pub concurrency: Option<u32>,
    /// How many parts its keys are divided into, which hosts that share may run each for itself.
    #[serde(default, deserialize_with = "parse::shards")]
    pub shards: Option<NonZeroU32>,
    /// By what they are divided.
    pub shard_by: Option<ShardBy>,
    /// Every object is reconciled again after one to two times this period; zero means never.
    #[serde(default, deserialize_with = "parse::duration")]
    pub resync: Option<Duration>,
    /// Whether an instance that has answered is used again.
    pub reuse_instances: Option<bool>,
    /// The fraction of reconciles that are run twice and compared.
    #[serde(default, deserialize_with = "parse::fraction")]
    pub verify: Option<f64>,
    /// Whether no reconcile is given a memo.
    pub forget_memos: Option<bool>,
    /// Log lines per second.
    #[serde(default, deserialize_with = "parse::at_least_one")]
    pub log_lines: Option<u32>,
    /// Limits of one reconcile. They are the default if the manifest asks for nothing, and the
    /// maximum if it does.
    #[serde(default)]
    pub limits: LimitSettings,
    /// The plugin's own configuration.
    #[serde(default)]
    pub config: toml::Table,
}

/// By what a plugin's keys are divided into shards.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum ShardBy {
    /// By namespace and name.
    Name,
    /// By namespace: a host caches only the namespaces of its shards.
    Namespace,
}

/// Limits of one reconcile.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LimitSettings {
    /// Bytes of linear memory and tables, for all of an instance together.
    #[serde(default, deserialize_with = "parse::bytes")]
    pub memory: Option<u64>,
    /// Fuel: about one unit per wasm instruction.
    #[serde(default, deserialize_with = "parse::at_least_one_u64")]
    pub fuel: Option<u64>,
    /// CPU time. A reconcile may take ten times as long on the wall clock.
    #[serde(default, deserialize_with = "parse::positive_duration")]
    pub timeout: Option<Duration>,
}

/// The defaults where no settings file sets a value.
#[derive(Clone, Debug)]
pub struct HostDefaults {
    /// The grants of a plugin whose settings have none.
    pub grants: GrantSetting,
    /// How often every object is reconciled again.
    pub resync: Option<Duration>,
    /// Whether a version that breaks on most of its reconciles is put in quarantine or rolled back.
    pub quarantine: bool,
    /// Whether a version may ask for more than earlier ones without being accepted.
    pub accepts_all: bool,
}

impl HostDefaults {
    /// `pilothouse run`: plugins are not trusted.
    pub fn of_run() -> Self {
        Self {
            grants: GrantSetting::OwnKind,
            resync: None,
            quarantine: true,
            accepts_all: false,
        }
    }

    /// `pilothouse dev`: the person who runs a plugin also writes it. It is granted what it asks
    /// for, and the version in its file runs, however often it breaks.
    pub fn of_dev() -> Self {
        Self {
            grants: GrantSetting::AsRequested,
            resync: None,
            quarantine: false,
            accepts_all: true,
        }
    }
}

impl SettingsFile {
    /// These settings, with the defaults for keys that they do not set. Tables are merged key by
    /// key.
    pub fn or(&self, defaults: &Self) -> Self {
        let mut config = defaults.config.clone();
        config.extend(self.config.clone());
        Self {
            // The settings for all plugins cannot have these: see `parse_defaults`.
            name: self.name.clone(),
            field_manager: self.field_manager.clone(),
            reporting_controller: self.reporting_controller.clone(),
            sha256: self.sha256.clone(),
            // Only the settings for all plugins have it.
            require_settings: defaults.require_settings,
            paused: self.paused.or(defaults.paused),
            grants: self.grants.clone().or_else(|| defaults.grants.clone()),
            namespaces: self
                .namespaces
                .clone()
                .or_else(|| defaults.namespaces.clone()),
            secret_values: self.secret_values.or(defaults.secret_values),
            identity: self.identity.clone().or_else(|| defaults.identity.clone()),
            weight: self.weight.or(defaults.weight),
            concurrency: self.concurrency.or(defaults.concurrency),
            shards: self.shards.or(defaults.shards),
            shard_by: self.shard_by.or(defaults.shard_by),
            resync: self.resync.or(defaults.resync),
            reuse_instances: self.reuse_instances.or(defaults.reuse_instances),
            verify: self.verify.or(defaults.verify),
            forget_memos: self.forget_memos.or(defaults.forget_memos),
            log_lines: self.log_lines.or(defaults.log_lines),
            limits: LimitSettings {
                memory: self.limits.memory.or(defaults.limits.memory),
                fuel: self.limits.fuel.or(defaults.limits.fuel),
                timeout: self.limits.timeout.or(defaults.limits.timeout),
            },
            config,
        }
    }

    /// The name of a plugin with this manifest.
    pub fn name_of(&self, manifest: &Manifest) -> String {
        self.name.clone().unwrap_or_else(|| manifest.name.clone())
    }

    /// The settings as the hub gets them. `concurrency` is the plugin's own, `cluster_scoped` the
    /// kinds of its manifest that have no namespaces.
    pub fn for_hub(
        &self,
        defaults: &HostDefaults,
        concurrency: u32,
        cluster_scoped: BTreeSet<Kind>,
    ) -> ControllerSettings {
        let grants = self.grants.as_ref().unwrap_or(&defaults.grants);
        let resync = self.resync.or(defaults.resync);
        ControllerSettings {
            config: self.config_json(),
            concurrency: self.concurrency.unwrap_or(concurrency),
            division: self.division(),
            weight: self.weight.unwrap_or(1),
            resync: resync.filter(|period| !period.is_zero()),
            secret_values: self.secret_values.unwrap_or(false),
            grants: Grants {
                what: Granted::from(grants.clone()),
                namespaces: self.namespaces.clone().unwrap_or_default(),
                cluster_scoped,
                forbidden: BTreeSet::new(),
                absent: BTreeSet::new(),
            },
            is_paused: self.paused.unwrap_or(false),
            quarantine: defaults.quarantine,
            field_manager: self.field_manager.clone(),
            reporting_controller: self.reporting_controller.clone(),
            user: self.identity.as_ref().map(Identity::to_string),
        }
    }

    fn division(&self) -> Division {
        let shards = self.shards.unwrap_or(NonZeroU32::MIN);
        match self.shard_by {
            None | Some(ShardBy::Name) => Division::by_name(shards),
            Some(ShardBy::Namespace) => Division::by_namespace(shards),
        }
    }

    /// The plugin's own configuration as JSON, as its guest gets it.
    pub fn config_json(&self) -> String {
        config_json(&self.config)
    }

    /// The settings as the sandbox gets them.
    pub fn for_sandbox(&self) -> Sandbox {
        let mut policy = LimitPolicy::default();
        for limits in [&mut policy.default, &mut policy.max] {
            let (memory, fuel) = (&mut limits.memory_bytes, &mut limits.fuel);
            *memory = self.limits.memory.unwrap_or(*memory);
            *fuel = self.limits.fuel.unwrap_or(*fuel);
            limits.timeout = self.limits.timeout.unwrap_or(limits.timeout);
        }
        let defaults = RunOptions::default();
        let options = RunOptions {
            reuse: self.reuse_instances.unwrap_or(defaults.reuse),
            verify: self.verify.unwrap_or(defaults.verify),
            forget_memos: self.forget_memos.unwrap_or(defaults.forget_memos),
            log_lines: self.log_lines.unwrap_or(defaults.log_lines),
        };
        Sandbox { policy, options }
    }
}

/// The settings of a `.wasm` file: those beside it, merged with those for all plugins.
pub fn beside(wasm: &Path) -> anyhow::Result<SettingsFile> {
    type Parse = fn(&str) -> Result<SettingsFile, String>;
    let read = |file: PathBuf, parse: Parse| match std::fs::read_to_string(&file) {
        Ok(text) => parse(&text).map_err(|reason| anyhow::anyhow!("{}: {reason}", file.display())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(SettingsFile::default()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    };
    let own = read(wasm.with_extension("toml"), parse)?;
    let defaults = wasm.with_file_name(pilothouse_core::DEFAULTS_FILE);
    Ok(own.or(&read(defaults, parse_defaults)?))
}

/// How a plugin's guest is run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sandbox {
    pub policy: LimitPolicy,
    pub options: RunOptions,
}

/// The configuration as JSON. Dates and times become strings, because JSON has no type for them.
fn config_json(config: &toml::Table) -> String {
    fn json(value: &toml::Value) -> serde_json::Value {
        match value {
            toml::Value::String(text) => text.as_str().into(),
            toml::Value::Integer(number) => (*number).into(),
            toml::Value::Float(number) => (*number).into(),
            toml::Value::Boolean(is) => (*is).into(),
            toml::Value::Datetime(time) => time.to_string().into(),
            toml::Value::Array(values) => values.iter().map(json).collect(),
            toml::Value::Table(table) => table
                .iter()
                .map(|(key, value)| (key.clone(), json(value)))
                .collect(),
        }
    }
    json(&toml::Value::Table(config.clone())).to_string()
}

#[cfg(test)]
mod tests;
