//! A change as one plugin sees it.

use std::cell::OnceCell;

use crate::cache::Change;
use crate::model::object::{Side, ViewId};
use crate::reads::source::Origin;

/// A change as a plugin sees it. Whether the plugin sees any difference is determined once, however
/// many reads are compared with the change, because the texts may be long.
pub struct Sight<'a> {
    pub(super) change: &'a Change,
    pub(super) origin: Origin<'a>,
    is_visible: OnceCell<bool>,
}

impl<'a> Sight<'a> {
    /// Combines a change with where it comes from.
    pub fn new(change: &'a Change, origin: Origin<'a>) -> Self {
        Self {
            change,
            origin,
            is_visible: OnceCell::new(),
        }
    }

    pub(super) fn is_visible(&self) -> bool {
        let is_visible = || is_visible(self.change, self.origin.view);
        *self.is_visible.get_or_init(is_visible)
    }
}

pub(super) fn has_changed(change: &Change, side: Side) -> bool {
    match (&change.old, &change.new) {
        (Some(old), Some(new)) => old.uid() != new.uid() || !old.is_same_on(side, new),
        _ => true,
    }
}

/// True if a plugin with this view sees a difference between the two states.
pub fn is_visible(change: &Change, view: ViewId) -> bool {
    match (&change.old, &change.new) {
        (Some(old), Some(new)) => old.uid() != new.uid() || old.view(view) != new.view(view),
        _ => true,
    }
}
