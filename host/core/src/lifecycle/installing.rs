//! A version for which everything is ready is installed in the hub.

use std::collections::BTreeSet;

use super::Lifecycle;
use super::attempt::{Entrance, NAMESAKE_DRAINS, Ready};
use super::effect::{LifecycleEffect, LifecycleQuestion, Notice, VersionInFile};
use super::errand::OpenQuestion;
use super::event::Installed;
use super::handles::{Handles, SettingsHandle};
use super::plugin_file::RunningVersion;
use super::plugin_files::NO_PATIENCE;
use crate::hub::JoinError;

impl<H: Handles> Lifecycle<H> {
    /// Installs a version for which everything is ready, unless another file has its name.
    pub(super) fn install(&mut self, ready: Ready<H>) {
        if let Some(namesake) = self.files.namesake(&ready.name, &ready.file) {
            // This file comes first in the order, and its name was not known when the other plugin
            // joined.
            if namesake.outranked_by.contains(&ready.file) {
                self.outranked.push(namesake.id);
                if let Some(file) = self.files.get_mut(&ready.file) {
                    let told = file.wait(&ready.version, NAMESAKE_DRAINS);
                    self.tell(told);
                }
                return;
            }
            let error = JoinError::DuplicateName(ready.name.clone());
            return self.not_installed(&ready, error);
        }
        let Some(file) = self.files.get(&ready.file) else {
            return;
        };
        let (name, version) = (ready.name.clone(), ready.version.loaded.clone());
        let terms = ready.terms.clone();
        let running = file.running.as_ref();
        let question = match running.filter(|running| running.name == name) {
            None => LifecycleQuestion::Join {
                name,
                version,
                terms,
            },
            Some(running) if ready.is_light(running) => {
                let plugin = running.id;
                LifecycleQuestion::Configure { plugin, terms }
            }
            Some(running) => LifecycleQuestion::Swap {
                plugin: running.id,
                name,
                version,
                terms,
                is_same: ready.is_same(running),
            },
        };
        self.ask(OpenQuestion::Install(ready), question);
    }

    /// Takes note of a version that has been installed.
    pub(super) fn put(&mut self, ready: Ready<H>, result: Result<Installed, JoinError>) {
        let installed = match result {
            Ok(installed) => installed,
            Err(error) => return self.not_installed(&ready, error),
        };
        let (name, entrance) = (ready.file.clone(), ready.entrance);
        let not_granted = ready.not_granted();
        let version_in_file = VersionInFile {
            file: name.clone(),
            version: ready.version.loaded.clone(),
            settings: ready.settings.clone(),
        };
        self.replace(ready, installed);
        let Some(file) = self.files.get_mut(&name) else {
            return;
        };
        file.not_granted = not_granted;
        let _ = file.named(None);
        match entrance {
            Entrance::New => file.is_let_in(),
            Entrance::Back => file.restored = None,
            Entrance::Again => {}
        }
        let remember = LifecycleEffect::Remember(version_in_file);
        self.effects.push(remember);
        self.tell_installed(&name, entrance, installed);
        self.effects.push(LifecycleEffect::AdjustWatches);
    }

    /// The version runs now, in place of the one that ran before.
    fn replace(&mut self, ready: Ready<H>, installed: Installed) {
        let Some(file) = self.files.get_mut(&ready.file) else {
            return;
        };
        let mut outranked_by = BTreeSet::new();
        let old = file.running.as_ref();
        if let Some(running) = old.filter(|running| running.id == installed.plugin) {
            outranked_by.clone_from(&running.outranked_by);
            if running.version.digest() != ready.version.digest() {
                let plugin = ready.name.clone();
                let swapped = LifecycleEffect::Tell(Notice::Swapped { plugin });
                self.effects.push(swapped);
                if installed.was_fit {
                    file.previous = Some(running.version.clone());
                }
            }
        } else {
            outranked_by.clone_from(&self.unknown);
            if old.is_some() {
                // The plugin has a new name. Its old entry in the hub drains, and the keys are the
                // new one's now.
                file.previous = None;
                let drain = self.files.retire(&ready.file, NO_PATIENCE);
                self.effects.extend(drain);
            }
            self.files.is_known(&ready.file);
            outranked_by.remove(&ready.file);
        }
        if let Some(file) = self.files.get_mut(&ready.file) {
            file.running = Some(RunningVersion {
                id: installed.plugin,
                name: ready.name,
                version: ready.version,
                terms: ready.terms,
                outranked_by,
            });
        }
    }

    fn not_installed(&mut self, ready: &Ready<H>, error: JoinError) {
        let Some(file) = self.files.get_mut(&ready.file) else {
            return;
        };
        let reason = error.to_string();
        match (ready.entrance, error) {
            (Entrance::Again, JoinError::DuplicateName(_)) => {
                let told = file.named(Some(&reason));
                self.tell(told);
            }
            // The host is stopping. What is queued still runs, as it would have without this
            // version.
            (_, JoinError::Draining) => {}
            (entrance, _) => {
                if entrance == Entrance::Back {
                    file.restored = None;
                }
                let told = file.refuse(&reason);
                self.tell(told);
                if entrance == Entrance::Again {
                    self.suspend(&ready.file);
                }
            }
        }
    }

    fn tell_installed(&mut self, name: &str, entrance: Entrance, installed: Installed) {
        let Some((file, running)) = self.files.get(name).and_then(|file| {
            let running = file.running.as_ref()?;
            Some((file, running))
        }) else {
            return;
        };
        let manifest = running.version.manifest();
        let plugin = || running.name.clone();
        let (version, file_name) = (|| manifest.version.clone(), || name.to_owned());
        let mut notices = Vec::new();
        if manifest.config_schema.is_none() && file.settings.has_config() {
            notices.push(Notice::UncheckedConfig {
                plugin: plugin(),
                file: file_name(),
            });
        }
        match entrance {
            Entrance::Again => notices.push(Notice::SettingsApplied {
                plugin: plugin(),
                file: file_name(),
                is_quarantined: installed.is_quarantined,
                is_paused: running.terms.settings.is_paused,
            }),
            Entrance::Back => notices.push(Notice::RunsEarlier {
                plugin: plugin(),
                version: version(),
                file: file_name(),
                reason: file.entry().problem,
            }),
            Entrance::New => {
                notices.push(Notice::Loaded {
                    plugin: plugin(),
                    version: version(),
                    digest: running.version.digest().clone(),
                    file: file_name(),
                });
                if !file.not_granted.is_empty() {
                    notices.push(Notice::NotGranted {
                        plugin: plugin(),
                        file: file_name(),
                        not_granted: file.not_granted.clone(),
                    });
                }
            }
        }
        self.effects
            .extend(notices.into_iter().map(LifecycleEffect::Tell));
    }
}
