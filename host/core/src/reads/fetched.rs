//! Objects of kinds that a plugin reads by a pattern and that cannot be watched: the host fetches
//! each one that a reconcile asks about, and the key runs again with the answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::cache::{Cache, Subscription};
use crate::hub::ReadFailure;
#[cfg(test)]
use crate::model::detail::Detail;
use crate::model::informer_key::InformerKey;
use crate::model::key::{Kind, ObjectKey};
use crate::model::object::Object;
use crate::queue::Time;

/// The object as the plugin sees it; `None` if there is none. The error says why that is not known.
pub(crate) type FetchedView = Result<Option<Arc<str>>, Arc<str>>;

/// How long an answer counts. The key's next run may have to wait: for a thread, for what else is
/// asked about, or for the operator who has paused the plugin.
pub(crate) const FETCHED_FOR: Duration = Duration::from_secs(300);

/// What the API server has answered about the objects that one key has asked about.
#[derive(Clone, Debug, Default)]
pub struct FetchedObjects {
    /// Each with the time when it was asked for.
    answers: BTreeMap<(Kind, ObjectKey), (FetchedView, Time)>,
}

impl FetchedObjects {
    pub(crate) fn len(&self) -> usize {
        self.answers.len()
    }

    /// About the bytes that it takes.
    pub(crate) fn size(&self) -> usize {
        let of_view = |view: &FetchedView| match view {
            Ok(view) => view.as_deref().map_or(0, str::len),
            Err(reason) => reason.len(),
        };
        let answers = self.answers.iter();
        let sizes = answers.map(|((_, key), (view, _))| {
            size_of::<(Kind, ObjectKey, FetchedView, Time)>()
                + key.namespace.len()
                + key.name.len()
                + of_view(view)
        });
        sizes.sum()
    }

    pub(crate) fn get(&self, kind: &Kind, key: &ObjectKey) -> Option<&FetchedView> {
        let answer = self.answers.get(&(kind.clone(), key.clone()))?;
        Some(&answer.0)
    }

    /// Those that still count.
    pub(crate) fn at(mut self, now: Time) -> Self {
        let age = |asked: Time| now.saturating_sub(asked);
        self.answers
            .retain(|_, (_, asked)| age(*asked) <= FETCHED_FOR);
        self
    }

    /// Adds the API server's answer about an object, which was asked for at this time or later: its
    /// JSON, `None` if there is no such object, or why that is not known.
    pub fn add(
        &mut self,
        asked: &UnwatchedObject,
        answer: Result<Option<String>, ReadFailure>,
        at: Time,
    ) {
        let view = match answer {
            Ok(None) => Ok(None),
            Ok(Some(json)) => asked.view(&json).map(Some),
            Err(failure) => Err(failure.to_string().into()),
        };
        let key = (asked.kind.clone(), asked.key.clone());
        self.answers.insert(key, (view, at));
    }
}

/// An object that is to be fetched for a key.
#[derive(Clone, Debug)]
pub struct UnwatchedObject {
    /// The object's kind, in the version that the server prefers.
    pub kind: Kind,
    /// The object's key.
    pub key: ObjectKey,
    /// What the plugin sees of it.
    pub(crate) subscription: Subscription,
}

impl UnwatchedObject {
    /// One of which the plugin sees everything.
    #[cfg(test)]
    pub(crate) fn of(kind: Kind, key: ObjectKey) -> Self {
        Self {
            kind,
            key,
            subscription: Subscription {
                detail: Detail::Full,
                fields: vec![],
                indexes: vec![],
                manager: None,
            },
        }
    }

    /// The object as the plugin sees it: cut as an informer would cut it.
    fn view(&self, json: &str) -> Result<Arc<str>, Arc<str>> {
        let mut cache = Cache::new(InformerKey::all(self.kind.clone()));
        let subscribed = cache.join(&self.subscription);
        let object = Object::parse(&self.kind, json, cache.schema());
        let object = object.map_err(|error| Arc::from(error.to_string()))?;
        if object.key() != self.key.parts() {
            let other = object.key().to_key();
            return Err(format!("the server has answered with {other}").into());
        }
        Ok(object.view(subscribed.view).into())
    }
}
