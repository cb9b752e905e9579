//! One reconcile of one key, from the moment the key is handed out until it is given back.
//!
//! Each stage is a type of its own, and the next step consumes it: a [`Reconcile`] is run, what has
//! [`Ran`] is registered, the server confirms what it rests on ([`Confirming`]), its writes are
//! sent ([`Writing`]), and what is [`Finished`] gives the key back. So no step is forgotten, done
//! twice or done too early.

mod confirming;
pub mod error;
pub mod fetching;
pub mod writing;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::share::Charge;
use super::{ControllerSettings, PluginId};
use crate::access::permission::Permissions;
use crate::access::scope::Scope;
use crate::hub::plugin::{Plugin, Request};
use crate::model::key::ObjectKey;
use crate::model::manifest::Manifest;
use crate::model::outcome::{FollowUp, Outcome};
use crate::model::subject_key::SubjectKey;
use crate::plan::execution::Execution;
use crate::plan::unchanged::Applied;
use crate::plan::write::Author;
use crate::plan::{Halt, Plan, PlanContext, PlanError, plan};
use crate::queue::{Priority, Time};
use crate::reads::error::ReadError;
use crate::reads::read::Read;
use crate::reads::reader::Reader;
pub(in crate::hub) use confirming::contradicted;
pub use confirming::{ConfirmAnswers, ConfirmEnd, Confirming, Decision};
pub use error::ReconcileError;
pub use fetching::Fetching;
use fetching::Unfetched;
pub use writing::{Conclusion, Finished, Writing};
pub(in crate::hub) use writing::{End, Remembered};

/// What all reconciles of one plugin version have in common.
#[derive(Clone)]
pub(super) struct PluginVersion {
    pub plugin: Arc<dyn Plugin>,
    /// The granted part of its manifest.
    pub manifest: Manifest,
    pub permissions: Permissions,
    pub applied: Arc<Applied>,
    pub author: Arc<Author>,
    pub scope: Arc<Scope>,
    /// The same as long as nothing else is installed in its place. Meanwhile the kinds of its
    /// patterns in the scope may change.
    pub installation: Arc<Installation>,
}

/// Tells the installations of versions apart, by its address. Of some size, so that each has an
/// address of its own.
#[derive(Debug, Default)]
pub(super) struct Installation {
    _address: u8,
}

impl PluginVersion {
    /// A plugin under these settings. `manifest` is the granted part of its own manifest.
    pub fn new(
        plugin: Arc<dyn Plugin>,
        manifest: Manifest,
        settings: &ControllerSettings,
        scope: Scope,
    ) -> Self {
        Self {
            permissions: Permissions::of(plugin.manifest(), &settings.grants),
            applied: Arc::default(),
            author: Arc::new(settings.author(&plugin.manifest().name)),
            scope: Arc::new(scope),
            installation: Arc::default(),
            manifest,
            plugin,
        }
    }

    /// Plans what an outcome for this key asks for. `reader` is the one that it was decided with.
    pub fn plan(
        &self,
        key: &SubjectKey,
        outcome: &Outcome,
        reader: &mut Reader,
    ) -> Result<Plan, PlanError> {
        let context = PlanContext {
            manifest: &self.manifest,
            permissions: &self.permissions,
            manager: &self.author.field_manager,
            applied: &self.applied,
            key,
        };
        plan(context, outcome, reader)
    }

    /// Begins to carry out a plan.
    pub fn execution(&self, plan: Plan, halt: Halt) -> Execution {
        Execution::new(plan, self.author.clone(), self.applied.clone(), halt)
    }
}

/// The key of a reconcile. It stays held until the reconcile is given back to the hub.
pub struct RunningKey {
    /// The plugin of the key.
    pub plugin: PluginId,
    /// What is passed to the guest.
    pub request: Request,
    pub(super) version: Arc<PluginVersion>,
    pub(super) priority: Priority,
    /// Whether the snapshot shows no subject with this key.
    pub(super) is_gone: bool,
    pub(super) sequence: u64,
    /// When the key was handed out, and the time charged for it in advance.
    pub(super) started: Time,
    pub(super) charge: Charge,
    /// Whether this reconcile tests if the cluster can be reached again.
    pub(super) is_probe: bool,
    /// Tells if the writes must stop.
    pub(super) halt: Halt,
}

impl RunningKey {
    /// The plugin's name.
    pub fn plugin_name(&self) -> &str {
        &self.version.plugin.manifest().name
    }

    /// The plugin's version, from its manifest.
    pub fn plugin_version(&self) -> &str {
        &self.version.plugin.manifest().version
    }

    /// The kind of the key, for logs; empty for a singleton.
    pub fn kind(&self) -> String {
        let kind = self.request.key.kind.as_ref();
        kind.map(ToString::to_string).unwrap_or_default()
    }

    /// The key of the object, for logs; empty for a singleton.
    pub fn object(&self) -> &ObjectKey {
        &self.request.key.object
    }
}

/// Plugin, kind and key, for messages.
impl std::fmt::Debug for RunningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} {} {}",
            self.plugin_name(),
            self.kind(),
            self.object()
        )
    }
}

/// A key that was handed out and has not run yet.
#[must_use = "its key is held until the reconcile is given back"]
pub struct Reconcile {
    pub(super) held: RunningKey,
    waited: Duration,
    reader: Reader,
}

/// What is known when a key is handed out.
pub(super) struct Start {
    pub priority: Priority,
    pub waited: Duration,
    pub at: Time,
    pub charge: Charge,
    pub is_probe: bool,
    pub halt: Halt,
}

impl Reconcile {
    pub(super) fn new(
        plugin: PluginId,
        version: Arc<PluginVersion>,
        request: Request,
        reader: Reader,
        start: Start,
    ) -> Self {
        let held = RunningKey {
            plugin,
            request,
            version,
            priority: start.priority,
            started: start.at,
            charge: start.charge,
            halt: start.halt,
            is_probe: start.is_probe,
            is_gone: reader.is_subject_gone(),
            sequence: reader.sequence(),
        };
        Self {
            held,
            waited: start.waited,
            reader,
        }
    }

    /// The key.
    pub fn held(&self) -> &RunningKey {
        &self.held
    }

    /// How long the key was pending.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Runs the guest and plans its outcome. CPU-bound; takes as long as the guest's limits allow.
    pub fn run(self) -> Ran {
        let Self {
            held, mut reader, ..
        } = self;
        let (version, request) = (&held.version, &held.request);
        let mut result = match version.plugin.reconcile(request, &mut reader) {
            Err(error) => Err(error.into()),
            Ok(outcome) => version
                .plan(&request.key, &outcome, &mut reader)
                .map(|plan| (plan, outcome.follow_up))
                .map_err(ReconcileError::from),
        };
        let unseen = reader.take_unseen();
        if !unseen.is_empty() {
            result = Err(ReconcileError::Unseen(unseen));
        }
        let (known, objects) = reader.take_unfetched();
        if !objects.is_empty() {
            result = Err(ReconcileError::Unfetched(Box::new(Unfetched {
                known,
                objects,
            })));
        }
        Ran {
            result,
            denied: reader.take_denied(),
            reads: reader.into_reads(),
            held,
        }
    }
}

/// A reconcile whose guest has ended. Its reads are not registered yet.
#[must_use = "its key is held until the reconcile is given back"]
pub struct Ran {
    pub(super) held: RunningKey,
    /// The writes to send and what follows them, or why there are none.
    pub(super) result: Result<(Plan, FollowUp), ReconcileError>,
    pub(super) denied: Option<ReadError>,
    pub(super) reads: BTreeSet<Read>,
}

impl Ran {
    /// The key.
    pub fn held(&self) -> &RunningKey {
        &self.held
    }

    /// The writes to send, or why there are none.
    pub fn plan(&self) -> Result<&Plan, &ReconcileError> {
        self.result.as_ref().map(|(plan, _)| plan)
    }

    /// Whether its key need not run for what it is about to write.
    pub fn is_settled(&self) -> bool {
        self.plan().is_ok_and(Plan::is_settled)
    }

    /// All that it has read, and what follows its outcome, if that is settled.
    pub fn settled(&self) -> Option<(&BTreeSet<Read>, &FollowUp)> {
        let (_, follow_up) = self.result.as_ref().ok()?;
        self.is_settled().then_some((&self.reads, follow_up))
    }

    /// The first read that was not allowed, for the audit log. The guest was told and may have
    /// continued.
    pub fn denied(&self) -> Option<&ReadError> {
        self.denied.as_ref()
    }

    /// Begins to carry out the plan, or ends if there is none.
    pub(super) fn decide(self) -> Decision {
        let Self { held, result, .. } = self;
        let (mut plan, follow_up) = match result {
            Ok(decided) => decided,
            Err(ReconcileError::Unseen(_)) => return Decision::Finished(Finished::unseen(held)),
            Err(ReconcileError::Unfetched(unfetched)) => {
                return Decision::Fetching(Fetching::new(held, *unfetched));
            }
            Err(error) => return Decision::Finished(Finished::failed(held, error)),
        };
        let confirmed = plan.take_confirmed();
        let writing = Writing {
            execution: held.version.execution(plan, held.halt.clone()),
            follow_up,
            held,
        };
        if confirmed.is_empty() {
            return Decision::Writing(writing);
        }
        Decision::Confirming(Confirming { writing, confirmed })
    }
}
