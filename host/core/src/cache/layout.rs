//! Which views and indexes the objects of a cache are cut to, and for how many plugins.

use crate::fields::{FieldPath, Projection};
use crate::object::{IndexId, Schema, ViewId, identity_paths};
use crate::source::Payload;

/// What one plugin wants of each object.
#[derive(Clone, Debug)]
pub struct Wish {
    /// How much of it must be there.
    pub payload: Payload,
    /// The fields the plugin sees; none means the whole object.
    pub fields: Vec<FieldPath>,
    /// Its indexes.
    pub indexes: Vec<Vec<FieldPath>>,
    /// Its name as field manager, if it applies objects of the kind: what it has applied is kept.
    pub manager: Option<String>,
}

/// Where a plugin finds what it wished for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// How much of each object must be there.
    pub payload: Payload,
    /// The plugin's view.
    pub view: ViewId,
    /// Its indexes, in the order of the wish.
    pub indexes: Vec<IndexId>,
    /// The place of its name among the managers.
    manager: Option<usize>,
}

/// Invariant: a view, an index or a manager is in use by as many plugins as its counter says, and
/// its place is free when that is none.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    views: Vec<(usize, Option<Projection>)>,
    indexes: Vec<(usize, Vec<FieldPath>)>,
    managers: Vec<(usize, String)>,
    /// How many plugins want each payload.
    payloads: [usize; 3],
}

impl Layout {
    /// Equal views and indexes are shared.
    pub(super) fn join(&mut self, wish: &Wish) -> Grant {
        self.payloads[wish.payload as usize] += 1;
        let view = (!wish.fields.is_empty()).then(|| {
            let paths: Vec<FieldPath> = wish
                .fields
                .iter()
                .cloned()
                .chain(identity_paths())
                .collect();
            take(&mut self.views, Some(Projection::new(&paths)))
        });
        let indexes = wish.indexes.iter();
        Grant {
            payload: wish.payload,
            view,
            indexes: indexes
                .map(|paths| take(&mut self.indexes, paths.clone()))
                .collect(),
            manager: wish
                .manager
                .as_ref()
                .map(|manager| take(&mut self.managers, manager.clone())),
        }
    }

    pub(super) fn leave(&mut self, grant: &Grant) {
        self.payloads[grant.payload as usize] -= 1;
        grant
            .view
            .iter()
            .for_each(|view| release(&mut self.views, *view));
        let indexes = grant.indexes.iter();
        indexes.for_each(|index| release(&mut self.indexes, *index));
        let manager = grant.manager.iter();
        manager.for_each(|manager| release(&mut self.managers, *manager));
    }

    pub(super) fn users(&self) -> usize {
        self.payloads.iter().sum()
    }

    /// The least that serves every plugin.
    fn payload(&self) -> Payload {
        let all = [Payload::Full, Payload::WithoutValues, Payload::Metadata];
        let wanted = all
            .into_iter()
            .find(|payload| self.payloads[*payload as usize] > 0);
        wanted.unwrap_or(Payload::Metadata)
    }

    pub(super) fn schema(&self, generation: u32) -> Schema {
        let views = self.views.iter().map(|(_, view)| view.clone());
        let indexes = self.indexes.iter().map(|(_, paths)| paths.clone());
        Schema::new(
            generation,
            self.payload(),
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

/// Finds what is wanted, or puts it into the first free place.
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
