//! A set that nearly always has one member, in the space of two pointers.

use std::borrow::Borrow;
use std::collections::BTreeSet;

/// Never empty, except between a call of [`remove`](Self::remove) that returned true and the moment
/// the caller drops the set.
#[derive(Debug)]
pub(super) enum Few<T> {
    One(T),
    #[allow(
        clippy::box_collection,
        reason = "the set itself would make every member three pointers long"
    )]
    Many(Box<BTreeSet<T>>),
}

impl<T: Clone + Ord> Few<T> {
    pub(super) fn insert(&mut self, item: T) {
        match self {
            Self::One(only) if *only == item => {}
            Self::One(only) => *self = Self::Many(Box::new([only.clone(), item].into())),
            Self::Many(items) => drop(items.insert(item)),
        }
    }
}

impl<T: Ord> Few<T> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(items) => items.len(),
        }
    }

    /// Removes an item. Returns true if the set is empty then.
    pub(super) fn remove<Q: Ord + ?Sized>(&mut self, item: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        match self {
            Self::One(only) => (*only).borrow() == item,
            Self::Many(items) => {
                items.remove(item);
                items.is_empty()
            }
        }
    }
}

impl<T> Few<T> {
    pub(super) fn iter(&self) -> Box<dyn Iterator<Item = &T> + '_> {
        match self {
            Self::One(only) => Box::new(std::iter::once(only)),
            Self::Many(items) => Box::new(items.iter()),
        }
    }
}
