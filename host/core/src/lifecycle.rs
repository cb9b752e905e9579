//! The life of plugins: a file is loaded as a version, the version is installed in the hub as soon
//! as it may run, runs until something better is ready, is rolled back if it fails, and is drained
//! when its file has gone.
//!
//! [`Lifecycle`] decides all of this, and does nothing itself: events come in, effects go out. What
//! it cannot know (whether a configuration fits, what the cluster lets an identity read, …) it
//! asks, one question at a time, and decides nothing else before the answer.
//!
//! Guarantees:
//! - A plugin name is installed at most once. Of two files of one name the first one runs,
//!   whichever is ready first.
//! - A new version is installed only after its configuration was checked, what it asks for was
//!   accepted, its identity's access was reviewed, there was room for its list-watches, and the
//!   cluster served its kinds.
//! - What runs goes on until something better is ready, unless it may not run any more.
//! - A plugin whose file is removed is drained, and then it is gone.
//! - A version that was rolled back is not installed again from the same file, unless another one
//!   has been installed in between.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use crate::hub::{JoinError, PluginId, Quarantine};
use crate::queue::Time;

mod attempt;
pub mod command;
pub mod effect;
pub mod entry;
pub mod event;
pub mod handles;
mod plugin_file;
mod plugin_files;

use attempt::{Attempt, AttemptNext, Entrance, NAMESAKE_DRAINS, Ready};
pub use attempt::{lack_of_namespaces, unread_subject};
use command::{CommandAnswer, CommandError, CommandVerb, LifecycleCommand};
use effect::{LifecycleEffect, LifecycleQuestion, Notice, VersionInFile};
use entry::PluginEntry;
use event::{Installed, LifecycleAnswer, LifecycleEvent, LoadOutcome, NotAccepted, SeenDirectory};
use handles::{DEFAULTS_FILE, Handles, SettingsHandle, settings_file_of};
use plugin_file::{FileVersion, RunningVersion};
use plugin_files::{NO_PATIENCE, PluginFiles};

/// How often the directory should be read, and what is missing be asked for again, while a plugin
/// waits. A CRD may be created at any time.
pub const RECHECK_INTERVAL: Duration = Duration::from_secs(5);

/// See the module's documentation.
pub struct Lifecycle<H: Handles> {
    files: PluginFiles<H>,
    /// The last valid settings for all plugins. While there are none, nothing is installed, because
    /// the settings may forbid it.
    defaults: Option<H::Settings>,
    /// Why the settings for all plugins could not be read when they were last read.
    defaults_fault: Option<String>,
    is_reached: bool,
    /// The number of loads so far.
    loads: u64,
    /// What has been asked and not answered.
    open: Option<OpenQuestion<H>>,
    /// What is left to do for the events so far, in order.
    errands: VecDeque<Errand<H>>,
    /// Events that have arrived while a question was open.
    inbox: VecDeque<LifecycleEvent<H>>,
    effects: Vec<LifecycleEffect<H>>,
    /// The files so far in this pass that are being loaded for the first time, so that their
    /// plugins' names are not known yet.
    unknown: BTreeSet<String>,
    /// The plugins that have to drain for an earlier file of the same name.
    outranked: Vec<PluginId>,
    now: Time,
}

/// Something that takes a question or more.
enum Errand<H: Handles> {
    /// Replace the running version by the previous one.
    RollBack(String, RollbackCause<H>),
    /// Accept what the first of these versions asks for that is objected to.
    Accept(AcceptErrand<H>, VecDeque<FileVersion<H>>),
    /// Install the version to roll back to, if there is one.
    Back(String),
    /// Give the running version its current settings.
    Again(String),
    /// Install the candidate, if there is one.
    New(String),
    /// Drain the plugins that have turned out to have the name of an earlier file.
    Outranked,
    /// Answer a command with the plugin's state.
    State(StateErrand<H>),
}

struct AcceptErrand<H: Handles> {
    file: String,
    plugin: String,
    digest: Option<String>,
    reply: H::Reply,
}

struct StateErrand<H: Handles> {
    reply: H::Reply,
    file: String,
    plugin: String,
    done: Option<String>,
}

/// Why a version is rolled back.
enum RollbackCause<H: Handles> {
    Quarantine(Quarantine),
    Command { plugin: String, reply: H::Reply },
}

/// A question that has been asked, and what goes on with the answer.
enum OpenQuestion<H: Handles> {
    Attempt(Attempt<H>),
    Install(Ready<H>),
    RollBack(String, RollbackCause<H>),
    Accept(AcceptErrand<H>, FileVersion<H>, VecDeque<FileVersion<H>>),
}

impl<H: Handles> Default for Lifecycle<H> {
    fn default() -> Self {
        Self {
            files: PluginFiles::default(),
            defaults: None,
            defaults_fault: None,
            is_reached: false,
            loads: 0,
            open: None,
            errands: VecDeque::new(),
            inbox: VecDeque::new(),
            effects: Vec::new(),
            unknown: BTreeSet::new(),
            outranked: Vec::new(),
            now: Time::ZERO,
        }
    }
}

impl<H: Handles> Lifecycle<H> {
    /// Takes note of an event, and returns what is to be done. While a question is open, other
    /// events are kept until everything has been decided that it belongs to.
    pub fn handle(&mut self, event: LifecycleEvent<H>, now: Time) -> Vec<LifecycleEffect<H>> {
        self.now = now;
        match event {
            LifecycleEvent::Answered(answer) => self.answered(answer),
            event => self.inbox.push_back(event),
        }
        while self.open.is_none() {
            if let Some(errand) = self.errands.pop_front() {
                self.run(errand);
            } else if let Some(event) = self.inbox.pop_front() {
                let last = self.take(event);
                self.begin_pass();
                self.errands.extend(last.map(Errand::State));
            } else {
                break;
            }
        }
        std::mem::take(&mut self.effects)
    }

    /// All files of the plugin directory in the order of their names, then the draining plugins. A
    /// draining plugin's file may already be listed again.
    pub fn entries(&self) -> Vec<PluginEntry> {
        self.files.entries()
    }

    /// True if there is no plugin file.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// True if a plugin waits for something of which no event tells, so that it has to be tried
    /// again after [`RECHECK_INTERVAL`].
    pub fn is_waiting(&self) -> bool {
        self.files.iter().any(|(_, file)| file.is_pending())
    }

    fn tell(&mut self, notice: impl Into<Option<Notice>>) {
        let told = notice.into().map(LifecycleEffect::Tell);
        self.effects.extend(told);
    }

    /// Takes note of an event. Returns the answer that is due once everything else is done.
    fn take(&mut self, event: LifecycleEvent<H>) -> Option<StateErrand<H>> {
        match event {
            LifecycleEvent::DirectoryRead(seen) => self.directory_read(seen),
            LifecycleEvent::Loaded { file, load, result } => self.loaded(&file, load, result),
            LifecycleEvent::ServerReached => self.is_reached = true,
            LifecycleEvent::Quarantined(plugins) => self.quarantined(plugins),
            LifecycleEvent::Drained { plugin, dropped } => self.drained(plugin, dropped),
            LifecycleEvent::Command(command) => return self.obey(command),
            LifecycleEvent::Answered(_) | LifecycleEvent::Tick => {}
        }
        None
    }

    /// Plans to install each plugin that can run, and to apply settings that have changed.
    fn begin_pass(&mut self) {
        if self.defaults.is_none() || !self.is_reached {
            return;
        }
        self.unknown.clear();
        for (file, _) in self.files.iter() {
            let file = || file.clone();
            let errands = [
                Errand::Back(file()),
                Errand::Again(file()),
                Errand::New(file()),
            ];
            self.errands.extend(errands);
        }
        self.errands.push_back(Errand::Outranked);
    }

    fn directory_read(&mut self, seen: SeenDirectory<H>) {
        let defaults_problem = self.read_defaults(seen.defaults);
        let drains = self.files.keep(|file| seen.plugins.contains_key(file));
        self.effects.extend(drains);
        let defaults = self.defaults.as_ref();
        let requires_settings = defaults.is_some_and(SettingsHandle::requires_settings);
        for (name, found) in seen.plugins {
            let file = self.files.get_or_new(&name);
            let before = file.entry();
            file.set_defaults_problem(defaults_problem.as_ref());
            if file.see(found, requires_settings) {
                self.begin_load(&name);
            }
            // Only now: of a file that is being loaded nothing is told.
            let file = self.files.get(&name);
            let told = file.and_then(|file| file.news_since(&before));
            self.tell(told);
        }
    }

    /// Returns what is wrong with the settings for all plugins, if they have never been valid.
    fn read_defaults(&mut self, read: Result<H::Settings, String>) -> Option<String> {
        match read {
            Ok(defaults) => {
                self.defaults = Some(defaults);
                self.defaults_fault = None;
                None
            }
            Err(reason) => {
                if self.defaults.is_none() || self.defaults_fault.as_ref() != Some(&reason) {
                    let reason = reason.clone();
                    self.tell(Notice::DefaultsUnreadable { reason });
                }
                let problem = format!("{DEFAULTS_FILE}: {reason}");
                self.defaults_fault = Some(reason);
                self.defaults.is_none().then_some(problem)
            }
        }
    }

    fn loaded(&mut self, name: &str, load: u64, result: Result<LoadOutcome<H::Version>, String>) {
        let Some(file) = self.files.get_mut(name) else {
            return;
        };
        if file.has_lost(load, &result) {
            return self.begin_load(name);
        }
        let before = file.entry();
        if file.loaded(load, result) {
            let told = file.news_since(&before);
            self.tell(told);
        }
    }

    fn begin_load(&mut self, name: &str) {
        if let Some(file) = self.files.get_mut(name) {
            self.loads += 1;
            file.begins(self.loads);
            self.effects.push(LifecycleEffect::Load {
                file: name.to_owned(),
                load: self.loads,
                known: file.known(),
            });
        }
    }

    /// Nothing of a draining plugin runs any more.
    fn drained(&mut self, id: PluginId, dropped: usize) {
        let Some(plugin) = self.files.drained(id) else {
            return;
        };
        let name = plugin.clone();
        self.effects.extend([
            LifecycleEffect::Remove { plugin: id, name },
            LifecycleEffect::AdjustWatches,
            LifecycleEffect::Tell(Notice::Removed { plugin, dropped }),
        ]);
    }

    fn run(&mut self, errand: Errand<H>) {
        match errand {
            Errand::RollBack(file, cause) => self.check_rollback(file, cause),
            Errand::Accept(errand, versions) => self.check_next(errand, versions),
            Errand::Back(file) => self.begin_attempt(&file, Entrance::Back),
            Errand::Again(file) => self.begin_attempt(&file, Entrance::Again),
            Errand::New(file) => self.begin_attempt(&file, Entrance::New),
            Errand::Outranked => self.evict_outranked(),
            Errand::State(errand) => {
                let StateErrand {
                    reply,
                    file,
                    plugin,
                    done,
                } = errand;
                self.effects.push(LifecycleEffect::AnswerWithState {
                    reply,
                    file,
                    plugin,
                    done,
                });
            }
        }
    }

    fn evict_outranked(&mut self) {
        for id in std::mem::take(&mut self.outranked) {
            if let Some(file) = self.files.of_plugin(id) {
                self.tell(Notice::Outranked { file: file.clone() });
                self.evict(&file);
            }
        }
    }

    fn begin_attempt(&mut self, name: &str, entrance: Entrance) {
        let Some((file, defaults)) = self.files.get_mut(name).zip(self.defaults.as_ref()) else {
            return;
        };
        let version = match entrance {
            Entrance::Back => {
                // The first errand of a file in each pass.
                file.not_accepted.clear();
                if file.is_loading_first() {
                    self.unknown.insert(name.to_owned());
                }
                file.restored.clone()
            }
            Entrance::Again => file.running.as_ref().map(|running| running.version.clone()),
            Entrance::New => file.candidate.clone(),
        };
        let Some(version) = version else {
            return;
        };
        if entrance == Entrance::New && !file.may_begin() {
            if let Some(reason) = file.wants_settings() {
                let told = file.wait(&version, &reason);
                self.tell(told);
            }
            return;
        }
        let next = Attempt::begin(file, defaults, version, entrance);
        self.go_on(name, next);
    }

    fn go_on(&mut self, file: &str, next: AttemptNext<H>) {
        match next {
            AttemptNext::Ask(attempt, question) => {
                self.ask(OpenQuestion::Attempt(attempt), question);
            }
            AttemptNext::Install(ready) => self.install(ready),
            AttemptNext::Suspend => self.suspend(file),
            AttemptNext::End => {}
        }
    }

    fn ask(&mut self, open: OpenQuestion<H>, question: LifecycleQuestion<H>) {
        self.open = Some(open);
        self.effects.push(LifecycleEffect::Ask(question));
    }

    fn evict(&mut self, file: &str) {
        let drain = self.files.evict(file);
        self.effects.extend(drain);
    }

    fn suspend(&mut self, file: &str) {
        self.evict(file);
        self.effects.push(LifecycleEffect::AdjustWatches);
    }

    fn answered(&mut self, answer: LifecycleAnswer<H>) {
        let objection = |answer| match answer {
            LifecycleAnswer::Acceptance(objection) => objection,
            // The answer to something else. What is not known is not allowed.
            _ => Some(NotAccepted {
                more: Vec::new(),
                reason: "it is not known whether it was accepted".to_owned(),
            }),
        };
        match self.open.take() {
            Some(OpenQuestion::Attempt(attempt)) => {
                let name = attempt.file.clone();
                let Some((file, drains)) = self.files.get_with_draining(&name) else {
                    return;
                };
                let next = attempt.answered(file, answer, drains, &mut self.effects);
                self.go_on(&name, next);
            }
            Some(OpenQuestion::Install(ready)) => {
                if let LifecycleAnswer::Installed(result) = answer {
                    self.put(ready, result);
                }
            }
            Some(OpenQuestion::RollBack(file, cause)) => {
                let barred = objection(answer).map(|objection| objection.reason);
                self.roll_back(&file, cause, barred);
            }
            Some(OpenQuestion::Accept(errand, version, others)) => match objection(answer) {
                None => self.errands.push_front(Errand::Accept(errand, others)),
                Some(objection) => self.accept(errand, &version, objection),
            },
            None => {}
        }
    }

    /// Installs a version for which everything is ready, unless another file has its name.
    fn install(&mut self, ready: Ready<H>) {
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
    fn put(&mut self, ready: Ready<H>, result: Result<Installed, JoinError>) {
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

    /// Handles versions that have gone into quarantine: rolls back to the previous version if there
    /// is one. If not, the hub tries the version again, less and less often.
    fn quarantined(&mut self, plugins: Vec<(PluginId, Quarantine)>) {
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
    fn check_rollback(&mut self, name: String, cause: RollbackCause<H>) {
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
    fn roll_back(&mut self, name: &str, cause: RollbackCause<H>, barred: Option<String>) {
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

    /// Carries out a command. Returns the answer that is due once everything else is done.
    fn obey(&mut self, command: LifecycleCommand<H>) -> Option<StateErrand<H>> {
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
    fn check_next(&mut self, errand: AcceptErrand<H>, mut versions: VecDeque<FileVersion<H>>) {
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

    fn accept(
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

#[cfg(test)]
mod tests;
