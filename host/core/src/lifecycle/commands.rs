//! Commands of the operator: pause, resume, rollback and accept.

use std::collections::VecDeque;

use super::Lifecycle;
use super::command::{CommandAnswer, CommandError, CommandVerb, LifecycleCommand};
use super::effect::{LifecycleEffect, LifecycleQuestion, Notice, VersionInFile};
use super::errand::{AcceptErrand, Errand, OpenQuestion, RollbackCause, StateErrand};
use super::event::NotAccepted;
use super::handles::{DEFAULTS_FILE, Handles, SettingsHandle, settings_file_of};
use super::plugin_file::FileVersion;

impl<H: Handles> Lifecycle<H> {
    /// Carries out a command. Returns the answer that is due once everything else is done.
    pub(super) fn obey(&mut self, command: LifecycleCommand<H>) -> Option<StateErrand<H>> {
        let LifecycleCommand {
            plugin,
            verb,
            digest,
            reply,
        } = command;
        let Some(file) = self.files.called(&plugin, verb) else {
            let known = self.files.iter().filter_map(|(_, file)| file.name());
            let known = known.collect::<Vec<_>>().join(", ");
            self.answer(reply, Err(CommandError::Unknown(plugin, known)));
            return None;
        };
        match verb {
            CommandVerb::Pause => {
                self.pause(&file, true);
                let answer =
                    format!("{plugin} is paused until it is resumed or the host starts again");
                self.tell(Notice::Paused { plugin });
                self.answer(reply, Ok(answer));
            }
            CommandVerb::Resume => {
                if let Err(reason) = self.resume(&file) {
                    self.answer(reply, Err(CommandError::Impossible(reason)));
                    return None;
                }
                let done = None;
                self.tell(Notice::Resumed {
                    plugin: plugin.clone(),
                });
                return Some(StateErrand {
                    reply,
                    file,
                    plugin,
                    done,
                });
            }
            CommandVerb::Rollback => {
                let cause = RollbackCause::Command { plugin, reply };
                self.errands.push_back(Errand::RollBack(file, cause));
            }
            CommandVerb::Accept => self.begin_accept(AcceptErrand {
                file,
                plugin,
                digest,
                reply,
            }),
        }
        None
    }

    fn answer(&mut self, reply: H::Reply, answer: CommandAnswer) {
        self.effects.push(LifecycleEffect::Answer { reply, answer });
    }

    fn pause(&mut self, name: &str, is_paused: bool) {
        if let Some(file) = self.files.get_mut(name) {
            file.is_paused = is_paused;
        }
    }

    /// An error is the reason why the plugin stays paused.
    fn resume(&mut self, name: &str) -> Result<(), String> {
        self.pause(name, false);
        let Some(file) = self.files.get(name) else {
            return Ok(());
        };
        if file.is_paused_by_settings() {
            let own = settings_file_of(name);
            return Err(format!(
                "its settings say paused = true: take that out of {own}, or of {DEFAULTS_FILE}"
            ));
        }
        if let Some(running) = &file.running {
            self.effects.push(LifecycleEffect::Pardon(running.id));
        }
        Ok(())
    }

    /// Accepts what a version asks for: that of the candidate if it waits for this, or else that of
    /// the running version. If a digest is given, only a version with that digest.
    fn begin_accept(&mut self, errand: AcceptErrand<H>) {
        let Some(file) = self.files.get(&errand.file) else {
            return;
        };
        let running = file.running.as_ref().map(|running| &running.version);
        let versions = file.candidate.iter().chain(running).cloned();
        let errand = Errand::Accept(errand, versions.collect());
        self.errands.push_back(errand);
    }

    /// Asks whether the next of these versions is objected to.
    pub(super) fn check_next(
        &mut self,
        errand: AcceptErrand<H>,
        mut versions: VecDeque<FileVersion<H>>,
    ) {
        let file = self.files.get(&errand.file).zip(self.defaults.as_ref());
        let settings = file.map(|(file, defaults)| file.settings.or(defaults));
        let Some((settings, version)) = settings.zip(versions.pop_front()) else {
            let nothing = "nothing of it waits to be accepted".to_owned();
            return self.answer(errand.reply, Err(CommandError::Impossible(nothing)));
        };
        if let Some(reason) = settings.unpinned(&errand.file, version.digest()) {
            return self.answer(errand.reply, Err(CommandError::Impossible(reason)));
        }
        let question = LifecycleQuestion::Acceptance(VersionInFile {
            file: errand.file.clone(),
            version: version.loaded.clone(),
            settings: settings.into(),
        });
        self.ask(OpenQuestion::Accept(errand, version, versions), question);
    }

    pub(super) fn accept(
        &mut self,
        errand: AcceptErrand<H>,
        version: &FileVersion<H>,
        objection: NotAccepted,
    ) {
        let AcceptErrand {
            file,
            plugin,
            digest,
            reply,
        } = errand;
        let found = version.digest();
        if digest.is_some_and(|digest| *digest != **found) {
            let text = format!(
                "what waits is another file, with the digest {found}; look at it first (pilothouse check)"
            );
            return self.answer(reply, Err(CommandError::Impossible(text)));
        }
        let Some((known, defaults)) = self.files.get(&file).zip(self.defaults.as_ref()) else {
            return;
        };
        let settings = known.settings.or(defaults);
        let manifest = version.manifest();
        let accepted = Notice::Accepted {
            plugin: settings.name_of(manifest),
            version: manifest.version.clone(),
            file: file.clone(),
            digest: found.clone(),
            more: objection.more,
        };
        let done = format!("version {} ({found}) is accepted", manifest.version);
        self.effects.push(LifecycleEffect::Accept(VersionInFile {
            file: file.clone(),
            version: version.loaded.clone(),
            settings: settings.into(),
        }));
        self.tell(accepted);
        self.errands.push_back(Errand::State(StateErrand {
            reply,
            file,
            plugin,
            done: Some(done),
        }));
    }
}
