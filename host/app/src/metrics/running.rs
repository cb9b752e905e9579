//! For how long the keys that run now have been running, per plugin.
//!
//! Keys are not told apart: one that ends is taken to be the one that began when it says it began.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

#[derive(Debug, Default)]
pub struct Running {
    /// When each key began, by plugin.
    began: Mutex<HashMap<String, Vec<Instant>>>,
}

impl Running {
    /// A key of the plugin begins.
    pub fn begin(&self, plugin: &str) {
        let mut began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        began
            .entry(plugin.to_owned())
            .or_default()
            .push(Instant::now());
    }

    /// A key of the plugin has ended, after this time.
    pub fn end(&self, plugin: &str, time: Duration) {
        let mut began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(began) = began.get_mut(plugin) else {
            return;
        };
        let distance = |at: &Instant| at.elapsed().abs_diff(time);
        let nearest = (0..began.len()).min_by_key(|number| distance(&began[*number]));
        if let Some(nearest) = nearest {
            began.swap_remove(nearest);
        }
    }

    /// Of each running key of the plugin, how long it has been running.
    pub fn ages(&self, plugin: &str) -> Vec<Duration> {
        let began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        let began = began.get(plugin).into_iter().flatten();
        began.map(Instant::elapsed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_that_ends_is_the_one_that_began_when_it_says() {
        let running = Running::default();
        for _ in 0..3 {
            running.begin("a");
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        // The ages are 3, 2 and 1 s.
        running.end("a", Duration::from_millis(2001));
        let mut ages = running.ages("a");
        ages.sort();
        assert_eq!(ages, [1, 3].map(Duration::from_secs));
        running.end("b", Duration::ZERO);
        assert!(running.ages("b").is_empty());
    }
}
