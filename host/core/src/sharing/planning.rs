//! Who should own what next, and who writes it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::balance::{Candidate, Situation, desired};
use super::duties::{Duties, DutyState};
use super::records::{MemberId, Offer, Owners};
use super::view::View;
use crate::queue::Time;

/// This host, as far as planning goes.
pub(super) struct Own<'a> {
    pub id: &'a MemberId,
    pub offer: &'a Arc<Offer>,
    pub leaving: bool,
    pub duties: &'a Duties,
}

/// What the assignment should say.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NextOwners {
    pub owners: Owners,
    /// Something changes that only this host can change, or that it knows first.
    pub is_own: bool,
}

/// Who should have what, as far as this host sees.
pub(super) fn wanted(view: &View, own: &Own<'_>, now: Time) -> Owners {
    let mut members: Vec<_> = view
        .others()
        .map(|record| Candidate {
            id: record.id.clone(),
            offer: record.offer.clone(),
            leaving: record.leaving,
        })
        .collect();
    members.push(Candidate {
        id: own.id.clone(),
        offer: own.offer.clone(),
        leaving: own.leaving,
    });
    let owners = view.owners().into_iter().flatten();
    let going: BTreeSet<_> = own
        .duties
        .iter()
        .filter(|(_, state)| *state == DutyState::Finishing)
        .map(|(shard, _)| shard)
        .collect();
    desired(&Situation {
        members,
        owners: owners
            .filter(|(_, owner)| !view.is_gone(owner, now))
            .collect(),
        going,
    })
}

/// What the assignment should say next. A shard is given away only by its owner, when nothing of
/// it runs there any more, or by anybody once its owner is surely gone.
pub(super) fn next_owners(view: &View, own: &Own<'_>, wanted: &Owners, now: Time) -> NextOwners {
    let mut next = NextOwners {
        owners: Owners::new(),
        is_own: false,
    };
    for (shard, owner) in view.owners().into_iter().flatten() {
        let may_give = if owner == own.id {
            own.duties.is_idle(shard)
        } else {
            view.is_gone(owner, now)
        };
        let to = if may_give {
            wanted.get(shard)
        } else {
            Some(owner)
        };
        next.is_own |= may_give && to != Some(owner);
        if let Some(to) = to {
            next.owners.insert(shard.clone(), to.clone());
        }
    }
    for (shard, to) in wanted {
        let entry = next.owners.entry(shard.clone());
        entry.or_insert_with(|| to.clone());
    }
    next
}

/// How many members come before this one in writing what any of them could write.
pub(super) fn rank(view: &View, own: &Own<'_>) -> u32 {
    let before = view
        .others()
        .filter(|record| !record.leaving && record.id < *own.id);
    before.count() as u32
}
