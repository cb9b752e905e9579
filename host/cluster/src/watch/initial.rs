//! The objects that a stream has brought so far, before the marker that ends the initial objects
//! (`TestWatchList`).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use pilothouse_core::{Detail, Listing, ObjectKey, ResourceVersion};

use super::change::{WatchChange, WatchChangeKind, unreadable};
use super::position::{is_leap, is_older};
use super::step::CompleteList;

/// The newest event of each object, deletions included: an older event that comes later must not
/// bring back a deleted object.
#[derive(Default)]
pub(super) struct Initial {
    changes: BTreeMap<ObjectKey, WatchChange>,
    /// Bytes that the changes take.
    pub(super) bytes: usize,
    /// Live events have begun, so only the marker is missing.
    is_live: bool,
}

impl Initial {
    /// Adds an event. Returns true as long as the stream is still bringing initial objects; it may
    /// take as long as it likes for that.
    ///
    /// The initial objects come first, each as one ADDED. An event that changes, deletes or adds
    /// again belongs to the time after, which never ends. The marker does not depend on any of
    /// these.
    pub(super) fn add(&mut self, change: WatchChange) -> bool {
        let is_addition = !matches!(change.what, WatchChangeKind::Delete);
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

    /// A bookmark came that is not the marker, so live events have begun.
    pub(super) fn set_live(&mut self) {
        self.is_live = true;
    }

    /// Takes out the changes whose versions are too new for a list of this version, so that the
    /// objects can be fetched by name.
    pub(super) fn take_leaps(&mut self, version: &ResourceVersion) -> Vec<WatchChange> {
        let leaps = self
            .changes
            .extract_if(.., |_, change| is_leap(&change.version, version));
        leaps
            .map(|(_, change)| change.in_list_of(version))
            .collect()
    }

    /// Puts back a change from [`Initial::take_leaps`], after its object was fetched.
    pub(super) fn put(&mut self, change: WatchChange) {
        self.changes.insert(change.key.clone(), change);
    }

    /// The marker has arrived: the complete list.
    pub(super) fn into_listing(self, listed: CompleteList, detail: Detail) -> Listing {
        listing(self.changes.into_values(), listed, detail)
    }
}

/// A complete list made of these changes.
pub(super) fn listing(
    changes: impl IntoIterator<Item = WatchChange>,
    listed: CompleteList,
    detail: Detail,
) -> Listing {
    let mut listing = Listing {
        resource_version: listed.version,
        is_rollback: listed.is_rollback,
        detail,
        ..Listing::default()
    };
    for WatchChange { key, version, what } in changes {
        match what {
            WatchChangeKind::Upsert(object) | WatchChangeKind::Read(object) => {
                listing.objects.push(object);
            }
            WatchChangeKind::Unreadable(reason) => {
                listing.unreadable.push(unreadable(key, version, reason));
            }
            WatchChangeKind::Delete => {}
        }
    }
    listing
}
