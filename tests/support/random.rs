//! Random numbers that a seed repeats.

use std::time::Duration;

/// The generator SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// A number from 0 up to `limit`, without `limit` itself.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    /// A time below so many milliseconds.
    pub fn milliseconds(&mut self, limit: u64) -> Duration {
        Duration::from_millis(self.below(limit))
    }

    /// True in so many cases of a hundred.
    pub fn percent(&mut self, of_hundred: u64) -> bool {
        self.below(100) < of_hundred
    }

    /// One of these; none if there are none.
    pub fn one_of<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        if all.is_empty() {
            return None;
        }
        let chosen = self.below(all.len() as u64);
        all.get(usize::try_from(chosen).ok()?)
    }
}
