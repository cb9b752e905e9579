//! Remembers which Events were written lately, and how often each was repeated.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::body::SeriesKey;

/// A series ends after this long without a repeat (client-go's `finishTime`).
pub(super) const SERIES_TIMEOUT: Duration = Duration::from_secs(6 * 60);

/// Series remembered at once. Beyond this number, the one repeated longest ago is forgotten.
const MAX_SERIES: usize = 4096;

/// An Event that was written, and how often.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) count: u32,
    last: Instant,
}

/// The series that may still get repeats.
#[derive(Debug, Default)]
pub(super) struct SeriesMemory(HashMap<SeriesKey, Series>);

impl SeriesMemory {
    /// Counts a repeat and returns its series, if there is a current one. As in client-go, a repeat
    /// that then cannot be written is counted too: the next one that can be tells of both.
    pub(super) fn repeat(&mut self, key: &SeriesKey, now: Instant) -> Option<Series> {
        let series = self
            .0
            .get_mut(key)
            .filter(|series| now.duration_since(series.last) < SERIES_TIMEOUT)?;
        series.count = series.count.saturating_add(1);
        series.last = now;
        Some(series.clone())
    }

    /// Begins the series of an Event that was there already, unless the write that has put it there
    /// has begun it.
    pub(super) fn join(&mut self, key: SeriesKey, name: String, now: Instant) {
        let has_begun = self.0.get(&key).is_some_and(|series| series.name == name);
        if !has_begun {
            self.begin(key, name, now);
        }
    }

    pub(super) fn begin(&mut self, key: SeriesKey, name: String, now: Instant) {
        let all = &mut self.0;
        if all.len() >= MAX_SERIES {
            all.retain(|_, series| now.duration_since(series.last) < SERIES_TIMEOUT);
        }
        if all.len() >= MAX_SERIES
            && let Some(oldest) = all
                .iter()
                .min_by_key(|(_, series)| series.last)
                .map(|(key, _)| *key)
        {
            all.remove(&oldest);
        }
        all.insert(
            key,
            Series {
                name,
                count: 1,
                last: now,
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn series_are_forgotten_beyond_a_bound() {
        let mut memory = SeriesMemory::default();
        for number in 0..MAX_SERIES + 10 {
            let mut key = [0; 32];
            key[..8].copy_from_slice(&number.to_be_bytes());
            memory.begin(key, String::new(), Instant::now());
        }
        assert_eq!(memory.0.len(), MAX_SERIES);
    }
}
