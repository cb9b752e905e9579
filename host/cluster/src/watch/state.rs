//! Decides the next request from the answers so far: the resourceVersion state machine of one
//! list-watch. It does no I/O and reads no clock.
//!
//! ```text
//!          ┌──────── any other refusal, no marker in time ────────▶ List ──┐
//!        Stream ── marker: everything is here, and it goes on ──▶ Watch ◀──┘ last page
//!          ▲                                                      │   ▲
//!          └── 410, an unreadable or missed event ────────────────┤   │ the server is where it was
//!          └── rolled back ──────────── Probe ◀── lost, quiet ────┴───┘
//! ```
//!
//! Guarantees:
//! - A list or stream is never older than anything seen before. It asks for the last
//!   resourceVersion, "not older than" (client-go's `TestReflectorResyncWithResourceVersion`), and
//!   an older answer is rejected. If the server cannot serve that version (410, "too large resource
//!   version"), the newest state is requested, a quorum read (`TestReflectorFullListIfExpired`,
//!   `…IfTooLarge`).
//! - The position goes back only if two quorum reads in a row find that the server is behind it.
//! - If another list-watch has found a rollback, everything is listed, even if the server has come
//!   further since. That list replaces the whole cache.
//! - No request is repeated more often than once a second for long, and after an outage no request
//!   waits longer than five seconds.
//!
//! Differences from client-go's reflector, with reasons:
//! - The first list also asks for the newest state, not for `resourceVersion=0`. Any cached state
//!   would do for a cache that only converges. But a host that restarts against a lagging API
//!   server would act on a state before its own last writes (kubernetes/kubernetes#59848).
//!   Consistent reads come from the watch cache since 1.31 (KEP-2340), so this costs little.
//! - Lists are always paged, including those "not older than": otherwise 100,000 objects are 440 MB
//!   of text. client-go leaves the limit out because servers without KEP-4988 (before 1.34) answer
//!   a limited list from etcd. Those answers are correct.
//! - A watch that cannot be opened is tried again at the same position after any 5xx, and so is one
//!   that ends within a second without an event. Either the position is still good, or a 410
//!   reports that it is not. client-go lists again.
//! - The watch of a quiet kind is requested for nine seconds, not for five to ten minutes: see
//!   `WatchSettings::quiet_timeout`.
//! - After two streams that broke before they were complete, a list is tried, because its pages
//!   need not all arrive over one connection.

use std::time::Duration;

use pilothouse_core::ResourceVersion;

use super::failure_class::FailureClass;
use super::jitter::Jitter;
use super::position::{Order, Position, is_older};
use super::settings::WatchSettings;
use super::step::{BadList, CompleteList, End, NextRequest, Paging, Probed, Unfinished};

/// A watch that lasted this long is unrelated to the failures before it, and resets their count.
/// Less than the duration of a quiet kind's watch.
const HEALTHY: Duration = Duration::from_secs(5);

/// Least time from one attempt's start to the next, except where an attempt follows a failure at
/// once.
const PACE: Duration = Duration::from_secs(1);

/// Delay between attempts to fetch objects that exceed the room.
const FULL_DELAY: Duration = Duration::from_secs(60);

/// Longest `Retry-After` that is obeyed.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(30);

/// Maximum number of attempts without a delay after a failure. No useful chain is longer: after an
/// expired stream, a stream of the newest state may be tried, then a list, then an unpaged list.
const MAX_IMMEDIATE: u32 = 4;

/// After this many streams that break before they are complete, a list is tried.
const MAX_INCOMPLETE_STREAMS: u32 = 2;

/// Longest resourceVersion, in bytes: it must fit into a request.
const MAX_VERSION: usize = 1024;

/// After this many fruitless watches in a row, everything is listed. A watch is fruitless if it was
/// accepted and brought nothing, not even its end in time. The number doubles with every such list,
/// up to [`MAX_FRUITLESS_DOUBLINGS`] times.
const MAX_FRUITLESS: u32 = 3;

const MAX_FRUITLESS_DOUBLINGS: u32 = 4;

/// After this many failures the unpaged list is given up: no request costs the server and the
/// network more.
const MAX_WHOLE_FAILURES: u32 = 2;

/// A server may answer probes with something useless, and that answer may be large. With each such
/// answer it is probed half as often, up to this many times.
const MAX_PROBE_DOUBLINGS: u32 = 6;

/// After this many watches in a row without a change, about half a minute, the server is probed.
const QUIET_WATCHES_PER_PROBE: u32 = 3;

#[derive(Debug)]
enum Phase {
    Stream,
    List(Paging),
    Watch,
    Probe,
}

#[derive(Debug)]
pub(super) struct ListWatchState {
    settings: WatchSettings,
    jitter: Jitter,
    phase: Phase,
    /// The resourceVersion up to which the cache is current.
    position: Option<Position>,
    /// The newest version of an object that was fetched by name. The events up to there may still
    /// be to come.
    seen: Option<ResourceVersion>,
    /// True if a watch from the position would bring all changes that are missing.
    is_complete: bool,
    /// The server could not serve the position, so requests do not name it. Until the next complete
    /// list (`TestReflectorFullListIfExpired`), or until a probe finds the server at
    /// the position or beyond.
    is_position_unusable: bool,
    /// The server may have been rolled back since it was last probed, so a probe is due.
    owes_probe: bool,
    /// The last probe found the server behind the cache.
    is_suspicious: bool,
    /// The next list is the first one after a rollback.
    is_rolled_back: bool,
    /// Another list-watch has found that the server was rolled back. Until the next complete list.
    is_doubted: bool,
    /// The version of the list that followed the last rollback.
    rolled_back_to: Option<ResourceVersion>,
    /// Number of probes in a row whose answers were useless.
    senseless_probes: u32,
    /// Number of due probes to leave out because of that.
    probes_to_skip: u32,
    /// The server's lists and probes count differently, so it is not probed any more.
    is_incomparable: bool,
    failures: u32,
    /// Attempts without a delay after a failure, since the last watch that worked.
    immediate: u32,
    incomplete_streams: u32,
    /// Failures of the current unpaged list.
    whole_failures: u32,
    /// Number of watches in a row that brought nothing: closed at once, or silent.
    fruitless: u32,
    /// Number of relists because of fruitless watches, since a watch last brought something.
    fruitless_lists: u32,
    /// Number of fruitless watches that caused the current relist, until `take_fruitless` reports
    /// it.
    untold_fruitless: Option<u32>,
    /// Number of watches in a row without a change.
    quiet_watches: u32,
    /// True if the current watch has brought a change.
    has_changes: bool,
}

impl ListWatchState {
    pub(super) fn new(settings: WatchSettings, seed: u64) -> Self {
        let mut state = Self {
            settings,
            jitter: Jitter(seed),
            phase: Phase::Stream,
            position: None,
            seen: None,
            is_complete: false,
            is_position_unusable: false,
            owes_probe: false,
            is_suspicious: false,
            is_rolled_back: false,
            is_doubted: false,
            rolled_back_to: None,
            senseless_probes: 0,
            probes_to_skip: 0,
            is_incomparable: false,
            failures: 0,
            immediate: 0,
            incomplete_streams: 0,
            whole_failures: 0,
            fruitless: 0,
            fruitless_lists: 0,
            untold_fruitless: None,
            quiet_watches: 0,
            has_changes: false,
        };
        state.start_over();
        state
    }

    /// Nothing older than this version is accepted from the start.
    pub(super) fn begin_at(&mut self, version: &ResourceVersion) {
        if !version.is_empty() {
            self.position = Some(Position::at(version));
        }
    }

    /// Random delay before the first request.
    pub(super) fn start_delay(&mut self) -> Duration {
        self.settings.start_spread.mul_f64(self.jitter.fraction())
    }

    pub(super) fn next(&self) -> NextRequest {
        match (&self.phase, &self.position) {
            (Phase::Watch, Some(position)) => NextRequest::Watch {
                from: position.newest().clone(),
                is_quiet: self.quiet_watches > 0 || self.owes_probe,
            },
            (Phase::Probe, Some(_)) => NextRequest::Probe,
            (Phase::List(paging), _) => NextRequest::List {
                not_older_than: self.not_older_than(),
                paging: paging.clone(),
            },
            (Phase::Stream, _) | (_, None) => NextRequest::Stream {
                not_older_than: self.not_older_than(),
            },
        }
    }

    /// How long the server is asked to keep the answer open; whole seconds, at least 1.
    pub(super) fn timeout(&mut self, next: &NextRequest) -> Duration {
        let (shortest, longest) = self.settings.watch_timeout;
        let timeout = match next {
            NextRequest::Watch { is_quiet: true, .. } => self.settings.quiet_timeout,
            NextRequest::Stream { .. } => longest,
            _ => {
                let range = longest.saturating_sub(shortest);
                shortest + range.mul_f64(self.jitter.fraction())
            }
        };
        Duration::from_secs(timeout.as_secs().max(1))
    }

    /// The newest version of anything in the cache.
    fn newest(&self) -> Option<&ResourceVersion> {
        let newest = self.position.as_ref()?.newest();
        let seen = self.seen.as_ref().filter(|seen| is_older(newest, seen));
        Some(seen.unwrap_or(newest))
    }

    fn not_older_than(&self) -> Option<ResourceVersion> {
        let usable = self.newest().filter(|_| !self.is_position_unusable);
        usable.cloned()
    }

    /// An object of this version was fetched by name and is in the cache.
    pub(super) fn see(&mut self, version: ResourceVersion) {
        if self
            .seen
            .as_ref()
            .is_none_or(|seen| is_older(seen, &version))
        {
            self.seen = Some(version);
        }
    }

    /// Everything must be fetched again.
    fn start_over(&mut self) {
        self.is_complete = false;
        let is_streaming =
            self.settings.is_streaming && self.incomplete_streams < MAX_INCOMPLETE_STREAMS;
        self.phase = if is_streaming {
            Phase::Stream
        } else {
            Phase::List(Paging::First)
        };
    }

    /// Probes the server next, unless probes are useless with this server or one is to be skipped.
    fn probe(&mut self) {
        let must_skip = self.probes_to_skip > 0;
        self.probes_to_skip = self.probes_to_skip.saturating_sub(1);
        if self.is_incomparable || must_skip {
            self.owes_probe = false;
            self.quiet_watches = self.quiet_watches.min(1);
            self.resume();
        } else {
            self.phase = Phase::Probe;
        }
    }

    /// Called when another list-watch has found that the server was rolled back. A probe alone
    /// proves little, since the server may have come further by now. It is sent all the same,
    /// because a list older than the position is accepted only after probes have confirmed the
    /// rollback.
    pub(super) fn doubt(&mut self) {
        self.is_doubted = true;
        if self.position.is_some() {
            self.is_complete = false;
            self.probe();
        }
    }

    /// Continues what a probe interrupted.
    fn resume(&mut self) {
        if self.is_complete {
            self.phase = Phase::Watch;
        } else {
            self.start_over();
        }
    }

    fn check_list(&self, version: &ResourceVersion) -> Result<(), BadList> {
        // A list must have a version, one that fits into a request, and not an older one than the
        // cache.
        match self.newest() {
            _ if version.is_empty() => Err(BadList::NoVersion),
            _ if version.to_string().len() > MAX_VERSION => Err(BadList::LongVersion(MAX_VERSION)),
            Some(newest) if !self.is_incomparable && is_older(version, newest) => {
                Err(BadList::Behind {
                    listed: version.to_string(),
                    seen: newest.to_string(),
                })
            }
            _ => Ok(()),
        }
    }

    /// All objects have arrived, as of this version.
    fn complete(&mut self, version: ResourceVersion) -> CompleteList {
        // A list that goes back is accepted only from a server whose versions cannot be compared.
        // The cache must accept it as well, so it is marked as a rollback.
        let goes_back = self
            .newest()
            .is_some_and(|newest| is_older(&version, newest));
        self.phase = Phase::Watch;
        self.position = Some(Position::at(&version));
        self.seen = None;
        self.is_complete = true;
        self.is_position_unusable = false;
        self.is_suspicious = false;
        self.incomplete_streams = 0;
        self.quiet_watches = 0;
        self.has_changes = false;
        let is_rollback = std::mem::take(&mut self.is_rolled_back);
        if is_rollback {
            self.rolled_back_to = Some(version.clone());
        }
        CompleteList {
            version,
            is_rollback: std::mem::take(&mut self.is_doubted) || is_rollback || goes_back,
        }
    }

    /// A page has arrived. Returns the list if this page was the last.
    pub(super) fn page(
        &mut self,
        version: &str,
        token: Option<String>,
    ) -> Result<Option<CompleteList>, BadList> {
        let Phase::List(paging) = &self.phase else {
            return Err(BadList::Repeats);
        };
        let list_version = match paging {
            Paging::After { list_version, .. } => list_version.clone(),
            Paging::First | Paging::Whole => ResourceVersion::new(version),
        };
        self.check_list(&list_version)?;
        let Some(token) = token else {
            return Ok(Some(self.complete(list_version)));
        };
        if matches!(paging, Paging::After { token: last, .. } if *last == token) {
            return Err(BadList::Repeats);
        }
        self.phase = Phase::List(Paging::After {
            token,
            list_version,
        });
        Ok(None)
    }

    /// A request for a page failed after `lasted`. Returns the delay before
    /// [`ListWatchState::next`].
    pub(super) fn list_failed(&mut self, class: FailureClass, lasted: Duration) -> Duration {
        let is_later_page = matches!(&self.phase, Phase::List(Paging::After { .. }));
        match class {
            FailureClass::Busy { .. } | FailureClass::Refused { .. } | FailureClass::Lost
                if self.is_hopeless_whole() =>
            {
                self.start_over();
                self.back_off(class, lasted)
            }
            // The same page again: its token stays valid for minutes.
            FailureClass::Busy { .. } | FailureClass::Refused { .. } | FailureClass::Lost => {
                self.back_off(class, lasted)
            }
            FailureClass::Broken => {
                self.start_over();
                self.back_off(class, lasted)
            }
            FailureClass::Full => self.wait_for_room(),
            // `TestListPager_List`: if the token expires on a later page, one unpaged list of the
            // version first asked for.
            FailureClass::BadVersion if is_later_page => {
                self.phase = Phase::List(Paging::Whole);
                self.whole_failures = 0;
                self.at_once()
            }
            FailureClass::BadVersion | FailureClass::Behind => {
                self.phase = Phase::List(Paging::First);
                self.ask_for_the_newest(class, lasted)
            }
        }
    }

    fn is_hopeless_whole(&mut self) -> bool {
        let is_whole = matches!(&self.phase, Phase::List(Paging::Whole));
        self.whole_failures += u32::from(is_whole);
        is_whole && self.whole_failures >= MAX_WHOLE_FAILURES
    }

    /// The requested version is not available: asks for the newest state instead. If this already
    /// was the newest state, backs off, or probes if it is older than one seen before.
    fn ask_for_the_newest(&mut self, class: FailureClass, lasted: Duration) -> Duration {
        if self.not_older_than().is_some() {
            self.is_position_unusable = true;
            return self.at_once();
        }
        if class == FailureClass::Behind {
            // Even a quorum read is older than what was seen: possibly a rollback.
            self.probe();
            return self.at_once();
        }
        self.back_off(class, lasted)
    }

    /// The stream's marker has arrived: what the stream brought is all there is, as of this
    /// version.
    pub(super) fn streamed(&mut self, version: &ResourceVersion) -> Result<CompleteList, BadList> {
        self.check_list(version)?;
        Ok(self.complete(version.clone()))
    }

    /// The stream ended before its marker. Returns the delay before [`ListWatchState::next`].
    pub(super) fn stream_ended(&mut self, how: Unfinished, lasted: Duration) -> Duration {
        match how {
            // A refused connection or a 429 leaves streaming in use (`TestWatchList`, "retries
            // 429").
            Unfinished::Unopened(class @ (FailureClass::Lost | FailureClass::Busy { .. }))
            | Unfinished::Failed(class @ FailureClass::Busy { .. }) => self.back_off(class, lasted),
            Unfinished::Unopened(class @ (FailureClass::BadVersion | FailureClass::Behind))
            | Unfinished::Failed(class @ (FailureClass::BadVersion | FailureClass::Behind)) => {
                self.ask_for_the_newest(class, lasted)
            }
            Unfinished::Closed | Unfinished::Failed(FailureClass::Lost) => {
                self.incomplete_streams += 1;
                self.start_over();
                self.back_off(FailureClass::Lost, lasted)
            }
            Unfinished::Failed(FailureClass::Full) => self.wait_for_room(),
            // The fallback to a list is for this attempt only (`TestWatchList`, "any other error …
            // forces fallback").
            Unfinished::Overdue | Unfinished::Unopened(_) => {
                self.phase = Phase::List(Paging::First);
                self.at_once()
            }
            Unfinished::Failed(class) => {
                self.phase = Phase::List(Paging::First);
                self.back_off(class, lasted)
            }
        }
    }

    /// An event of this version came over the watch. Returns how it relates to the position.
    pub(super) fn advance(&mut self, version: &ResourceVersion, is_change: bool) -> Order {
        let Some(position) = &mut self.position else {
            return Order::New;
        };
        let order = position.advance(version);
        self.has_changes |= is_change && order == Order::New;
        order
    }

    /// The watch ended after `lasted`, having brought `lines` lines. Returns the delay before
    /// [`ListWatchState::next`].
    pub(super) fn watch_ended(&mut self, end: End, lasted: Duration, lines: u64) -> Duration {
        if lasted >= HEALTHY {
            self.failures = 0;
            self.immediate = 0;
        }
        if let Some(position) = &mut self.position {
            position.settle();
        }
        let had_changes = std::mem::take(&mut self.has_changes);
        if self.is_fruitless(end, lasted, lines) {
            self.owes_probe = true;
            self.start_over();
            return self.back_off(FailureClass::Lost, lasted);
        }
        match end {
            // "Very short watch" (`TestReflectorHandleWatchResultChanClosedBefore`).
            End::Closed if lasted < PACE && lines == 0 => self.back_off(FailureClass::Lost, lasted),
            End::Closed => {
                self.quiet_watches = if had_changes {
                    0
                } else {
                    self.quiet_watches + 1
                };
                self.probe_if_due();
                PACE.saturating_sub(lasted)
            }
            // A random part of the delay, so that not all list-watches ask at once. `doubt` is
            // called next.
            End::Doubted => self.settings.base_delay.mul_f64(self.jitter.fraction()),
            // Opening the watch again is the fastest test of whether the server lives.
            End::Quiet => {
                self.quiet_watches += 1;
                PACE.saturating_sub(lasted)
            }
            End::Failed(class @ FailureClass::Lost) => {
                self.owes_probe = true;
                self.probe();
                self.back_off(class, lasted)
            }
            End::Failed(FailureClass::Behind) => {
                self.probe();
                PACE.saturating_sub(lasted)
            }
            End::Failed(class @ (FailureClass::Busy { .. } | FailureClass::Refused { .. })) => {
                self.back_off(class, lasted)
            }
            End::Failed(FailureClass::BadVersion) => {
                self.start_over();
                self.at_once()
            }
            End::Failed(class @ (FailureClass::Broken | FailureClass::Full)) => {
                self.start_over();
                self.back_off(class, lasted)
            }
        }
    }

    /// Returns whether this was one fruitless watch too many. The server may accept watches from a
    /// position that it cannot really serve; a list settles that.
    fn is_fruitless(&mut self, end: End, lasted: Duration, lines: u64) -> bool {
        if lines > 0 {
            self.fruitless = 0;
            self.fruitless_lists = 0;
            return false;
        }
        match end {
            End::Closed if lasted < PACE => self.fruitless += 1,
            End::Failed(FailureClass::Lost) if lasted >= self.settings.quiet_limit => {
                self.fruitless += 1;
            }
            // It ended in time, although without a bookmark: it worked.
            End::Closed => self.fruitless = 0,
            End::Quiet | End::Doubted | End::Failed(_) => {}
        }
        let doublings = self.fruitless_lists.min(MAX_FRUITLESS_DOUBLINGS);
        let is_too_many = self.fruitless >= MAX_FRUITLESS << doublings;
        if is_too_many {
            self.untold_fruitless = Some(std::mem::take(&mut self.fruitless));
            self.fruitless_lists += 1;
        }
        is_too_many
    }

    /// The number of fruitless watches in a row, once after a [`ListWatchState::watch_ended`] that
    /// caused a relist because of them.
    pub(super) fn take_fruitless(&mut self) -> Option<u32> {
        self.untold_fruitless.take()
    }

    fn probe_if_due(&mut self) {
        if self.owes_probe || self.quiet_watches >= QUIET_WATCHES_PER_PROBE {
            self.probe();
        }
    }

    /// A quorum read found the server at this version. Also returns the delay before
    /// [`ListWatchState::next`].
    pub(super) fn probed(&mut self, version: &ResourceVersion) -> (Probed, Duration) {
        self.owes_probe = false;
        self.senseless_probes = 0;
        self.quiet_watches = self.quiet_watches.min(1);
        let behind = self
            .position
            .as_ref()
            .filter(|position| position.is_ahead_of(version));
        let Some(position) = behind else {
            self.is_suspicious = false;
            self.is_position_unusable = false;
            self.resume();
            let delay = if self.is_complete {
                Duration::ZERO
            } else {
                self.at_once()
            };
            return (Probed::Current, delay);
        };
        // One answer may come from a lagging replica; only two in a row prove a rollback.
        if !std::mem::replace(&mut self.is_suspicious, true) {
            return (Probed::Suspicious, PACE);
        }
        let from = position.newest().clone();
        self.is_suspicious = false;
        // The cache is at the list that followed a rollback, and nothing has come since. Lists and
        // probes must count differently.
        if self.rolled_back_to.as_ref() == Some(&from) {
            self.is_incomparable = true;
            self.is_position_unusable = false;
            self.resume();
            return (Probed::Incomparable, PACE);
        }
        // Without a position, the next list may be older than the cache.
        self.is_rolled_back = true;
        self.position = None;
        self.start_over();
        let is_news = !self.is_doubted;
        (Probed::RolledBack { from, is_news }, Duration::ZERO)
    }

    /// The probe failed. The wanted request is sent all the same, because a server without a quorum
    /// in etcd may still serve watches. Returns the delay before [`ListWatchState::next`].
    pub(super) fn probe_failed(&mut self, class: FailureClass, lasted: Duration) -> Duration {
        self.owes_probe &= class == FailureClass::Lost;
        if class == FailureClass::Broken {
            // An answer, but not a list: this server may never answer probes usefully.
            self.senseless_probes = (self.senseless_probes + 1).min(MAX_PROBE_DOUBLINGS);
            self.probes_to_skip = (1 << self.senseless_probes) - 1;
        }
        // The next probe will not be the second in a row.
        self.is_suspicious = false;
        self.quiet_watches = self.quiet_watches.min(1);
        self.resume();
        if self.is_complete && self.failures == 0 {
            // The watch before the probe worked: its changes must not wait.
            self.failures = 1;
            return Duration::ZERO;
        }
        self.back_off(class, lasted)
    }

    /// Fetching everything again is the most expensive request, and room only comes from deletions
    /// or from other kinds.
    fn wait_for_room(&mut self) -> Duration {
        self.start_over();
        FULL_DELAY
    }

    fn at_once(&mut self) -> Duration {
        // A chain of immediate attempts must end, whatever the server answers.
        self.immediate += 1;
        if self.immediate > MAX_IMMEDIATE {
            self.back_off(FailureClass::Broken, Duration::ZERO)
        } else {
            Duration::ZERO
        }
    }

    /// The delay after a failure, counted from one attempt's start to the next, so that a slow
    /// attempt is not waited for twice. Never less than a small random time: whatever broke many
    /// watches at once must not bring them all back at once.
    fn back_off(&mut self, class: FailureClass, lasted: Duration) -> Duration {
        let doublings = self.failures.min(16);
        self.failures += 1;
        let delay = self
            .settings
            .base_delay
            .saturating_mul(1 << doublings)
            .min(self.settings.max_delay);
        let chance = self.jitter.fraction() / 4.0;
        let delay = (delay + delay.mul_f64(chance)).saturating_sub(lasted);
        delay
            .max(self.settings.base_delay.mul_f64(chance))
            .max(Duration::from_millis(1))
            .max(class.retry_after().unwrap_or_default().min(MAX_RETRY_AFTER))
    }
}

#[cfg(test)]
mod tests;
