//! A reconcile whose reads are registered, and whose writes wait for the API server to confirm what
//! they rest on.

use std::collections::{BTreeMap, BTreeSet};

use super::{Fetching, Finished, ReconcileError, Writing};
use crate::cache::snapshot::{InformerId, Snapshot};
use crate::hub::fetch::{Fetch, Purpose, Question, ReadFailure};
use crate::model::key::ObjectKey;
use crate::plan::confirm::{Confirmed, ConfirmedList, ConfirmedObject, ObjectIdentity};

/// Most objects that are fetched because the server's answers differ. What is beyond them the
/// watches bring.
const MAX_FETCHED: usize = 100;

/// What follows the end of a guest.
pub enum Decision {
    /// There is nothing to write.
    Finished(Finished),
    /// The writes can be sent.
    Writing(Writing),
    /// The API server must be asked first.
    Confirming(Confirming),
    /// Nothing was decided: objects that no watch brings must be fetched first.
    Fetching(Fetching),
}

/// A reconcile whose questions the API server has to answer.
#[must_use = "its key is held until the reconcile is given back"]
pub struct Confirming {
    pub(in crate::hub) writing: Writing,
    pub(in crate::hub) confirmed: Confirmed,
}

/// The API server's answers, in the order of the questions.
pub struct ConfirmAnswers {
    /// To each of [`Confirming::objects`]: what [`ConfirmedObject::examine`] has found.
    pub objects: Vec<Result<Option<ObjectIdentity>, ReadFailure>>,
    /// To each of [`Confirming::lists`]: what [`ConfirmedList::examine`] has found.
    pub lists: Vec<Result<BTreeMap<ObjectKey, ObjectIdentity>, ReadFailure>>,
}

/// What follows the answers.
pub enum ConfirmEnd {
    /// The server answers as the snapshot does: the writes can be sent.
    Writing(Writing),
    /// It does not. These objects are to be [fetched](crate::Hub::fetched), and then the key is
    /// given back.
    Contradicted(Fetch, Finished),
    /// There is no answer.
    Finished(Finished),
}

impl Confirming {
    /// The objects to be fetched.
    pub fn objects(&self) -> &[ConfirmedObject] {
        &self.confirmed.objects
    }

    /// The lists to be read.
    pub fn lists(&self) -> &[ConfirmedList] {
        &self.confirmed.lists
    }

    /// Compares the answers with what the reconcile has seen. `snapshot`: the present caches.
    pub(in crate::hub) fn answered(
        self,
        answers: ConfirmAnswers,
        snapshot: &Snapshot,
    ) -> ConfirmEnd {
        let Self { writing, confirmed } = self;
        let questions = match contradicted(&confirmed, answers, snapshot) {
            Err(error) => return ConfirmEnd::Finished(Finished::failed(writing.held, error)),
            Ok(None) => return ConfirmEnd::Writing(writing),
            Ok(Some(questions)) => questions,
        };
        let fetch = Fetch {
            plugin: writing.held.plugin,
            key: writing.held.request.key.clone(),
            purpose: Purpose::Confirm,
            questions,
        };
        ConfirmEnd::Contradicted(fetch, Finished::contradicted(writing.held))
    }
}

/// Compares the server's answers with what was shown. `None`: they agree. Else the objects to be
/// fetched, because they differ and a watch brings them.
pub(in crate::hub) fn contradicted(
    confirmed: &Confirmed,
    answers: ConfirmAnswers,
    snapshot: &Snapshot,
) -> Result<Option<Vec<Question>>, ReconcileError> {
    let differing = differing(confirmed, answers)?;
    if differing.is_empty() {
        return Ok(None);
    }
    let is_watched = |(informer, _): &(InformerId, ObjectKey)| {
        let informer = snapshot.informers.get(*informer);
        informer.is_some_and(|cache| cache.users() > 0)
    };
    let watched = differing.into_iter().filter(is_watched).take(MAX_FETCHED);
    let questions = watched.map(|(informer, key)| Question::of(snapshot, informer, key));
    Ok(Some(questions.collect()))
}

/// The objects of which the server's answers differ from what the reconcile has seen.
fn differing(
    confirmed: &Confirmed,
    answers: ConfirmAnswers,
) -> Result<Vec<(InformerId, ObjectKey)>, ReconcileError> {
    let mut differing = Vec::new();
    for (asked, answer) in confirmed.objects.iter().zip(answers.objects) {
        let what = || format!("{} {}", asked.kind(), asked.key);
        let found = answer.map_err(|failure| unconfirmed(&what(), failure))?;
        if found != asked.shown {
            differing.push((asked.informer, asked.key.clone()));
        }
    }
    for (asked, answer) in confirmed.lists.iter().zip(answers.lists) {
        let found = answer.map_err(|failure| unconfirmed(&asked.target.to_string(), failure))?;
        let keys = asked.shown.keys().chain(found.keys());
        let differs = |key: &&ObjectKey| asked.shown.get(key) != found.get(key);
        let keys: BTreeSet<&ObjectKey> = keys.filter(differs).collect();
        differing.extend(keys.into_iter().map(|key| (asked.informer, key.clone())));
    }
    Ok(differing)
}

fn unconfirmed(what: &str, failure: ReadFailure) -> ReconcileError {
    match failure {
        ReadFailure::NoAnswer(reason) => {
            ReconcileError::Unavailable(format!("cannot confirm {what}: {reason}"))
        }
        ReadFailure::Refused(reason) => ReconcileError::Unconfirmed(format!("{what}: {reason}")),
    }
}
