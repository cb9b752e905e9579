//! Kinds of which something is so, and since when.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::key::Kind;
use crate::queue::Time;

/// See the module's documentation. Nothing but [`retain`](Self::retain) takes longer with more
/// kinds.
#[derive(Default)]
pub(super) struct Since {
    kinds: BTreeMap<Kind, Time>,
    by_time: BTreeSet<(Time, Kind)>,
}

impl Since {
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    pub fn contains(&self, kind: &Kind) -> bool {
        self.kinds.contains_key(kind)
    }

    /// Whether some of the kinds belong to this pattern.
    pub fn has_of(&self, pattern: &Kind) -> bool {
        let of_group = self.kinds.range(Kind::new(&pattern.group, "", "")..);
        let mut candidates = self
            .kinds
            .keys()
            .take(1)
            .chain(of_group.map(|(kind, _)| kind).take(1));
        candidates.any(|kind| pattern.includes(kind))
    }

    /// From now on it is so of this kind, unless it has been already. Returns whether it is new.
    pub fn begin(&mut self, kind: &Kind, now: Time) -> bool {
        let is_new = !self.contains(kind);
        if is_new {
            self.kinds.insert(kind.clone(), now);
            self.by_time.insert((now, kind.clone()));
        }
        is_new
    }

    /// It is so no more. Returns whether it was.
    pub fn end(&mut self, kind: &Kind) -> bool {
        let since = self.kinds.remove(kind);
        if let Some(since) = since {
            self.by_time.remove(&(since, kind.clone()));
        }
        since.is_some()
    }

    pub fn retain(&mut self, is_kept: impl Fn(&Kind) -> bool) {
        self.kinds.retain(|kind, _| is_kept(kind));
        self.by_time.retain(|(_, kind)| is_kept(kind));
    }

    /// Since when it is so of the kind that it has been so of for the longest time.
    pub fn earliest(&self) -> Option<Time> {
        self.by_time.first().map(|(since, _)| *since)
    }

    /// Takes out the kinds of which it has been so since this time, or for longer.
    pub fn take_until(&mut self, time: Time) -> Vec<Kind> {
        let mut kinds = Vec::new();
        while let Some((since, kind)) = self.by_time.pop_first() {
            if since > time {
                self.by_time.insert((since, kind));
                break;
            }
            self.kinds.remove(&kind);
            kinds.push(kind);
        }
        kinds.sort();
        kinds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn kind(text: &str) -> Kind {
        text.parse().unwrap()
    }

    fn at(seconds: u64) -> Time {
        Duration::from_secs(seconds)
    }

    fn since(kinds: &[(&str, u64)]) -> Since {
        let mut since = Since::default();
        for (text, seconds) in kinds {
            since.begin(&kind(text), at(*seconds));
        }
        since
    }

    #[test]
    fn what_is_so_already_began_when_it_began_first() {
        let mut since = since(&[("v1/Pod", 3)]);
        assert!(!since.begin(&kind("v1/Pod"), at(5)));
        assert_eq!(since.earliest(), Some(at(3)));
        assert!(since.end(&kind("v1/Pod")) && !since.end(&kind("v1/Pod")));
        assert!(since.begin(&kind("v1/Pod"), at(5)));
        assert_eq!(since.earliest(), Some(at(5)));
    }

    #[test]
    fn what_has_been_so_for_long_is_taken_out_and_the_rest_stays() {
        let mut since = since(&[("v1/Pod", 3), ("v1/Node", 1), ("apps/v1/Deployment", 4)]);
        assert_eq!(since.take_until(at(0)), []);
        assert_eq!(since.take_until(at(3)), ["v1/Node", "v1/Pod"].map(kind));
        assert!(!since.contains(&kind("v1/Pod")));
        assert_eq!(since.earliest(), Some(at(4)));
        assert_eq!(since.take_until(at(9)), [kind("apps/v1/Deployment")]);
        assert!(since.is_empty() && since.earliest().is_none());
    }

    #[test]
    fn what_is_not_kept_is_forgotten_with_its_time() {
        let mut since = since(&[("v1/Pod", 3), ("v1/Node", 1)]);
        since.retain(|kept| *kept == kind("v1/Pod"));
        assert_eq!(since.earliest(), Some(at(3)));
        assert_eq!(since.take_until(at(9)), [kind("v1/Pod")]);
    }

    #[test]
    fn a_pattern_has_the_kinds_of_its_group() {
        let since = since(&[("batch/v1/Job", 1), ("example.dev/v1/Gadget", 1)]);
        for (pattern, has) in [
            ("*", true),
            ("batch/*", true),
            ("example.dev/*", true),
            ("apps/*", false),
            ("v1/*", false),
            ("zoo.dev/*", false),
        ] {
            assert_eq!(since.has_of(&kind(pattern)), has, "{pattern}");
        }
        assert!(!Since::default().has_of(&kind("*")));
    }
}
