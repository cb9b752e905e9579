//! Sets of namespaces that an API server can select by.

use std::fmt;

use super::hash::fnv1a;

/// A set of namespaces: those whose hashes are in some of 64 equal ranges, the *buckets*.
///
/// The hash is the one of server-side sharded list and watch (KEP-5866), FNV-1a of 64 bits, so the
/// server can select the objects of such a set. A bucket is the first 6 bits of it. More buckets
/// would make the selectors too long, and few clusters more even: FNV-1a puts names that differ
/// only in their last characters into few buckets.
///
/// What has no namespace is in every set.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Namespaces(u64);

/// How many buckets there are.
pub const BUCKETS: u32 = u64::BITS;

impl Namespaces {
    /// Every namespace.
    pub const ALL: Self = Self(u64::MAX);
    /// No namespace.
    pub const NONE: Self = Self(0);

    /// The namespaces of these buckets.
    pub fn of_buckets(buckets: impl IntoIterator<Item = u32>) -> Self {
        let buckets = buckets.into_iter().filter(|bucket| *bucket < BUCKETS);
        Self(buckets.fold(0, |set, bucket| set | (1 << bucket)))
    }

    /// Whether objects of a namespace are in it. An empty name is that of objects without one.
    pub fn has(self, namespace: &str) -> bool {
        self == Self::ALL || namespace.is_empty() || self.0 >> bucket_of(namespace) & 1 == 1
    }

    /// Whether it has everything that the other one has.
    pub fn covers(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    /// What is in either.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether it has no namespace.
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// The hashes of its namespaces as ranges, ascending: the first hash of each, and the one after
    /// its last, which may be 2^64.
    pub fn ranges(self) -> Vec<(u64, u128)> {
        let start = |bucket: u32| u128::from(bucket) << (u64::BITS - BUCKETS.ilog2());
        let mut ranges: Vec<(u64, u128)> = Vec::new();
        for bucket in (0..BUCKETS).filter(|bucket| self.0 >> bucket & 1 == 1) {
            let (from, to) = (start(bucket) as u64, start(bucket + 1));
            match ranges.last_mut() {
                Some((_, end)) if *end == u128::from(from) => *end = to,
                _ => ranges.push((from, to)),
            }
        }
        ranges
    }
}

/// The bucket of a namespace.
pub fn bucket_of(namespace: &str) -> u32 {
    let bits = u64::BITS - BUCKETS.ilog2();
    u32::try_from(fnv1a(namespace.bytes()) >> bits).expect("six bits")
}

/// Every namespace.
impl Default for Namespaces {
    fn default() -> Self {
        Self::ALL
    }
}

/// `all`, `none`, or `16 of 64`.
impl fmt::Display for Namespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ALL => f.write_str("all"),
            Self::NONE => f.write_str("none"),
            Self(set) => write!(f, "{} of {BUCKETS}", set.count_ones()),
        }
    }
}

impl fmt::Debug for Namespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_in_one_bucket_and_what_has_none_is_in_all() {
        let bucket = bucket_of("kube-system");
        let own = Namespaces::of_buckets([bucket]);
        let others = Namespaces::of_buckets((0..BUCKETS).filter(|other| *other != bucket));
        assert!(own.has("kube-system") && !others.has("kube-system"));
        assert!(own.has("") && others.has("") && Namespaces::NONE.has(""));
        assert!(Namespaces::ALL.has("kube-system") && !Namespaces::NONE.has("kube-system"));
        assert_eq!(own.and(others), Namespaces::ALL);
        assert!(Namespaces::ALL.covers(own) && !own.covers(others));
        assert!(own.covers(Namespaces::NONE) && Namespaces::NONE.is_none());
    }

    /// Hosts of two versions must agree, and with the API server. If this fails, the code is wrong,
    /// and never this table.
    #[test]
    fn the_bucket_of_a_namespace_never_changes() {
        let namespaces = ["default", "kube-system", "a", "größe"];
        assert_eq!(namespaces.map(bucket_of), [58, 55, 43, 45]);
    }

    #[test]
    fn neighbouring_buckets_are_one_range() {
        let quarter = 1_u64 << 62;
        let half = Namespaces::of_buckets(0..32);
        assert_eq!(half.ranges(), [(0, u128::from(2 * quarter))]);
        let ends = Namespaces::of_buckets((0..16).chain(48..64));
        let wanted = [(0, u128::from(quarter)), (3 * quarter, 1 << 64)];
        assert_eq!(ends.ranges(), wanted);
        assert_eq!(Namespaces::ALL.ranges(), [(0, 1 << 64)]);
        assert_eq!(Namespaces::NONE.ranges(), []);
        let texts = [half, Namespaces::ALL, Namespaces::NONE].map(|set| set.to_string());
        assert_eq!(texts, ["32 of 64", "all", "none"]);
    }
}
