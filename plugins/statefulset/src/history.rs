//! Which revisions a set is at: the current one, and the one that it is updated to.

use std::collections::BTreeSet;

use pilothouse_sdk::{Action, Failure, Host};
use serde_json::Value;
use workloads::revision::{self, NewRevision, Revision};
use workloads::template;

use crate::objects::{Pod, StatefulSet};

/// The revisions kept when a set does not say how many. The API server fills in the same.
const DEFAULT_LIMIT: i64 = 10;

/// The revisions of a set.
pub struct History {
    pub current: Recorded,
    pub update: Recorded,
    /// How many names of revisions were taken by others.
    pub collisions: i32,
    /// What has to be written before the update revision is there, or is the newest.
    pub record: Option<Action>,
}

/// A template, and the name of the revision that records it.
#[derive(Clone)]
pub struct Recorded {
    pub name: String,
    pub template: Value,
}

impl History {
    /// Finds the set's template among these revisions, which are sorted, and the current revision
    /// by the name in the status.
    pub fn of(host: &dyn Host, set: &StatefulSet, revisions: &[Revision]) -> Result<Self, Failure> {
        let mut history = Self::with_update(host, set, revisions)?;
        let current = &set.status.current_revision;
        if let Some(current) = revisions.iter().find(|revision| revision.name() == current) {
            history.current = recorded(current)?;
        }
        Ok(history)
    }

    /// The history of a set whose current revision is the update revision.
    fn with_update(
        host: &dyn Host,
        set: &StatefulSet,
        revisions: &[Revision],
    ) -> Result<Self, Failure> {
        let data = revision::template_patch(&set.spec.template);
        let collisions = set.status.collision_count;
        let newest = revisions.last();
        if let Some(newest) = newest.filter(|newest| newest.data == data) {
            return Ok(Self::at(recorded(newest)?, collisions));
        }
        let number = revision::next_number(revisions);
        if let Some(same) = revisions
            .iter()
            .rev()
            .find(|revision| revision.data == data)
        {
            let renumber = same.renumber(number)?;
            let history = Self::at(recorded(same)?, collisions);
            return Ok(Self {
                record: Some(renumber.into()),
                ..history
            });
        }
        if let Some(newest) = newest.filter(|newest| is_unchanged(set, newest, &data)) {
            return Ok(Self::at(recorded(newest)?, collisions));
        }
        Self::with_new(host, set, &data, number)
    }

    fn with_new(
        host: &dyn Host,
        set: &StatefulSet,
        data: &Value,
        number: i64,
    ) -> Result<Self, Failure> {
        let labels = template::labels(&set.spec.template);
        let labels = labels
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let new = NewRevision {
            owner: &set.object(),
            owner_uid: set.uid(),
            labels: &labels,
            annotations: &set.metadata.annotations,
            data,
            revision: number,
        };
        let placed = new.place(host, set.status.collision_count)?;
        let update = Recorded {
            name: placed.name,
            template: set.spec.template.clone(),
        };
        let record = placed.create.map(Action::from);
        Ok(Self {
            record,
            ..Self::at(update, placed.collisions)
        })
    }

    fn at(update: Recorded, collisions: i32) -> Self {
        Self {
            current: update.clone(),
            update,
            collisions,
            record: None,
        }
    }

    /// The deletions of revisions that nothing is made from and that are too many.
    pub fn truncation(
        &self,
        set: &StatefulSet,
        pods: &[Pod],
        revisions: &[Revision],
    ) -> Vec<Action> {
        let pods = pods.iter().map(Pod::revision);
        let live = [self.current.name.as_str(), self.update.name.as_str()];
        let live: BTreeSet<&str> = live.into_iter().chain(pods).collect();
        let limit = set.spec.revision_history_limit.unwrap_or(DEFAULT_LIMIT);
        let surplus = revision::surplus(revisions, &live, limit).into_iter();
        surplus.map(|revision| revision.delete().into()).collect()
    }
}

/// True if the newest revision records the set's template, though not in the same words: another
/// version of the API server fills in more fields, or leaves out null. Either the difference is
/// null members alone; or the status says that this generation of the spec is at that revision, and
/// a generation's spec is changed by nobody.
fn is_unchanged(set: &StatefulSet, newest: &Revision, data: &Value) -> bool {
    let generation = set.metadata.generation;
    let is_settled = generation > 0
        && set.status.observed_generation == generation
        && set.status.update_revision == newest.name();
    is_settled || newest.means(data)
}

fn recorded(revision: &Revision) -> Result<Recorded, Failure> {
    let name = revision.name().to_owned();
    let template = revision.template().ok_or_else(|| {
        let object = revision.object();
        Failure::terminal(format!("{object} records no spec.template: delete it"))
    })?;
    Ok(Recorded { name, template })
}
