//! Client-side rate limits: token buckets, like client-go's `--kube-api-qps` and
//! `--kube-api-burst`.
//!
//! A request waits for its plugin's bucket, then for the host's, first come, first served. The wait
//! does not count towards the request's deadline (client-go throttles before it starts its
//! timeout). A request that is cancelled while it waits takes no token from the bucket it waited
//! for.
//!
//! Why not a crate: governor wakes its waiters by the real clock and in no order, and the tests
//! here run on tokio's paused time. leaky-bucket takes an interval instead of a rate and panics if
//! that is zero or too long; here the operator's number is used as it is.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

/// The burst of a rate that is given without one (client-go's `DefaultBurst`).
pub const DEFAULT_BURST: u32 = 10;

/// Upper bound on one wait, however small the rate.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// A wait of at least this long is logged (client-go's `extraLongThrottleLatency`), but not every
/// one.
const LONG_WAIT: Duration = Duration::from_secs(1);

/// At most one long wait is logged in this time.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// A rate in requests per second over the long run, and a number of requests at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    qps: f64,
    burst: u32,
}

/// Why two numbers do not make a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// A burst is given without a rate.
    #[error("a burst needs a rate")]
    BurstWithoutRate,
    /// The rate is NaN or infinite.
    #[error("the rate is not a finite number")]
    NotFinite,
}

impl Limit {
    /// Reads the values of the flags. Without a rate, or with one that is not above 0, there is no
    /// limit. Without a burst, or with 0, the burst is [`DEFAULT_BURST`].
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

/// A token bucket: fills at the limit's rate up to its burst, and starts full.
#[derive(Debug)]
struct Bucket {
    limit: Limit,
    /// Held by the request that waits for the next token. tokio's mutex is fair, so the others
    /// queue behind it in order of arrival.
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
            // At least a nanosecond: the missing part may take less time than the clock can show.
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

/// State shared by the requests of one plugin, or by the host's own.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    bucket: Option<Bucket>,
    /// Held by a request that the server has turned away, while it is being repeated. The lane's
    /// other requests wait behind it: they would be turned away too, and would add to the load of a
    /// server that has too much.
    turnstile: tokio::sync::Mutex<()>,
    /// Time until which the server wants no requests.
    closed_until: Mutex<Option<Instant>>,
}

impl Lane {
    /// Waits while a request of this lane is being repeated, and until the pause that the server
    /// asked for is over.
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

    /// Holds back this lane's requests for `time`. A longer pause already in force stays.
    pub(crate) fn close(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut closed_until = self.lock();
        *closed_until = Some(closed_until.map_or(until, |have| have.max(until)));
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.closed_until.lock()
    }

    /// Makes the lane's other requests wait until the guard is dropped.
    pub(crate) async fn block(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turnstile.lock().await
    }
}

/// The limits of the host and of its plugins. By default there are none.
#[derive(Debug, Default)]
pub struct RateLimits {
    host: Option<Bucket>,
    per_plugin: Option<Limit>,
    /// One lane for each plugin that has sent something and was not forgotten since; the key `None`
    /// is the host's own lane.
    lanes: Mutex<HashMap<Option<String>, Arc<Lane>>>,
    log: Sampler,
}

impl RateLimits {
    /// `host` limits all requests but watches; `per_plugin` limits the writes of each plugin.
    pub fn new(host: Option<Limit>, per_plugin: Option<Limit>) -> Self {
        Self {
            host: host.map(Bucket::new),
            per_plugin,
            ..Self::default()
        }
    }

    pub(crate) fn lane(&self, plugin: Option<&str>) -> Arc<Lane> {
        let mut lanes = self.lanes.lock();
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

    /// Drops the lane of a plugin that was removed. A later plugin of the same name starts afresh.
    pub(crate) fn forget(&self, plugin: &str) {
        let mut lanes = self.lanes.lock();
        lanes.remove(&Some(plugin.to_owned()));
    }

    /// Waits for a token of the lane, then for one of the host, and returns the time waited. `None`
    /// if no limit applies.
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

    /// Logs a long wait, unless another one was logged within [`LOG_INTERVAL`].
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

/// Lets one through per [`LOG_INTERVAL`].
#[derive(Debug, Default)]
struct Sampler(Mutex<(Option<Instant>, u64)>);

impl Sampler {
    /// The number held back since the last one let through, or `None` if this one is held back too.
    fn sample(&self) -> Option<u64> {
        let mut state = self.0.lock();
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
mod tests;
