//! How many requests may be sent: token buckets, as client-go's `--kube-api-qps` and `--kube-api-burst`.
//!
//! A request waits for its plugin's bucket, then for the host's, first come, first served. The wait is not part of the request's
//! deadline (client-go throttles before it starts its timeout). One that is given up takes no token of the bucket it waited for.
//!
//! Ours and not a crate: governor wakes its waiters by a real clock and in no order, and tests here run on tokio's paused time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Of a limit without one (client-go's `DefaultBurst`).
pub const DEFAULT_BURST: u32 = 10;

/// No wait is longer, however small the rate.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// A wait this long is worth a line of the log (client-go's `extraLongThrottleLatency`), but not each of them.
const LONG_WAIT: Duration = Duration::from_secs(1);

/// At most one such line in this time.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// So many requests a second in the long run, and so many at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    qps: f64,
    burst: u32,
}

/// Why two numbers are no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// A burst of what?
    #[error("a burst needs a rate")]
    BurstWithoutRate,
    /// Not a number, or no end to it.
    #[error("the rate is not a finite number")]
    NotFinite,
}

impl Limit {
    /// As flags say it: no rate, or one that is not above 0, is no limit; no burst, or 0, is [`DEFAULT_BURST`].
    pub fn of_flags(qps: Option<f64>, burst: Option<u32>) -> Result<Option<Self>, LimitError> {
        let Some(qps) = qps else {
            return burst.map_or(Ok(None), |_| Err(LimitError::BurstWithoutRate));
        };
        if !qps.is_finite() {
            return Err(LimitError::NotFinite);
        }
        let burst = burst.filter(|burst| *burst > 0).unwrap_or(DEFAULT_BURST);
        Ok((qps > 0.0).then_some(Self { qps, burst }))
    }
}

/// Fills at the limit's rate up to its burst, and begins full.
#[derive(Debug)]
struct Bucket {
    limit: Limit,
    /// Held by whoever waits for the next token; tokio's mutex is fair, so the others are behind in the order they came.
    level: tokio::sync::Mutex<Level>,
}

#[derive(Debug)]
struct Level {
    tokens: f64,
    at: Instant,
}

impl Bucket {
    fn new(limit: Limit) -> Self {
        Self {
            limit,
            level: tokio::sync::Mutex::new(Level {
                tokens: limit.burst.into(),
                at: Instant::now(),
            }),
        }
    }

    async fn take(&self) {
        let mut level = self.level.lock().await;
        self.fill(&mut level);
        while level.tokens < 1.0 {
            let missing = (1.0 - level.tokens) / self.limit.qps;
            let wait = Duration::try_from_secs_f64(missing).unwrap_or(LONGEST_WAIT);
            // A nanosecond more than nothing: what is missing may be less than a clock can show.
            tokio::time::sleep(wait.clamp(Duration::from_nanos(1), LONGEST_WAIT)).await;
            self.fill(&mut level);
        }
        level.tokens -= 1.0;
    }

    fn fill(&self, level: &mut Level) {
        let now = Instant::now();
        let new = now.duration_since(level.at).as_secs_f64() * self.limit.qps;
        level.tokens = (level.tokens + new).min(self.limit.burst.into());
        level.at = now;
    }
}

/// What the requests of one plugin, or the host's own, have in common.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    bucket: Option<Bucket>,
    /// Held by a request that the server has turned away, until it is through. The others of the lane wait behind it: they would be
    /// turned away too, and each of them would be one more request to a server that has too many.
    turnstile: tokio::sync::Mutex<()>,
    /// Until when the server wants to be left alone.
    closed_until: Mutex<Option<Instant>>,
}

impl Lane {
    /// Waits while a request of this lane is being turned away, and until the server wants to hear of it again.
    pub(crate) async fn pass(&self) {
        drop(self.turnstile.lock().await);
        loop {
            let closed_until = *self.lock();
            match closed_until {
                Some(until) if until > Instant::now() => tokio::time::sleep_until(until).await,
                _ => return,
            }
        }
    }

    /// Nothing more is to be sent for so long.
    pub(crate) fn close(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut closed_until = self.lock();
        *closed_until = Some(closed_until.map_or(until, |have| have.max(until)));
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.closed_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the others of this lane waiting.
    pub(crate) async fn block(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turnstile.lock().await
    }
}

/// The limits of the host and of its plugins. The default: none.
#[derive(Debug, Default)]
pub struct Limits {
    host: Option<Bucket>,
    per_plugin: Option<Limit>,
    /// Of each plugin that has sent something and has not been forgotten; `None` is the host's own.
    lanes: Mutex<HashMap<Option<String>, Arc<Lane>>>,
    log: Sampler,
}

impl Limits {
    /// `host` is for all requests but watches, `per_plugin` for the writes of each plugin.
    pub fn new(host: Option<Limit>, per_plugin: Option<Limit>) -> Self {
        Self {
            host: host.map(Bucket::new),
            per_plugin,
            ..Self::default()
        }
    }

    pub(crate) fn lane(&self, plugin: Option<&str>) -> Arc<Lane> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let plugin = plugin.map(str::to_owned);
        let limit = self.per_plugin.filter(|_| plugin.is_some());
        let lane = lanes.entry(plugin).or_insert_with(|| {
            Arc::new(Lane {
                bucket: limit.map(Bucket::new),
                ..Lane::default()
            })
        });
        lane.clone()
    }

    /// The plugin has gone. One of its name that comes later begins anew.
    pub(crate) fn forget(&self, plugin: &str) {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.remove(&Some(plugin.to_owned()));
    }

    /// Waits for a token of the lane, then for one of the host. Says how long; nothing if there is no limit.
    pub(crate) async fn wait(&self, lane: &Lane) -> Option<Duration> {
        if lane.bucket.is_none() && self.host.is_none() {
            return None;
        }
        let started = Instant::now();
        for bucket in lane.bucket.iter().chain(&self.host) {
            bucket.take().await;
        }
        Some(started.elapsed())
    }

    /// Logs a long wait, unless one was logged just now.
    pub(crate) fn report(&self, waited: Duration, plugin: Option<&str>, method: &str, path: &str) {
        if waited < LONG_WAIT {
            return;
        }
        if let Some(unlogged) = self.log.sample() {
            tracing::info!(
                seconds = waited.as_secs_f32(),
                plugin,
                method,
                path,
                unlogged,
                "a request has waited for the client-side limit"
            );
        }
    }
}

/// Lets through one in a while.
#[derive(Debug, Default)]
struct Sampler(Mutex<(Option<Instant>, u64)>);

impl Sampler {
    /// How many were held back since the last one that got through; nothing if this one is held back too.
    fn sample(&self) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, unlogged) = *state;
        if last.is_some_and(|last| last.elapsed() < LOG_INTERVAL) {
            state.1 += 1;
            return None;
        }
        *state = (Some(Instant::now()), 0);
        Some(unlogged)
    }
}

#[cfg(test)]
#[path = "limit_tests.rs"]
mod tests;
