//! Judges every write of the host by what the server had right before it took effect.
//!
//! **What must stay.** An object is deleted only if it has owners, and each is absent (no object of
//! this kind, namespace, name and uid) or waits (is being deleted, with `foregroundDeletion`). An
//! owner whose kind is not served, and one in a namespace of what has none, keep it. A deletion
//! keeps to the object's own finalizers `orphan` and `foregroundDeletion`, but where an owner waits
//! and the object has dependents: then it is in the foreground, as upstream has it.
//! `kubernetes.io/pvc-protection` goes when the claim is being deleted and no pod that has a node
//! uses it. A reference goes when its owner is absent, waits or orphans. `foregroundDeletion` goes
//! when no dependent blocks, `orphan` when no dependent names the owner. The host touches no other
//! finalizer and adds no reference.
//!
//! **What a client can know.** An absent owner is absent for ever, because uids do not come back,
//! and a deletion names the version of the object: so of these two there is no doubt at any time.
//! Of other objects a client knows what it was told last, and they may change between that and its
//! write. So these are set apart and counted, and are no violations: an owner that waited (or an
//! object that had not that owner or finalizer, or a pod that did not use the claim) when the
//! server last answered the host's question about it, before the write; a dependent which the
//! watches had not told the host for two seconds (upstream promises no more: neither asks the
//! server for all dependents of an owner, of whatever kind); and a finalizer that somebody sets
//! while the server removes the object, which it does whatever the patch tests for.

use std::collections::BTreeMap;
use std::time::Duration;

use pilothouse_tests::What;
use tokio::time::Instant;

use crate::actor::Doings;
use crate::facts::{FOREGROUND, Facts, HOLD, ORPHAN, Owner, PROTECTION};
use crate::history::History;
use crate::kinds::KindOf;
use crate::owners::Standing;
use crate::witness::{Act, Witness, Write};
use crate::world::Record;

/// How long what its watches have told the host may be on its way to a decision and a write.
const ON_THE_WAY: Duration = Duration::from_secs(2);

/// What was judged, and how.
#[derive(Debug, Default)]
pub struct Verdict {
    /// How many writes each rule was held against.
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
        verdict: Verdict::default(),
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

impl Change<'_> {
    /// Whether with it the object is deleted, or begins to be.
    fn deletes(&self) -> bool {
        !self.before.is_dying && self.after.is_none_or(|after| after.is_dying)
    }

    fn takes(&self, finalizer: &str) -> bool {
        self.before.has(finalizer) && !self.after.is_some_and(|after| after.has(finalizer))
    }
}

impl Judge<'_> {
    fn change(&mut self, before: &Facts, record: &Record) {
        let change = Change {
            before,
            after: (record.what != What::Deleted).then_some(&*record.facts),
            version: record.version,
        };
        if change.takes(HOLD) {
            self.violation(&change, "the finalizer of somebody else is gone");
        }
        if change.deletes() {
            self.deletion(&change);
            return;
        }
        let ours = [FOREGROUND, ORPHAN, PROTECTION];
        for finalizer in ours.into_iter().filter(|one| change.takes(one)) {
            self.letting_go(&change, finalizer);
        }
        match change.after {
            Some(after) if after.owners != before.owners => self.references(&change, after),
            None if !before.is_ending() && !ours.iter().any(|one| change.takes(one)) => {
                self.violation(
                    &change,
                    "it was being deleted, and somebody else waited for it",
                );
            }
            _ => {}
        }
    }

    /// The host's write that has made this change; a violation if it has sent none.
    fn write(&mut self, change: &Change<'_>, act: Act) -> Option<Instant> {
        let (path, uid) = (change.before.path(), &change.before.uid);
        let write = self.witness.write_of(&path, uid, change.version, act);
        let at = write.map(|Write { at, .. }| *at);
        if at.is_none() {
            self.violation(change, "neither an actor nor the host has asked for this");
        }
        at
    }

    fn deletion(&mut self, change: &Change<'_>) {
        let Some(at) = self.write(change, Act::Delete) else {
            return;
        };
        self.check("an object is deleted when none of its owners keeps it");
        let facts = change.before;
        if facts.owners.is_empty() {
            self.violation(change, "it has no owners");
        }
        let standings = self.history.standings(facts);
        for (owner, standing) in facts.owners.iter().zip(standings) {
            let without = |asked: &Facts| !asked.names(&owner.uid);
            if standing.lets_go() {
                continue;
            }
            if self.waited(owner, facts, at) {
                self.excuse("its owner still waited when the host asked");
            } else if self.had(&facts.path(), &facts.uid, at, without) {
                self.excuse("it did not have this owner when the host asked");
            } else {
                self.violation(change, &format!("its owner keeps it: {standing:?}"));
            }
        }
        self.way_of_deletion(change, at);
    }

    /// What the object's own finalizers ask for, its deletion does.
    fn way_of_deletion(&mut self, change: &Change<'_>, at: Instant) {
        let facts = change.before;
        let is_taken = match facts.has(ORPHAN) {
            true => change.takes(ORPHAN),
            false => change.takes(FOREGROUND),
        };
        let is_for_an_owner =
            change.after.is_some_and(Facts::is_waiting) && self.has_waiting(facts, at);
        if !is_taken || is_for_an_owner {
            return;
        }
        let unknown = |asked: &Facts| !asked.has(ORPHAN) && !asked.has(FOREGROUND);
        match self.had(&facts.path(), &facts.uid, at, unknown) {
            true => self.excuse("it did not have this finalizer when the host asked"),
            false => self.violation(change, "its deletion does not do what its finalizer says"),
        }
    }

    /// Whether an owner waited when the server last answered a question of the host about it.
    fn waited(&self, owner: &Owner, dependent: &Facts, before: Instant) -> bool {
        let Some(kind) = KindOf::named(&owner.api_version, &owner.kind) else {
            return false;
        };
        let path = kind.path(&dependent.namespace, &owner.name);
        self.had(&path, &owner.uid, before, Facts::is_waiting)
    }

    /// Whether this was so of an object when the server last answered a question of the host about
    /// it.
    fn had(&self, path: &str, uid: &str, before: Instant, is_so: impl Fn(&Facts) -> bool) -> bool {
        let answered = self.witness.last_get(path, before);
        let found = answered.and_then(|answered| answered.found.as_ref());
        let then = found.and_then(|(found, version)| self.history.at(found, *version));
        then.is_some_and(|then| then.uid == uid && is_so(&then))
    }

    fn letting_go(&mut self, change: &Change<'_>, finalizer: &str) {
        if self.is_deleted_again(change) {
            return;
        }
        let Some(at) = self.write(change, Act::Finalizers) else {
            return;
        };
        if self.is_removed_against_the_patch(change) {
            self.excuse("the server removed it though the patch named other finalizers");
            return;
        }
        if !change.before.is_dying {
            self.violation(change, "it is not being deleted");
        }
        match finalizer {
            PROTECTION => self.claim(change, at),
            FOREGROUND => {
                self.check("an owner that waits goes when no dependent blocks it");
                self.dependents(change, at, Facts::blocks);
            }
            _ => {
                self.check("an owner that orphans goes when no dependent names it");
                self.dependents(change, at, Facts::names);
            }
        }
    }

    /// Whether the host has deleted what was being deleted already, so that the finalizers are now
    /// those of its deletion.
    fn is_deleted_again(&mut self, change: &Change<'_>) -> bool {
        let (path, uid) = (change.before.path(), &change.before.uid);
        let of = |act| self.witness.write_of(&path, uid, change.version, act);
        let (None, Some(deleted)) = (of(Act::Finalizers), of(Act::Delete)) else {
            return false;
        };
        match self.had(&path, uid, deleted.at, |asked| !asked.is_dying) {
            true => self.excuse("it was not yet being deleted when the host asked"),
            false => self.violation(change, "it was being deleted in another way"),
        }
        true
    }

    /// The server removes an object whose last finalizer a patch takes, without a look at what has
    /// become of it since it read it for the patch (`deleteWithoutFinalizers` of its store). So a
    /// finalizer is lost that somebody sets at this moment, whatever the patch tests for.
    fn is_removed_against_the_patch(&self, change: &Change<'_>) -> bool {
        let (path, before) = (change.before.path(), change.before);
        let (uid, version) = (&before.uid, change.version);
        let write = self.witness.write_of(&path, uid, version, Act::Finalizers);
        let tested = write.and_then(|write| write.finalizers.as_ref());
        change.after.is_none() && tested.is_some_and(|tested| *tested != before.finalizers)
    }

    /// No dependent of which this is so may be there.
    fn dependents(
        &mut self,
        change: &Change<'_>,
        at: Instant,
        is_so: impl Fn(&Facts, &str) -> bool,
    ) {
        let uid = &change.before.uid;
        for dependent in self.history.dependents(uid) {
            if !is_so(&dependent, uid) {
                continue;
            }
            let since = self
                .history
                .since(&dependent.uid, |state| is_so(state, uid));
            let told = self.witness.told_at(&dependent.uid, since);
            match told.is_some_and(|told| told + ON_THE_WAY < at) {
                true => self.violation(change, &format!("its dependent is there: {dependent:?}")),
                false => self.excuse("the watches had not told of the dependent"),
            }
        }
    }

    fn claim(&mut self, change: &Change<'_>, at: Instant) {
        self.check("a claim is let go when no pod uses it");
        let claim = change.before;
        for user in self.history.users(claim) {
            match self.was_no_user(&user, claim, at) {
                true => self.excuse("the pod did not use the claim when the host asked"),
                false => self.violation(change, &format!("a pod uses it: {user:?}")),
            }
        }
    }

    /// Whether this pod did not use the claim when the server last answered the host's question for
    /// such pods: a list of the pods, or for the pod for which the claim is made, that pod.
    fn was_no_user(&self, pod: &Facts, claim: &Facts, before: Instant) -> bool {
        let collection = pod.path().rsplit_once('/').map(|(path, _)| path.to_owned());
        let listed = collection.and_then(|path| self.witness.last_list(&path, before));
        let named = pod
            .pod
            .as_ref()
            .is_some_and(|pod| pod.claims.contains(&claim.name));
        let version = match self.witness.last_get(&pod.path(), before) {
            Some(answered) if !named => match &answered.found {
                Some((uid, version)) if *uid == pod.uid => Some(*version),
                _ => return true,
            },
            _ => listed,
        };
        let then = version.map(|version| self.history.at(&pod.uid, version));
        then.is_some_and(|then| !then.is_some_and(|then| then.uses(claim)))
    }

    fn references(&mut self, change: &Change<'_>, after: &Facts) {
        let Some(at) = self.write(change, Act::Other) else {
            return;
        };
        self.check("a reference goes or stops to block when its owner is absent, waits or orphans");
        let before = change.before;
        let standings = self.history.standings(before);
        for (owner, standing) in before.owners.iter().zip(&standings) {
            let kept = after.owners.iter().find(|one| one.uid == owner.uid);
            if kept == Some(owner) {
                continue;
            }
            if kept.is_some() {
                if !self.has_waiting(before, at) {
                    self.violation(change, "none of its owners waits");
                }
            } else if !self.gives_up(before, owner, standing, at) {
                self.violation(change, &format!("it has lost the owner {standing:?}"));
            }
        }
        let names = |uid: &String| before.names(uid);
        if !after.owners.iter().all(|owner| names(&owner.uid)) {
            self.violation(change, "it has got an owner");
        }
    }

    /// Whether a reference to this owner may go. Its uid alone says whose dependent an object is.
    fn gives_up(
        &mut self,
        facts: &Facts,
        reference: &Owner,
        standing: &Standing,
        at: Instant,
    ) -> bool {
        let uid = &reference.uid;
        let owner = self.history.now(uid);
        let was_orphaning = self.history.ever(uid, Facts::is_orphaning);
        let Some(owner) = owner else {
            // It may be gone before the last of its dependents has given it up.
            return was_orphaning || *standing == Standing::Absent;
        };
        if standing.lets_go() || owner.is_orphaning() {
            return true;
        }
        if self.waited(reference, facts, at) {
            self.excuse("its owner still waited when the host asked");
            return true;
        }
        let since = self.history.since(uid, |state| !state.is_orphaning());
        let told = self.witness.told_at(uid, since);
        let is_excused = was_orphaning && told.is_none_or(|told| told + ON_THE_WAY >= at);
        if is_excused {
            self.excuse("the watches had not told that the owner orphans no more");
        }
        is_excused
    }

    /// Whether one of the owners waits, or waited when the host asked.
    fn has_waiting(&self, facts: &Facts, at: Instant) -> bool {
        let standings = self.history.standings(facts);
        let mut owners = facts.owners.iter().zip(&standings);
        owners.any(|(owner, standing)| {
            matches!(standing, Standing::Waiting(_)) || self.waited(owner, facts, at)
        })
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
