//! One attempt to install a version: it asks one thing after the other, and ends at the first
//! answer for which the version has to wait.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::effect::{LifecycleEffect, LifecycleQuestion, VersionInFile};
use super::event::{LifecycleAnswer, NotAccepted, RunTerms};
use super::handles::{Handles, SettingsHandle};
use super::plugin_file::{FileVersion, PluginFile, RunningVersion};
use crate::access::grants::Granted;
use crate::hub::ControllerSettings;
use crate::model::key::Kind;
use crate::model::manifest::Manifest;

/// What a plugin waits for if another plugin of its name is draining.
pub(super) const NAMESAKE_DRAINS: &str =
    "the plugin of this name that was removed is still draining";

/// Why a version is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entrance {
    /// It is the newest.
    New,
    /// It runs already, and its settings may have changed.
    Again,
    /// It is rolled back to.
    Back,
}

/// See the module's documentation.
pub(super) struct Attempt<H: Handles> {
    pub file: String,
    pub version: FileVersion<H>,
    pub entrance: Entrance,
    /// The current settings, or those that the version keeps.
    settings: Arc<H::Settings>,
    /// What has been asked.
    step: AttemptStep<H>,
}

/// What an attempt has asked last.
enum AttemptStep<H: Handles> {
    /// Whether the configuration fits.
    Config,
    /// Whether more was accepted than the running version is granted so far.
    Widening,
    /// Whether what a new version asks for was accepted.
    Acceptance,
    /// What its identity may read.
    Access,
    /// Whether there is room for its list-watches.
    Watches(RunTerms<H>, Arc<Manifest>),
    /// Whether the cluster serves its kinds.
    Kinds(RunTerms<H>, Arc<Manifest>),
}

/// A version that may be installed.
pub(super) struct Ready<H: Handles> {
    pub file: String,
    pub version: FileVersion<H>,
    pub entrance: Entrance,
    pub settings: Arc<H::Settings>,
    pub name: String,
    pub terms: RunTerms<H>,
    /// The manifest, limited to what is granted.
    pub granted: Arc<Manifest>,
}

/// How an attempt goes on.
pub(super) enum AttemptNext<H: Handles> {
    Ask(Attempt<H>, LifecycleQuestion<H>),
    Install(Ready<H>),
    /// The version waits or is refused, or nothing has changed.
    End,
    /// The running version may not run under its settings. It must not go on with the earlier ones.
    Suspend,
}

impl<H: Handles> Attempt<H> {
    /// Begins with the first question.
    pub fn begin(
        file: &PluginFile<H>,
        defaults: &H::Settings,
        version: FileVersion<H>,
        entrance: Entrance,
    ) -> AttemptNext<H> {
        let settings = Arc::new(file.settings.or(defaults));
        let attempt = Self {
            file: file.name_of_file().to_owned(),
            version,
            entrance,
            settings,
            step: AttemptStep::Config,
        };
        attempt.ask(AttemptStep::Config, LifecycleQuestion::Config)
    }

    fn ask(
        mut self,
        step: AttemptStep<H>,
        question: impl FnOnce(VersionInFile<H>) -> LifecycleQuestion<H>,
    ) -> AttemptNext<H> {
        self.step = step;
        let question = question(VersionInFile {
            file: self.file.clone(),
            version: self.version.loaded.clone(),
            settings: self.settings.clone(),
        });
        AttemptNext::Ask(self, question)
    }

    /// Goes on with an answer. `drains` tells whether a plugin of a name is draining.
    pub fn answered(
        mut self,
        file: &mut PluginFile<H>,
        answer: LifecycleAnswer<H>,
        drains: impl Fn(&str) -> bool,
        effects: &mut Vec<LifecycleEffect<H>>,
    ) -> AttemptNext<H> {
        let step = std::mem::replace(&mut self.step, AttemptStep::Config);
        match (step, answer) {
            (AttemptStep::Config, LifecycleAnswer::Config(fits)) => {
                self.config_checked(file, fits, effects)
            }
            (AttemptStep::Widening, LifecycleAnswer::Acceptance(objection)) => {
                let reason = objection.map(|objection| {
                    file.not_accepted = objection.more;
                    objection.reason
                });
                self.with_settings(file, reason, effects)
            }
            (AttemptStep::Acceptance, LifecycleAnswer::Acceptance(objection)) => match objection {
                Some(objection) => self.waits_to_be_accepted(file, objection, effects),
                None => self.ask(AttemptStep::Access, LifecycleQuestion::Access),
            },
            (AttemptStep::Access, LifecycleAnswer::Access { may_change, terms }) => {
                file.terms_may_change = may_change;
                match terms {
                    Ok(terms) => self.reviewed(file, terms, drains, effects),
                    // A running version keeps the reads it was allowed; a new one is not started
                    // without a review.
                    Err(reason) => self.waits(file, &reason, effects),
                }
            }
            (AttemptStep::Watches(terms, granted), LifecycleAnswer::Watches(reason)) => {
                match reason {
                    Some(reason) => self.waits(file, &reason, effects),
                    None => self.has_room(terms, granted),
                }
            }
            (AttemptStep::Kinds(terms, granted), LifecycleAnswer::Kinds(reason)) => match reason {
                Some(reason) => self.waits(file, &reason, effects),
                None => self.ready(terms, granted),
            },
            // The answer to something else. What is not known is not allowed.
            _ => AttemptNext::End,
        }
    }

    fn name(&self) -> String {
        self.settings.name_of(self.version.manifest())
    }

    fn config_checked(
        self,
        file: &mut PluginFile<H>,
        fits: Result<(), String>,
        effects: &mut Vec<LifecycleEffect<H>>,
    ) -> AttemptNext<H> {
        let running = file.running.as_ref();
        let may_widen = |running: &RunningVersion<H>| {
            let is_given = running.terms.settings.grants.what == Granted::AsRequested;
            !(is_given && running.name == self.name())
        };
        if self.entrance == Entrance::Again && fits.is_ok() && running.is_some_and(may_widen) {
            return self.ask(AttemptStep::Widening, LifecycleQuestion::Acceptance);
        }
        self.with_settings(file, fits.err(), effects)
    }

    /// Chooses the settings. `reason` is why the version may not have the current ones: their
    /// configuration does not fit its schema, or they grant a running version more than was
    /// accepted. Then a running version keeps the settings it was installed with, and so does one
    /// that is rolled back to; a new version is refused.
    fn with_settings(
        mut self,
        file: &mut PluginFile<H>,
        reason: Option<String>,
        effects: &mut Vec<LifecycleEffect<H>>,
    ) -> AttemptNext<H> {
        if self.entrance == Entrance::New {
            if let Some(reason) = reason {
                effects.extend(file.refuse(&reason).map(LifecycleEffect::Tell));
                return AttemptNext::End;
            }
        } else {
            let told = file.judged(reason.as_deref());
            effects.extend(told.map(LifecycleEffect::Tell));
            if let Some(kept) = reason.and(self.version.settings.clone()) {
                self.settings = kept;
            }
        }
        self.version.settings = Some(self.settings.clone());
        self.check_digest(file, effects)
    }

    /// A new version whose digest the settings do not name has to wait. A running version goes on
    /// in any case. One that is rolled back to has been checked when that was ordered.
    fn check_digest(
        self,
        file: &mut PluginFile<H>,
        effects: &mut Vec<LifecycleEffect<H>>,
    ) -> AttemptNext<H> {
        let unpinned = || self.settings.unpinned(&self.file, self.version.digest());
        match self.entrance {
            Entrance::Again => {
                let told = file.pinned(unpinned().as_deref());
                effects.extend(told.map(LifecycleEffect::Tell));
            }
            Entrance::Back => {}
            Entrance::New => {
                let Some(reason) = unpinned() else {
                    return self.ask(AttemptStep::Acceptance, LifecycleQuestion::Acceptance);
                };
                let more = Vec::new();
                return self.waits_to_be_accepted(file, NotAccepted { more, reason }, effects);
            }
        }
        self.ask(AttemptStep::Access, LifecycleQuestion::Access)
    }

    /// Its terms are known, with what the cluster forbids to its identity.
    fn reviewed(
        mut self,
        file: &mut PluginFile<H>,
        mut terms: RunTerms<H>,
        drains: impl Fn(&str) -> bool,
        effects: &mut Vec<LifecycleEffect<H>>,
    ) -> AttemptNext<H> {
        // A command cannot resume what the settings pause.
        terms.settings.is_paused |= file.is_paused;
        let name = self.name();
        if self.entrance == Entrance::Again {
            file.waits_no_more();
            if let Some(running) = file.running.as_mut()
                && running.name == name
                && running.terms.settings == terms.settings
                && running.terms.sandbox == terms.sandbox
            {
                running.version = self.version;
                effects.extend(file.named(None).map(LifecycleEffect::Tell));
                return AttemptNext::End;
            }
        }
        let granted = terms.settings.grants.limit(self.version.manifest());
        if let Some(reason) = has_no_subject(&granted, &terms) {
            let is_running = self.entrance == Entrance::Again;
            let end = self.waits(file, &reason, effects);
            return if is_running {
                AttemptNext::Suspend
            } else {
                end
            };
        }
        if drains(&name) {
            return self.waits(file, NAMESAKE_DRAINS, effects);
        }
        let granted = Arc::new(granted);
        // A version that is rolled back to has run before, and it replaces a worse one, so it does
        // not have to wait for room.
        if self.entrance == Entrance::Back {
            return self.ready(terms, granted);
        }
        self.step = AttemptStep::Watches(terms, granted.clone());
        AttemptNext::Ask(self, LifecycleQuestion::Watches(granted))
    }

    fn has_room(mut self, terms: RunTerms<H>, granted: Arc<Manifest>) -> AttemptNext<H> {
        if self.entrance == Entrance::Again {
            return self.ready(terms, granted);
        }
        self.step = AttemptStep::Kinds(terms, granted.clone());
        AttemptNext::Ask(self, LifecycleQuestion::Kinds(granted))
    }

    fn ready(self, terms: RunTerms<H>, granted: Arc<Manifest>) -> AttemptNext<H> {
        AttemptNext::Install(Ready {
            name: self.name(),
            file: self.file,
            version: self.version,
            entrance: self.entrance,
            settings: self.settings,
            terms,
            granted,
        })
    }

    fn waits(
        self,
        file: &mut PluginFile<H>,
        reason: &str,
        effects: &mut Vec<LifecycleEffect<H>>,
    ) -> AttemptNext<H> {
        let told = file.wait(&self.version, reason);
        effects.extend(told.map(LifecycleEffect::Tell));
        AttemptNext::End
    }

    fn waits_to_be_accepted(
        self,
        file: &mut PluginFile<H>,
        objection: NotAccepted,
        effects: &mut Vec<LifecycleEffect<H>>,
    ) -> AttemptNext<H> {
        let told = file.wait_for_acceptance(&self.version, objection);
        effects.extend(told.map(LifecycleEffect::Tell));
        AttemptNext::End
    }
}

impl<H: Handles> Ready<H> {
    /// What is asked for and not granted, one line each.
    pub fn not_granted(&self) -> Vec<String> {
        let served = self
            .terms
            .settings
            .grants
            .without_absent(self.version.manifest());
        missing(&served, &self.granted)
    }

    /// True if this is the version that runs, in the same sandbox.
    pub fn is_same(&self, running: &RunningVersion<H>) -> bool {
        running.version.digest() == self.version.digest()
            && running.terms.sandbox == self.terms.sandbox
    }

    /// True if no key of the running plugin has to run again for this.
    pub fn is_light(&self, running: &RunningVersion<H>) -> bool {
        let (old, new) = (&running.terms.settings, &self.terms.settings);
        let same = ControllerSettings {
            concurrency: old.concurrency,
            weight: old.weight,
            resync: old.resync,
            is_paused: old.is_paused,
            ..ControllerSettings::clone(new)
        };
        self.is_same(running) && same == **old
    }
}

/// Why the plugin would lack keys: it is not granted to read one of its own kinds.
fn has_no_subject<H: Handles>(granted: &Manifest, terms: &RunTerms<H>) -> Option<String> {
    let kind = unread_subject(granted, &terms.settings.grants.absent)?;
    Some(match &terms.identity {
        Some(identity) => format!("{identity} may not list and watch {kind}"),
        None => lack_of_namespaces(kind),
    })
}

/// The first of a plugin's own kinds that it may not read, if there is one. `absent` are the kinds
/// that the cluster does not serve.
pub fn unread_subject<'a>(granted: &'a Manifest, absent: &BTreeSet<Kind>) -> Option<&'a Kind> {
    let is_read = |kind: &Kind| granted.reads.iter().any(|read| read.kind == *kind);
    let mut kinds = granted.reconciles.iter().map(|selection| &selection.kind);
    kinds.find(|kind| !is_read(kind) && !absent.contains(*kind))
}

/// What a plugin waits for whose own kind is read in no namespace, or whose own pattern is not
/// granted.
pub fn lack_of_namespaces(kind: &Kind) -> String {
    if kind.is_pattern() {
        return format!(
            "it reconciles {kind}, which is granted by name alone: add \"{kind}\" to grants.reads \
             in its settings"
        );
    }
    format!("{kind} is read in none of the namespaces that the settings name")
}

/// What is asked for and not granted, one line each.
fn missing(asked: &Manifest, granted: &Manifest) -> Vec<String> {
    let granted_reads: BTreeSet<&Kind> = granted.reads.iter().map(|read| &read.kind).collect();
    let reads = asked.reads.iter().map(|read| &read.kind);
    let reads = reads.filter(|kind| !granted_reads.contains(kind));
    let reads = reads.map(|kind| format!("read {kind}"));
    let have: BTreeMap<_, _> = granted
        .writes
        .iter()
        .map(|write| ((&write.kind, &write.subresource), &write.verbs))
        .collect();
    let writes = asked.writes.iter().flat_map(|write| {
        let verbs = have.get(&(&write.kind, &write.subresource));
        let missing = write
            .verbs
            .iter()
            .filter(move |verb| !verbs.is_some_and(|verbs| verbs.contains(verb)));
        missing.map(move |verb| {
            let subresource = write.subresource.as_deref();
            let subresource = subresource.map(|name| format!("/{name}"));
            let subresource = subresource.unwrap_or_default();
            format!("{} {}{subresource}", verb.as_str(), write.kind)
        })
    });
    reads.chain(writes).collect()
}
