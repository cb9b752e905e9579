//! The views and indexes that the objects of a cache are projected to, and how many plugins use
//! each.

use crate::model::detail::Detail;
use crate::model::fields::{FieldPath, Projection};
use crate::model::object::{IndexId, Schema, ViewId, identity_paths};

/// What one plugin needs of each object.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// How much of each object must be kept.
    pub detail: Detail,
    /// The fields that the plugin sees. Empty means the whole object.
    pub fields: Vec<FieldPath>,
    /// Its indexes.
    pub indexes: Vec<Vec<FieldPath>>,
    /// Its name as a field manager, if it applies objects of the kind. What it has applied is then
    /// kept.
    pub manager: Option<String>,
}

/// Identifies the view and the indexes that a plugin subscribed to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subscribed {
    /// How much of each object must be kept.
    pub detail: Detail,
    /// The plugin's view.
    pub view: ViewId,
    /// Its indexes, in the order of the subscription.
    pub indexes: Vec<IndexId>,
    /// The position of its name among the managers.
    manager: Option<usize>,
}

/// Invariant: the counter of a view, an index or a manager is the number of plugins that use it. At
/// zero its position is free.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    views: Vec<(usize, Option<Projection>)>,
    indexes: Vec<(usize, Vec<FieldPath>)>,
    managers: Vec<(usize, String)>,
    /// How many plugins need each detail.
    details: [usize; 3],
}

impl Layout {
    /// Adds a plugin. Equal views and indexes are shared.
    pub(super) fn join(&mut self, subscription: &Subscription) -> Subscribed {
        self.details[subscription.detail as usize] += 1;
        let view = (!subscription.fields.is_empty()).then(|| {
            let paths: Vec<FieldPath> = subscription
                .fields
                .iter()
                .cloned()
                .chain(identity_paths())
                .collect();
            take(&mut self.views, Some(Projection::new(&paths)))
        });
        let indexes = subscription.indexes.iter();
        Subscribed {
            detail: subscription.detail,
            view,
            indexes: indexes
                .map(|paths| take(&mut self.indexes, paths.clone()))
                .collect(),
            manager: subscription
                .manager
                .as_ref()
                .map(|manager| take(&mut self.managers, manager.clone())),
        }
    }

    pub(super) fn leave(&mut self, subscribed: &Subscribed) {
        self.details[subscribed.detail as usize] -= 1;
        subscribed
            .view
            .iter()
            .for_each(|view| release(&mut self.views, *view));
        let indexes = subscribed.indexes.iter();
        indexes.for_each(|index| release(&mut self.indexes, *index));
        let manager = subscribed.manager.iter();
        manager.for_each(|manager| release(&mut self.managers, *manager));
    }

    pub(super) fn users(&self) -> usize {
        self.details.iter().sum()
    }

    /// The smallest detail that serves every plugin.
    fn detail(&self) -> Detail {
        let all = [Detail::Full, Detail::WithoutValues, Detail::Metadata];
        let wanted = all
            .into_iter()
            .find(|detail| self.details[*detail as usize] > 0);
        wanted.unwrap_or(Detail::Metadata)
    }

    pub(super) fn schema(&self, generation: u32) -> Schema {
        let views = self.views.iter().map(|(_, view)| view.clone());
        let indexes = self.indexes.iter().map(|(_, paths)| paths.clone());
        Schema::new(
            generation,
            self.detail(),
            views.collect(),
            indexes.collect(),
        )
        .with_managers(self.used_managers())
    }

    fn used_managers(&self) -> Vec<String> {
        let used = self.managers.iter().filter(|(users, _)| *users > 0);
        used.map(|(_, manager)| manager.clone()).collect()
    }
}

/// Returns the position of an equal entry, or puts the entry into the first free position.
fn take<T: PartialEq>(all: &mut Vec<(usize, T)>, wanted: T) -> usize {
    let same = |(users, have): &(usize, T)| *users > 0 && *have == wanted;
    let free = |(users, _): &(usize, T)| *users == 0;
    let place = all
        .iter()
        .position(same)
        .or_else(|| all.iter().position(free));
    match place {
        Some(place) => {
            all[place] = (all[place].0 + 1, wanted);
            place
        }
        None => {
            all.push((1, wanted));
            all.len() - 1
        }
    }
}

fn release<T: Default>(all: &mut [(usize, T)], place: usize) {
    let (users, what) = &mut all[place];
    *users -= 1;
    if *users == 0 {
        *what = T::default();
    }
}
