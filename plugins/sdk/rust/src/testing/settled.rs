//! Whether an outcome that says that it is settled leaves nothing to do.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Duration;

use pilothouse_core as host;

use super::{FakeCluster, Told, convert};
use crate::{Controller, Failure, Request};

/// A run whose outcome is settled.
pub(super) struct Settled {
    /// All that it has read: only that wakes its key.
    reads: BTreeSet<host::Read>,
    next: host::NextRun,
    /// Whether the key was not to run for a while, whatever changes.
    pub rests: bool,
}

impl Settled {
    pub fn new(reads: BTreeSet<host::Read>, follow_up: &host::FollowUp) -> Self {
        Self {
            reads,
            next: follow_up.next.clone(),
            rests: follow_up.not_before > Duration::ZERO,
        }
    }
}

impl FakeCluster {
    /// Runs a key again whose outcome is settled and has been carried out. `told`: what the run is
    /// told of the one before; without it, what the host tells.
    ///
    /// # Panics
    ///
    /// The run would write something, wait for other changes, or run again at another time. Or it
    /// fails.
    pub(super) fn check_settled<C: Controller>(
        &self,
        key: &host::SubjectKey,
        settled: &Settled,
        told: Option<Told>,
    ) {
        let wrong = match self.once_more::<C>(key, settled, told) {
            Ok(None) => return,
            Ok(Some(wrong)) => format!("would {wrong}"),
            Err(failure) => format!("fails: {failure:?}"),
        };
        panic!(
            "the outcome of {} says that it is settled, but the next run {wrong}",
            key.object
        );
    }

    /// What one more run would do; `None` if that is nothing.
    fn once_more<C: Controller>(
        &self,
        key: &host::SubjectKey,
        settled: &Settled,
        told: Option<Told>,
    ) -> Result<Option<String>, Failure> {
        let mut rehearsal = self.rehearse(key);
        let request = self
            .guest
            .request(&rehearsal.request, &mut rehearsal.reader)?;
        let request = told.map_or(request.clone(), |told| Request {
            attempt: told.attempt,
            previous: told.previous,
            memo: told.memo.filter(|_| !self.guest.forgets_memos()),
            ..request
        });
        let outcome = self.run_fetching(C::reconcile, &request, &mut rehearsal)?;
        let outcome = convert::outcome(&outcome);
        let reads = rehearsal.reader.clone().into_reads();
        let execution = rehearsal.execution(&outcome);
        let execution = execution.map_err(|reason| Failure::Terminal(reason.to_string()))?;
        if let ControlFlow::Continue((begun, _)) = execution.advance() {
            let first = begun.first().map(host::PendingWrite::write);
            return Ok(first.map(|write| format!("write {} {}", write.kind, write.key)));
        }
        if let Some(read) = reads.difference(&settled.reads).next() {
            return Ok(Some(format!("read what it has not: {read:?}")));
        }
        let next = &outcome.follow_up.next;
        Ok((*next != settled.next).then(|| format!("run again otherwise: {next:?}")))
    }
}
