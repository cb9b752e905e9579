//! A version that fails, or that the operator does not want, is replaced by the one before.

use super::Lifecycle;
use super::command::CommandError;
use super::effect::{LifecycleEffect, LifecycleQuestion, Notice, VersionInFile};
use super::errand::{Errand, OpenQuestion, RollbackCause};
use super::handles::{Handles, SettingsHandle};
use crate::hub::{PluginId, Quarantine};

impl<H: Handles> Lifecycle<H> {
    /// Handles versions that have gone into quarantine: rolls back to the previous version if there
    /// is one. If not, the hub tries the version again, less and less often.
    pub(super) fn quarantined(&mut self, plugins: Vec<(PluginId, Quarantine)>) {
        for (id, quarantine) in plugins {
            let Some(name) = self.files.of_plugin(id) else {
                continue;
            };
            let Some(file) = self.files.get_mut(&name) else {
                continue;
            };
            if !file.quarantined(quarantine.until) {
                continue;
            }
            if let Some(plugin) = file.name() {
                self.tell(Notice::QuarantineBegan { plugin });
            }
            let cause = RollbackCause::Quarantine(quarantine);
            self.errands.push_back(Errand::RollBack(name, cause));
        }
    }

    /// Asks whether the previous version may come back, if there is one.
    pub(super) fn check_rollback(&mut self, name: String, cause: RollbackCause<H>) {
        let Some(file) = self.files.get(&name) else {
            return;
        };
        let Some((version, defaults)) = file.previous.as_ref().zip(self.defaults.as_ref()) else {
            return self.roll_back(&name, cause, None);
        };
        let settings = file.settings.or(defaults);
        if let Some(reason) = settings.unpinned(&name, version.digest()) {
            return self.roll_back(&name, cause, Some(reason));
        }
        let question = LifecycleQuestion::Acceptance(VersionInFile {
            file: name.clone(),
            version: version.loaded.clone(),
            settings: settings.into(),
        });
        self.ask(OpenQuestion::RollBack(name, cause), question);
    }

    /// Orders a rollback, unless something bars it.
    pub(super) fn roll_back(
        &mut self,
        name: &str,
        cause: RollbackCause<H>,
        barred: Option<String>,
    ) {
        match cause {
            RollbackCause::Quarantine(quarantine) => self.heal(name, &quarantine, barred),
            RollbackCause::Command { plugin, reply } => {
                let answer = self.roll_back_by_command(name, plugin, barred);
                let answer = answer.map_err(CommandError::Impossible);
                self.effects.push(LifecycleEffect::Answer { reply, answer });
            }
        }
    }

    fn heal(&mut self, name: &str, quarantine: &Quarantine, barred: Option<String>) {
        let Some(file) = self.files.get_mut(name) else {
            return;
        };
        let Some(running) = &file.running else {
            return;
        };
        let version = running.version.manifest().version.clone();
        let (plugin, reason) = (running.name.clone(), quarantine.reason.clone());
        let restored = match &barred {
            None => file.roll_back(),
            Some(_) => None,
        };
        if restored.is_some() {
            file.note(format!("it was rolled back: {reason}"));
        }
        let file = name.to_owned();
        if let Some(reason) = barred {
            self.tell(Notice::CannotRollBack {
                plugin: plugin.clone(),
                file: file.clone(),
                reason,
            });
        }
        self.tell(match restored {
            Some(restored) => Notice::RolledBack {
                plugin,
                version,
                restored,
                file,
                reason,
            },
            None => Notice::Quarantined {
                plugin,
                version,
                file,
                reason,
                seconds: quarantine.until.saturating_sub(self.now).as_secs(),
            },
        });
    }

    fn roll_back_by_command(
        &mut self,
        name: &str,
        plugin: String,
        barred: Option<String>,
    ) -> Result<String, String> {
        if let Some(reason) = barred {
            return Err(format!("the version before may not run: {reason}"));
        }
        let file = self.files.get_mut(name);
        let Some((file, version)) = file.and_then(|file| {
            let version = file.roll_back()?;
            Some((file, version))
        }) else {
            return Err("there is no earlier version that was fit to run".to_owned());
        };
        file.note("it was rolled back by command".to_owned());
        let text = format!("{plugin} goes back to version {version}, until there is another file");
        self.tell(Notice::RolledBackByCommand { plugin, version });
        Ok(text)
    }
}
