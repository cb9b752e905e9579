//! Fetches a list page by page, until it is complete or given up.

use std::collections::HashSet;
use std::time::Duration;

use pilothouse_core::{Extent, Listing, ObjectKey, ResourceVersion};

use super::initial::listing;
use super::requests::Requests;
use super::unreadable::UnreadableObjects;
use crate::watch::error::WatchFailure;
use crate::watch::machine::{BadList, CompleteList, NextRequest};
use crate::watch::sink::CacheSink;
use crate::watch::wire::change::WatchChange;
use crate::watch::wire::list::{self, Page};

/// After this many pages in a row without objects, a list counts as endless. A server that cuts
/// pages before it applies selectors may have some empty ones.
pub(crate) const MAX_EMPTY_PAGES: u32 = 50;

/// The pages of a list so far.
#[derive(Default)]
pub(crate) struct Pages {
    changes: Vec<WatchChange>,
    /// Bytes that the changes take.
    bytes: usize,
    /// The first object of each page. If one begins a second page, the list repeats itself.
    heads: HashSet<ObjectKey>,
    /// Number of pages without objects at the end so far.
    empty: u32,
}

impl Pages {
    /// Asks for the page that `next` is about and adds its objects. Returns what it says of itself.
    pub(crate) async fn fetch(
        &mut self,
        next: &NextRequest,
        timeout: Duration,
        requests: &mut Requests,
        unreadable: &mut UnreadableObjects,
        sink: &mut impl CacheSink,
        room: usize,
    ) -> Result<Page, WatchFailure> {
        let schema = sink.schema();
        let body = requests.fetch(next, timeout).await?;
        let mut changes = Vec::new();
        let page = list::read(requests.query(), &body, &schema, &mut changes).await?;
        let version = ResourceVersion::new(&page.version);
        let head = changes.first().map(|change| change.key.clone());
        let noted = self.note(head, page.token.is_some());
        noted.map_err(|bad| WatchFailure::of_list(requests.name(), &bad))?;
        changes.retain(|change| requests.wants(&change.key));
        for change in changes {
            let change = change.in_list_of(&version);
            let change = unreadable.reread(change, &schema, requests).await;
            self.bytes = self.bytes.saturating_add(change.size());
            if self.bytes > room {
                return Err(WatchFailure::of_room(requests.name(), room));
            }
            self.changes.push(change);
        }
        Ok(page)
    }

    /// All pages have come: the complete list.
    pub(crate) fn into_listing(self, listed: CompleteList, extent: Extent) -> Listing {
        listing(self.changes, listed, extent)
    }

    /// A page came, and `head` is its first object.
    fn note(&mut self, head: Option<ObjectKey>, has_next: bool) -> Result<(), BadList> {
        let Some(head) = head else {
            self.empty += u32::from(has_next);
            return if self.empty < MAX_EMPTY_PAGES {
                Ok(())
            } else {
                Err(BadList::Endless)
            };
        };
        self.empty = 0;
        if self.heads.insert(head) {
            Ok(())
        } else {
            Err(BadList::Repeats)
        }
    }
}
