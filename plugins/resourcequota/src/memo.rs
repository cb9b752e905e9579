//! What a quota's key remembers from one reconcile to the next.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Two objects whose marks fall into the same of these are taken for one another. With less than
/// this many entries a memo stays below 64 KiB.
const PLACES: u32 = 4_096;

/// Which objects have been counted, with what each uses: enough to see that one of them is gone, or
/// uses something else, whatever has come meanwhile.
///
/// Of each place there is how many objects fall into it. An object that goes is overlooked if
/// another one that comes at the same time falls into its place, which is as likely as 1 in 4,096,
/// and only until everything is counted anew.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Marks(BTreeMap<u32, u32>);

impl Marks {
    /// Marks one more object.
    pub fn put(&mut self, digest: u32) {
        *self.0.entry(digest % PLACES).or_default() += 1;
    }

    /// True if one of these objects is not among the others any more.
    pub fn are_missing_in(&self, others: &Self) -> bool {
        let mut places = self.0.iter();
        places.any(|(place, count)| others.0.get(place).is_none_or(|other| other < count))
    }
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Memo {
    /// When everything was counted anew, in milliseconds since 1970.
    counted_at: u64,
    pub marks: Marks,
    /// True if the outcome that has left this memo wrote the status.
    pub has_written: bool,
    /// True if something could not be counted.
    pub is_partial: bool,
}

impl Memo {
    pub fn new(counted_at: Duration, marks: Marks) -> Self {
        Self {
            counted_at: u64::try_from(counted_at.as_millis()).unwrap_or(u64::MAX),
            marks,
            has_written: false,
            is_partial: false,
        }
    }

    pub fn counted_at(&self) -> Duration {
        Duration::from_millis(self.counted_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(digests: &[u32]) -> Marks {
        let mut marks = Marks::default();
        digests.iter().for_each(|digest| marks.put(*digest));
        marks
    }

    #[test]
    fn an_object_that_goes_is_seen_whatever_comes() {
        let before = marks(&[1, 2, 2 + PLACES]);
        assert!(!before.are_missing_in(&before));
        assert!(!before.are_missing_in(&marks(&[1, 2, 2, 3])));
        assert!(before.are_missing_in(&marks(&[2, 2, 3])));
        assert!(before.are_missing_in(&marks(&[1, 2, 3, 4])));
    }

    #[test]
    fn a_memo_of_any_number_of_objects_has_room() {
        let mut all = Marks::default();
        (0..PLACES * 20).for_each(|digest| all.put(digest));
        let memo = Memo::new(Duration::from_secs(2_000_000_000), all);
        let text = serde_json::to_string(&memo).expect("it has a JSON form");
        assert!(text.len() < 64 << 10, "{}", text.len());
    }
}
