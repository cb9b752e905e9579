//! Fetches a list page by page, until it is complete or given up.

use std::collections::HashSet;
use std::time::Duration;

use pilothouse_core::{ObjectKey, ResourceVersion};
use tokio::time::Instant;

use super::change::WatchChange;
use super::error::WatchFailure;
use super::failure_class::FailureClass;
use super::step::{BadList, CompleteList, NextRequest, Paging};
use super::{CacheSink, ListWatch, WatchState, initial, list};

/// After this many pages in a row without objects, a list counts as endless. A server that cuts
/// pages before it applies selectors may have some empty ones.
pub(super) const MAX_EMPTY_PAGES: u32 = 50;

/// The pages of a list so far.
#[derive(Default)]
pub(super) struct Pages {
    changes: Vec<WatchChange>,
    /// Bytes that the changes take.
    bytes: usize,
    /// The first object of each page. If one begins a second page, the list repeats itself.
    heads: HashSet<ObjectKey>,
    /// Number of pages without objects at the end so far.
    empty: u32,
}

impl Pages {
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

impl ListWatch {
    pub(super) async fn list(
        &mut self,
        next: &NextRequest,
        paging: &Paging,
        sink: &mut impl CacheSink,
    ) -> Duration {
        let started = Instant::now();
        self.announce(sink, WatchState::Listing);
        if !matches!(paging, Paging::After { .. }) {
            self.pages = Pages::default();
            self.unread.begin_anew();
        }
        match self.fetch_page(next, paging, sink).await {
            Ok(None) => Duration::ZERO,
            Ok(Some(listed)) => {
                let pages = std::mem::take(&mut self.pages).changes;
                let listing = initial::listing(pages, listed, self.query.detail);
                self.replace_all(listing, sink);
                Duration::ZERO
            }
            Err(failure) => {
                if failure.class == FailureClass::Full {
                    self.pages = Pages::default();
                }
                self.is_gone |= failure.is_path_gone();
                let delay = self.state.list_failed(failure.class, started.elapsed());
                self.report(sink, &failure, delay);
                delay
            }
        }
    }

    async fn fetch_page(
        &mut self,
        next: &NextRequest,
        paging: &Paging,
        sink: &impl CacheSink,
    ) -> Result<Option<CompleteList>, WatchFailure> {
        let (schema, room) = (sink.schema(), self.room(sink));
        let deadline = self.settings.page_deadline;
        let deadline = if *paging == Paging::Whole {
            deadline * 10
        } else {
            deadline
        };
        let body = self.fetch(next, deadline, list::MAX_LIST).await?;
        let mut changes = Vec::new();
        let page = list::read(&self.query, &body, &schema, &mut changes).await?;
        let version = ResourceVersion::new(&page.version);
        let head = changes.first().map(|change| change.key.clone());
        let noted = self.pages.note(head, page.token.is_some());
        noted.map_err(|bad| WatchFailure::of_list(self.query.name(), &bad))?;
        for change in changes {
            let change = self.reread(change.in_list_of(&version), &schema).await;
            let pages = &mut self.pages;
            pages.bytes = pages.bytes.saturating_add(change.size());
            if pages.bytes > room {
                return Err(WatchFailure::of_room(self.query.name(), room));
            }
            pages.changes.push(change);
        }
        let listed = self.state.page(&page.version, page.token);
        listed.map_err(|bad| WatchFailure::of_list(self.query.name(), &bad))
    }
}
