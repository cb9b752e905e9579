//! When the controllers were behind, as their own statuses tell.

use std::collections::BTreeMap;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use pilothouse_tests::What;

use super::Record;

/// A status that follows a spec sooner than this is not late.
const SOON: SignedDuration = SignedDuration::from_secs(1);

/// The times in which an object's status was of an older spec: from the change of the spec to the
/// status that has observed it. So long did it take until a controller knew of a change, had its
/// turn and had written; on a machine with other work to do that is seconds.
pub fn times_behind(records: &[Record]) -> Vec<(Timestamp, Timestamp)> {
    let mut since = BTreeMap::new();
    let mut times = Vec::new();
    for record in records {
        let facts = &record.facts;
        if facts.is_behind && record.what != What::Deleted {
            since.entry(&facts.uid).or_insert(record.at);
        } else if let Some(from) = since.remove(&facts.uid) {
            times.push((from, record.at));
        }
    }
    let end = records.last().map(|record| record.at);
    times.extend(since.into_values().zip(end.into_iter().cycle()));
    times.retain(|(from, to)| *to - SOON > *from);
    times
}
