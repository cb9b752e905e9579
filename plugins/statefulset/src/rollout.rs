//! Which pods a rolling update replaces next.

use std::time::Duration;

use pilothouse_sdk::{Failure, IntOrString};
use workloads::pod::PodView;

use crate::objects::{Pod, StatefulSet};
use crate::replicas::Replicas;

/// Most pods that one reconcile deletes for an update.
const MAX_DELETIONS: usize = 1_000;

/// The pods that are deleted so that they come again at the update revision: from the highest
/// ordinal down to the partition, and no more than may be unavailable.
pub fn outdated<'a>(
    set: &StatefulSet,
    replicas: &Replicas<'a>,
    update_revision: &str,
    now: Duration,
) -> Result<Vec<&'a Pod>, Failure> {
    let strategy = &set.spec.update_strategy;
    if strategy.r#type == "OnDelete" {
        return Ok(Vec::new());
    }
    let rolling = strategy.rolling_update.as_ref();
    let partition = rolling.map_or(0, |rolling| rolling.partition);
    let max_unavailable = match rolling {
        Some(rolling) => max_unavailable(rolling.max_unavailable.as_ref(), set.replicas())?,
        None => 1,
    };
    let unavailable = replicas.unavailable(set.min_ready(), now);
    let budget = max_unavailable.saturating_sub(unavailable);
    let lowest = set.ordinals().start + partition;
    let targets = replicas.wanted.iter().rev();
    let targets = targets.take_while(|replica| replica.ordinal >= lowest);
    let is_outdated = |pod: &&Pod| pod.revision() != update_revision && !pod.is_deleted();
    let outdated = targets
        .filter_map(|replica| replica.pod)
        .filter(is_outdated);
    Ok(outdated.take(budget.min(MAX_DELETIONS)).collect())
}

/// How many of so many pods may be unavailable, at least one: a number, or a percentage, rounded
/// down. Without one: 1.
fn max_unavailable(value: Option<&IntOrString>, replicas: i64) -> Result<usize, Failure> {
    let replicas = i32::try_from(replicas).unwrap_or(i32::MAX);
    let number = value.map_or(Ok(1), |value| value.scaled_down(replicas))?;
    Ok(usize::try_from(number.max(1)).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `TestGetStatefulSetMaxUnavailable`.
    #[test]
    fn a_percentage_is_rounded_down_but_not_to_nothing() {
        let text = |text: &str| Some(IntOrString::from(text));
        let number = |number: i32| Some(IntOrString::from(number));
        let cases = [
            (None, 10, 1),
            (number(3), 10, 3),
            (number(3), 0, 3),
            (number(0), 0, 1),
            (text("10%"), 25, 2),
            (text("100%"), 5, 5),
            (text("50%"), 5, 2),
            (text("10%"), 5, 1),
            (text("1%"), 0, 1),
            (text("0%"), 0, 1),
        ];
        for (value, replicas, wanted) in cases {
            let found = max_unavailable(value.as_ref(), replicas);
            assert_eq!(found, Ok(wanted), "{value:?} of {replicas}");
        }
        assert!(max_unavailable(text("many").as_ref(), 5).is_err());
    }
}
