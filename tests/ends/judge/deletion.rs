//! Judges deletions.

use tokio::time::Instant;

use super::{Change, DELETION, Judge};
use crate::facts::{FOREGROUND, Facts, ORPHAN, PROTECTION};
use crate::owners::Standing;
use crate::witness::{Act, Write};

/// What a deletion does with the dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Background,
    Foreground,
    Orphan,
}

impl Way {
    /// What the finalizers ask for before the deletion, and do after it.
    fn of(facts: &Facts) -> Self {
        if facts.has(ORPHAN) {
            Self::Orphan
        } else if facts.has(FOREGROUND) {
            Self::Foreground
        } else {
            Self::Background
        }
    }
}

impl Judge<'_> {
    pub(super) fn deletion(&mut self, change: &Change<'_>) {
        let Some(write) = self.write(change, Act::Delete) else {
            return;
        };
        self.check(DELETION);
        if change.before.owners.is_empty() {
            self.violation(change, "it has no owners");
        }
        if write.uid.is_none() && write.version.is_none() {
            self.violation(
                change,
                "the deletion does not say which object of this name it is of",
            );
        }
        if change.takes(PROTECTION) {
            self.violation(change, "it is protected, and gone at once");
        }
        self.owners_let_go(change, &write);
        self.way_of_deletion(change, &write);
    }

    /// What the object's own finalizers ask for, its deletion does, unless it is for an owner that
    /// waits.
    fn way_of_deletion(&mut self, change: &Change<'_>, write: &Write) {
        let (facts, asked) = (change.before, Way::of(change.before));
        let done = change.after.map_or(Way::Background, Way::of);
        if done == asked {
            if done != Way::Foreground && self.must_go_after_its_dependents(facts, write.at) {
                self.violation(change, "an owner waits, and its dependents do not go first");
            }
            return;
        }
        if done == Way::Foreground && self.goes_after_its_dependents(facts, write.at) {
            return;
        }
        match self.was_meant(facts, write, |then| Way::of(then) == done) {
            true => self.excuse("it did not have this finalizer when the host asked"),
            false => self.violation(change, "its deletion does not do what its finalizers say"),
        }
    }

    /// Whether an owner waits and the object has dependents, and the host knew both.
    fn must_go_after_its_dependents(&self, facts: &Facts, at: Instant) -> bool {
        let standings = self.history.standings(facts);
        let waits = standings.iter().any(|standing| match standing {
            Standing::Waiting(owner) => self.is_known(&owner.uid, at, Facts::is_waiting),
            _ => false,
        });
        let is_one = |state: &Facts| state.names(&facts.uid);
        let dependents = self.history.dependents(&facts.uid);
        let mut dependents = dependents.iter();
        waits && dependents.any(|one| self.is_known(&one.uid, at, is_one))
    }

    /// Whether an owner waits and the object has dependents, as far as the host knew.
    fn goes_after_its_dependents(&mut self, facts: &Facts, at: Instant) -> bool {
        if !self.has_waiting(facts, at) {
            return false;
        }
        if !self.history.dependents(&facts.uid).is_empty() {
            return true;
        }
        let is_none = |state: &Facts| !state.names(&facts.uid);
        let is_there = |uid: &str| !self.is_known_gone(uid, at) && !self.is_known(uid, at, is_none);
        let had_some = self.history.ever_dependent(&facts.uid).any(is_there);
        if had_some {
            self.excuse("the watches had not told that its dependents are gone");
        }
        had_some
    }
}
