//! One run of one key, from the moment it is handed out until its outcome is known.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::PluginId;
use super::share::Charge;
use crate::cluster::Author;
use crate::manifest::Manifest;
use crate::permission::Permissions;
use crate::plan::{Context, Halt, Plan, PlanError, WriteFailure, plan};
use crate::plugin::{Plugin, Request, RunError};
use crate::queue::{Priority, Time};
use crate::reader::{Read, ReadError, Reader, Scope};
use crate::text::cut;
use crate::unchanged::Applied;

/// Bytes of what is said of a refused outcome, which may repeat as much of it as the guest likes: the text is kept for
/// each key that is broken.
const ERROR_BYTES: usize = 2 << 10;

/// What is the same for every turn of a plugin.
pub(super) struct Controller {
    pub plugin: Arc<dyn Plugin>,
    /// What is granted of its manifest.
    pub manifest: Manifest,
    pub permissions: Permissions,
    pub applied: Arc<Applied>,
    pub author: Author,
    pub scope: Arc<Scope>,
}

/// A key that was handed out. It is held until it is given back to the hub.
pub struct Turn {
    /// Whose.
    pub plugin: PluginId,
    /// What the guest is asked.
    pub request: Request,
    /// How long the key was pending.
    pub waited: Duration,
    pub(super) controller: Arc<Controller>,
    pub(super) priority: Priority,
    /// Whether the snapshot shows no subject of this key.
    pub(super) is_gone: bool,
    pub(super) sequence: u64,
    /// When it was handed out, and what for that was charged.
    pub(super) started: Time,
    pub(super) charge: Charge,
    /// Whether it is to find out if the cluster can be reached.
    pub(super) is_probe: bool,
    /// Whether its writes are to go on.
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

/// What a run came to.
pub struct Decision {
    /// The writes to do and when to look again, or why there are none.
    pub result: Result<(Plan, Option<Duration>), TurnError>,
    /// The first read that was not allowed, for the audit: the guest was told, and may have gone on.
    pub denied: Option<ReadError>,
    pub(super) reads: BTreeSet<Read>,
}

/// Why a turn failed.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    /// The guest failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Its outcome was refused, as a whole.
    #[error("outcome refused: {}", cut(&.0.to_string(), ERROR_BYTES))]
    Plan(#[from] PlanError),
    /// The cluster refused a write.
    #[error("{message}")]
    Write {
        /// Which write, and why.
        message: String,
        /// When it wants to hear of it again.
        retry_after: Option<Duration>,
    },
    /// The cluster could not be reached. That is not the key's fault: it is tried again as soon as the cluster can be.
    #[error("{0}")]
    Unavailable(String),
}

impl TurnError {
    /// Whether it counts against the version of the plugin: it broke, or asked for what it may not have.
    pub(super) fn is_strike(&self) -> bool {
        match self {
            Self::Run(RunError::Failure(_)) | Self::Write { .. } | Self::Unavailable(_) => false,
            Self::Run(_) | Self::Plan(_) => true,
        }
    }
}

impl From<WriteFailure> for TurnError {
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

impl Turn {
    pub(super) fn new(
        plugin: PluginId,
        controller: Arc<Controller>,
        request: Request,
        reader: Reader,
        start: Start,
    ) -> Self {
        Self {
            plugin,
            request,
            waited: start.waited,
            controller,
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
        &self.controller.plugin.manifest().name
    }

    /// The plugin's version, as it says itself.
    pub fn plugin_version(&self) -> &str {
        &self.controller.plugin.manifest().version
    }

    /// The kind whose key this is, for logs; empty for a singleton.
    pub fn subject_kind(&self) -> String {
        let kind = self.controller.plugin.manifest().subject_kind();
        kind.map(ToString::to_string).unwrap_or_default()
    }

    /// On whose behalf the turn's writes are made: as it was when the turn began.
    pub fn author(&self) -> &Author {
        &self.controller.author
    }

    /// Whether its writes are to go on.
    pub fn halt(&self) -> &Halt {
        &self.halt
    }

    /// What the plugin last applied.
    pub fn applied(&self) -> &Applied {
        &self.controller.applied
    }

    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Runs the guest and plans what it asks for. CPU-bound, and as long as the guest's limits allow.
    pub fn decide(&mut self) -> Decision {
        let Some(mut reader) = self.reader.take() else {
            let result = Err(RunError::Host("a turn decides once".into()).into());
            return Decision {
                result,
                denied: None,
                reads: BTreeSet::new(),
            };
        };
        let Controller {
            plugin,
            manifest,
            permissions,
            author,
            applied,
            ..
        } = &*self.controller;
        let context = Context {
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
                .map_err(TurnError::from),
        };
        Decision {
            result,
            denied: reader.take_denied(),
            reads: reader.into_reads(),
        }
    }
}
