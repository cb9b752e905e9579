//! The kinds that a plugin reads by its patterns. A kind gets an informer when a reconcile asks
//! about it, and loses it when no key's last run has read it for a while.
//!
//! A reconcile that asks about a kind which is not listed yet decides nothing. Its key waits until
//! all the kinds that such reconciles have asked about are listed, or have had
//! [their time](settling) for that: then they are unavailable, and a reconcile is told so. The time
//! runs from the question, whether or not the kind has an informer by then. A kind that only
//! belongs to a list which was made before nobody waits for.
//!
//! Thousands of kinds may come at once, each with a list of its own, while the hub is locked. So
//! what is done for one list does not take longer with more kinds, and what does is done once for
//! all of them. One thing does: the scope is copied if a reconcile that runs has it, too.

mod settling;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::installed::InstalledVersion;
use super::recorded::RecordedReads;
use super::since::Since;
use crate::access::scope::{PatternKind, PatternScope, Scope};
use crate::cache::snapshot::{InformerId, Snapshot};
use crate::cache::{Subscribed, Subscription};
use crate::model::key::Kind;
use crate::model::served_kind::ServedKind;
use crate::model::subject_key::SubjectKey;
use crate::queue::{Priority, Time};
pub(in crate::hub) use settling::Listed;
use settling::{is_late, is_listed, set_late};

/// How long an informer is kept that no key's last run has read.
const UNREAD_FOR: Duration = Duration::from_secs(60);

/// See the module's documentation.
#[derive(Default)]
pub(super) struct PatternKinds {
    /// The kinds that are to have an informer for the plugin and have none yet.
    wanted: BTreeSet<Kind>,
    /// The kinds that keys wait for, and since when: reconciles have asked about them, and they
    /// have not been listed.
    asked: Since,
    /// The kinds that no key's last run has read, and since when.
    unread: BTreeMap<Kind, Time>,
    /// The kinds that there was no room for, and since when.
    refused: Since,
    /// The keys that wait for kinds.
    waiting: BTreeMap<SubjectKey, Priority>,
    /// The kinds that have become unavailable, or available again, since [`settle`](Self::settle).
    turned: Vec<Kind>,
}

/// A kind that has got an informer, and the plugin's subscription to it.
pub(in crate::hub) struct Begun {
    pub kind: Kind,
    pub informer: InformerId,
    pub subscribed: Subscribed,
}

impl PatternKinds {
    /// Whether some kinds need an informer.
    pub fn wants_some(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// The kinds that need an informer, each with what the plugin needs of its objects.
    pub fn wanted(&self, scope: &Scope) -> Vec<(Kind, Subscription)> {
        let wanted = self.wanted.iter();
        let subscriptions = wanted.filter_map(|kind| {
            let pattern = scope.pattern_of(kind)?;
            Some((kind.clone(), pattern.subscription.clone()))
        });
        subscriptions.collect()
    }

    /// A reconcile has asked about these kinds, and they were not listed for it. The time that they
    /// have begins with the first question.
    pub fn ask(&mut self, scope: &Scope, kinds: &BTreeSet<Kind>, snapshot: &Snapshot, now: Time) {
        self.want(scope, kinds);
        // The reconcile may have been told less than is known now.
        let is_open = |kind: &&Kind| {
            let pattern = scope.pattern_of(kind);
            let is_open =
                |of: &PatternScope| !of.refused.contains_key(*kind) && !of.late.contains(*kind);
            pattern.is_some_and(is_open) && !is_listed(scope, kind, snapshot)
        };
        for kind in kinds.iter().filter(is_open) {
            self.asked.begin(kind, now);
        }
    }

    /// These kinds are to be listed.
    pub fn want(&mut self, scope: &Scope, kinds: &BTreeSet<Kind>) {
        let is_new = |kind: &&Kind| {
            scope
                .of_pattern(kind)
                .is_none_or(|have| have.kind != **kind)
        };
        let wanted = kinds.iter().filter(is_new);
        self.wanted.extend(wanted.cloned());
    }

    /// These kinds are reconciled, so that they are to be listed though nobody asks. Those that
    /// there was no room for are asked for again in their own time.
    pub fn ask_for_subjects(
        &mut self,
        scope: &Scope,
        kinds: impl Iterator<Item = Kind>,
        snapshot: &Snapshot,
        now: Time,
    ) {
        let is_of_pattern = |kind: &Kind| scope.pattern_of(kind).is_some();
        let kinds = kinds.filter(|kind| is_of_pattern(kind) && !self.refused.contains(kind));
        let kinds = kinds.collect();
        self.ask(scope, &kinds, snapshot, now);
    }

    /// Asks for the kinds of recorded lists of patterns that have come since: they belong to these
    /// lists, and nobody is to be woken to ask for them.
    pub fn ask_for_lists<'a>(
        &mut self,
        scope: &Scope,
        reads: &RecordedReads,
        served: impl Iterator<Item = &'a ServedKind>,
    ) {
        let is_listed = |served: &&ServedKind| {
            let pattern = scope.pattern_of(&served.kind);
            let can_be = pattern.is_some_and(|of| !of.refused.contains_key(&served.kind));
            can_be && served.is_watchable() && reads.has_pattern_of(&served.kind)
        };
        let kinds = served.filter(is_listed).map(|served| served.kind.clone());
        self.want(scope, &kinds.collect());
    }

    /// A key waits for what it has asked about. Returns whether it need not.
    pub fn wait(&mut self, key: &SubjectKey, priority: Priority) -> bool {
        if !self.asked.is_empty() {
            self.waiting.insert(key.clone(), priority);
        }
        self.asked.is_empty()
    }

    /// A key has run again meanwhile, and asked about nothing that is not listed.
    pub fn wait_no_more(&mut self, key: &SubjectKey) {
        self.waiting.remove(key);
    }

    /// Forgets all waiting keys but these.
    pub fn retain_waiting(&mut self, is_kept: impl Fn(&SubjectKey) -> bool) {
        self.waiting.retain(|key, _| is_kept(key));
    }

    /// Whether keys wait for kinds of this pattern.
    pub fn waits_for(&self, pattern: &Kind) -> bool {
        self.asked.has_of(pattern)
    }

    /// The keys that need not wait any more.
    pub fn take_ready(&mut self) -> BTreeMap<SubjectKey, Priority> {
        match self.asked.is_empty() {
            true => std::mem::take(&mut self.waiting),
            false => BTreeMap::new(),
        }
    }

    /// Forgets what was asked about and is not served any more.
    pub fn keep_served(&mut self, is_served: impl Fn(&Kind) -> bool) {
        self.wanted.retain(&is_served);
        self.asked.retain(is_served);
    }

    /// Another version takes the place of the one with the scope `before`. The kinds that both read
    /// by patterns stay as they are. Returns the keys that have waited.
    pub fn replace(
        &mut self,
        installed: &mut InstalledVersion,
        before: &Scope,
    ) -> BTreeMap<SubjectKey, Priority> {
        let old = std::mem::take(self);
        let is_read = |kind: &Kind| installed.scope().pattern_of(kind).is_some();
        self.wanted = old.wanted;
        self.wanted.retain(is_read);
        self.refused = old.refused;
        self.refused.retain(is_read);
        installed.note_in_scope(|scope| {
            for before in &before.patterns {
                for kind in &before.late {
                    let pattern = scope.pattern_of_mut(kind);
                    pattern.map(|pattern| pattern.late.insert(kind.clone()));
                }
                for (kind, reason) in &before.refused {
                    let pattern = scope.pattern_of_mut(kind);
                    pattern.map(|pattern| pattern.refused.insert(kind.clone(), reason.clone()));
                }
            }
        });
        old.waiting
    }

    /// Kinds have got informers. Returns those that they had before, or that other versions of the
    /// kinds had: these are to end.
    #[must_use]
    pub fn begin(
        &mut self,
        installed: &mut InstalledVersion,
        begun: Vec<Begun>,
    ) -> Vec<PatternKind> {
        for Begun { kind, .. } in &begun {
            self.wanted.remove(kind);
            if self.refused.end(kind) {
                self.turned.push(kind.clone());
            }
        }
        let (mut ended, mut replaced) = (Vec::new(), Vec::new());
        installed.change_scope(|scope| {
            for begun in begun {
                let Some(pattern) = scope.pattern_of_mut(&begun.kind) else {
                    continue;
                };
                pattern.refused.remove(&begun.kind);
                let before = pattern.add(&begun.kind, begun.informer, begun.subscribed);
                let other = before.as_ref().filter(|before| before.kind != begun.kind);
                replaced.extend(other.map(|other| other.kind.clone()));
                ended.extend(before);
            }
        });
        self.forget(installed, &replaced);
        ended
    }

    /// Kinds cannot get an informer now.
    pub fn refuse(
        &mut self,
        installed: &mut InstalledVersion,
        kinds: &[Kind],
        reason: &str,
        now: Time,
    ) {
        for kind in kinds {
            self.wanted.remove(kind);
            self.asked.end(kind);
            let was_refused = self.refused.end(kind);
            self.refused.begin(kind, now);
            if !was_refused {
                self.turned.push(kind.clone());
            }
        }
        let reason: Arc<str> = reason.into();
        installed.note_in_scope(|scope| {
            for kind in kinds {
                let pattern = scope.pattern_of_mut(kind);
                pattern.map(|pattern| pattern.refused.insert(kind.clone(), reason.clone()));
            }
        });
    }

    /// The kinds whose informers are to end because the cluster does not serve them any more.
    pub fn unserved(
        &mut self,
        installed: &InstalledVersion,
        is_served: impl Fn(&Kind) -> bool,
    ) -> Vec<Kind> {
        self.keep_served(&is_served);
        let kinds = installed.scope().of_patterns().map(|known| &known.kind);
        kinds.filter(|kind| !is_served(kind)).cloned().collect()
    }

    /// The kinds whose informers are to end: those that nobody has read for a while (`is_read`: a
    /// key's last run has, or the kind has keys), and those that the cluster does not serve any
    /// more.
    pub fn ending(
        &mut self,
        scope: &Scope,
        is_read: impl Fn(&PatternKind) -> bool,
        is_served: impl Fn(&Kind) -> bool,
        now: Time,
    ) -> Vec<Kind> {
        self.keep_served(&is_served);
        // What keys wait for they will read, together with what is listed already.
        let is_waited_for = |kind: &Kind| !self.waiting.is_empty() || self.asked.contains(kind);
        let mut ending = Vec::new();
        for known in scope.of_patterns() {
            let kind = &known.kind;
            if !is_served(kind) {
                ending.push(kind.clone());
            } else if is_read(known) || is_waited_for(kind) {
                self.unread.remove(kind);
            } else if *self.unread.entry(kind.clone()).or_insert(now) + UNREAD_FOR <= now {
                ending.push(kind.clone());
            }
        }
        ending
    }

    /// Takes kinds out of the plugin's scope.
    pub fn end(&mut self, installed: &mut InstalledVersion, kinds: &[Kind]) {
        if kinds.is_empty() {
            return;
        }
        installed.change_scope(|scope| {
            for kind in kinds {
                let name = (kind.group.clone(), kind.kind.clone());
                let pattern = scope.pattern_of_mut(kind);
                pattern.map(|pattern| pattern.kinds.remove(&name));
            }
        });
        self.forget(installed, kinds);
    }

    /// Forgets how long kinds that have no informer any more have been waited for, or not been
    /// read.
    fn forget(&mut self, installed: &mut InstalledVersion, kinds: &[Kind]) {
        for kind in kinds {
            self.asked.end(kind);
            self.unread.remove(kind);
        }
        let late = kinds.iter().filter(|kind| is_late(installed.scope(), kind));
        let late: Vec<Kind> = late.cloned().collect();
        set_late(installed, &late, false);
        self.turned.extend(late);
    }

    /// Forgets what is known of kinds that the cluster does not serve any more and that have no
    /// informer.
    pub fn forget_unserved(
        &mut self,
        installed: &mut InstalledVersion,
        is_served: impl Fn(&Kind) -> bool,
    ) {
        let patterns = installed.scope().patterns.iter();
        let known = patterns.flat_map(|pattern| pattern.late.iter().chain(pattern.refused.keys()));
        if known.clone().all(&is_served) {
            return;
        }
        self.refused.retain(&is_served);
        installed.note_in_scope(|scope| {
            for pattern in &mut scope.patterns {
                pattern.late.retain(&is_served);
                pattern.refused.retain(|kind, _| is_served(kind));
            }
        });
    }
}
