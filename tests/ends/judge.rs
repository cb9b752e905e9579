//! Judges every write of the host by what the server had right before it took effect.
//!
//! **What must stay.** An object is deleted only if it has owners, and each is absent (no object of
//! this kind, namespace, name and uid) or waits (is being deleted, with `foregroundDeletion`). An
//! owner whose kind is not served, and one in a namespace of what has none, keep it. A deletion
//! says of which object or version it is. It keeps to the object's own finalizers `orphan` and
//! `foregroundDeletion`, but where an owner waits and the object has dependents: then it is in the
//! foreground, as upstream has it. `kubernetes.io/pvc-protection` is put on claims, and goes when
//! the claim is being deleted and no pod that has a node uses it. A reference goes when its owner
//! orphans, or is absent or waits and another owner keeps the object. It stops to block when all
//! owners are absent or wait, and a dependent of the object waits, too. `foregroundDeletion` goes
//! when no dependent blocks, `orphan` when no dependent names the owner. The host touches no other
//! finalizer, adds no reference, and does not end a pod for which its kubelet is not done.
//!
//! **What a client can know.** An absent owner is absent for ever, because uids do not come back,
//! and a deletion names the version of the object: so of these two there is no doubt at any time.
//! Of other objects a client knows what it was told last, and they may change between that and its
//! write. So these are set apart and counted, and are no violations:
//!
//! - what was so when the server answered a question of the host about it, if that was at most two
//!   seconds before the write: an owner that waited, a pod that did not use the claim, and for
//!   a deletion that names the object but no version, the object's owners, finalizers and deletion;
//! - what the watches had not told the host for two seconds: of a dependent, that an owner orphans
//!   no more, and that another owner or the dependents of an object are no longer there. Upstream
//!   promises no more: neither asks the server for all dependents of an owner, of whatever kind;
//! - a finalizer that somebody sets while the server removes the object, which it does whatever
//!   the patch tests for.

mod deletion;
mod finalizers;
mod references;
#[cfg(test)]
pub mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use pilothouse_tests::What;
use tokio::time::Instant;

use crate::actor::Doings;
use crate::facts::{FOREGROUND, Facts, ORPHAN, Owner, PROTECTION};
use crate::history::History;
use crate::kinds::KindOf;
use crate::owners::Standing;
use crate::witness::{Act, Made, Witness, Write};
use crate::world::Record;

/// How long what the host was told or answered may be on its way to a decision and a write.
const ON_THE_WAY: Duration = Duration::from_secs(2);

/// The finalizers that the plugins put on objects and take away.
const OURS: [&str; 3] = [FOREGROUND, ORPHAN, PROTECTION];

/// What each write is held against.
const DELETION: &str = "an object is deleted when none of its owners keeps it";
const REFERENCE: &str =
    "a reference goes or stops to block when its owner is absent, waits or orphans";
const FOREGROUND_ENDS: &str = "an owner that waits goes when no dependent blocks it";
const ORPHAN_ENDS: &str = "an owner that orphans goes when no dependent names it";
const CLAIM_ENDS: &str = "a claim is let go when no pod uses it";
const RULES: [&str; 5] = [
    DELETION,
    REFERENCE,
    FOREGROUND_ENDS,
    ORPHAN_ENDS,
    CLAIM_ENDS,
];

/// What was judged, and how.
#[derive(Debug)]
pub struct Verdict {
    /// How many writes each rule was held against; 0 if there was none.
    pub checks: BTreeMap<&'static str, usize>,
    /// How many were not as the rule says, and could not have been known to be so.
    pub excused: BTreeMap<&'static str, usize>,
    pub violations: Vec<String>,
}

/// Judges all changes that no actor has made. They are in the order in which they happened.
pub fn judge(records: &[Record], doings: &Doings, witness: &Witness) -> Verdict {
    let mut judge = Judge {
        history: History::default(),
        witness,
        verdict: Verdict {
            checks: RULES.map(|rule| (rule, 0)).into(),
            excused: BTreeMap::new(),
            violations: Vec::new(),
        },
    };
    for record in records {
        let before = judge.history.now(&record.facts.uid);
        if let Some(before) = before
            && !doings.include(record)
        {
            judge.change(&before, record);
        }
        judge.history.learn(record);
    }
    judge.verdict
}

struct Judge<'a> {
    history: History,
    witness: &'a Witness,
    verdict: Verdict,
}

/// A change that the host has made.
struct Change<'a> {
    before: &'a Facts,
    /// None if the object is gone.
    after: Option<&'a Facts>,
    version: u64,
}

impl<'a> Change<'a> {
    /// Whether with it the object is deleted, or begins to be.
    fn deletes(&self) -> bool {
        !self.before.is_dying && self.after.is_none_or(|after| after.is_dying)
    }

    fn takes(&self, finalizer: &str) -> bool {
        self.before.has(finalizer) && !self.after.is_some_and(|after| after.has(finalizer))
    }

    /// Which of the plugins' finalizers it takes.
    fn taken(&self) -> Vec<&'static str> {
        OURS.into_iter().filter(|one| self.takes(one)).collect()
    }

    /// The finalizers that the object has got.
    fn added(&self) -> Vec<&'a str> {
        let after = self.after.into_iter().flat_map(|after| &after.finalizers);
        let added = after.filter(|one| !self.before.has(one));
        added.map(String::as_str).collect()
    }

    /// Whether it takes a finalizer with which the host has nothing to do.
    fn takes_of_others(&self) -> bool {
        let mut others = self.before.finalizers.iter();
        others.any(|one| !OURS.contains(&one.as_str()) && self.takes(one))
    }

    /// Whether nobody waits any more for a pod which was being deleted before, too.
    fn hastens(&self) -> bool {
        let is_over = |facts: &Facts| facts.pod.as_ref().is_some_and(|pod| pod.is_shut_down);
        !is_over(self.before) && self.after.is_some_and(is_over)
    }
}

impl Judge<'_> {
    fn change(&mut self, before: &Facts, record: &Record) {
        let change = Change {
            before,
            after: (record.what != What::Deleted).then_some(&*record.facts),
            version: record.version,
        };
        if change.takes_of_others() {
            self.violation(&change, "the finalizer of somebody else is gone");
        }
        if change.deletes() {
            self.deletion(&change);
        } else {
            self.finalizers(&change);
            self.end(&change);
        }
        if let Some(after) = change.after
            && after.owners != before.owners
        {
            self.references(&change, after);
        }
    }

    /// What was being deleted goes by itself when its last finalizer does.
    fn end(&mut self, change: &Change<'_>) {
        let is_gone = change.after.is_none();
        if change.hastens() || is_gone && !change.before.is_ending() && change.taken().is_empty() {
            self.violation(
                change,
                "it was being deleted, and somebody else waited for it",
            );
        }
    }

    /// The host's write that has made this change; a violation if it has sent none.
    fn write(&mut self, change: &Change<'_>, act: Act) -> Option<Write> {
        let write = self.write_of(change, act).cloned();
        if write.is_none() {
            self.violation(change, "neither an actor nor the host has asked for this");
        }
        write
    }

    fn write_of(&self, change: &Change<'_>, act: Act) -> Option<&Write> {
        let uid = &change.before.uid;
        let made = Made {
            uid,
            before: self.history.version(uid)?,
            version: change.version,
            is_gone: change.after.is_none(),
        };
        self.witness.write_of(&change.before.path(), made, act)
    }

    /// No owner may keep what this changes.
    fn owners_let_go(&mut self, change: &Change<'_>, write: &Write) {
        let facts = change.before;
        let standings = self.history.standings(facts);
        for (owner, standing) in facts.owners.iter().zip(standings) {
            let without = |asked: &Facts| !asked.names(&owner.uid);
            if standing.lets_go() {
                continue;
            }
            if self.waited(owner, facts, write.at) {
                self.excuse("its owner still waited when the host asked");
            } else if self.was_meant(facts, write, without) {
                self.excuse("it did not have this owner when the host asked");
            } else {
                self.violation(change, &format!("its owner keeps it: {standing:?}"));
            }
        }
    }

    /// Whether one of the owners waits, or waited when the host asked.
    fn has_waiting(&self, facts: &Facts, at: Instant) -> bool {
        let standings = self.history.standings(facts);
        let mut owners = facts.owners.iter().zip(&standings);
        owners.any(|(owner, standing)| {
            matches!(standing, Standing::Waiting(_)) || self.waited(owner, facts, at)
        })
    }

    /// Whether an owner waited when the server answered a question of the host about it.
    fn waited(&self, owner: &Owner, dependent: &Facts, before: Instant) -> bool {
        let Some(kind) = KindOf::named(&owner.api_version, &owner.kind) else {
            return false;
        };
        let path = kind.path(&dependent.namespace, &owner.name);
        self.had(&path, &owner.uid, before, Facts::is_waiting)
    }

    /// Whether this was so of the object of a write that names no version of it when the server
    /// answered a question of the host about the object.
    fn was_meant(&self, facts: &Facts, write: &Write, is_so: impl Fn(&Facts) -> bool) -> bool {
        write.version.is_none() && self.had(&facts.path(), &facts.uid, write.at, is_so)
    }

    /// Whether this was so of an object when the server answered a question of the host about it,
    /// shortly before. Several keys may ask about one object, so a later answer to another of them
    /// does not make this one be no longer on its way.
    fn had(&self, path: &str, uid: &str, before: Instant, is_so: impl Fn(&Facts) -> bool) -> bool {
        let mut answers = self.witness.gets(path, before);
        answers.any(|answered| {
            let then = answered.found.as_ref();
            let then = then.and_then(|(found, version)| self.history.at(found, *version));
            is_fresh(answered.at, before)
                && then.is_some_and(|then| then.uid == uid && is_so(&then))
        })
    }

    /// Whether the watches had told the host for two seconds that this is so of an object, since it
    /// was so without a break.
    fn is_known(&self, uid: &str, at: Instant, is_so: impl Fn(&Facts) -> bool) -> bool {
        let since = self.history.since(uid, is_so);
        let told = self.witness.told_at(uid, since);
        told.is_some_and(|told| !is_fresh(told, at))
    }

    /// Whether the watches had told the host for two seconds that an object is gone.
    fn is_known_gone(&self, uid: &str, at: Instant) -> bool {
        let told = self.witness.told_gone(uid);
        told.is_some_and(|told| !is_fresh(told, at))
    }

    fn check(&mut self, rule: &'static str) {
        *self.verdict.checks.entry(rule).or_default() += 1;
    }

    fn excuse(&mut self, reason: &'static str) {
        *self.verdict.excused.entry(reason).or_default() += 1;
    }

    fn violation(&mut self, change: &Change<'_>, reason: &str) {
        let Change {
            before,
            after,
            version,
        } = change;
        let text = format!("at version {version}: {reason}\n  {before:?}\n  became {after:?}");
        self.verdict.violations.push(text);
    }
}

/// Whether what came then may still have been on its way to a write at this time.
fn is_fresh(then: Instant, at: Instant) -> bool {
    then + ON_THE_WAY >= at
}
