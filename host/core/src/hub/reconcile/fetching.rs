//! A reconcile that has asked about objects which no watch brings, and decided nothing: they are
//! fetched, and its key runs again with the answers.

use super::{Finished, RunningKey};
use crate::hub::fetch::ReadFailure;
use crate::reads::fetched::{FetchedObjects, UnwatchedObject};

/// What a reconcile has asked about.
#[derive(Debug)]
pub struct Unfetched {
    /// What it was told, because it was asked about before.
    pub(super) known: FetchedObjects,
    /// What is to be fetched.
    pub(super) objects: Vec<UnwatchedObject>,
}

/// A reconcile whose objects are to be fetched.
#[must_use = "its key is held until the reconcile is given back"]
pub struct Fetching {
    held: RunningKey,
    unfetched: Unfetched,
}

impl Fetching {
    pub(super) fn new(held: RunningKey, unfetched: Unfetched) -> Self {
        Self { held, unfetched }
    }

    /// The key.
    pub fn held(&self) -> &RunningKey {
        &self.held
    }

    /// The objects to be fetched.
    pub fn objects(&self) -> &[UnwatchedObject] {
        &self.unfetched.objects
    }

    /// Takes the API server's answers, in the order of the [objects](Self::objects). What is not
    /// known is an answer, too: that an object's server is down must stop no other key.
    pub fn answered(self, answers: Vec<Result<Option<String>, ReadFailure>>) -> Finished {
        let Unfetched { mut known, objects } = self.unfetched;
        for (asked, answer) in objects.iter().zip(answers) {
            known.add(asked, answer, self.held.started);
        }
        Finished::fetched(self.held, known)
    }
}
