//! Limits how many Events a plugin may write: client-go's `EventSourceObjectSpamFilter`, and a
//! limit over all Events of a plugin. Excess Events are dropped: they would be worth nothing later.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use pilothouse_core::{Kind, ObjectKey};
use tokio::time::Instant;

/// For one plugin and one object (client-go's `defaultSpamBurst` and `defaultSpamQPS`).
const OF_OBJECT: Rate = Rate {
    burst: 25,
    each: Duration::from_secs(5 * 60),
};
/// For one plugin.
const OF_PLUGIN: Rate = Rate {
    burst: 100,
    each: Duration::from_millis(100),
};
/// Buckets remembered at once (client-go's `maxLruCacheEntries`). Beyond this number, the fullest
/// bucket is forgotten.
const MOST: usize = 4096;

/// `burst` at once, and then one per `each`.
#[derive(Clone, Copy)]
struct Rate {
    burst: u32,
    each: Duration,
}

/// A token bucket, stored as the time at which it will be full. Any time up to now means full.
type FullAt = Instant;

/// The buckets of plugins and objects that have written Events lately.
#[derive(Debug, Default)]
pub(super) struct SpamFilter {
    objects: HashMap<(String, Kind, ObjectKey), FullAt>,
    plugins: HashMap<String, FullAt>,
}

impl SpamFilter {
    /// Returns whether a plugin may write another Event about this object. If so, it is counted.
    pub(super) fn takes(
        &mut self,
        plugin: &str,
        kind: &Kind,
        key: &ObjectKey,
        now: Instant,
    ) -> bool {
        let about = (plugin.to_owned(), kind.clone(), key.clone());
        let object = next(self.objects.get(&about), OF_OBJECT, now);
        let all = next(self.plugins.get(plugin), OF_PLUGIN, now);
        let (Some(object), Some(all)) = (object, all) else {
            return false;
        };
        insert(&mut self.objects, about, object, now);
        insert(&mut self.plugins, plugin.to_owned(), all, now);
        true
    }
}

/// The time at which the bucket will be full after taking one more token; `None` if it is empty.
fn next(full_at: Option<&FullAt>, rate: Rate, now: Instant) -> Option<FullAt> {
    let full_at = full_at.copied().unwrap_or(now).max(now) + rate.each;
    (full_at - now <= rate.each * rate.burst).then_some(full_at)
}

/// Stores a bucket. Full buckets need not be kept: a missing one counts as full.
fn insert<K: Clone + Eq + Hash>(
    buckets: &mut HashMap<K, FullAt>,
    key: K,
    full_at: FullAt,
    now: Instant,
) {
    buckets.insert(key, full_at);
    if buckets.len() > MOST {
        buckets.retain(|_, full_at| *full_at > now);
    }
    if buckets.len() > MOST
        && let Some(fullest) = buckets.iter().min_by_key(|(_, at)| **at)
    {
        let fullest = fullest.0.clone();
        buckets.remove(&fullest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(filter: &mut SpamFilter, plugin: &str, name: &str, count: u32, now: Instant) -> u32 {
        let kind = Kind::new("", "v1", "Pod");
        let key = ObjectKey::new("default", name);
        (0..count)
            .map(|_| u32::from(filter.takes(plugin, &kind, &key, now)))
            .sum()
    }

    #[tokio::test(start_paused = true)]
    async fn one_object_has_twenty_five_events_and_then_one_each_five_minutes() {
        let mut filter = SpamFilter::default();
        let start = Instant::now();
        assert_eq!(taken(&mut filter, "p", "a", 1_000, start), 25);
        assert_eq!(
            taken(&mut filter, "p", "b", 10, start),
            10,
            "another object"
        );
        assert_eq!(
            taken(&mut filter, "q", "a", 10, start),
            10,
            "another plugin"
        );
        let later = start + Duration::from_secs(299);
        assert_eq!(taken(&mut filter, "p", "a", 10, later), 0);
        let later = start + Duration::from_secs(300);
        assert_eq!(taken(&mut filter, "p", "a", 10, later), 1);
        let much_later = start + Duration::from_secs(30 * 300);
        assert_eq!(taken(&mut filter, "p", "a", 1_000, much_later), 25);
    }

    #[tokio::test(start_paused = true)]
    async fn one_plugin_has_a_hundred_events_and_then_ten_a_second() {
        let mut filter = SpamFilter::default();
        let start = Instant::now();
        let all = |filter: &mut SpamFilter, now| -> u32 {
            (0..10_000)
                .map(|number| taken(filter, "p", &number.to_string(), 1, now))
                .sum()
        };
        assert_eq!(all(&mut filter, start), 100);
        assert_eq!(all(&mut filter, start + Duration::from_secs(1)), 10);
        assert_eq!(
            taken(&mut filter, "q", "a", 10, start),
            10,
            "another plugin"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn objects_without_number_take_no_memory_without_end() {
        let mut filter = SpamFilter::default();
        let now = Instant::now();
        for number in 0..3 * MOST {
            taken(&mut filter, &number.to_string(), "a", 1, now);
        }
        assert!(filter.objects.len() <= MOST && filter.plugins.len() <= MOST);
    }
}
