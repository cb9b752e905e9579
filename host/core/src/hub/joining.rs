//! What becomes of a plugin that is about to join the hub.

use super::preparation::Preparation;

/// Maximum number of changes applied to the prepared caches while the hub is locked: about three
/// milliseconds.
pub(super) const MAX_WAITING: usize = if cfg!(test) { 2 } else { 100 };

/// After this many rounds that each missed more than [`MAX_WAITING`] changes, the rest is applied
/// under the hub's lock.
pub(super) const MAX_ROUNDS: usize = 8;

/// Maximum number of a new version's first keys queued at a time: about two milliseconds.
pub(super) const MAX_KEYS: usize = if cfg!(test) { 2 } else { 1_000 };

/// Why a plugin cannot join.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum JoinError {
    /// Names are unique because they are used in field managers and metric labels.
    #[error("a plugin named {0:?} is already loaded")]
    DuplicateName(String),
    /// The values of Secrets are read only if the operator allows it.
    #[error(
        "{0:?} reads the values of Secrets: allow it with secret-values = true in the plugin's settings, or have its manifest name the fields of v1/Secret that it needs, without .data"
    )]
    SecretValues(String),
    /// The host finishes what it has and accepts nothing new.
    #[error("the host is stopping")]
    Draining,
}

/// The result of an attempt to exchange a [`Preparation`].
pub enum Exchange {
    /// Not finished, or too much has changed meanwhile. Build it again and exchange it again.
    Again(Box<Preparation>),
    /// Done. The plugin has joined, unless it has left meanwhile or nothing was to join.
    Done(Garbage),
    /// The plugin cannot join.
    Refused(JoinError, Garbage),
}

/// What the hub no longer needs. Freeing it takes a while (a tenth of a second for 100,000
/// objects), so drop it where nothing waits for the hub.
#[derive(Default)]
#[must_use = "drop it where nobody waits for the hub"]
pub struct Garbage(Vec<Box<dyn Send>>);

impl Garbage {
    pub(super) fn add(&mut self, what: impl Send + 'static) {
        self.0.push(Box::new(what));
    }
}
