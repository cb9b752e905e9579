//! Whether an outcome that says that it is settled leaves nothing to do.

use std::ops::ControlFlow;

use pilothouse_core as host;

use super::{FakeCluster, Told, convert};
use crate::{Controller, Failure, Outcome, Request};

impl FakeCluster {
    /// Runs a key again whose outcome is settled and has been carried out. `told`: what the run is
    /// told of the one before; without it, what the host tells.
    ///
    /// # Panics
    ///
    /// The run would write something, or fails.
    pub(super) fn check_settled<C: Controller>(&self, key: &host::SubjectKey, told: Option<Told>) {
        let wrong = match self.once_more::<C>(key, told) {
            Ok(None) => return,
            Ok(Some(write)) => format!("would {write}"),
            Err(failure) => format!("fails: {failure:?}"),
        };
        panic!(
            "the outcome of {} says that it is settled, but the next run {wrong}",
            key.object
        );
    }

    /// The first write of one more run; `None` if it would write nothing.
    fn once_more<C: Controller>(
        &self,
        key: &host::SubjectKey,
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
        let reader = &mut rehearsal.reader;
        let outcome: Outcome = self.guest.run(C::reconcile, &request, reader)?;
        let execution = rehearsal.execution(&convert::outcome(&outcome));
        let execution = execution.map_err(|reason| Failure::Terminal(reason.to_string()))?;
        let ControlFlow::Continue((begun, _)) = execution.advance() else {
            return Ok(None);
        };
        let first = begun.first().map(host::PendingWrite::write);
        Ok(first.map(|write| format!("write {} {}", write.kind, write.key)))
    }
}
