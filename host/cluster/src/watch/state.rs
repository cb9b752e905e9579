//! What to ask next, given what was answered: the resourceVersion state machine of one list-watch. No I/O, no clock.
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
//! - A list or stream is never older than anything seen before: it asks for the last resourceVersion, "not older than"
//!   (client-go's `TestReflectorResyncWithResourceVersion`), and an answer that is older is not believed. Where the server cannot
//!   (410, "too large resource version"), it asks for the newest there is, a quorum read (`TestReflectorFullListIfExpired`,
//!   `…IfTooLarge`).
//! - The position goes back only if two quorum reads, one after the other, say that the server is behind it.
//! - Where another list-watch has found that out everything is listed, also if the server has come further since, and that list is
//!   all there is.
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
//! - A watch of a quiet kind is asked for nine seconds, not for five to ten minutes: see `Settings::quiet_timeout`.
//! - Two streams that broke before they were complete are followed by a list, whose pages need not all come in one go.

use std::time::Duration;

use pilothouse_core::key::ResourceVersion;

use super::jitter::Jitter;
use super::position::{Order, Position, is_older};
use super::settings::Settings;
use super::step::{BadList, End, Listed, Next, Paging, Probed, Unfinished};
use super::verdict::Verdict;

/// A watch open this long had nothing to do with the failures before it. Less than a quiet kind's watch lasts.
const HEALTHY: Duration = Duration::from_secs(5);

/// No two attempts are closer than this.
const PACE: Duration = Duration::from_secs(1);

/// Between attempts to fetch what has no room.
const FULL_DELAY: Duration = Duration::from_secs(60);

/// Longest `Retry-After` that is obeyed.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(30);

/// An expired stream may be answered by one for the newest state, that by a list, and that by an unpaged one.
const MAX_IMMEDIATE: u32 = 4;

/// Streams that break before they are complete, after which a list is tried.
const MAX_INCOMPLETE_STREAMS: u32 = 2;

/// Longest resourceVersion: it must fit into a request.
const MAX_VERSION: usize = 1024;

/// Watches in a row that were accepted and brought nothing, not even their end in time, after which everything is listed. Doubles
/// with every such list, [`MAX_FRUITLESS_DOUBLINGS`] times.
const MAX_FRUITLESS: u32 = 3;

const MAX_FRUITLESS_DOUBLINGS: u32 = 4;

/// Failures of an unpaged list, after which it is not insisted on: nothing is larger, for the server and for the network.
const MAX_WHOLE_FAILURES: u32 = 2;

/// A server whose answers to probes say nothing, and may be long, is probed half as often with each of them, so many times.
const MAX_PROBE_DOUBLINGS: u32 = 6;

/// Watches without a change, after which the server is asked where it is: about half a minute.
const QUIET_WATCHES_PER_PROBE: u32 = 3;

#[derive(Debug)]
enum Phase {
    Stream,
    List(Paging),
    Watch,
    Probe,
}

#[derive(Debug)]
pub(super) struct State {
    settings: Settings,
    jitter: Jitter,
    phase: Phase,
    /// How far the cache has come.
    position: Option<Position>,
    /// The newest version of an object that was asked for by name; the events up to there may be still to come.
    seen: Option<ResourceVersion>,
    /// Whether a watch from the position would bring everything that is missing.
    is_complete: bool,
    /// The server could not serve the position. Until the next successful list (`TestReflectorFullListIfExpired`).
    is_position_unusable: bool,
    /// Whether the server may have gone back in time since it was last asked where it is.
    owes_probe: bool,
    /// The last probe found the server behind the cache.
    is_suspicious: bool,
    /// The next list is of a server that has gone back in time.
    is_rolled_back: bool,
    /// Another list-watch has found that the server has gone back in time. Until the next complete list.
    is_doubted: bool,
    /// Where the server had gone back to, by the list that followed.
    rolled_back_to: Option<ResourceVersion>,
    /// Answers to probes in a row that said nothing.
    senseless_probes: u32,
    /// So many probes are left out because of that.
    probes_to_skip: u32,
    /// The server's lists and probes do not count alike: it is not asked where it is any more.
    is_incomparable: bool,
    failures: u32,
    /// Attempts that followed a failure at once, since the last watch that worked.
    immediate: u32,
    incomplete_streams: u32,
    /// Of the current unpaged list.
    whole_failures: u32,
    /// Watches in a row that brought nothing, by closing at once or by falling silent.
    fruitless: u32,
    /// Lists because of that, since a watch brought something.
    fruitless_lists: u32,
    /// So many watches are why everything is listed now; not yet told.
    untold_fruitless: Option<u32>,
    /// Watches in a row without a change.
    quiet_watches: u32,
    /// Whether the current watch has brought a change.
    has_changes: bool,
}

impl State {
    pub(super) fn new(settings: Settings, seed: u64) -> Self {
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

    /// Nothing that is older than this is believed from the start.
    pub(super) fn begin_at(&mut self, version: &ResourceVersion) {
        if !version.is_empty() {
            self.position = Some(Position::at(version));
        }
    }

    /// How long to wait before the first request.
    pub(super) fn start_delay(&mut self) -> Duration {
        self.settings.start_spread.mul_f64(self.jitter.fraction())
    }

    pub(super) fn next(&self) -> Next {
        match (&self.phase, &self.position) {
            (Phase::Watch, Some(position)) => Next::Watch {
                from: position.newest().clone(),
                is_quiet: self.quiet_watches > 0 || self.owes_probe,
            },
            (Phase::Probe, Some(_)) => Next::Probe,
            (Phase::List(paging), _) => Next::List {
                not_older_than: self.not_older_than(),
                paging: paging.clone(),
            },
            (Phase::Stream, _) | (_, None) => Next::Stream {
                not_older_than: self.not_older_than(),
            },
        }
    }

    /// How long the server is to keep what is asked open.
    pub(super) fn timeout(&mut self, next: &Next) -> Duration {
        let (shortest, longest) = self.settings.watch_timeout;
        let timeout = match next {
            Next::Watch { is_quiet: true, .. } => self.settings.quiet_timeout,
            Next::Stream { .. } => longest,
            _ => {
                let range = longest.saturating_sub(shortest);
                shortest + range.mul_f64(self.jitter.fraction())
            }
        };
        Duration::from_secs(timeout.as_secs().max(1))
    }

    /// The newest version of anything that is in the cache.
    fn newest(&self) -> Option<&ResourceVersion> {
        let newest = self.position.as_ref()?.newest();
        let seen = self.seen.as_ref().filter(|seen| is_older(newest, seen));
        Some(seen.unwrap_or(newest))
    }

    fn not_older_than(&self) -> Option<ResourceVersion> {
        let usable = self.newest().filter(|_| !self.is_position_unusable);
        usable.cloned()
    }

    /// An object of this version was asked for by name, and is in the cache.
    pub(super) fn see(&mut self, version: ResourceVersion) {
        if self
            .seen
            .as_ref()
            .is_none_or(|seen| is_older(seen, &version))
        {
            self.seen = Some(version);
        }
    }

    /// Everything must be fetched.
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

    /// Next, the server is asked where it is, if that says anything.
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

    /// Another list-watch has found that the server has gone back in time. Where it is now says little: it may have come further since.
    /// It is asked all the same: a list older than the position is not believed unless a probe has said that it is right.
    pub(super) fn doubt(&mut self) {
        self.is_doubted = true;
        if self.position.is_some() {
            self.is_complete = false;
            self.probe();
        }
    }

    /// Back to what a probe interrupted.
    fn resume(&mut self) {
        if self.is_complete {
            self.phase = Phase::Watch;
        } else {
            self.start_over();
        }
    }

    fn check_list(&self, version: &ResourceVersion) -> Result<(), BadList> {
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

    /// Everything is here, of this version.
    fn complete(&mut self, version: ResourceVersion) -> Listed {
        // Only of a server whose versions cannot be compared is such a list believed; the cache must believe it as well.
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
        Listed {
            version,
            is_rollback: std::mem::take(&mut self.is_doubted) || is_rollback || goes_back,
        }
    }

    /// A page is here. Some: it was the last.
    pub(super) fn page(
        &mut self,
        version: &str,
        token: Option<String>,
    ) -> Result<Option<Listed>, BadList> {
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

    /// A page did not come after so long. Returns how long to wait before [`State::next`].
    pub(super) fn list_failed(&mut self, verdict: Verdict, lasted: Duration) -> Duration {
        let is_later_page = matches!(&self.phase, Phase::List(Paging::After { .. }));
        match verdict {
            Verdict::Busy { .. } | Verdict::Refused { .. } | Verdict::Lost
                if self.is_hopeless_whole() =>
            {
                self.start_over();
                self.back_off(verdict, lasted)
            }
            // The same page again: its token is good for minutes.
            Verdict::Busy { .. } | Verdict::Refused { .. } | Verdict::Lost => {
                self.back_off(verdict, lasted)
            }
            Verdict::Broken => {
                self.start_over();
                self.back_off(verdict, lasted)
            }
            Verdict::Full => self.wait_for_room(),
            // `TestListPager_List`: expired on a later page, one unpaged list of what was asked for at first.
            Verdict::BadVersion if is_later_page => {
                self.phase = Phase::List(Paging::Whole);
                self.whole_failures = 0;
                self.at_once()
            }
            Verdict::BadVersion | Verdict::Behind => {
                self.phase = Phase::List(Paging::First);
                self.ask_for_the_newest(verdict, lasted)
            }
        }
    }

    fn is_hopeless_whole(&mut self) -> bool {
        let is_whole = matches!(&self.phase, Phase::List(Paging::Whole));
        self.whole_failures += u32::from(is_whole);
        is_whole && self.whole_failures >= MAX_WHOLE_FAILURES
    }

    /// What was asked for by version is not to be had.
    fn ask_for_the_newest(&mut self, verdict: Verdict, lasted: Duration) -> Duration {
        if self.not_older_than().is_some() {
            self.is_position_unusable = true;
            return self.at_once();
        }
        if verdict == Verdict::Behind {
            // A quorum read, and yet it is older than what was seen.
            self.probe();
            return self.at_once();
        }
        self.back_off(verdict, lasted)
    }

    /// The stream's marker is here: what it brought is everything, of this version.
    pub(super) fn streamed(&mut self, version: &ResourceVersion) -> Result<Listed, BadList> {
        self.check_list(version)?;
        Ok(self.complete(version.clone()))
    }

    /// The stream ended before its marker. Returns how long to wait before [`State::next`].
    pub(super) fn stream_ended(&mut self, how: Unfinished, lasted: Duration) -> Duration {
        match how {
            // Refused connections and 429 (`TestWatchList`, "retries 429").
            Unfinished::Unopened(verdict @ (Verdict::Lost | Verdict::Busy { .. }))
            | Unfinished::Failed(verdict @ Verdict::Busy { .. }) => self.back_off(verdict, lasted),
            Unfinished::Unopened(verdict @ (Verdict::BadVersion | Verdict::Behind))
            | Unfinished::Failed(verdict @ (Verdict::BadVersion | Verdict::Behind)) => {
                self.ask_for_the_newest(verdict, lasted)
            }
            Unfinished::Closed | Unfinished::Failed(Verdict::Lost) => {
                self.incomplete_streams += 1;
                self.start_over();
                self.back_off(Verdict::Lost, lasted)
            }
            Unfinished::Failed(Verdict::Full) => self.wait_for_room(),
            // For this attempt only (`TestWatchList`, "any other error … forces fallback").
            Unfinished::Overdue | Unfinished::Unopened(_) => {
                self.phase = Phase::List(Paging::First);
                self.at_once()
            }
            Unfinished::Failed(verdict) => {
                self.phase = Phase::List(Paging::First);
                self.back_off(verdict, lasted)
            }
        }
    }

    /// Something of this version came over the watch.
    pub(super) fn advance(&mut self, version: &ResourceVersion, is_change: bool) -> Order {
        let Some(position) = &mut self.position else {
            return Order::New;
        };
        let order = position.advance(version);
        self.has_changes |= is_change && order == Order::New;
        order
    }

    /// The watch is over after so long and so many lines. Returns how long to wait before [`State::next`].
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
            return self.back_off(Verdict::Lost, lasted);
        }
        match end {
            // "Very short watch" (`TestReflectorHandleWatchResultChanClosedBefore`).
            End::Closed if lasted < PACE && lines == 0 => self.back_off(Verdict::Lost, lasted),
            End::Closed => {
                self.quiet_watches = if had_changes {
                    0
                } else {
                    self.quiet_watches + 1
                };
                self.probe_if_due();
                PACE.saturating_sub(lasted)
            }
            // A moment, so that not all ask at once. `doubt` comes next.
            End::Doubted => self.settings.base_delay.mul_f64(self.jitter.fraction()),
            // Whether the server lives is seen soonest by opening it again.
            End::Quiet => {
                self.quiet_watches += 1;
                PACE.saturating_sub(lasted)
            }
            End::Failed(verdict @ Verdict::Lost) => {
                self.owes_probe = true;
                self.probe();
                self.back_off(verdict, lasted)
            }
            End::Failed(Verdict::Behind) => {
                self.probe();
                PACE.saturating_sub(lasted)
            }
            End::Failed(verdict @ (Verdict::Busy { .. } | Verdict::Refused { .. })) => {
                self.back_off(verdict, lasted)
            }
            End::Failed(Verdict::BadVersion) => {
                self.start_over();
                self.at_once()
            }
            End::Failed(verdict @ (Verdict::Broken | Verdict::Full)) => {
                self.start_over();
                self.back_off(verdict, lasted)
            }
        }
    }

    /// Whether this was one watch too many that was accepted and did not work. The position may be one that the server cannot
    /// serve, whatever it says: a list shows.
    fn is_fruitless(&mut self, end: End, lasted: Duration, lines: u64) -> bool {
        if lines > 0 {
            self.fruitless = 0;
            self.fruitless_lists = 0;
            return false;
        }
        match end {
            End::Closed if lasted < PACE => self.fruitless += 1,
            End::Failed(Verdict::Lost) if lasted >= self.settings.quiet_limit => {
                self.fruitless += 1;
            }
            // In order, if without a bookmark.
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

    /// After [`State::watch_ended`]: so many watches in a row have brought nothing, and everything is listed.
    pub(super) fn take_fruitless(&mut self) -> Option<u32> {
        self.untold_fruitless.take()
    }

    fn probe_if_due(&mut self) {
        if self.owes_probe || self.quiet_watches >= QUIET_WATCHES_PER_PROBE {
            self.probe();
        }
    }

    /// A quorum read says that the server is at this version. Also returns how long to wait before [`State::next`].
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
        if !std::mem::replace(&mut self.is_suspicious, true) {
            return (Probed::Suspicious, PACE);
        }
        let from = position.newest().clone();
        self.is_suspicious = false;
        if self.rolled_back_to.as_ref() == Some(&from) {
            self.is_incomparable = true;
            self.is_position_unusable = false;
            self.resume();
            return (Probed::Incomparable, PACE);
        }
        self.is_rolled_back = true;
        self.position = None;
        self.start_over();
        let is_news = !self.is_doubted;
        (Probed::RolledBack { from, is_news }, Duration::ZERO)
    }

    /// The server did not say where it is. It is asked for what is wanted all the same: without a quorum in etcd it may still serve
    /// watches. Returns how long to wait before [`State::next`].
    pub(super) fn probe_failed(&mut self, verdict: Verdict, lasted: Duration) -> Duration {
        self.owes_probe &= verdict == Verdict::Lost;
        if verdict == Verdict::Broken {
            self.senseless_probes = (self.senseless_probes + 1).min(MAX_PROBE_DOUBLINGS);
            self.probes_to_skip = (1 << self.senseless_probes) - 1;
        }
        // Not one after the other any more.
        self.is_suspicious = false;
        self.quiet_watches = self.quiet_watches.min(1);
        self.resume();
        if self.is_complete && self.failures == 0 {
            // The watch before was a good one: no change should wait for this.
            self.failures = 1;
            return Duration::ZERO;
        }
        self.back_off(verdict, lasted)
    }

    /// Fetching it all again costs the most there is, and room is made by others or by deletions.
    fn wait_for_room(&mut self) -> Duration {
        self.start_over();
        FULL_DELAY
    }

    fn at_once(&mut self) -> Duration {
        self.immediate += 1;
        if self.immediate > MAX_IMMEDIATE {
            self.back_off(Verdict::Broken, Duration::ZERO)
        } else {
            Duration::ZERO
        }
    }

    /// From one attempt's start to the next, so that one that took its time is not waited for twice. Never less than a moment: what
    /// broke many watches at one instant should not bring them all back at one.
    fn back_off(&mut self, verdict: Verdict, lasted: Duration) -> Duration {
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
            .max(
                verdict
                    .retry_after()
                    .unwrap_or_default()
                    .min(MAX_RETRY_AFTER),
            )
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
