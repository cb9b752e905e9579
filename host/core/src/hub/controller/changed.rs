//! A change as a controller is told of it.

use crate::cache::Change;
use crate::cache::snapshot::InformerId;
use crate::model::key::ObjectKey;

/// A change of an object, with the informer that brought it and the object's key.
#[derive(Clone, Copy)]
pub(in crate::hub) struct KeyedChange<'a> {
    pub informer: InformerId,
    pub key: &'a ObjectKey,
    pub change: &'a Change,
    /// Whether nothing lies between the old state and the new one, because a watch has brought it.
    /// A list may show several changes as one.
    pub is_step: bool,
}
