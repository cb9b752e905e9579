//! Judges finalizers that come and go.

use tokio::time::Instant;

use super::{CLAIM_ENDS, Change, FOREGROUND_ENDS, Judge, ORPHAN_ENDS, OURS, is_fresh};
use crate::facts::{FOREGROUND, Facts, PROTECTION};
use crate::witness::{Act, Write};

impl Judge<'_> {
    pub(super) fn finalizers(&mut self, change: &Change<'_>) {
        let (taken, added) = (change.taken(), change.added());
        let is_touched = !taken.is_empty() || !added.is_empty() || change.hastens();
        if !is_touched || self.is_deleted_again(change) {
            return;
        }
        let Some(write) = self.write(change, Act::Finalizers) else {
            return;
        };
        let is_protected = change.before.resource == "persistentvolumeclaims"
            && !change.before.is_dying
            && added == [PROTECTION];
        if !added.is_empty() && !is_protected {
            self.violation(change, &format!("it has got the finalizers {added:?}"));
        }
        for finalizer in self.meant(change, &write, taken) {
            self.letting_go(change, finalizer, write.at);
        }
    }

    /// Whether the host has deleted what was being deleted already, so that the finalizers are now
    /// those of its deletion.
    fn is_deleted_again(&mut self, change: &Change<'_>) -> bool {
        let of = |act| self.write_of(change, act).cloned();
        let (None, Some(deletion)) = (of(Act::Finalizers), of(Act::Delete)) else {
            return false;
        };
        match self.was_meant(change.before, &deletion, |then| !then.is_dying) {
            true => self.excuse("it was not yet being deleted when the host asked"),
            false => self.violation(change, "it was being deleted in another way"),
        }
        true
    }

    /// Which of the finalizers that are gone the host meant to take.
    ///
    /// The server removes an object whose last finalizer a patch takes, without a look at what has
    /// become of it since it read it for the patch (`deleteWithoutFinalizers` of its store). So a
    /// finalizer is lost that somebody sets at this moment, whatever the patch tests for.
    fn meant(
        &mut self,
        change: &Change<'_>,
        write: &Write,
        taken: Vec<&'static str>,
    ) -> Vec<&'static str> {
        let tested = write.finalizers.as_deref().unwrap_or_default();
        if change.after.is_some() || tested == change.before.finalizers {
            return taken;
        }
        let last = OURS.into_iter().find(|one| tested == [*one]);
        let Some(last) = last else {
            self.violation(change, "the patch has not taken the last finalizer");
            return taken;
        };
        self.excuse("the server removed it though the patch named other finalizers");
        vec![last]
    }

    fn letting_go(&mut self, change: &Change<'_>, finalizer: &str, at: Instant) {
        if !change.before.is_dying {
            self.violation(change, "it is not being deleted");
        }
        match finalizer {
            PROTECTION => self.claim(change, at),
            FOREGROUND => {
                self.check(FOREGROUND_ENDS);
                self.dependents(change, at, Facts::blocks);
            }
            _ => {
                self.check(ORPHAN_ENDS);
                self.dependents(change, at, Facts::names);
            }
        }
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
            match self.is_known(&dependent.uid, at, |state| is_so(state, uid)) {
                true => self.violation(change, &format!("its dependent is there: {dependent:?}")),
                false => self.excuse("the watches had not told of the dependent"),
            }
        }
    }

    fn claim(&mut self, change: &Change<'_>, at: Instant) {
        self.check(CLAIM_ENDS);
        let claim = change.before;
        for user in self.history.users(claim) {
            match self.was_no_user(&user, claim, at) {
                true => self.excuse("the pod did not use the claim when the host asked"),
                false => self.violation(change, &format!("a pod uses it: {user:?}")),
            }
        }
    }

    /// Whether this pod did not use the claim when the server answered a question of the host for
    /// such pods, shortly before: a list of the pods, or for the pod for which the claim is made,
    /// that pod.
    fn was_no_user(&self, pod: &Facts, claim: &Facts, before: Instant) -> bool {
        let named = pod.pod.as_ref();
        let is_named = named.is_some_and(|pod| pod.claims.contains(&claim.name));
        let path = pod.path();
        let is_fresh = |at: Instant| is_fresh(at, before);
        let was_none = |version: u64| {
            let then = self.history.at(&pod.uid, version);
            !then.is_some_and(|then| then.uses(claim))
        };
        if is_named {
            let (collection, _) = path.rsplit_once('/').unwrap_or_default();
            let mut listed = self.witness.lists(collection, before);
            return listed.any(|(at, version)| is_fresh(at) && was_none(version));
        }
        let mut answers = self.witness.gets(&path, before);
        answers.any(|answered| {
            // Without the pod, or with another one of its name, nobody used the claim.
            let version = answered.found.as_ref().map_or(0, |(_, version)| *version);
            is_fresh(answered.at) && was_none(version)
        })
    }
}
