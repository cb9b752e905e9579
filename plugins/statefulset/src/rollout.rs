//! Which pods a rolling update replaces next.

use std::time::Duration;

use pilothouse_sdk::Failure;
use serde_json::Value;
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
        Some(rolling) => max_unavailable(&rolling.max_unavailable, set.replicas())?,
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
/// down. Null stands for 1.
pub fn max_unavailable(value: &Value, replicas: i64) -> Result<usize, Failure> {
    let percent = |text: &str| text.strip_suffix('%')?.parse::<i64>().ok();
    let number = match value {
        Value::Null => Some(1),
        Value::String(text) => percent(text).map(|percent| percent * replicas / 100),
        other => other.as_i64(),
    };
    let number = number.ok_or_else(|| {
        Failure::terminal(format!(
            "maxUnavailable is {value}: make it a number or a percentage such as \"20%\""
        ))
    })?;
    Ok(usize::try_from(number.max(1)).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// `TestGetStatefulSetMaxUnavailable`.
    #[test]
    fn a_percentage_is_rounded_down_but_not_to_nothing() {
        let cases = [
            (json!(null), 3, 1),
            (json!(3), 5, 3),
            (json!(3), 0, 3),
            (json!(0), 0, 1),
            (json!("10%"), 25, 2),
            (json!("100%"), 5, 5),
            (json!("50%"), 5, 2),
            (json!("10%"), 5, 1),
            (json!("1%"), 0, 1),
        ];
        for (value, replicas, wanted) in cases {
            assert_eq!(
                max_unavailable(&value, replicas),
                Ok(wanted),
                "{value} of {replicas}"
            );
        }
        for value in [json!("many"), json!("a%"), json!(true)] {
            assert!(max_unavailable(&value, 5).is_err(), "{value}");
        }
    }
}
