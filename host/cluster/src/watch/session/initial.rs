//! The objects that a stream has brought so far, before the marker that ends the initial objects
//! (`TestWatchList`).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use pilothouse_core::{Extent, Listing, ObjectKey, ResourceVersion};

use tokio::time::Instant;

use super::requests::Requests;
use super::stream::WatchStream;
use super::unreadable::UnreadableObjects;
use crate::watch::error::{WatchError, WatchFailure};
use crate::watch::machine::{CompleteList, Unfinished, is_leap, is_older};
use crate::watch::sink::CacheSink;
use crate::watch::wire::change::{WatchChange, WatchChangeKind, unreadable};
use crate::watch::wire::event::{self, WatchEvent};
use crate::watch::wire::lines::LineRead;

/// The newest event of each object, deletions included: an older event that comes later must not
/// bring back a deleted object.
#[derive(Default)]
pub(crate) struct Initial {
    changes: BTreeMap<ObjectKey, WatchChange>,
    /// Bytes that the changes take.
    bytes: usize,
    /// Live events have begun, so only the marker is missing.
    is_live: bool,
}

/// What an event means for the stream.
enum Progress {
    /// One of the initial objects.
    Initial,
    /// Live events have begun.
    Live,
    /// The marker, with the version of the list.
    Complete(ResourceVersion),
}

impl Initial {
    /// Collects the initial objects until the marker, and returns its version. The objects may come
    /// as slowly as they like; after the last of them, the marker must come within one
    /// `quiet_limit`.
    pub(crate) async fn collect(
        &mut self,
        connection: &mut WatchStream,
        requests: &mut Requests,
        unreadable: &mut UnreadableObjects,
        sink: &mut impl CacheSink,
        room: usize,
    ) -> Result<ResourceVersion, (Unfinished, WatchFailure)> {
        let resource = requests.name();
        let quiet_limit = requests.settings().quiet_limit;
        let mut until = connection.until();
        loop {
            let (how, error) = match connection.next_before(until).await {
                Ok(LineRead::Line(line)) => {
                    requests.hear();
                    let took = self.take(&line, requests, unreadable, sink, room).await;
                    match took.map_err(failed)? {
                        Progress::Complete(version) => return Ok(version),
                        Progress::Initial => {}
                        // Live events never end, so they must not postpone the deadline of the
                        // marker.
                        Progress::Live => until = until.min(Instant::now() + quiet_limit),
                    }
                    tokio::task::coop::consume_budget().await;
                    if Instant::now() < until {
                        continue;
                    }
                    (Unfinished::Overdue, WatchError::NoMarker { resource })
                }
                Ok(LineRead::Quiet) => (Unfinished::Overdue, WatchError::NoMarker { resource }),
                Ok(LineRead::WatchEnd) => (Unfinished::Closed, WatchError::Incomplete { resource }),
                Err(source) => return Err(failed(WatchFailure::of_stream(resource, source))),
            };
            return Err((how, error.into()));
        }
    }

    /// Takes one line of the stream.
    async fn take(
        &mut self,
        line: &[u8],
        requests: &mut Requests,
        unreadable: &mut UnreadableObjects,
        sink: &mut impl CacheSink,
        room: usize,
    ) -> Result<Progress, WatchFailure> {
        let schema = sink.schema();
        match event::parse(requests.resource(), line, &schema)? {
            WatchEvent::Change(change) if !requests.wants(&change.key) => Ok(Progress::Initial),
            WatchEvent::Change(change) => {
                let change = unreadable.reread(change, &schema, requests).await;
                let is_initial = self.add(change);
                if self.bytes > room {
                    return Err(WatchFailure::of_room(requests.name(), room));
                }
                Ok(if is_initial {
                    Progress::Initial
                } else {
                    Progress::Live
                })
            }
            WatchEvent::Bookmark {
                version,
                ends_initial: true,
            } => {
                for change in self.take_leaps(&version) {
                    self.put(unreadable.reread(change, &schema, requests).await);
                }
                Ok(Progress::Complete(version))
            }
            WatchEvent::Bookmark { .. } => {
                self.set_live();
                Ok(Progress::Live)
            }
            WatchEvent::Error(status) => Err(WatchFailure::of_event(requests.name(), &status)),
        }
    }

    /// Adds an event. Returns true as long as the stream is still bringing initial objects; it may
    /// take as long as it likes for that.
    ///
    /// The initial objects come first, each as one ADDED. An event that changes, deletes or adds
    /// again belongs to the time after, which never ends. The marker does not depend on any of
    /// these.
    fn add(&mut self, change: WatchChange) -> bool {
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
    fn set_live(&mut self) {
        self.is_live = true;
    }

    /// Takes out the changes whose versions are too new for a list of this version, so that the
    /// objects can be fetched by name.
    fn take_leaps(&mut self, version: &ResourceVersion) -> Vec<WatchChange> {
        let leaps = self
            .changes
            .extract_if(.., |_, change| is_leap(&change.version, version));
        leaps
            .map(|(_, change)| change.in_list_of(version))
            .collect()
    }

    /// Puts back a change from [`Initial::take_leaps`], after its object was fetched.
    fn put(&mut self, change: WatchChange) {
        self.changes.insert(change.key.clone(), change);
    }

    /// The marker has arrived: the complete list.
    pub(crate) fn into_listing(self, listed: CompleteList, extent: Extent) -> Listing {
        listing(self.changes.into_values(), listed, extent)
    }
}

fn failed(failure: WatchFailure) -> (Unfinished, WatchFailure) {
    (Unfinished::Failed(failure.class), failure)
}

/// A complete list made of these changes.
pub(super) fn listing(
    changes: impl IntoIterator<Item = WatchChange>,
    listed: CompleteList,
    extent: Extent,
) -> Listing {
    let mut listing = Listing {
        resource_version: listed.version,
        is_rollback: listed.is_rollback,
        extent,
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
