//! One reconcile of one key, from the moment the key is handed out until the outcome is known.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::PluginId;
use super::share::Charge;
use crate::access::permission::Permissions;
use crate::hub::plugin::{Plugin, Request, RunError};
use crate::model::manifest::Manifest;
use crate::model::text::cut;
use crate::plan::execution::WriteFailure;
use crate::plan::unchanged::Applied;
use crate::plan::write::Author;
use crate::plan::{Halt, Plan, PlanContext, PlanError, plan};
use crate::queue::{Priority, Time};
use crate::reads::reader::{Read, ReadError, Reader, Scope};

/// Maximum bytes of the text about a refused outcome. The text may repeat any amount of the outcome
/// and is kept for each broken key.
const ERROR_BYTES: usize = 2 << 10;

/// What all reconciles of one plugin version have in common.
pub(super) struct PluginVersion {
    pub plugin: Arc<dyn Plugin>,
    /// The granted part of its manifest.
    pub manifest: Manifest,
    pub permissions: Permissions,
    pub applied: Arc<Applied>,
    pub author: Arc<Author>,
    pub scope: Arc<Scope>,
}

/// A key that was handed out. It stays held until it is given back to the hub.
pub struct Reconcile {
    /// The plugin of the key.
    pub plugin: PluginId,
    /// What is passed to the guest.
    pub request: Request,
    /// How long the key was pending.
    pub waited: Duration,
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
    halt: Halt,
    reader: Option<Reader>,
}

/// What is known when a key is handed out.
pub(super) struct Start {
    pub priority: Priority,
    pub waited: Duration,
    pub at: Time,
    pub charge: Charge,
    pub halt: Halt,
}

/// The result of running the guest.
pub struct Decision {
    /// The writes to send and the requested delay of the next run, or why there are none.
    pub result: Result<(Plan, Option<Duration>), ReconcileError>,
    /// The first read that was not allowed, for the audit log. The guest was told and may have
    /// continued.
    pub denied: Option<ReadError>,
    pub(super) reads: BTreeSet<Read>,
}

/// Why a reconcile failed.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The guest failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Its outcome was refused as a whole.
    #[error("outcome refused: {}", cut(&.0.to_string(), ERROR_BYTES))]
    Plan(#[from] PlanError),
    /// The API server refused a write.
    #[error("{message}")]
    Write {
        /// Which write failed, and why.
        message: String,
        /// How long the server wants to be left alone.
        retry_after: Option<Duration>,
    },
    /// The cluster could not be reached. That is not the key's fault: it is retried as soon as the
    /// cluster can be reached.
    #[error("{0}")]
    Unavailable(String),
}

impl ReconcileError {
    /// Whether the error counts against the version of the plugin: it broke, or its outcome was
    /// refused.
    pub(super) fn is_fault(&self) -> bool {
        match self {
            Self::Run(RunError::Failure(_)) | Self::Write { .. } | Self::Unavailable(_) => false,
            Self::Run(_) | Self::Plan(_) => true,
        }
    }
}

impl From<WriteFailure> for ReconcileError {
    fn from(failure: WriteFailure) -> Self {
        if failure.is_unavailable {
            Self::Unavailable(failure.message)
        } else {
            Self::Write {
                message: failure.message,
                retry_after: failure.retry_after,
            }
        }
    }
}

impl Reconcile {
    pub(super) fn new(
        plugin: PluginId,
        version: Arc<PluginVersion>,
        request: Request,
        reader: Reader,
        start: Start,
    ) -> Self {
        Self {
            plugin,
            request,
            waited: start.waited,
            version,
            priority: start.priority,
            started: start.at,
            charge: start.charge,
            halt: start.halt,
            is_probe: false,
            is_gone: reader.is_subject_gone(),
            sequence: reader.sequence(),
            reader: Some(reader),
        }
    }

    /// The plugin's name.
    pub fn plugin_name(&self) -> &str {
        &self.version.plugin.manifest().name
    }

    /// The plugin's version, from its manifest.
    pub fn plugin_version(&self) -> &str {
        &self.version.plugin.manifest().version
    }

    /// The kind whose key this is, for logs; empty for a singleton.
    pub fn subject_kind(&self) -> String {
        let kind = self.version.plugin.manifest().subject_kind();
        kind.map(ToString::to_string).unwrap_or_default()
    }

    /// The author of the reconcile's writes, as it was when the reconcile began.
    pub fn author(&self) -> &Arc<Author> {
        &self.version.author
    }

    /// Tells if the reconcile's writes must stop.
    pub fn halt(&self) -> &Halt {
        &self.halt
    }

    /// What the plugin last applied.
    pub fn applied(&self) -> &Arc<Applied> {
        &self.version.applied
    }

    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Runs the guest and plans its outcome. CPU-bound; takes as long as the guest's limits allow.
    pub fn decide(&mut self) -> Decision {
        let Some(mut reader) = self.reader.take() else {
            let result = Err(RunError::Host("a reconcile decides once".into()).into());
            return Decision {
                result,
                denied: None,
                reads: BTreeSet::new(),
            };
        };
        let PluginVersion {
            plugin,
            manifest,
            permissions,
            author,
            applied,
            ..
        } = &*self.version;
        let context = PlanContext {
            manifest,
            permissions,
            manager: &author.field_manager,
            applied,
            key: &self.request.key,
        };
        let result = match plugin.reconcile(&self.request, &mut reader) {
            Err(error) => Err(error.into()),
            Ok(outcome) => plan(context, &outcome.actions, &mut reader)
                .map(|plan| (plan, outcome.requeue_after))
                .map_err(ReconcileError::from),
        };
        Decision {
            result,
            denied: reader.take_denied(),
            reads: reader.into_reads(),
        }
    }
}
