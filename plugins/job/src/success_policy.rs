//! Whether the succeeded indexes are enough for a Job's success policy.

use crate::indexes::Indexes;
use crate::objects::Job;

/// Says which rule is met, if one is.
pub fn met_rule(job: &Job, succeeded: &Indexes) -> Option<String> {
    let policy = job.spec.success_policy.as_ref()?;
    if succeeded.is_empty() {
        return None;
    }
    let mut rules = policy.rules.iter();
    let place = rules.position(|rule| {
        let is_enough = |count: i64| rule.succeeded_count.is_some_and(|enough| count >= enough);
        let Some(indexes) = &rule.succeeded_indexes else {
            return is_enough(succeeded.total());
        };
        let wanted = Indexes::parse(indexes, job.completions());
        let shared = wanted.shared_with(succeeded);
        // Nothing is parsed of what is no list of indexes.
        !wanted.is_empty() && (shared == wanted.total() || is_enough(shared))
    })?;
    Some(format!("Matched rules at index {place}"))
}
