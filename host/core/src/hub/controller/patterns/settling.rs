//! Which kinds have been listed, or have had their time for that.

use std::time::Duration;

use super::PatternKinds;
use crate::access::scope::Scope;
use crate::cache::snapshot::Snapshot;
use crate::hub::controller::installed::InstalledVersion;
use crate::model::key::Kind;
use crate::queue::Time;

/// How long keys wait for a kind to be listed.
pub(super) const LONGEST_LIST: Duration = Duration::from_secs(10);

/// When an informer that there was no room for is asked for again.
const ROOM_AGAIN: Duration = Duration::from_secs(60);

/// What may have been listed since [`PatternKinds::settle`] was called last.
#[derive(Clone, Copy)]
pub(in crate::hub) enum Listed<'a> {
    Nothing,
    /// This kind, if anything: a list-watch has brought something of it.
    Kind(&'a Kind),
    /// Any kind: informers, or their users, have changed.
    Anything,
}

impl PatternKinds {
    /// When [`settle`](Self::settle) has something to do, even if no list arrives.
    pub fn due(&self) -> Option<Time> {
        let lists = self.asked.earliest().map(|since| since + LONGEST_LIST);
        let rooms = self.refused.earliest().map(|since| since + ROOM_AGAIN);
        lists.into_iter().chain(rooms).min()
    }

    /// Notes which kinds have been listed, and which have had their time for that. Returns the
    /// kinds that have become unavailable, or available again.
    pub fn settle(
        &mut self,
        installed: &mut InstalledVersion,
        listed: Listed<'_>,
        snapshot: &Snapshot,
        now: Time,
    ) -> Vec<Kind> {
        let mut turned = std::mem::take(&mut self.turned);
        let no_longer_late = self.note_listed(installed.scope(), listed, snapshot);
        set_late(installed, &no_longer_late, false);
        turned.extend(no_longer_late);
        let until = now.checked_sub(LONGEST_LIST);
        let late = until.map(|until| self.asked.take_until(until));
        let late = late.unwrap_or_default();
        set_late(installed, &late, true);
        turned.extend(late);
        // A refusal stands until there is room, so that nobody is woken by being refused again.
        let until = now.checked_sub(ROOM_AGAIN);
        let again = until.map(|until| self.refused.take_until(until));
        for kind in again.unwrap_or_default() {
            self.refused.begin(&kind, now);
            self.wanted.insert(kind);
        }
        turned
    }

    /// Notes which kinds have been listed. Returns those of them that were late.
    fn note_listed(&mut self, scope: &Scope, listed: Listed<'_>, snapshot: &Snapshot) -> Vec<Kind> {
        let is_listed = |kind: &Kind| is_listed(scope, kind, snapshot);
        let late = scope.patterns.iter().flat_map(|pattern| &pattern.late);
        match listed {
            Listed::Nothing => Vec::new(),
            Listed::Kind(kind) => {
                let is_waited_for = self.asked.contains(kind) || is_late(scope, kind);
                if !is_waited_for || !is_listed(kind) {
                    return Vec::new();
                }
                self.asked.end(kind);
                is_late(scope, kind)
                    .then(|| kind.clone())
                    .into_iter()
                    .collect()
            }
            Listed::Anything => {
                self.asked.retain(|kind| !is_listed(kind));
                late.filter(|kind| is_listed(kind)).cloned().collect()
            }
        }
    }
}

/// Whether the plugin has an informer for this kind that has listed.
pub(super) fn is_listed(scope: &Scope, kind: &Kind, snapshot: &Snapshot) -> bool {
    let known = scope.of_pattern(kind).filter(|known| known.kind == *kind);
    known.is_some_and(|known| {
        let mut parts = known.scope.parts.iter();
        parts.all(|part| snapshot.informers[part.informer].is_synced(part.subscribed.detail))
    })
}

pub(super) fn is_late(scope: &Scope, kind: &Kind) -> bool {
    let pattern = scope.pattern_of(kind);
    pattern.is_some_and(|pattern| pattern.late.contains(kind))
}

/// Notes whether these kinds have had time enough to be listed.
pub(super) fn set_late(installed: &mut InstalledVersion, kinds: &[Kind], is_late: bool) {
    if kinds.is_empty() {
        return;
    }
    installed.note_in_scope(|scope| {
        for kind in kinds {
            let pattern = scope.pattern_of_mut(kind);
            pattern.map(|pattern| match is_late {
                true => pattern.late.insert(kind.clone()),
                false => pattern.late.remove(kind),
            });
        }
    });
}
