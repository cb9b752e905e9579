//! The kinds that a plugin reads by its patterns. A kind gets an informer when a reconcile asks
//! about it, and loses it when no key's last run has read it for a while.
//!
//! A reconcile that asks about a kind which is not listed yet decides nothing. Its key waits until
//! all the kinds that such reconciles have asked about are listed, or have had [`LONGEST_LIST`] for
//! that: then they are unavailable, and a reconcile is told so. The time runs from the question,
//! whether or not the kind has an informer by then. A kind that only belongs to a list which was
//! made before nobody waits for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::installed::InstalledVersion;
use super::recorded::RecordedReads;
use crate::access::scope::{PatternKind, PatternScope, Scope};
use crate::cache::snapshot::{InformerId, Snapshot};
use crate::cache::{Subscribed, Subscription};
use crate::model::key::Kind;
use crate::model::served_kind::ServedKind;
use crate::model::subject_key::SubjectKey;
use crate::queue::{Priority, Time};

/// How long keys wait for a kind to be listed.
const LONGEST_LIST: Duration = Duration::from_secs(10);

/// How long an informer is kept that no key's last run has read.
const UNREAD_FOR: Duration = Duration::from_secs(60);

/// When an informer that there was no room for is asked for again.
const ROOM_AGAIN: Duration = Duration::from_secs(60);

/// See the module's documentation.
#[derive(Default)]
pub(super) struct PatternKinds {
    /// The kinds that are to have an informer for the plugin and have none yet.
    wanted: BTreeSet<Kind>,
    /// The kinds that keys wait for, and since when: reconciles have asked about them, and they
    /// have not been listed.
    asked: BTreeMap<Kind, Time>,
    /// The kinds that no key's last run has read, and since when.
    unread: BTreeMap<Kind, Time>,
    /// The kinds that there was no room for, and since when.
    refused: BTreeMap<Kind, Time>,
    /// The keys that wait for kinds.
    waiting: BTreeMap<SubjectKey, Priority>,
    /// The kinds that have become unavailable, or available again, since [`settle`](Self::settle).
    turned: Vec<Kind>,
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
    pub fn ask(&mut self, scope: &Scope, kinds: &BTreeSet<Kind>, now: Time) {
        self.want(scope, kinds);
        // The reconcile may have been told less than is known now.
        let is_open = |kind: &&Kind| {
            let pattern = scope.pattern_of(kind);
            pattern.is_some_and(|of| !of.refused.contains_key(*kind) && !of.late.contains(*kind))
        };
        for kind in kinds.iter().filter(is_open) {
            self.asked.entry(kind.clone()).or_insert(now);
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
        now: Time,
    ) {
        let is_of_pattern = |kind: &Kind| scope.pattern_of(kind).is_some();
        let kinds = kinds.filter(|kind| is_of_pattern(kind) && !self.refused.contains_key(kind));
        let kinds = kinds.collect();
        self.ask(scope, &kinds, now);
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

    /// The kinds that keys wait for.
    pub fn waited_for(&self) -> impl Iterator<Item = &Kind> {
        self.asked.keys()
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
        self.asked.retain(|kind, _| is_served(kind));
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
        self.refused.retain(|kind, _| is_read(kind));
        for pattern in &before.patterns {
            for kind in &pattern.late {
                change_pattern(installed, kind, |pattern| {
                    pattern.late.insert(kind.clone());
                });
            }
            for (kind, reason) in &pattern.refused {
                change_pattern(installed, kind, |pattern| {
                    pattern.refused.insert(kind.clone(), reason.clone());
                });
            }
        }
        old.waiting
    }

    /// A kind has got an informer. Returns the one that it had before, or that another version of
    /// the kind had: that is to end.
    #[must_use]
    pub fn begin(
        &mut self,
        installed: &mut InstalledVersion,
        kind: &Kind,
        informer: InformerId,
        subscribed: Subscribed,
    ) -> Option<PatternKind> {
        self.wanted.remove(kind);
        if self.refused.remove(kind).is_some() {
            self.turned.push(kind.clone());
        }
        let mut before = None;
        change_pattern(installed, kind, |pattern| {
            pattern.refused.remove(kind);
            before = pattern.add(kind, informer, subscribed);
        });
        if let Some(before) = before.as_ref().filter(|before| before.kind != *kind) {
            self.forget(installed, &before.kind);
        }
        before
    }

    /// A kind cannot get an informer now.
    pub fn refuse(
        &mut self,
        installed: &mut InstalledVersion,
        kind: &Kind,
        reason: &str,
        now: Time,
    ) {
        self.wanted.remove(kind);
        self.asked.remove(kind);
        if self.refused.insert(kind.clone(), now).is_none() {
            self.turned.push(kind.clone());
        }
        change_pattern(installed, kind, |pattern| {
            pattern.refused.insert(kind.clone(), reason.into());
        });
    }

    /// When [`settle`](Self::settle) has something to do, even if no list arrives.
    pub fn due(&self) -> Option<Time> {
        let lists = self.asked.values().map(|since| *since + LONGEST_LIST);
        let rooms = self.refused.values().map(|since| *since + ROOM_AGAIN);
        lists.chain(rooms).min()
    }

    /// Notes which kinds have been listed, and which have had their time for that. Returns the
    /// kinds that have become unavailable, or available again.
    pub fn settle(
        &mut self,
        installed: &mut InstalledVersion,
        snapshot: &Snapshot,
        now: Time,
    ) -> Vec<Kind> {
        let mut turned = std::mem::take(&mut self.turned);
        let is_listed = |scope: &Scope, kind: &Kind| {
            let known = scope.of_pattern(kind).filter(|known| known.kind == *kind);
            known.is_some_and(|known| is_listed(known, snapshot))
        };
        let scope = installed.scope();
        let late = scope.patterns.iter().flat_map(|pattern| &pattern.late);
        let listed = late.filter(|kind| is_listed(scope, kind));
        for kind in listed.cloned().collect::<Vec<_>>() {
            change_pattern(installed, &kind, |pattern| {
                pattern.late.remove(&kind);
            });
            turned.push(kind);
        }
        if !self.asked.is_empty() {
            let scope = installed.scope();
            self.asked.retain(|kind, _| !is_listed(scope, kind));
            let is_over = |since: &Time| *since + LONGEST_LIST <= now;
            let late = self.asked.extract_if(.., |_, since| is_over(since));
            for kind in late.map(|(kind, _)| kind).collect::<Vec<_>>() {
                change_pattern(installed, &kind, |pattern| {
                    pattern.late.insert(kind.clone());
                });
                turned.push(kind);
            }
        }
        // A refusal stands until there is room, so that nobody is woken by being refused again.
        for (kind, since) in &mut self.refused {
            if *since + ROOM_AGAIN <= now {
                *since = now;
                self.wanted.insert(kind.clone());
            }
        }
        turned
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
        let is_waited_for = |kind: &Kind| !self.waiting.is_empty() || self.asked.contains_key(kind);
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

    /// Takes a kind out of the plugin's scope.
    pub fn end(&mut self, installed: &mut InstalledVersion, kind: &Kind) {
        change_pattern(installed, kind, |pattern| {
            let name = (kind.group.clone(), kind.kind.clone());
            pattern.kinds.remove(&name);
        });
        self.forget(installed, kind);
    }

    /// Forgets how long a kind that has no informer any more has been waited for, or not been read.
    fn forget(&mut self, installed: &mut InstalledVersion, kind: &Kind) {
        self.asked.remove(kind);
        self.unread.remove(kind);
        let mut was_late = false;
        change_pattern(installed, kind, |pattern| {
            was_late = pattern.late.remove(kind);
        });
        if was_late {
            self.turned.push(kind.clone());
        }
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
        let unserved = known.filter(|kind| !is_served(kind)).cloned();
        for kind in unserved.collect::<Vec<_>>() {
            self.refused.remove(&kind);
            change_pattern(installed, &kind, |pattern| {
                pattern.late.remove(&kind);
                pattern.refused.remove(&kind);
            });
        }
    }
}

fn is_listed(kind: &PatternKind, snapshot: &Snapshot) -> bool {
    let mut parts = kind.scope.parts.iter();
    parts.all(|part| snapshot.informers[part.informer].is_synced(part.subscribed.detail))
}

fn change_pattern(
    installed: &mut InstalledVersion,
    kind: &Kind,
    change: impl FnOnce(&mut PatternScope),
) {
    installed.change_scope(|scope| {
        if let Some(pattern) = scope.pattern_of_mut(kind) {
            change(pattern);
        }
    });
}
