//! Decides the next request from the answers so far: the resourceVersion state machine of one
//! list-watch. It does no I/O and reads no clock.
//!
//! Five smaller machines each decide one thing: whether the server was rolled back
//! ([`RollbackSuspicion`]), when it is to be probed ([`WatchSilence`]), when watches bring nothing
//! ([`FruitlessWatches`]), how long to wait ([`RequestPacing`]), and in which form to list
//! ([`RelistForm`]). [`ReachedVersions`] holds the versions. This module only joins them.
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
//!   `WatchSettings::quiet_timeout`. Now and then it begins right before the position, so that a
//!   server at which nothing happens has something to say.
//! - After two streams that broke before they were complete, a list is tried, because its pages
//!   need not all arrive over one connection.

mod failure_class;
mod fruitless;
mod pacing;
mod position;
mod reached;
mod relist;
mod rollback;
mod silence;
mod step;

use std::time::Duration;

use pilothouse_core::ResourceVersion;

use super::settings::WatchSettings;
pub(crate) use failure_class::FailureClass;
use fruitless::FruitlessWatches;
use pacing::{PACE, RequestPacing};
pub(crate) use position::{Order, is_leap, is_older};
use reached::ReachedVersions;
use relist::RelistForm;
use rollback::RollbackSuspicion;
use silence::WatchSilence;
pub(crate) use step::{BadList, CompleteList, NextRequest, Paging, Probed, Unfinished, WatchEnd};

/// Delay between attempts to fetch objects that exceed the room.
const FULL_DELAY: Duration = Duration::from_secs(60);

#[derive(Debug)]
enum Phase {
    Stream,
    List(Paging),
    Watch,
    Probe,
}

#[derive(Debug)]
pub(crate) struct WatchMachine {
    phase: Phase,
    /// True if a watch from the position would bring all changes that are missing.
    is_complete: bool,
    /// Where the watch begins that is to prove that the server has come to the position: right
    /// before it. A server that has brings what is of that version once more, or a bookmark; one
    /// that was rolled back, or that waits for the position, does not.
    proof_from: Option<ResourceVersion>,
    reached: ReachedVersions,
    rollback: RollbackSuspicion,
    silence: WatchSilence,
    fruitless: FruitlessWatches,
    relist: RelistForm,
    pacing: RequestPacing,
}

impl WatchMachine {
    pub(crate) fn new(settings: WatchSettings, seed: u64) -> Self {
        let mut state = Self {
            phase: Phase::Stream,
            is_complete: false,
            proof_from: None,
            reached: ReachedVersions::default(),
            rollback: RollbackSuspicion::default(),
            silence: WatchSilence::default(),
            fruitless: FruitlessWatches::new(settings.quiet_limit),
            relist: RelistForm::new(settings.is_streaming),
            pacing: RequestPacing::new(settings, seed),
        };
        state.start_over();
        state
    }

    /// Nothing older than this version is accepted from the start.
    pub(crate) fn begin_at(&mut self, version: &ResourceVersion) {
        self.reached.begin_at(version);
    }

    /// Random delay before the first request.
    pub(crate) fn start_delay(&mut self) -> Duration {
        self.pacing.start_delay()
    }

    /// If a probe comes next for no other reason than silence: the version that the server was last
    /// known to be at. A probe of another list-watch that has found just that does as well. (A
    /// suspicion ends the count of quiet watches, and an alarm the completeness.)
    pub(crate) fn expected(&self) -> Option<&ResourceVersion> {
        let is_routine =
            matches!(self.phase, Phase::Probe) && self.is_complete && self.silence.is_long();
        self.reached.known().filter(|_| is_routine)
    }

    pub(crate) fn next(&self) -> NextRequest {
        match (&self.phase, self.reached.position()) {
            (Phase::Watch, Some(position)) => NextRequest::Watch {
                from: self.proof_from.as_ref().unwrap_or(position).clone(),
                is_quiet: self.silence.is_quiet(),
            },
            (Phase::Probe, Some(_)) => NextRequest::Probe,
            (Phase::List(paging), _) => NextRequest::List {
                not_older_than: self.reached.not_older_than(),
                paging: paging.clone(),
            },
            (Phase::Stream, _) | (_, None) => NextRequest::Stream {
                not_older_than: self.reached.not_older_than(),
            },
        }
    }

    /// How long the server is asked to keep the answer open; whole seconds, at least 1.
    pub(crate) fn timeout(&mut self, next: &NextRequest) -> Duration {
        self.pacing.timeout(next)
    }

    /// An object of this version was fetched by name and is in the cache.
    pub(crate) fn see(&mut self, version: ResourceVersion) {
        self.reached.see(version);
    }

    /// Everything must be fetched again.
    fn start_over(&mut self) {
        self.is_complete = false;
        self.proof_from = None;
        self.phase = if self.relist.is_stream() {
            Phase::Stream
        } else {
            Phase::List(Paging::First)
        };
    }

    /// Probes the server next, unless probes are useless with this server or one is to be skipped.
    fn probe(&mut self) {
        self.proof_from = None;
        if self.silence.begin_probe(self.rollback.is_comparable()) {
            self.phase = Phase::Probe;
        } else {
            self.resume();
        }
    }

    /// Called when another list-watch has found that the server was rolled back. A probe alone
    /// proves little, since the server may have come further by now. It is sent all the same,
    /// because a list older than the position is accepted only after probes have confirmed the
    /// rollback.
    pub(crate) fn suspect_rollback(&mut self) {
        self.rollback.tell();
        if self.reached.position().is_some() {
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
        let is_comparable = self.rollback.is_comparable();
        self.reached.check_list(version, is_comparable)
    }

    /// All objects have arrived, as of this version.
    fn complete(&mut self, version: ResourceVersion) -> CompleteList {
        // A list that goes back is accepted only from a server whose versions cannot be compared.
        // The cache must accept it as well, so it is marked as a rollback.
        let goes_back = self.reached.is_newer_than(&version);
        self.phase = Phase::Watch;
        self.is_complete = true;
        self.reached.listed(&version);
        self.relist.listed();
        self.silence.listed();
        let is_rollback = self.rollback.listed(&version) || goes_back;
        CompleteList {
            version,
            is_rollback,
        }
    }

    /// A page has arrived. Returns the list if this page was the last.
    pub(crate) fn page(
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
    /// [`WatchMachine::next`].
    pub(crate) fn list_failed(&mut self, class: FailureClass, lasted: Duration) -> Duration {
        let is_later_page = matches!(&self.phase, Phase::List(Paging::After { .. }));
        match class {
            FailureClass::Busy { .. } | FailureClass::Refused { .. } | FailureClass::Lost
                if self.is_hopeless_whole() =>
            {
                self.start_over();
                self.pacing.back_off(class, lasted)
            }
            // The same page again: its token stays valid for minutes.
            FailureClass::Busy { .. } | FailureClass::Refused { .. } | FailureClass::Lost => {
                self.pacing.back_off(class, lasted)
            }
            FailureClass::Broken => {
                self.start_over();
                self.pacing.back_off(class, lasted)
            }
            FailureClass::Full => self.wait_for_room(),
            // `TestListPager_List`: if the token expires on a later page, one unpaged list of the
            // version first asked for.
            FailureClass::BadVersion if is_later_page => {
                self.phase = Phase::List(Paging::Whole);
                self.relist.begin_whole();
                self.pacing.at_once()
            }
            FailureClass::BadVersion | FailureClass::Behind => {
                self.phase = Phase::List(Paging::First);
                self.ask_for_the_newest(class, lasted)
            }
        }
    }

    fn is_hopeless_whole(&mut self) -> bool {
        matches!(&self.phase, Phase::List(Paging::Whole)) && self.relist.whole_failed()
    }

    /// The requested version is not available: asks for the newest state instead. If this already
    /// was the newest state, backs off, or probes if it is older than one seen before.
    fn ask_for_the_newest(&mut self, class: FailureClass, lasted: Duration) -> Duration {
        if self.reached.not_older_than().is_some() {
            self.reached.set_unusable();
            return self.pacing.at_once();
        }
        if class == FailureClass::Behind {
            // Even a quorum read is older than what was seen: possibly a rollback.
            self.probe();
            return self.pacing.at_once();
        }
        self.pacing.back_off(class, lasted)
    }

    /// The stream's marker has arrived: what the stream brought is all there is, as of this
    /// version.
    pub(crate) fn streamed(&mut self, version: &ResourceVersion) -> Result<CompleteList, BadList> {
        self.check_list(version)?;
        Ok(self.complete(version.clone()))
    }

    /// The stream ended before its marker. Returns the delay before [`WatchMachine::next`].
    pub(crate) fn stream_ended(&mut self, how: Unfinished, lasted: Duration) -> Duration {
        match how {
            // A refused connection or a 429 leaves streaming in use (`TestWatchList`, "retries
            // 429").
            Unfinished::Unopened(class @ (FailureClass::Lost | FailureClass::Busy { .. }))
            | Unfinished::Failed(class @ FailureClass::Busy { .. }) => {
                self.pacing.back_off(class, lasted)
            }
            Unfinished::Unopened(class @ (FailureClass::BadVersion | FailureClass::Behind))
            | Unfinished::Failed(class @ (FailureClass::BadVersion | FailureClass::Behind)) => {
                self.ask_for_the_newest(class, lasted)
            }
            Unfinished::Closed | Unfinished::Failed(FailureClass::Lost) => {
                self.relist.stream_broke();
                self.start_over();
                self.pacing.back_off(FailureClass::Lost, lasted)
            }
            Unfinished::Failed(FailureClass::Full) => self.wait_for_room(),
            // The fallback to a list is for this attempt only (`TestWatchList`, "any other error …
            // forces fallback").
            Unfinished::Overdue | Unfinished::Unopened(_) => {
                self.phase = Phase::List(Paging::First);
                self.pacing.at_once()
            }
            Unfinished::Failed(class) => {
                self.phase = Phase::List(Paging::First);
                self.pacing.back_off(class, lasted)
            }
        }
    }

    /// True if the watch began right before the position, so that what is of the position's version
    /// comes once more.
    pub(crate) fn is_proving(&self) -> bool {
        self.proof_from.is_some()
    }

    /// True if the present watch has shown that the server is at the position or beyond.
    pub(crate) fn has_proof(&self) -> bool {
        self.silence.has_proof()
    }

    /// An event of this version came over the watch. Returns how it relates to the position.
    pub(crate) fn advance(&mut self, version: &ResourceVersion, is_change: bool) -> Order {
        let order = self.reached.advance(version);
        let is_replay = order == Order::Same && self.is_proving();
        if is_change && matches!(order, Order::New | Order::Same) && !is_replay {
            self.silence.changed();
        }
        if order == Order::New || is_replay {
            self.silence.proven();
        }
        order
    }

    /// How a watch ends that fails like this. A server may refuse the version before the position
    /// with any status, so that the next watch has to tell what is wrong.
    pub(crate) fn end_of(&self, class: FailureClass) -> WatchEnd {
        let is_refusal = matches!(class, FailureClass::Refused { .. } | FailureClass::Broken)
            && !self.silence.has_proof();
        match class {
            _ if self.is_proving() && (is_refusal || class == FailureClass::BadVersion) => {
                WatchEnd::Unproven
            }
            _ => WatchEnd::Failed(class),
        }
    }

    /// The watch ended after `lasted`, having brought `lines` lines. Returns the delay before
    /// [`WatchMachine::next`].
    pub(crate) fn watch_ended(&mut self, end: WatchEnd, lasted: Duration, lines: u64) -> Duration {
        let is_refused = lasted < PACE && lines == 0 && self.is_proving();
        let end = match end {
            WatchEnd::Closed if is_refused => WatchEnd::Unproven,
            end => end,
        };
        let delay = self.after_watch(end, lasted, lines);
        let is_due = matches!(self.phase, Phase::Watch) && self.silence.is_proof_due();
        let is_wanted = is_due && self.rollback.is_comparable();
        self.proof_from = is_wanted.then(|| self.reached.before_position()).flatten();
        delay
    }

    fn after_watch(&mut self, end: WatchEnd, lasted: Duration, lines: u64) -> Duration {
        self.pacing.watch_ended(lasted);
        self.reached.settle();
        let had_changes = self.silence.take_changes();
        if self.fruitless.watch_ended(end, lasted, lines) {
            self.silence.owe_probe();
            self.start_over();
            return self.pacing.back_off(FailureClass::Lost, lasted);
        }
        match end {
            // "Very short watch" (`TestReflectorHandleWatchResultChanClosedBefore`).
            WatchEnd::Closed if lasted < PACE && lines == 0 => {
                self.pacing.back_off(FailureClass::Lost, lasted)
            }
            WatchEnd::Closed => {
                self.silence.count(had_changes);
                if self.silence.is_probe_due() {
                    self.probe();
                }
                RequestPacing::pace(lasted)
            }
            WatchEnd::Unproven => {
                self.reached.set_unprovable();
                self.silence.count(false);
                if self.silence.is_probe_due() {
                    self.probe();
                }
                RequestPacing::pace(lasted)
            }
            // `suspect_rollback` is called next.
            WatchEnd::Doubted => self.pacing.after_alarm(),
            // Opening the watch again is the fastest test of whether the server lives.
            WatchEnd::Quiet => {
                self.silence.count(false);
                RequestPacing::pace(lasted)
            }
            WatchEnd::Failed(class @ FailureClass::Lost) => {
                self.silence.owe_probe();
                self.probe();
                self.pacing.back_off(class, lasted)
            }
            WatchEnd::Failed(FailureClass::Behind) => {
                if self.is_proving() {
                    self.reached.set_unprovable();
                }
                self.probe();
                RequestPacing::pace(lasted)
            }
            WatchEnd::Failed(
                class @ (FailureClass::Busy { .. } | FailureClass::Refused { .. }),
            ) => self.pacing.back_off(class, lasted),
            WatchEnd::Failed(FailureClass::BadVersion) => {
                self.start_over();
                self.pacing.at_once()
            }
            WatchEnd::Failed(class @ (FailureClass::Broken | FailureClass::Full)) => {
                self.start_over();
                self.pacing.back_off(class, lasted)
            }
        }
    }

    /// The number of fruitless watches in a row, once after a [`WatchMachine::watch_ended`] that
    /// caused a relist because of them.
    pub(crate) fn take_fruitless(&mut self) -> Option<u32> {
        self.fruitless.take()
    }

    /// A quorum read found the server at this version. Also returns the delay before
    /// [`WatchMachine::next`].
    pub(crate) fn probed(&mut self, version: &ResourceVersion) -> (Probed, Duration) {
        self.silence.probed();
        let Some(position) = self.reached.position_ahead_of(version) else {
            self.rollback.interrupt();
            self.reached.set_usable();
            self.reached.find(version);
            self.resume();
            let delay = if self.is_complete {
                Duration::ZERO
            } else {
                self.pacing.at_once()
            };
            return (Probed::Current, delay);
        };
        let probed = self.rollback.behind(&position);
        let delay = match probed {
            Probed::Current | Probed::Suspicious => PACE,
            Probed::Incomparable => {
                self.reached.set_usable();
                self.resume();
                PACE
            }
            Probed::RolledBack { .. } => {
                self.reached.roll_back();
                self.start_over();
                Duration::ZERO
            }
        };
        (probed, delay)
    }

    /// The probe failed. The wanted request is sent all the same, because a server without a quorum
    /// in etcd may still serve watches. Returns the delay before [`WatchMachine::next`].
    pub(crate) fn probe_failed(&mut self, class: FailureClass, lasted: Duration) -> Duration {
        self.silence.probe_failed(class);
        self.rollback.interrupt();
        self.resume();
        // If the watch before the probe worked, its changes must not wait.
        if self.is_complete && self.pacing.forgives() {
            return Duration::ZERO;
        }
        self.pacing.back_off(class, lasted)
    }

    /// Fetching everything again is the most expensive request, and room only comes from deletions
    /// or from other kinds.
    fn wait_for_room(&mut self) -> Duration {
        self.start_over();
        FULL_DELAY
    }
}

#[cfg(test)]
mod tests;
