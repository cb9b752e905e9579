//! How far the cache has come, and what an event that comes late can be.

use std::collections::VecDeque;

use pilothouse_core::key::ResourceVersion;

/// Versions remembered of one watch. Beyond that a late event is taken for a missed one: a list more, never a change less.
const REMEMBERED: usize = 1000;

/// No server comes so far between two events of a watch, nor is an object so much newer than the list it is in: not one that counts
/// writes, not one that counts nanoseconds within eleven days.
const LEAP: u64 = 1_000_000_000_000_000;

/// What an event is, by its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Newer than all before, or of a server whose versions cannot be compared.
    New,
    /// It has been delivered before: a replay.
    Known,
    /// Older than the last one, and not seen before. What it says is old, but the cache has never heard it.
    Missed,
    /// So much newer than the last one that it must be wrong. Believed, it would make everything that follows old.
    Leap,
}

/// The newest version that is in the cache, and those by which it came there.
///
/// Invariant: everything up to `from` is in the cache, and of what is above, `since` (ascending).
#[derive(Debug)]
pub(super) struct Position {
    newest: ResourceVersion,
    from: ResourceVersion,
    since: VecDeque<ResourceVersion>,
}

impl Position {
    /// Everything up to this version is in the cache.
    pub(super) fn at(version: &ResourceVersion) -> Self {
        Self {
            newest: version.clone(),
            from: version.clone(),
            since: VecDeque::new(),
        }
    }

    pub(super) fn newest(&self) -> &ResourceVersion {
        &self.newest
    }

    /// A new watch starts here: the server brings everything after, so everything before is known.
    pub(super) fn settle(&mut self) {
        self.from = self.newest.clone();
        self.since.clear();
    }

    /// Whether a server that says this is older than what is in the cache.
    pub(super) fn is_ahead_of(&self, version: &ResourceVersion) -> bool {
        is_older(version, &self.newest)
    }

    /// An event of this version came.
    pub(super) fn advance(&mut self, version: &ResourceVersion) -> Order {
        if version.is_empty() {
            return Order::New;
        }
        if self.is_ahead_of(version) {
            let is_known = *version <= self.from || self.since.binary_search(version).is_ok();
            return if is_known {
                Order::Known
            } else {
                Order::Missed
            };
        }
        if is_leap(version, &self.newest) {
            return Order::Leap;
        }
        self.newest = version.clone();
        self.since.push_back(version.clone());
        if self.since.len() > REMEMBERED {
            self.since.pop_front();
        }
        Order::New
    }
}

/// Whether one version is known to be older than another. resourceVersions are integers that grow (KEP-5504); those of a server
/// that does it otherwise are taken as they come.
pub(super) fn is_older(version: &ResourceVersion, than: &ResourceVersion) -> bool {
    version.is_at_most(than) && version != than
}

/// Whether a version cannot be one that follows the other.
pub(super) fn is_leap(version: &ResourceVersion, after: &ResourceVersion) -> bool {
    version.is_beyond(after, LEAP)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(number: u64) -> ResourceVersion {
        ResourceVersion::new(&number.to_string())
    }

    #[test]
    fn a_late_event_is_known_if_it_came_before_and_missed_if_not() {
        let mut position = Position::at(&version(10));
        assert_eq!(position.advance(&version(12)), Order::New);
        assert_eq!(position.advance(&version(15)), Order::New);
        assert_eq!(position.advance(&version(15)), Order::New, "the same again");
        assert_eq!(position.advance(&version(12)), Order::Known);
        assert_eq!(
            position.advance(&version(9)),
            Order::Known,
            "before the start"
        );
        assert_eq!(position.advance(&version(13)), Order::Missed);
        assert_eq!(*position.newest(), version(15));
        position.settle();
        assert_eq!(
            position.advance(&version(13)),
            Order::Known,
            "of a watch before"
        );
    }

    #[test]
    fn what_is_remembered_of_a_long_watch_is_bounded() {
        let mut position = Position::at(&version(0));
        for number in 1..=5000 {
            position.advance(&version(number));
        }
        assert_eq!(position.since.len(), REMEMBERED);
        assert_eq!(position.advance(&version(4500)), Order::Known);
        assert_eq!(
            position.advance(&version(1)),
            Order::Missed,
            "for all we know"
        );
    }

    #[test]
    fn versions_that_are_no_numbers_are_taken_as_they_come() {
        let mut position = Position::at(&ResourceVersion::new("b"));
        assert_eq!(position.advance(&ResourceVersion::new("a")), Order::New);
        assert!(!position.is_ahead_of(&version(1)));
    }
}
