//! Judges references to owners that go or change.

use tokio::time::Instant;

use super::{Change, Judge, REFERENCE};
use crate::facts::{Facts, Owner};
use crate::owners::{Standing, standing};
use crate::witness::{Act, Write};

impl Judge<'_> {
    pub(super) fn references(&mut self, change: &Change<'_>, after: &Facts) {
        let Some(write) = self.write(change, Act::Other) else {
            return;
        };
        self.check(REFERENCE);
        let before = change.before;
        let standings = self.history.standings(before);
        let mut is_unblocked = false;
        for (owner, standing) in before.owners.iter().zip(&standings) {
            match after.owner(&owner.uid) {
                None => self.lost(change, owner, standing, write.at),
                Some(kept) if kept == owner => {}
                Some(kept) if *kept == owner.unblocked() => is_unblocked = true,
                Some(_) => self.violation(change, "a reference says something else"),
            }
        }
        if is_unblocked {
            self.unblocking(change, &write);
        }
        if !after.owners.iter().all(|owner| before.names(&owner.uid)) {
            self.violation(change, "it has got an owner");
        }
    }

    /// What is about to be deleted blocks nobody any more if a dependent of it waits, as in a
    /// circle: the two would wait for each other.
    fn unblocking(&mut self, change: &Change<'_>, write: &Write) {
        let (facts, at) = (change.before, write.at);
        self.owners_let_go(change, write);
        if !self.has_waiting(facts, at) {
            self.violation(change, "none of its owners waits");
        }
        let is_waiting = |one: &Facts| one.names(&facts.uid) && one.is_waiting();
        let dependents = self.history.dependents(&facts.uid);
        if dependents.iter().any(|one| is_waiting(one)) {
            return;
        }
        let may_wait = |uid: &str| {
            self.history.ever(uid, is_waiting)
                && !self.is_known_gone(uid, at)
                && !self.is_known(uid, at, |state| !is_waiting(state))
        };
        let had_one = self.history.ever_dependent(&facts.uid).any(may_wait);
        match had_one {
            true => self.excuse("the watches had not told that its dependents are gone"),
            false => self.violation(change, "none of its dependents waits"),
        }
    }

    /// A reference to this owner is gone. Its uid alone says whose dependent an object is when the
    /// owner orphans.
    fn lost(&mut self, change: &Change<'_>, owner: &Owner, standing: &Standing, at: Instant) {
        let uid = &owner.uid;
        // The owner may be gone before the last of its dependents has given it up.
        if self
            .history
            .last(uid)
            .is_some_and(|owner| owner.is_orphaning())
        {
            return;
        }
        if self.history.ever(uid, Facts::is_orphaning)
            && !self.is_known(uid, at, |state| !state.is_orphaning())
        {
            self.excuse("the watches had not told that the owner orphans no more");
        } else if standing.lets_go() {
            self.kept_by_another(change, at);
        } else if self.waited(owner, change.before, at) {
            self.excuse("its owner still waited when the host asked");
            self.kept_by_another(change, at);
        } else {
            self.violation(change, &format!("it has lost the owner {standing:?}"));
        }
    }

    /// Another owner has to be there, as far as the host knew. Otherwise the object would have to
    /// be deleted, or left alone.
    fn kept_by_another(&mut self, change: &Change<'_>, at: Instant) {
        let before = change.before;
        let standings = self.history.standings(before);
        let nobody_knows = |one: &Standing| matches!(one, Standing::Unknown | Standing::Misplaced);
        if standings.iter().any(nobody_knows) {
            self.violation(change, "nobody knows whether another owner is there");
            return;
        }
        let is_kept = |owner: &Owner| change.after.is_some_and(|after| after.names(&owner.uid));
        let others = || {
            before
                .owners
                .iter()
                .zip(&standings)
                .filter(|(owner, _)| is_kept(owner))
        };
        if others().any(|(_, standing)| matches!(standing, Standing::Solid(_))) {
            return;
        }
        // As it was last.
        let was_there = |owner: &Owner| standing(owner, before, |uid| self.history.last(uid));
        let seemed_solid = |(owner, _): (&Owner, &Standing)| {
            was_there(owner) != Standing::Absent
                && !self.is_known_gone(&owner.uid, at)
                && !self.is_known(&owner.uid, at, Facts::is_waiting)
        };
        match others().any(seemed_solid) {
            true => self.excuse("the watches had not told that the other owner is gone"),
            false => self.violation(change, "no other owner keeps it"),
        }
    }
}
