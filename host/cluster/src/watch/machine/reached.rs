//! The versions that the cache has reached, and which versions of lists are accepted because of
//! them.

use pilothouse_core::ResourceVersion;

use super::position::{Order, Position, is_older};
use super::step::BadList;

/// Longest resourceVersion, in bytes: it must fit into a request.
const MAX_VERSION: usize = 1024;

/// The versions that the cache has reached.
#[derive(Debug, Default)]
pub(super) struct ReachedVersions {
    /// The resourceVersion up to which the cache is current.
    position: Option<Position>,
    /// The newest version of an object that was fetched by name. The events up to there may still
    /// be to come.
    seen: Option<ResourceVersion>,
    /// Where a probe has last found the server, at the position or beyond.
    found: Option<ResourceVersion>,
    /// The server could not serve the position, so requests do not name it. Until the next complete
    /// list (`TestReflectorFullListIfExpired`), or until a probe finds the server at the position
    /// or beyond.
    is_unusable: bool,
    /// The position that no watch could prove.
    unprovable: Option<ResourceVersion>,
}

impl ReachedVersions {
    /// Nothing older than this version is accepted from the start.
    pub(super) fn begin_at(&mut self, version: &ResourceVersion) {
        if !version.is_empty() {
            self.position = Some(Position::at(version));
        }
    }

    /// A complete list of this version has arrived.
    pub(super) fn listed(&mut self, version: &ResourceVersion) {
        *self = Self {
            position: Some(Position::at(version)),
            seen: None,
            found: None,
            is_unusable: false,
            unprovable: self.unprovable.take(),
        };
    }

    /// The server was rolled back: the next list may be older than the cache.
    pub(super) fn roll_back(&mut self) {
        self.position = None;
    }

    /// The version from which the cache can be watched.
    pub(super) fn position(&self) -> Option<&ResourceVersion> {
        self.position.as_ref().map(Position::newest)
    }

    /// The version from which a watch is to be opened that proves that the server has come to the
    /// position: right before it.
    pub(super) fn before_position(&self) -> Option<ResourceVersion> {
        let position = self.position()?;
        let is_unprovable = self.unprovable.as_ref() == Some(position);
        position.before().filter(|_| !is_unprovable)
    }

    /// The server does not serve a watch from right before the position.
    pub(super) fn set_unprovable(&mut self) {
        self.unprovable = self.position().cloned();
    }

    /// The newest version of anything in the cache.
    fn newest(&self) -> Option<&ResourceVersion> {
        let newest = self.position()?;
        let seen = self.seen.as_ref().filter(|seen| is_older(newest, seen));
        Some(seen.unwrap_or(newest))
    }

    /// The oldest version that a list may have, if requests may name it.
    pub(super) fn not_older_than(&self) -> Option<ResourceVersion> {
        let usable = self.newest().filter(|_| !self.is_unusable);
        usable.cloned()
    }

    /// The server could not serve a list that is not older than the cache.
    pub(super) fn set_unusable(&mut self) {
        self.is_unusable = true;
    }

    /// A probe has found the server at this version, which is not behind the position.
    pub(super) fn find(&mut self, version: &ResourceVersion) {
        self.found = Some(version.clone());
    }

    /// The newest version that the server is known to have been at.
    pub(super) fn known(&self) -> Option<&ResourceVersion> {
        let newest = self.newest()?;
        let found = self.found.as_ref().filter(|found| is_older(newest, found));
        Some(found.unwrap_or(newest))
    }

    /// The server has been found at the position or beyond, or cannot be compared with it.
    pub(super) fn set_usable(&mut self) {
        self.is_unusable = false;
    }

    /// Returns the position if a server at this version is behind it.
    pub(super) fn position_ahead_of(&self, version: &ResourceVersion) -> Option<ResourceVersion> {
        let position = self.position.as_ref()?;
        let is_ahead = position.is_ahead_of(version);
        is_ahead.then(|| position.newest().clone())
    }

    /// An object of this version was fetched by name and is in the cache.
    pub(super) fn see(&mut self, version: ResourceVersion) {
        let seen = self.seen.as_ref();
        if seen.is_none_or(|seen| is_older(seen, &version)) {
            self.seen = Some(version);
        }
    }

    /// An event of this version came over the watch. Returns how it relates to the position.
    pub(super) fn advance(&mut self, version: &ResourceVersion) -> Order {
        match &mut self.position {
            Some(position) => position.advance(version),
            None => Order::New,
        }
    }

    /// The watch has ended; the next one starts at the position.
    pub(super) fn settle(&mut self) {
        if let Some(position) = &mut self.position {
            position.settle();
        }
    }

    /// True if a list of this version is older than the cache.
    pub(super) fn is_newer_than(&self, version: &ResourceVersion) -> bool {
        self.newest()
            .is_some_and(|newest| is_older(version, newest))
    }

    /// Checks the version of a list: it must have one that fits into a request, and not an older
    /// one than the cache, as far as the server's versions can be compared.
    pub(super) fn check_list(
        &self,
        version: &ResourceVersion,
        is_comparable: bool,
    ) -> Result<(), BadList> {
        match self.newest() {
            _ if version.is_empty() => Err(BadList::NoVersion),
            _ if version.to_string().len() > MAX_VERSION => Err(BadList::LongVersion(MAX_VERSION)),
            Some(newest) if is_comparable && is_older(version, newest) => Err(BadList::Behind {
                listed: version.to_string(),
                seen: newest.to_string(),
            }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(number: u64) -> ResourceVersion {
        ResourceVersion::new(&number.to_string())
    }

    fn at(number: u64) -> ReachedVersions {
        let mut reached = ReachedVersions::default();
        reached.listed(&version(number));
        reached
    }

    #[test]
    fn a_list_must_not_be_older_than_an_object_that_was_fetched_by_name() {
        let mut reached = at(10);
        reached.see(version(20));
        reached.see(version(15));
        assert_eq!(reached.position(), Some(&version(10)));
        assert_eq!(reached.not_older_than(), Some(version(20)));
        assert!(reached.check_list(&version(19), true).is_err());
        assert!(reached.check_list(&version(19), false).is_ok());
        assert!(reached.check_list(&version(20), true).is_ok());
        reached.listed(&version(30));
        assert_eq!(reached.not_older_than(), Some(version(30)));
    }

    #[test]
    fn a_version_that_cannot_be_served_is_not_named_and_still_not_undercut() {
        let mut reached = at(10);
        reached.set_unusable();
        assert_eq!(reached.not_older_than(), None);
        assert!(reached.check_list(&version(9), true).is_err());
        reached.set_usable();
        assert_eq!(reached.not_older_than(), Some(version(10)));
    }

    #[test]
    fn the_server_is_known_at_the_newest_that_a_list_a_bookmark_or_a_probe_has_said() {
        let mut reached = at(10);
        assert_eq!(reached.known(), Some(&version(10)));
        reached.find(&version(30));
        assert_eq!(reached.known(), Some(&version(30)));
        reached.advance(&version(20));
        assert_eq!(reached.known(), Some(&version(30)));
        reached.advance(&version(40));
        assert_eq!(reached.known(), Some(&version(40)));
        reached.roll_back();
        assert_eq!(reached.known(), None);
    }

    #[test]
    fn after_a_rollback_any_list_is_accepted() {
        let mut reached = at(10);
        assert_eq!(reached.position_ahead_of(&version(9)), Some(version(10)));
        reached.roll_back();
        assert_eq!(reached.position_ahead_of(&version(9)), None);
        assert!(reached.check_list(&version(1), true).is_ok());
    }

    #[test]
    fn a_list_without_a_version_or_with_one_that_fits_no_request_is_not_accepted() {
        let reached = ReachedVersions::default();
        let long = ResourceVersion::new(&"9".repeat(MAX_VERSION + 1));
        for bad in [ResourceVersion::new(""), long] {
            assert!(reached.check_list(&bad, true).is_err());
        }
    }
}
