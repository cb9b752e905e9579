//! One recorded read: what was asked of the snapshot, and whether a change alters its answer.

use std::sync::Arc;

use super::sight::{Sight, has_changed};
use super::source::{Origin, Source};
use crate::cache::Cache;
use crate::cache::snapshot::{InformerId, Snapshot};
use crate::model::key::{KeyRef, ObjectKey};
use crate::model::label_bits::WantedBits;
use crate::model::object::{IndexId, Object, Side};
use crate::model::selector::LabelSelector;

/// One read that a reconcile made from the snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Read {
    /// One object, whether it exists or not.
    Object(InformerId, ObjectKey),
    /// One side of an object that was applied. Whether the apply must be repeated depends on the
    /// whole of that side, whatever the plugin sees of it.
    Applied(InformerId, ObjectKey, Side),
    /// The objects that match the filter, in one namespace or in all.
    List(Source, Option<Arc<str>>, Filter),
}

/// Selects the objects of a list.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Filter {
    /// All objects.
    Everything,
    /// Objects whose labels match.
    Labels(LabelSelector),
    /// Objects with this indexed value. In a list of a pattern the index is named by its position
    /// among those of the pattern, because each informer has an id of its own for it.
    Index(IndexId, Arc<str>),
}

/// Fuel for each condition that an object is compared with.
pub(super) const FUEL_PER_CONDITION: u64 = 40;
/// Fuel for each value of a condition.
pub(super) const FUEL_PER_VALUE: u64 = 2;

impl Read {
    /// The list of an informer's objects.
    pub(crate) fn list(informer: InformerId, namespace: Option<Arc<str>>, filter: Filter) -> Self {
        Self::List(Source::Informer(informer), namespace, filter)
    }

    /// The informer whose objects were read. `None`: those of a pattern.
    pub fn informer(&self) -> Option<InformerId> {
        match self {
            Self::Object(informer, _)
            | Self::Applied(informer, _, _)
            | Self::List(Source::Informer(informer), _, _) => Some(*informer),
            Self::List(Source::Pattern(_), _, _) => None,
        }
    }

    /// Where what was read comes from.
    pub(crate) fn source(&self) -> Source {
        match self {
            Self::Object(informer, _) | Self::Applied(informer, _, _) => {
                Source::Informer(*informer)
            }
            Self::List(source, _, _) => source.clone(),
        }
    }

    /// The same read, sharing the texts of a key where they are equal. Most reads are in the
    /// namespace of the key that is reconciled.
    pub(super) fn beside(self, key: &ObjectKey) -> Self {
        match self {
            Self::Object(informer, object) => {
                Self::Object(informer, object.parts().to_key_beside(key))
            }
            Self::Applied(informer, object, side) => {
                Self::Applied(informer, object.parts().to_key_beside(key), side)
            }
            Self::List(source, Some(namespace), filter) if namespace == key.namespace => {
                Self::List(source, Some(key.namespace.clone()), filter)
            }
            list => list,
        }
    }

    /// True if this object, which comes from one of the read's informers, is in its answer.
    pub fn has(&self, object: &Object, origin: Origin<'_>) -> bool {
        let key = object.key();
        match self {
            Self::Object(_, wanted) | Self::Applied(_, wanted, _) => key == *wanted,
            Self::List(source, namespace, filter) => {
                namespace
                    .as_ref()
                    .is_none_or(|namespace| **namespace == *key.namespace)
                    && match filter {
                        Filter::Everything => true,
                        Filter::Labels(selector) => selector.matches(object),
                        Filter::Index(index, value) => origin
                            .index(source, *index)
                            .is_some_and(|index| object.is_indexed_by(index, value)),
                    }
            }
        }
    }

    /// The maximum number of labels, values or keys that are compared to decide whether an object
    /// is in the read's answer.
    pub(crate) fn comparisons(&self) -> usize {
        match self {
            Self::List(_, _, Filter::Labels(selector)) => 1 + selector.comparisons(),
            _ => 1,
        }
    }

    /// True if a change of an object of the read's kind alters the read's answer.
    pub fn is_touched_by(&self, sight: &Sight<'_>) -> bool {
        let change = sight.change;
        let has = |object: &Option<Arc<Object>>| {
            let object = object.as_ref();
            object.is_some_and(|object| self.has(object, sight.origin))
        };
        match (has(&change.old), has(&change.new)) {
            (false, false) => false,
            (true, true) => match self {
                Self::Applied(_, _, side) => has_changed(change, *side),
                _ => sight.is_visible(),
            },
            _ => true,
        }
    }

    /// Bytes of the read's texts as they are stored.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Object(_, key) | Self::Applied(_, key, _) => key.namespace.len() + key.name.len(),
            Self::List(_, namespace, filter) => {
                namespace.as_ref().map_or(0, |namespace| namespace.len()) + filter.size()
            }
        }
    }

    /// Whether the answer to a read of one informer is not empty in this snapshot. Each object that
    /// is examined is deducted from `left`. `None` if `left` does not suffice to find out.
    pub(crate) fn has_answer(&self, snapshot: &Snapshot, left: &mut usize) -> Option<bool> {
        let mut examine = || {
            *left = left.checked_sub(1)?;
            Some(())
        };
        match self {
            Self::Object(informer, key) | Self::Applied(informer, key, _) => {
                examine()?;
                Some(snapshot.informers[*informer].get(key.parts()).is_some())
            }
            Self::List(Source::Pattern(_), _, _) => None,
            Self::List(Source::Informer(informer), namespace, filter) => {
                let (cache, namespace) = (&snapshot.informers[*informer], namespace.as_deref());
                for object in candidates(cache, namespace, filter, None) {
                    examine()?;
                    if object.is_some_and(|object| filter.selects(object, namespace)) {
                        return Some(true);
                    }
                }
                Some(false)
            }
        }
    }
}

impl Filter {
    /// The fuel for comparing one object with the filter.
    pub(super) fn fuel(&self) -> u64 {
        match self {
            Self::Labels(selector) => {
                let conditions = selector.requirements.len() as u64;
                let values = selector.comparisons() as u64;
                conditions * FUEL_PER_CONDITION + values * FUEL_PER_VALUE
            }
            Self::Everything | Self::Index(..) => 0,
        }
    }

    /// True if one of the [`candidates`] is in the list.
    pub(crate) fn selects(&self, object: &Object, namespace: Option<&str>) -> bool {
        match self {
            Self::Everything => true,
            Self::Labels(selector) => selector.matches(object),
            Self::Index(..) => namespace.is_none_or(|wanted| object.key().namespace == wanted),
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Everything => 0,
            Self::Labels(selector) => selector.size(),
            Self::Index(_, value) => value.len(),
        }
    }
}

/// The objects of a list, ordered by namespace and name.
pub fn matching<'a>(
    cache: &'a Cache,
    namespace: Option<&'a str>,
    filter: &'a Filter,
) -> impl Iterator<Item = &'a Arc<Object>> {
    let candidates = candidates(cache, namespace, filter, None).flatten();
    candidates.filter(move |object| filter.selects(object, namespace))
}

/// The objects that are examined for a list, or for what comes after this key in it. Not all of
/// them need to be in it. `None` stands for many others that have been passed over, in about the
/// time that one is examined.
pub(crate) fn candidates<'a>(
    cache: &'a Cache,
    namespace: Option<&'a str>,
    filter: &'a Filter,
    after: Option<KeyRef<'a>>,
) -> Box<dyn Iterator<Item = Option<&'a Arc<Object>>> + 'a> {
    match filter {
        Filter::Everything => Box::new(cache.list_after(namespace, after).map(Some)),
        Filter::Labels(selector) => {
            let wanted = WantedBits::of(selector);
            Box::new(cache.list_by_labels_after(namespace, wanted, after))
        }
        Filter::Index(index, value) => {
            let objects = cache.list_by_index_after(*index, value, after);
            Box::new(objects.map(Some))
        }
    }
}

#[cfg(test)]
mod tests;
