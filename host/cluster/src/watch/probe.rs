//! Finds out the server's version with a quorum read of one object's metadata, and compares it with
//! the cache's.

use std::time::Duration;

use pilothouse_core::ResourceVersion;
use tokio::time::Instant;

use super::ask::Opened;
use super::error::WatchFailure;
use super::step::{NextRequest, Probed};
use super::{CacheSink, ListWatch, WatchError, WatchState, lines, list};

/// Bytes read of the answer to a probe: one object's metadata. If a server ignores the limit, the
/// front of the list is enough.
const MAX_PROBE: usize = 1024 * 1024;

impl ListWatch {
    /// Asks for the server's version. A failure is not reported as an error: the next request will
    /// fail too, and tell what is wrong.
    pub(super) async fn probe(
        &mut self,
        next: &NextRequest,
        sink: &mut impl CacheSink,
    ) -> Duration {
        let started = Instant::now();
        let version = match self.fetch_version(next).await {
            Ok(version) => version,
            Err(WatchFailure { error, class }) => {
                tracing::debug!(informer = %self.query.informer_key, %error, "cannot probe the server");
                return self.state.probe_failed(class, started.elapsed());
            }
        };
        let (probed, delay) = self.state.probed(&version);
        match probed {
            Probed::Current => {}
            Probed::Suspicious => {
                tracing::debug!(informer = %self.query.informer_key, resource_version = %version, "the server is behind the cache; asking once more");
            }
            Probed::Incomparable => {
                tracing::warn!(informer = %self.query.informer_key, resource_version = %version, "the versions of the server's lists cannot be compared; not asking any more whether it has gone back in time");
            }
            Probed::RolledBack { from, is_news } => {
                sink.rolled_back(&from, &version, is_news);
                if !is_news {
                    return delay;
                }
                self.alarm.raise();
                let error = WatchError::RolledBack {
                    resource: self.query.name(),
                    from: from.to_string(),
                    to: version.to_string(),
                };
                self.announce(sink, WatchState::Error(error.to_string()));
            }
        }
        delay
    }

    async fn fetch_version(&mut self, next: &NextRequest) -> Result<ResourceVersion, WatchFailure> {
        let life = self.settings.page_deadline;
        let until = Instant::now() + life;
        let Opened {
            response, reading, ..
        } = self.ask(next).await?;
        let front = lines::read_front(
            response.into_body(),
            self.settings.quiet_limit,
            until,
            MAX_PROBE,
            &mut self.heard,
        );
        let front = front.await.map_err(|error| self.unread(next, error, life));
        let (body, is_whole) = front?;
        if let Some(reading) = reading.filter(|_| is_whole) {
            reading.received(body.len());
        }
        Ok(ResourceVersion::new(&list::version(&self.query, &body)?))
    }
}
