//! The version up to which a cache is current, and the meaning of an event that comes late.

use std::collections::VecDeque;

use pilothouse_core::ResourceVersion;

/// Versions remembered of one watch. An event older than those counts as missed even if it was
/// delivered. That may cost an extra list, but never loses a change.
const REMEMBERED: usize = 1000;

/// A version this much newer than the one before must be wrong, between two events of a watch as
/// well as between a list and its objects. No server gets this far, whether it counts writes or,
/// within eleven days, nanoseconds.
const LEAP: u64 = 1_000_000_000_000_000;

/// The relation of an event's version to the position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Newer than all before, or from a server whose versions cannot be compared.
    New,
    /// Of the version that the cache is at: a replay, or a deletion, which some aggregated servers
    /// send with the version at which the object was last stored.
    Same,
    /// Delivered before: a replay.
    Known,
    /// Older than the last one, and not delivered before. Its content is old, but the cache never
    /// had it.
    Missed,
    /// So much newer than the last one that it must be wrong. If it were accepted, everything that
    /// follows would count as old.
    Leap,
}

/// The newest version in the cache, and the versions by which the cache got there.
///
/// Invariant: the cache has everything up to `from`, and of the later versions those in `since`
/// (ascending; only the last [`REMEMBERED`] are kept).
#[derive(Debug)]
pub(crate) struct Position {
    newest: ResourceVersion,
    from: ResourceVersion,
    since: VecDeque<ResourceVersion>,
}

impl Position {
    /// A position at which the cache has everything up to this version.
    pub(crate) fn at(version: &ResourceVersion) -> Self {
        Self {
            newest: version.clone(),
            from: version.clone(),
            since: VecDeque::new(),
        }
    }

    pub(crate) fn newest(&self) -> &ResourceVersion {
        &self.newest
    }

    /// A new watch starts here. The server sends everything after this version, so everything
    /// before it is known.
    pub(crate) fn settle(&mut self) {
        self.from = self.newest.clone();
        self.since.clear();
    }

    /// Returns whether a server at this version is older than the cache.
    pub(crate) fn is_ahead_of(&self, version: &ResourceVersion) -> bool {
        is_older(version, &self.newest)
    }

    /// An event of this version came. Returns its relation to the position, and moves the position
    /// if it is new.
    pub(crate) fn advance(&mut self, version: &ResourceVersion) -> Order {
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
        if version.is_at_most(&self.newest) {
            return Order::Same;
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

/// Returns whether one version is known to be older than another. resourceVersions are integers
/// that grow (KEP-5504). Versions of a server that does otherwise are never older than one another.
pub(crate) fn is_older(version: &ResourceVersion, than: &ResourceVersion) -> bool {
    version.is_at_most(than) && version != than
}

/// Returns whether a version is too far beyond the other to be right.
pub(crate) fn is_leap(version: &ResourceVersion, after: &ResourceVersion) -> bool {
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
        assert_eq!(position.advance(&version(15)), Order::Same);
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
