//! Tells the sink and the log how a list-watch is doing. Decides what is worth telling, and nothing
//! else.

use std::time::Duration;

use pilothouse_core::{InformerKey, Listing};
use tokio::time::Instant;

use crate::watch::error::{WatchError, WatchFailure};
use crate::watch::machine::FailureClass;
use crate::watch::sink::{CacheSink, WatchState};

/// A new kind that is still not served after this time is reported as an error.
const INITIALIZING: Duration = Duration::from_secs(10);

/// Which complete list the cache already holds, with as much of each object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listed {
    /// None. The first one is limited by [`CacheSink::room`].
    Never,
    /// That of another list-watch.
    Before,
    /// That of this list-watch.
    Here,
}

/// What the sink was told, and what it is to be told with the next list.
pub(crate) struct StateReport {
    informer_key: InformerKey,
    /// The state that the sink was last told.
    announced: Option<WatchState>,
    listed: Listed,
    has_missed_marker: bool,
    /// Everything is listed because another list-watch has found that the server was rolled back.
    is_told: bool,
    /// Since when the server has been preparing to serve a kind that was never listed.
    initializing: Option<Instant>,
    /// The first failure since the last watch that worked. If everything is listed again, this is
    /// the reason.
    why: Option<String>,
}

impl StateReport {
    pub(crate) fn new(informer_key: InformerKey) -> Self {
        Self {
            informer_key,
            announced: None,
            listed: Listed::Never,
            has_missed_marker: false,
            is_told: false,
            initializing: None,
            why: None,
        }
    }

    /// Sets whether the cache already holds a complete list of another list-watch.
    pub(crate) fn set_replacing(&mut self, is_replacing: bool) {
        self.listed = if is_replacing {
            Listed::Before
        } else {
            Listed::Never
        };
    }

    /// The bytes that the objects of a list may take. A list that replaces another one is not
    /// limited: otherwise a cache that has outgrown the limit could never follow its kind again.
    pub(crate) fn room(&self, sink: &impl CacheSink) -> usize {
        if self.listed == Listed::Never {
            sink.room()
        } else {
            usize::MAX
        }
    }

    /// Another list-watch has found that the server was rolled back.
    pub(crate) fn alarmed(&mut self) {
        self.is_told = true;
        self.why = Some("the API server has been rolled back".to_owned());
    }

    /// A watch works: the failures before it are no reason for anything that follows.
    pub(crate) fn works(&mut self) {
        self.why = None;
    }

    pub(crate) fn announce(&mut self, sink: &mut impl CacheSink, state: WatchState) {
        // During an outage the error stays visible until something works.
        let shows_failure = self.announced.as_ref().is_some_and(WatchState::is_failure);
        let hides_error = state == WatchState::Listing && shows_failure;
        if self.announced.as_ref() != Some(&state) && !hides_error {
            self.announced = Some(state.clone());
            sink.state(state);
        }
    }

    /// Reports a failure after which the next request is sent in `delay`. A failure that is
    /// followed by another request at once (such as an expired version) is routine and not
    /// reported.
    pub(crate) fn failed(
        &mut self,
        sink: &mut impl CacheSink,
        failure: &WatchFailure,
        delay: Duration,
    ) {
        let WatchFailure { error, class } = failure;
        let text = error.to_string();
        self.why.get_or_insert_with(|| text.clone());
        if delay.is_zero() || *class == FailureClass::Behind || self.is_initializing(failure) {
            tracing::debug!(informer = %self.informer_key, %error, "asking for something else");
        } else if failure.is_of_server() {
            self.announce(sink, WatchState::Unreachable(text));
        } else {
            self.announce(sink, WatchState::Error(text));
        }
    }

    /// Returns whether the server is only preparing to serve a new kind. That is no error, unless
    /// it takes longer than [`INITIALIZING`] or the kind has been served before.
    fn is_initializing(&mut self, failure: &WatchFailure) -> bool {
        if self.listed != Listed::Never || !failure.is_initializing() {
            return false;
        }
        let since = self.initializing.get_or_insert_with(Instant::now);
        since.elapsed() < INITIALIZING
    }

    /// The marker of a stream did not come in time. Logged once.
    pub(crate) fn missed_marker(&mut self, failure: &WatchFailure) {
        if !std::mem::replace(&mut self.has_missed_marker, true) {
            tracing::warn!(informer = %self.informer_key, error = %failure.error, "listing instead");
        }
    }

    /// Everything is listed because watches have brought nothing.
    pub(crate) fn fruitless(&mut self, sink: &mut impl CacheSink, error: &WatchError) {
        self.why.get_or_insert_with(|| error.to_string());
        self.announce(sink, WatchState::Error(error.to_string()));
    }

    /// A complete list is about to be given to the sink.
    pub(crate) fn listed(&mut self, listing: &Listing) {
        if std::mem::replace(&mut self.listed, Listed::Here) != Listed::Here {
            return;
        }
        let reason = self.why.take().unwrap_or_default();
        let objects = listing.objects.len();
        if std::mem::take(&mut self.is_told) {
            tracing::debug!(kind = %self.informer_key, reason, objects, "relisted, as all others");
        } else {
            tracing::info!(kind = %self.informer_key, reason, objects, "relisted");
        }
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_core::Kind;

    use super::*;
    use crate::client::{RequestError, Status};
    use crate::testing::{Cramped, Record};

    const SECOND: Duration = Duration::from_secs(1);

    fn report() -> StateReport {
        StateReport::new(InformerKey::all(Kind::new("", "v1", "Pod")))
    }

    fn refusal(message: &str) -> WatchFailure {
        let status = Status {
            code: 429,
            message: message.to_owned(),
            ..Status::default()
        };
        let error = RequestError::Status(Box::new(status));
        WatchFailure::of_request("list", "pods".to_owned(), error)
    }

    #[test]
    fn only_the_first_list_that_a_cache_holds_is_limited() {
        let (mut report, sink) = (report(), Cramped::default());
        assert!(report.room(&sink) < usize::MAX);
        report.set_replacing(true);
        assert_eq!(report.room(&sink), usize::MAX, "of another list-watch");
        report.set_replacing(false);
        assert!(report.room(&sink) < usize::MAX);
        report.listed(&Listing::default());
        assert_eq!(report.room(&sink), usize::MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_is_being_set_up_is_no_error_for_ten_seconds_unless_it_was_listed() {
        let failure = refusal("storage is (re)initializing");
        let (mut report, mut sink) = (report(), Record::default());
        report.failed(&mut sink, &failure, SECOND);
        tokio::time::advance(INITIALIZING - SECOND).await;
        report.failed(&mut sink, &failure, SECOND);
        assert_eq!(sink.0.len(), 0);
        tokio::time::advance(SECOND).await;
        report.failed(&mut sink, &failure, SECOND);
        assert_eq!(sink.0.len(), 1);
        let (mut report, mut sink) = (self::report(), Record::default());
        report.listed(&Listing::default());
        report.failed(&mut sink, &failure, SECOND);
        assert_eq!(sink.0.len(), 1);
    }

    #[test]
    fn an_error_is_told_once_and_hidden_by_no_new_attempt() {
        let (mut report, mut sink) = (report(), Record::default());
        for _ in 0..2 {
            report.announce(&mut sink, WatchState::Listing);
            report.failed(&mut sink, &refusal("later"), SECOND);
        }
        report.announce(&mut sink, WatchState::Watching);
        assert_eq!(sink.0, ["Listing", "! cannot list pods: later", "Watching"]);
    }
}
