//! Whether a plugin may run: its settings, the record of its version, and the halt of the writes
//! that are under way.

use crate::hub::ControllerSettings;
use crate::hub::health::{Health, Quarantine};
use crate::hub::plugin::RunError;
use crate::hub::reconcile::{End, Finished, ReconcileError};
use crate::plan::Halt;
use crate::queue::Time;

/// See the module's documentation.
pub(super) struct RunPermit {
    settings: ControllerSettings,
    /// The record of the present version.
    health: Health,
    /// Stops the writes of the reconciles that have been handed out.
    halt: Halt,
}

impl RunPermit {
    pub fn new(settings: &ControllerSettings) -> Self {
        Self {
            settings: settings.clone(),
            health: Health::new(settings.quarantine),
            halt: Halt::default(),
        }
    }

    /// Another version is installed, or the same one once more. That one gets another chance.
    pub fn replace(&mut self, is_same_plugin: bool, settings: &ControllerSettings) {
        if is_same_plugin {
            self.health.pardon();
        } else {
            self.health = Health::new(settings.quarantine);
        }
    }

    /// Applies settings. Writes under way stop if the new ones may not allow them.
    pub fn configure(&mut self, settings: &ControllerSettings) {
        if settings.is_paused || settings.grants != self.settings.grants {
            self.stop_writes();
        }
        self.health.judge(settings.quarantine);
        self.settings = settings.clone();
    }

    pub fn settings(&self) -> &ControllerSettings {
        &self.settings
    }

    /// How many keys may run at the same time.
    pub fn concurrency(&self) -> usize {
        self.settings.concurrency.max(1) as usize
    }

    /// Whether a key may run now, as far as the operator and the version's record decide it.
    pub fn may_run(&self, now: Time) -> bool {
        !self.settings.is_paused && !self.health.is_quarantined(now)
    }

    /// When a key may run; `None` while the plugin is paused.
    pub fn runs_from(&self) -> Option<Time> {
        (!self.settings.is_paused).then(|| self.health.until())
    }

    /// What stops the writes of the reconciles that are handed out now.
    pub fn halt(&self) -> &Halt {
        &self.halt
    }

    /// From now on nothing runs, and nothing under way is written.
    pub fn revoke(&mut self) {
        self.settings.is_paused = true;
        self.stop_writes();
    }

    /// Reconciles that have been handed out write nothing more. Those handed out from now on do.
    fn stop_writes(&mut self) {
        std::mem::take(&mut self.halt).halt();
    }

    pub fn put_in_quarantine(&mut self, reason: &str, now: Time) {
        self.health.put_in_quarantine(reason, now);
        self.stop_writes();
    }

    pub fn pardon(&mut self) {
        self.health.pardon();
    }

    pub fn may_roll_back_to(&self) -> bool {
        self.health.may_roll_back_to()
    }

    pub fn quarantine(&self, now: Time) -> Option<&Quarantine> {
        self.health.current(now)
    }

    /// Records the result of a reconcile of the present version. A version that makes the host
    /// panic is put in quarantine at once. Returns whether the version is put in quarantine.
    pub fn judge(&mut self, finished: &Finished, now: Time) -> bool {
        let error = match &finished.end {
            // An unreachable cluster tells nothing about the plugin.
            End::Halted
            | End::Contradicted
            | End::Unseen
            | End::Fetched(_)
            | End::Failed(ReconcileError::Unavailable(_)) => {
                return false;
            }
            End::Failed(ReconcileError::Run(panic @ RunError::HostPanic(_))) => {
                return self.health.put_in_quarantine(&panic.to_string(), now);
            }
            End::Failed(error) => Some(error),
            End::Done(_) => None,
        };
        let fault = error.filter(|error| error.is_fault());
        let reason = fault.map(ToString::to_string);
        let key = &finished.held.request.key;
        let is_quarantined = self.health.ran(key, reason.as_deref(), now);
        if is_quarantined {
            self.stop_writes();
        }
        is_quarantined
    }
}
