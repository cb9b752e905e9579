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

use crate::hub::PluginId;
use crate::queue::Time;

mod attempt;
pub mod command;
mod commands;
pub mod effect;
pub mod entry;
mod errand;
pub mod event;
pub mod handles;
mod installing;
mod plugin_file;
mod plugin_files;
mod rolling_back;
pub mod switched_off;

use attempt::{Attempt, AttemptNext, Entrance};
pub use attempt::{lack_of_namespaces, unread_subject};
use effect::{LifecycleEffect, LifecycleQuestion, Notice};
use entry::PluginEntry;
use errand::{Errand, OpenQuestion, StateErrand};
use event::{LifecycleAnswer, LifecycleEvent, LoadOutcome, NotAccepted, SeenDirectory};
use handles::{DEFAULTS_FILE, Handles, SettingsHandle};
use plugin_file::PluginFile;
use plugin_files::PluginFiles;
use switched_off::{IsOn, SwitchedOff};

/// How often the directory should be read, and what is missing be asked for again, while a plugin
/// waits. A CRD may be created at any time.
pub const RECHECK_INTERVAL: Duration = Duration::from_secs(5);

/// See the module's documentation.
pub struct Lifecycle<H: Handles> {
    /// Invariant: none of these files is among `files`.
    off: SwitchedOff<H>,
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

impl<H: Handles> Default for Lifecycle<H> {
    fn default() -> Self {
        Self {
            off: SwitchedOff::default(),
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
    /// One in which only these plugins are loaded. The default one loads all.
    pub fn of_plugins(is_on: IsOn) -> Self {
        Self {
            off: SwitchedOff::new(is_on),
            ..Self::default()
        }
    }

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
        let mut entries = self.files.entries();
        entries.extend(self.off.entries());
        entries
    }

    /// True if there is no plugin file.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.off.is_empty()
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

    fn directory_read(&mut self, mut seen: SeenDirectory<H>) {
        let defaults_problem = self.read_defaults(seen.defaults);
        for (file, plugin) in self.off.take(&mut seen.plugins) {
            self.tell(Notice::SwitchedOff { file, plugin });
        }
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
            self.switch_off(name);
        }
    }

    /// Drops a file that has turned out to hold a plugin that is switched off.
    fn switch_off(&mut self, name: &str) {
        let file = self.files.get(name);
        let Some((plugin, stamp, manifest)) = file.and_then(PluginFile::in_newest) else {
            return;
        };
        if self.off.is_on(name, &plugin) {
            return;
        }
        let drains = self.files.keep(|file| file != name);
        self.effects.extend(drains);
        self.off.add(name, plugin.clone(), stamp, manifest);
        let file = name.to_owned();
        self.tell(Notice::SwitchedOff { file, plugin });
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
}

#[cfg(test)]
mod tests;
