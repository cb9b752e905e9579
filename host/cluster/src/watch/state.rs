//! What to ask next, given what was answered: the resourceVersion state machine of one list-watch. No I/O, no clock.
//!
//! Guarantees:
//! - A list is never older than anything seen before: it asks for the last resourceVersion, "not older than" (client-go's
//!   `TestReflectorResyncWithResourceVersion`). Where the server cannot (410, "too large resource version"), it asks for the
//!   newest there is, a quorum read (`TestReflectorFullListIfExpired`, `…IfTooLarge`).
//! - No request is repeated more often than once a second for long, and after an outage none waits longer than five.
//!
//! Where this differs from client-go's reflector, and why:
//! - The first list asks for the newest state too, not for `resourceVersion=0`. Any cached state would do for a cache that only
//!   converges, but a host that restarts against an API server that lags would act on a state before its own last writes
//!   (kubernetes/kubernetes#59848). Consistent reads come from the watch cache since 1.31 (KEP-2340), so it costs little.
//! - Lists are always paged, also those "not older than": 100,000 objects are 440 MB of text otherwise. client-go leaves the limit
//!   out because servers without KEP-4988 (before 1.34) answer a limited list from etcd. They answer it correctly.
//! - A watch that cannot be opened is tried again where it was, whatever 5xx was the answer, and so is one that ends within a
//!   second without an event: the position is still good, or else a 410 says so. client-go lists anew.

use std::time::Duration;

use pilothouse_core::key::ResourceVersion;

use super::jitter::Jitter;
use super::settings::Settings;
use crate::request::{RequestError, Status};

/// A watch open this long had nothing to do with the failures before it.
const HEALTHY: Duration = Duration::from_secs(10);

/// No two attempts are closer than this.
const PACE: Duration = Duration::from_secs(1);

/// Longest `Retry-After` that is obeyed.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(30);

/// What to ask next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    List {
        not_older_than: Option<ResourceVersion>,
        paging: Paging,
    },
    Watch {
        from: ResourceVersion,
        timeout: Duration,
    },
}

/// Which part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Paging {
    First,
    /// What follows the pages so far. They are of `list_version` (`TestListPager_List`).
    After {
        token: String,
        list_version: ResourceVersion,
    },
    /// Everything at once: the token had expired before the last page.
    Whole,
}

/// What a failure means for the position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// What was asked for is not, or not yet, to be had.
    BadVersion,
    /// The same again may work.
    Transient { retry_after: Option<Duration> },
    /// What is known may be wrong: list.
    Broken,
}

impl Verdict {
    pub(super) fn of_request(error: &RequestError) -> Self {
        match error.status() {
            Some(status) if status.is_expired() || status.is_too_large_resource_version() => {
                Self::BadVersion
            }
            // Without permission to watch, listing every few seconds instead would be polling.
            Some(status) if matches!(status.code, 401 | 403 | 429 | 500..) => Self::Transient {
                retry_after: status.retry_after,
            },
            Some(_) => Self::Broken,
            None if matches!(error, RequestError::TooLarge(_) | RequestError::Answer(_)) => {
                Self::Broken
            }
            None => Self::Transient { retry_after: None },
        }
    }

    /// An ERROR event. 429 leaves the position good (`TestNoRelistOnTooManyRequests`). Any other may stand for an event that could
    /// not be encoded, so that only a list is safe (`TestReflectorReplacesStoreOnUnsafeDelete`).
    pub(super) fn of_event(status: &Status) -> Self {
        match status.code {
            _ if status.is_expired() || status.is_too_large_resource_version() => Self::BadVersion,
            429 => Self::Transient {
                retry_after: status.retry_after,
            },
            _ => Self::Broken,
        }
    }
}

/// How a watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The server closed it, or it was quiet for too long.
    Closed,
    Failed(Verdict),
}

/// An answer that contradicts itself.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadPage {
    #[error("the list has no resourceVersion, so it cannot be watched")]
    NoVersion,
    #[error("the server continues the list where it already was")]
    Repeats,
}

#[derive(Debug)]
enum Phase {
    List(Paging),
    Watch,
}

#[derive(Debug)]
pub(super) struct State {
    settings: Settings,
    jitter: Jitter,
    phase: Phase,
    /// The newest resourceVersion that is in the cache.
    position: Option<ResourceVersion>,
    /// The server could not serve `position`. Until the next successful list (`TestReflectorFullListIfExpired`).
    is_position_unusable: bool,
    failures: u32,
    /// Lists that followed a failure at once, since the last watch that worked.
    immediate_lists: u32,
}

/// An expired list may be answered by one for the newest state, and that by an unpaged one.
const MAX_IMMEDIATE_LISTS: u32 = 3;

impl State {
    pub(super) fn new(settings: Settings, seed: u64) -> Self {
        Self {
            settings,
            jitter: Jitter(seed),
            phase: Phase::List(Paging::First),
            position: None,
            is_position_unusable: false,
            failures: 0,
            immediate_lists: 0,
        }
    }

    pub(super) fn next(&mut self) -> Next {
        match (&self.phase, &self.position) {
            (Phase::Watch, Some(position)) => {
                let (shortest, longest) = self.settings.watch_timeout;
                let timeout = shortest
                    + longest
                        .saturating_sub(shortest)
                        .mul_f64(self.jitter.fraction());
                Next::Watch {
                    from: position.clone(),
                    timeout: Duration::from_secs(timeout.as_secs()),
                }
            }
            (Phase::List(paging), _) => Next::List {
                not_older_than: self.list_from(),
                paging: paging.clone(),
            },
            (Phase::Watch, None) => Next::List {
                not_older_than: None,
                paging: Paging::First,
            },
        }
    }

    fn list_from(&self) -> Option<ResourceVersion> {
        self.position.clone().filter(|_| !self.is_position_unusable)
    }

    /// A page is here. Some: it was the last, and the list is of this resourceVersion.
    pub(super) fn page(
        &mut self,
        version: &str,
        token: Option<String>,
    ) -> Result<Option<ResourceVersion>, BadPage> {
        let Phase::List(paging) = &self.phase else {
            return Err(BadPage::Repeats);
        };
        let list_version = match paging {
            Paging::After { list_version, .. } => list_version.clone(),
            Paging::First | Paging::Whole => ResourceVersion::new(version),
        };
        if list_version.to_string().is_empty() {
            return Err(BadPage::NoVersion);
        }
        let Some(token) = token else {
            self.phase = Phase::Watch;
            self.position = Some(list_version.clone());
            self.is_position_unusable = false;
            return Ok(Some(list_version));
        };
        if matches!(paging, Paging::After { token: last, .. } if *last == token) {
            return Err(BadPage::Repeats);
        }
        self.phase = Phase::List(Paging::After {
            token,
            list_version,
        });
        Ok(None)
    }

    /// A page did not come. Returns how long to wait before [`State::next`].
    pub(super) fn list_failed(&mut self, verdict: Verdict) -> Duration {
        let Phase::List(paging) = &self.phase else {
            return self.back_off(None);
        };
        match verdict {
            // The same page again: its token is good for minutes.
            Verdict::Transient { retry_after } => self.back_off(retry_after),
            Verdict::Broken => {
                self.phase = Phase::List(Paging::First);
                self.back_off(None)
            }
            // `TestListPager_List`: expired on a later page, one unpaged list of what was asked for at first.
            Verdict::BadVersion if matches!(paging, Paging::After { .. }) => {
                self.phase = Phase::List(Paging::Whole);
                self.at_once()
            }
            Verdict::BadVersion => {
                self.phase = Phase::List(Paging::First);
                if self.list_from().is_none() {
                    return self.back_off(None);
                }
                self.is_position_unusable = true;
                self.at_once()
            }
        }
    }

    /// An object of this resourceVersion came over the watch. False: the cache is beyond it, and must not go back.
    ///
    /// resourceVersions are integers that grow (KEP-5504); those of a server that does it otherwise are taken as they come.
    pub(super) fn advance(&mut self, version: &ResourceVersion) -> bool {
        if version.to_string().is_empty() {
            return true;
        }
        let is_number = |version: &ResourceVersion| {
            version
                .to_string()
                .bytes()
                .all(|byte| byte.is_ascii_digit())
        };
        if self
            .position
            .as_ref()
            .is_some_and(|position| is_number(position) && is_number(version) && version < position)
        {
            return false;
        }
        self.position = Some(version.clone());
        true
    }

    /// The watch is over after so long and so many events. Returns how long to wait before [`State::next`].
    pub(super) fn watch_ended(&mut self, end: End, lasted: Duration, events: u64) -> Duration {
        if lasted >= HEALTHY {
            self.failures = 0;
            self.immediate_lists = 0;
        }
        match end {
            // "Very short watch" (`TestReflectorHandleWatchResultChanClosedBefore`).
            End::Closed if lasted < PACE && events == 0 => self.back_off(None),
            End::Closed => PACE.saturating_sub(lasted),
            End::Failed(Verdict::Transient { retry_after }) => self.back_off(retry_after),
            End::Failed(Verdict::BadVersion) => {
                self.phase = Phase::List(Paging::First);
                self.at_once()
            }
            End::Failed(Verdict::Broken) => {
                self.phase = Phase::List(Paging::First);
                self.back_off(None)
            }
        }
    }

    fn at_once(&mut self) -> Duration {
        self.immediate_lists += 1;
        if self.immediate_lists > MAX_IMMEDIATE_LISTS {
            self.back_off(None)
        } else {
            Duration::ZERO
        }
    }

    fn back_off(&mut self, retry_after: Option<Duration>) -> Duration {
        let doublings = self.failures.min(16);
        self.failures += 1;
        let delay = self
            .settings
            .base_delay
            .saturating_mul(1 << doublings)
            .min(self.settings.max_delay);
        let delay = delay + delay.mul_f64(self.jitter.fraction() / 4.0);
        delay.max(retry_after.unwrap_or_default().min(MAX_RETRY_AFTER))
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
