//! Limits the values of the label `priority` of `workqueue_depth` to a number that a time series
//! database can bear.

use std::collections::{BTreeMap, BTreeSet};

use pilothouse_core::Priority;

/// The most distinct values of the label `priority` per plugin (controller-runtime's
/// `maxRecommendedUniquePriorities`).
const MAX_PRIORITIES: usize = 25;

/// The label value for all other priorities (controller-runtime's
/// `priorityCardinalityExceededPlaceholder`).
const OTHER_PRIORITIES: &str = "exceeded_cardinality_limit";

/// The series of one plugin's depth: one for each priority seen so far.
pub fn depth_series(
    seen: &mut BTreeSet<Priority>,
    depths: &BTreeMap<Priority, usize>,
) -> Vec<(String, usize)> {
    let mut others = None;
    for (priority, depth) in depths {
        if seen.len() < MAX_PRIORITIES {
            seen.insert(*priority);
        }
        if !seen.contains(priority) {
            *others.get_or_insert(0) += depth;
        }
    }
    let depth_of = |priority: &Priority| depths.get(priority).copied().unwrap_or_default();
    let series = seen
        .iter()
        .map(|priority| (priority.to_string(), depth_of(priority)));
    let others = others.map(|depth| (OTHER_PRIORITIES.to_owned(), depth));
    series.chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_has_at_most_25_priorities_and_one_for_the_others() {
        let mut seen = BTreeSet::new();
        let none = [("-100".to_owned(), 0), ("0".to_owned(), 0)];
        let empty = [(-100, 0), (0, 0)].into();
        assert_eq!(depth_series(&mut seen, &empty), none, "both from the start");
        let many: BTreeMap<Priority, usize> = (1..=23).map(|priority| (priority, 1)).collect();
        assert_eq!(depth_series(&mut seen, &many).len(), 25);
        let series = depth_series(&mut seen, &[(5, 7), (100, 2), (101, 3)].into());
        assert_eq!(series.len(), 26);
        assert!(series.contains(&("5".to_owned(), 7)), "{series:?}");
        assert!(series.contains(&("6".to_owned(), 0)), "{series:?}");
        assert_eq!(series[25], (OTHER_PRIORITIES.to_owned(), 5));
    }
}
