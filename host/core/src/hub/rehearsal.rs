//! A reconcile of any key at any time, for those who test a plugin.
//!
//! The hub decides which keys run. A test decides that itself, may look at the outcome before
//! anything is written, and may write another one. So a rehearsal takes no key from the queue,
//! registers no reads and counts nothing. What the plugin may read and write, and what has to be
//! sent, is decided by the same code as for a real reconcile.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::reconcile::PluginVersion;
use crate::hub::plugin::Request;
use crate::model::outcome::Outcome;
use crate::plan::confirm::Confirmed;
use crate::plan::execution::Execution;
use crate::plan::{Halt, PlanError};
use crate::reads::read::Read;
use crate::reads::reader::Reader;

/// See the module's documentation. A copy goes on from the reads that have been made so far.
#[derive(Clone)]
pub struct Rehearsal {
    /// What is passed to the guest. It is always the key's first attempt.
    pub request: Request,
    /// What the guest reads with.
    pub reader: Reader,
    version: Arc<PluginVersion>,
}

impl Rehearsal {
    pub(super) fn new(request: Request, reader: Reader, version: Arc<PluginVersion>) -> Self {
        Self {
            request,
            reader,
            version,
        }
    }

    /// Whether the snapshot shows no subject with this key.
    pub fn is_gone(&self) -> bool {
        self.reader.is_subject_gone()
    }

    /// What the API server must confirm before this outcome is carried out.
    pub fn confirmed(&self, outcome: &Outcome) -> Result<Confirmed, PlanError> {
        let mut reader = self.reader.clone();
        let plan = self.version.plan(&self.request.key, outcome, &mut reader);
        plan.map(|mut plan| plan.take_confirmed())
    }

    /// All that a run with this outcome has read, if the host believes that it is settled: see
    /// [`Plan::is_settled`](crate::Plan::is_settled).
    pub fn settled(&self, outcome: &Outcome) -> Option<BTreeSet<Read>> {
        let mut reader = self.reader.clone();
        let plan = self.version.plan(&self.request.key, outcome, &mut reader);
        plan.is_ok_and(|plan| plan.is_settled())
            .then(|| reader.into_reads())
    }

    /// Plans this outcome, decided on what has been read, and begins to carry it out. An
    /// accepted apply is remembered as one of the plugin's.
    pub fn execution(mut self, outcome: &Outcome) -> Result<Execution, PlanError> {
        let key = &self.request.key;
        let plan = self.version.plan(key, outcome, &mut self.reader)?;
        Ok(self.version.execution(plan, Halt::default()))
    }
}
