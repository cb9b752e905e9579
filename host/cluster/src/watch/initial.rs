//! What a stream has brought so far: the kind's objects, before the marker that says they are all (`TestWatchList`).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use pilothouse_core::cache::Listing;
use pilothouse_core::key::{ObjectKey, ResourceVersion};
use pilothouse_core::source::Payload;

use super::change::{Change, What, unreadable};
use super::position::{is_leap, is_older};
use super::step::Listed;

/// The newest of each object, deletions included: an older event that comes after must not raise what is gone.
#[derive(Default)]
pub(super) struct Initial {
    changes: BTreeMap<ObjectKey, Change>,
    /// What they take.
    pub(super) bytes: usize,
    /// The server has gone over to what happens now. Only the marker is missing.
    is_live: bool,
}

impl Initial {
    /// Takes an event. True: the stream is getting on, and may take as long as it likes.
    ///
    /// The initial objects come first, each as one ADDED. So what changes or deletes, or adds again, is of the time after, which
    /// never ends; the marker should not need any of it.
    pub(super) fn add(&mut self, change: Change) -> bool {
        let is_addition = !matches!(change.what, What::Delete);
        match self.changes.entry(change.key.clone()) {
            Entry::Vacant(place) => {
                self.bytes += change.size();
                place.insert(change);
                self.is_live |= !is_addition;
            }
            Entry::Occupied(mut place) => {
                self.is_live = true;
                if !is_older(&change.version, &place.get().version) {
                    self.bytes = self.bytes + change.size() - place.get().size();
                    place.insert(change);
                }
            }
        }
        !self.is_live
    }

    /// Something that is no object came: a bookmark that is not the marker.
    pub(super) fn set_live(&mut self) {
        self.is_live = true;
    }

    /// What cannot be in a list of this version, for another look at it.
    pub(super) fn take_leaps(&mut self, version: &ResourceVersion) -> Vec<Change> {
        let leaps = self
            .changes
            .extract_if(.., |_, change| is_leap(&change.version, version));
        leaps
            .map(|(_, change)| change.in_list_of(version))
            .collect()
    }

    /// As it was found when it was looked at again.
    pub(super) fn put(&mut self, change: Change) {
        self.changes.insert(change.key.clone(), change);
    }

    /// The marker is here.
    pub(super) fn into_listing(self, listed: Listed, payload: Payload) -> Listing {
        listing(self.changes.into_values(), listed, payload)
    }
}

/// A complete list of these.
pub(super) fn listing(
    changes: impl IntoIterator<Item = Change>,
    listed: Listed,
    payload: Payload,
) -> Listing {
    let mut listing = Listing {
        resource_version: listed.version,
        is_rollback: listed.is_rollback,
        payload,
        ..Listing::default()
    };
    for Change { key, version, what } in changes {
        match what {
            What::Upsert(object) | What::Read(object) => listing.objects.push(object),
            What::Unreadable(reason) => {
                listing.unreadable.push(unreadable(key, version, reason));
            }
            What::Delete => {}
        }
    }
    listing
}
