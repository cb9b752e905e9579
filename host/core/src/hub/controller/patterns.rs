//! The kinds that a plugin reads by its patterns. A kind gets an informer when a reconcile asks
//! about it, and loses it when no key's last run has read it for a while.
//!
//! A reconcile that asks about a kind which is not listed yet decides nothing. Its key waits until
//! all the kinds that such reconciles have asked about are listed, or have had [`LONGEST_LIST`] for
//! that: then they are unavailable, and a reconcile is told so.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::installed::InstalledVersion;
use crate::access::scope::{KindScope, PatternKind, PatternScope, Scope, ScopePart};
use crate::cache::Subscription;
use crate::cache::snapshot::Snapshot;
use crate::model::key::Kind;
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
    /// The kinds that were asked about and have no informer for the plugin yet.
    wanted: BTreeSet<Kind>,
    /// The kinds whose informers have not listed yet, and since when they are to.
    unlisted: BTreeMap<Kind, Time>,
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

    /// A reconcile has asked about these kinds, and they were not listed for it.
    pub fn ask(&mut self, scope: &Scope, kinds: &BTreeSet<Kind>) {
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
    pub fn ask_for_subjects(&mut self, scope: &Scope, kinds: impl Iterator<Item = Kind>) {
        let is_of_pattern = |kind: &Kind| scope.pattern_of(kind).is_some();
        let kinds = kinds.filter(|kind| is_of_pattern(kind) && !self.refused.contains_key(kind));
        let kinds = kinds.collect();
        self.ask(scope, &kinds);
    }

    /// A key waits for what it has asked about. Returns whether it need not.
    pub fn wait(&mut self, key: &SubjectKey, priority: Priority) -> bool {
        let is_waited_for = self.is_waited_for();
        if is_waited_for {
            self.waiting.insert(key.clone(), priority);
        }
        !is_waited_for
    }

    /// Whether there are kinds to wait for. For those that were refused nobody waits.
    pub fn is_waited_for(&self) -> bool {
        let mut wanted = self.wanted.iter();
        wanted.any(|kind| !self.refused.contains_key(kind)) || !self.unlisted.is_empty()
    }

    /// The keys that need not wait any more.
    pub fn take_ready(&mut self) -> BTreeMap<SubjectKey, Priority> {
        match self.is_waited_for() {
            true => BTreeMap::new(),
            false => std::mem::take(&mut self.waiting),
        }
    }

    /// Forgets what was asked about and is not served any more.
    pub fn keep_served(&mut self, is_served: impl Fn(&Kind) -> bool) {
        self.wanted.retain(is_served);
    }

    /// All keys that wait, for another version of the plugin.
    pub fn into_waiting(self) -> BTreeMap<SubjectKey, Priority> {
        self.waiting
    }

    /// A kind has got an informer. Returns the one that it had before, or that another version of
    /// the kind had: that is to end.
    #[must_use]
    pub fn begin(
        &mut self,
        installed: &mut InstalledVersion,
        kind: &Kind,
        part: ScopePart,
        now: Time,
    ) -> Option<PatternKind> {
        self.wanted.remove(kind);
        if self.refused.remove(kind).is_some() {
            self.turned.push(kind.clone());
        }
        let mut before = None;
        change_pattern(installed, kind, |pattern| {
            pattern.refused.remove(kind);
            let name = (kind.group.clone(), kind.kind.clone());
            let known = PatternKind {
                kind: kind.clone(),
                scope: KindScope {
                    parts: vec![part],
                    indexes: pattern.indexes.clone(),
                },
                is_late: false,
            };
            before = pattern.kinds.insert(name, known);
        });
        if let Some(before) = &before {
            self.unlisted.remove(&before.kind);
            self.unread.remove(&before.kind);
        }
        self.unlisted.insert(kind.clone(), now);
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
        if self.refused.insert(kind.clone(), now).is_none() {
            self.turned.push(kind.clone());
        }
        change_pattern(installed, kind, |pattern| {
            pattern.refused.insert(kind.clone(), reason.into());
        });
    }

    /// When [`settle`](Self::settle) has something to do, even if no list arrives.
    pub fn due(&self) -> Option<Time> {
        let lists = self.unlisted.values().map(|since| *since + LONGEST_LIST);
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
        let is_late = |kind: &PatternKind| kind.is_late && is_listed(kind, snapshot);
        let listed_late = installed.scope().of_patterns().filter(|kind| is_late(kind));
        for kind in listed_late
            .map(|kind| kind.kind.clone())
            .collect::<Vec<_>>()
        {
            change_kind(installed, &kind, |known| known.is_late = false);
            turned.push(kind);
        }
        if !self.unlisted.is_empty() {
            let scope = installed.scope();
            let is_listed = |kind: &Kind| {
                let known = scope.of_pattern(kind);
                known.is_none_or(|known| is_listed(known, snapshot))
            };
            self.unlisted.retain(|kind, _| !is_listed(kind));
            let is_over = |since: &Time| *since + LONGEST_LIST <= now;
            let late = self.unlisted.extract_if(.., |_, since| is_over(since));
            for kind in late.map(|(kind, _)| kind).collect::<Vec<_>>() {
                change_kind(installed, &kind, |known| known.is_late = true);
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
        self.wanted.retain(&is_served);
        let mut ending = Vec::new();
        for known in scope.of_patterns() {
            let kind = &known.kind;
            if !is_served(kind) {
                ending.push(kind.clone());
            } else if is_read(known) || self.unlisted.contains_key(kind) {
                self.unread.remove(kind);
            } else if *self.unread.entry(kind.clone()).or_insert(now) + UNREAD_FOR <= now {
                ending.push(kind.clone());
            }
        }
        ending
    }

    /// Takes a kind out of the plugin's scope.
    pub fn end(&mut self, installed: &mut InstalledVersion, kind: &Kind) {
        self.unlisted.remove(kind);
        self.unread.remove(kind);
        let mut ended = None;
        change_pattern(installed, kind, |pattern| {
            let name = (kind.group.clone(), kind.kind.clone());
            ended = pattern.kinds.remove(&name);
        });
        if ended.is_some_and(|ended| ended.is_late) {
            self.turned.push(kind.clone());
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
    installed.change_patterns(|patterns| {
        let pattern = patterns
            .iter_mut()
            .find(|scope| scope.pattern.includes(kind));
        if let Some(pattern) = pattern {
            change(pattern);
        }
    });
}

fn change_kind(
    installed: &mut InstalledVersion,
    kind: &Kind,
    change: impl FnOnce(&mut PatternKind),
) {
    change_pattern(installed, kind, |pattern| {
        let name = (kind.group.clone(), kind.kind.clone());
        if let Some(known) = pattern.kinds.get_mut(&name) {
            change(known);
        }
    });
}
