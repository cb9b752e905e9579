//! Tells the operator what happens to plugins: in the log, in the metrics, and with Events.

use std::sync::Arc;

use pilothouse_core::{DEFAULTS_FILE, Notice, settings_file_of};
use tracing::{error, info, warn};

use crate::host_events::HostEvents;
use crate::metrics::Metrics;

/// See the module's documentation.
pub struct Notices {
    pub metrics: Arc<Metrics>,
    pub events: HostEvents,
}

impl Notices {
    pub fn tell(&self, notice: Notice) {
        self.count(&notice);
        match notice {
            Notice::RolledBack { .. } | Notice::Quarantined { .. } => self.tell_failure(notice),
            Notice::Loaded { .. }
            | Notice::NotGranted { .. }
            | Notice::UncheckedConfig { .. }
            | Notice::RunsEarlier { .. } => tell_installed(notice),
            Notice::SettingsApplied {
                plugin,
                file,
                is_quarantined,
                is_paused,
            } => tell_settings(&plugin, &file, is_quarantined, is_paused),
            Notice::Accepted { .. }
            | Notice::Paused { .. }
            | Notice::Resumed { .. }
            | Notice::SwitchedOff { .. }
            | Notice::RolledBackByCommand { .. } => tell_command(notice),
            notice => tell_problem(notice),
        }
    }

    fn count(&self, notice: &Notice) {
        let lives = self.metrics.lives();
        match notice {
            Notice::Swapped { plugin } => lives.swapped(plugin),
            Notice::QuarantineBegan { plugin } => lives.quarantined(plugin),
            Notice::RolledBack { plugin, .. } => lives.rolled_back(plugin),
            _ => {}
        }
    }

    /// A version that has failed on most keys.
    fn tell_failure(&self, notice: Notice) {
        match notice {
            Notice::RolledBack {
                plugin,
                version,
                restored,
                file,
                reason,
            } => {
                error!(
                    plugin,
                    version, restored, file, reason, "plugin rolled back: it failed on most keys"
                );
                self.events.warn(
                    "PluginRolledBack",
                    format!("{plugin} {version} was replaced by {restored}: {reason}"),
                );
            }
            Notice::Quarantined {
                plugin,
                version,
                file,
                reason,
                seconds,
            } => {
                error!(
                    plugin,
                    version, file, reason, seconds, "plugin in quarantine: it fails on most keys"
                );
                self.events.warn(
                    "PluginQuarantined",
                    format!("{plugin} {version} runs nothing for {seconds} s: {reason}"),
                );
            }
            _ => {}
        }
    }
}

/// A version that runs.
fn tell_installed(notice: Notice) {
    match notice {
        Notice::Loaded {
            plugin,
            version,
            digest,
            file,
        } => info!(
            plugin,
            version,
            digest = &digest[..12],
            file,
            "plugin loaded"
        ),
        Notice::NotGranted {
            plugin,
            file,
            not_granted,
        } => {
            let not_granted = not_granted.join(", ");
            let settings = settings_file_of(&file);
            warn!(
                plugin,
                not_granted,
                "the plugin asks for more than it is granted; pilothouse check prints the lines of {settings} that grant it"
            );
        }
        Notice::UncheckedConfig { plugin, file } => warn!(
            plugin,
            file, "the plugin has no configSchema; its configuration is passed unchecked"
        ),
        Notice::RunsEarlier {
            plugin,
            version,
            file,
            reason,
        } => warn!(
            plugin,
            version, file, reason, "running an earlier version of the plugin"
        ),
        _ => {}
    }
}

/// Settings that were applied. Those that do not make keys run again do not end a quarantine.
fn tell_settings(plugin: &str, file: &str, is_quarantined: bool, is_paused: bool) {
    if is_quarantined {
        info!(
            plugin,
            file, "settings applied; the plugin stays in quarantine"
        );
    } else if is_paused {
        info!(plugin, file, "settings applied; the plugin is paused");
    } else {
        info!(plugin, file, "plugin runs with other settings");
    }
}

/// A command that was carried out.
fn tell_command(notice: Notice) {
    match notice {
        Notice::Accepted {
            plugin,
            version,
            file,
            digest,
            more,
        } => {
            let (digest, more) = (&*digest, more.join(", "));
            info!(plugin, version, file, digest, more, "accepted by command");
        }
        Notice::Paused { plugin } => info!(plugin, "plugin paused"),
        Notice::Resumed { plugin } => info!(plugin, "plugin resumed"),
        Notice::SwitchedOff { file, plugin } => {
            info!(
                plugin,
                file, "plugin not loaded: --controllers switches it off"
            );
        }
        Notice::RolledBackByCommand { plugin, version } => {
            info!(plugin, version, "plugin rolled back");
        }
        _ => {}
    }
}

/// Why something does not run, or does not run as it should.
fn tell_problem(notice: Notice) {
    match notice {
        Notice::DefaultsUnreadable { reason } => {
            let file = DEFAULTS_FILE;
            error!(
                file,
                reason, "cannot read the settings for all plugins; keeping the earlier ones"
            );
        }
        Notice::NotLoaded { file, reason } => error!(file, reason, "plugin not loaded"),
        Notice::Waits {
            plugin,
            file,
            reason,
        } => warn!(plugin, file, reason, "plugin waits"),
        Notice::KeepsRunning { file, reason } => {
            error!(file, reason, "keeping the running version");
        }
        Notice::Unpinned {
            plugin,
            file,
            reason,
        } => warn!(plugin, file, reason, "keeping the running version"),
        Notice::SettingsNotApplied {
            plugin,
            file,
            reason,
        } => error!(
            plugin,
            file, reason, "settings not applied; keeping the earlier ones"
        ),
        Notice::CannotRollBack {
            plugin,
            file,
            reason,
        } => warn!(
            plugin,
            file, reason, "cannot roll back to the previous version"
        ),
        Notice::Outranked { file } => {
            warn!(file, "the plugin stops: an earlier file has the same name");
        }
        Notice::Removed { plugin, dropped } => info!(plugin, dropped, "plugin removed"),
        _ => {}
    }
}
