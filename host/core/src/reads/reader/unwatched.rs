//! Reads of objects that no watch brings: see [`crate::reads::fetched`].

use crate::access::scope::{PatternScope, Scope};
use crate::model::key::{Kind, ObjectKey};
use crate::model::served_kind::ServedKind;
use crate::reads::error::{MAX_FETCHED, MAX_FETCHED_BYTES, ReadError};
use crate::reads::fetched::{FetchedObjects, UnwatchedObject};

use super::{BYTES_PER_FUEL, FUEL_PER_READ, Reader, is_possible, spend};

impl Reader {
    /// Sets what the API server has said of the objects that the key asked about before.
    #[must_use]
    pub fn with_fetched(mut self, fetched: FetchedObjects) -> Self {
        self.fetched = fetched;
        self
    }

    /// What was given by [`with_fetched`](Self::with_fetched), and the objects that were asked
    /// about and are not among them. If there are any, nothing that was decided counts.
    pub fn take_unfetched(&mut self) -> (FetchedObjects, Vec<UnwatchedObject>) {
        let unfetched = std::mem::take(&mut self.unfetched);
        (std::mem::take(&mut self.fetched), unfetched)
    }

    /// The pattern by which a kind is read, and the kind in the version that the server prefers, if
    /// its objects can only be got one by one.
    pub(super) fn unwatched<'a>(
        &self,
        scope: &'a Scope,
        kind: &Kind,
    ) -> Option<(&'a PatternScope, Kind)> {
        let pattern = scope.pattern_of(kind)?;
        let served = &self.snapshot.informers[scope.served.as_ref()?.informer];
        let found = served.get(ServedKind::key_of(kind).parts())?;
        let served = ServedKind::of_object(found.json())?;
        served.can_only_be_got().then_some((pattern, served.kind))
    }

    /// One object that no watch brings, as the API server had it not long before this run
    /// ([`FETCHED_FOR`](crate::reads::fetched)). That is no recorded read: nothing tells of a
    /// change.
    pub(super) fn get_unwatched(
        &mut self,
        pattern: &PatternScope,
        kind: Kind,
        key: &ObjectKey,
    ) -> Result<Option<&str>, ReadError> {
        spend(&mut self.fuel, FUEL_PER_READ)?;
        if !is_possible(key) {
            return Ok(None);
        }
        if self.fetched.get(&kind, key).is_none() {
            return Err(self.ask(pattern, kind, key));
        }
        match self.fetched.get(&kind, key) {
            Some(Err(reason)) => Err(ReadError::Unavailable {
                reason: format!("{key}: {reason}"),
                kind,
            }),
            Some(Ok(view)) => {
                let view = view.as_deref();
                let bytes = view.map_or(0, str::len) as u64;
                spend(&mut self.fuel, bytes / BYTES_PER_FUEL)?;
                Ok(view)
            }
            None => Ok(None),
        }
    }

    /// Notes an object that is to be fetched. The error stops the guest. A guest may be run again
    /// in another instance, and asks about the same object then.
    fn ask(&mut self, pattern: &PatternScope, kind: Kind, key: &ObjectKey) -> ReadError {
        let is_of = |asked: &UnwatchedObject| asked.kind == kind && asked.key == *key;
        if self.unfetched.iter().any(is_of) {
            let key = key.clone();
            return ReadError::NotFetched { kind, key };
        }
        if self.fetched.len() + self.unfetched.len() >= MAX_FETCHED {
            return ReadError::TooManyFetched;
        }
        if self.fetched.size() >= MAX_FETCHED_BYTES {
            return ReadError::TooMuchFetched;
        }
        self.unfetched.push(UnwatchedObject {
            kind: kind.clone(),
            key: key.clone(),
            subscription: pattern.subscription.clone(),
        });
        let key = key.clone();
        ReadError::NotFetched { kind, key }
    }
}
