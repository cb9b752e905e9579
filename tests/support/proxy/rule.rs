//! Faults that hold from now on, for matching requests or lines.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

use super::answer::Answer;
use super::request::{Seen, Which};
use super::state::State;

/// Returns the lines to send in place of one, `None` to leave it as it is.
pub(super) type Edit = dyn FnMut(&str) -> Option<Vec<String>> + Send;

pub(super) enum What {
    // In place of an answer from the server.
    Answer(Answer),
    Reset,
    Hold,
    Carry,
    Delay(Duration),
    // On the forwarded request.
    PagesOf(u32),
    // In place of the answer that the server has given.
    HoldAnswer,
    Lose,
    Replace(Answer),
    // On the body of an answer.
    Slow(usize),
    Truncate(usize),
    // On the lines of a watch, also of those that are open already.
    Stall,
    DelayLines(Duration),
    Reverse(usize),
    Edit(Mutex<Box<Edit>>),
}

impl What {
    pub(super) fn is_of_lines(&self) -> bool {
        matches!(
            self,
            Self::Stall | Self::DelayLines(_) | Self::Reverse(_) | Self::Edit(_)
        )
    }

    /// Returns whether the rules after this one are skipped.
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::Answer(_) | Self::Reset)
    }
}

struct Counts {
    to_pass: usize,
    left: usize,
    hits: usize,
}

pub(super) struct Rule {
    which: Which,
    pub(super) what: What,
    counts: Mutex<Counts>,
    is_lifted: watch::Sender<bool>,
}

impl Rule {
    pub(super) fn matches(&self, seen: &Seen) -> bool {
        self.which.matches(seen)
    }

    /// Counts one more request or line that matches. Returns true if the rule applies to it.
    pub(super) fn take(&self) -> bool {
        let mut counts = self.counts.lock();
        if counts.to_pass > 0 {
            counts.to_pass -= 1;
            return false;
        }
        if counts.left == 0 {
            return false;
        }
        counts.left -= 1;
        counts.hits += 1;
        true
    }

    /// Returns the lines to send in place of one, `None` to leave it as it is.
    pub(super) fn edit(&self, line: &str) -> Option<Vec<String>> {
        let What::Edit(edit) = &self.what else {
            return None;
        };
        let mut edit = edit.lock();
        let edited = edit(line)?;
        self.take().then_some(edited)
    }

    pub(super) fn lift(&self) {
        self.is_lifted.send_replace(true);
    }

    pub(super) async fn lifted(&self) {
        let mut is_lifted = self.is_lifted.subscribe();
        // The rule holds the sender, so waiting cannot fail.
        let _ = is_lifted.wait_for(|is_lifted| *is_lifted).await;
    }
}

/// A fault in force until it is lifted, alone or with all others by [`super::Proxy::heal`].
/// Dropping this value changes nothing.
pub struct Fault {
    rule: Arc<Rule>,
    state: Arc<State>,
}

impl Fault {
    /// Returns how many requests or lines the fault has hit.
    pub fn hits(&self) -> usize {
        let counts = self.rule.counts.lock();
        counts.hits
    }

    pub fn lift(self) {
        self.state.lift(&self.rule);
    }
}

/// The beginning of a rule, which selects requests. The method that follows says what happens to
/// them.
///
/// Rules apply in the order in which they were made.
pub struct On<'a> {
    state: &'a Arc<State>,
    which: Which,
    to_pass: usize,
    times: usize,
}

impl<'a> On<'a> {
    pub(super) fn new(state: &'a Arc<State>, which: Which) -> Self {
        Self {
            state,
            which,
            to_pass: 0,
            times: usize::MAX,
        }
    }

    /// Applies the rule only to this many requests, or lines for a fault of lines.
    #[must_use]
    pub fn times(mut self, times: usize) -> Self {
        self.times = times;
        self
    }

    /// Lets this many pass before the rule applies.
    #[must_use]
    pub fn after(mut self, count: usize) -> Self {
        self.to_pass = count;
        self
    }

    // Requests.

    /// Answers in place of the server, which never sees the request.
    pub fn answer(self, answer: Answer) -> Fault {
        self.rule(What::Answer(answer))
    }

    /// Breaks the connection. The server never sees the request.
    pub fn reset(self) -> Fault {
        self.rule(What::Reset)
    }

    /// Neither forwards nor answers the request until the fault is lifted. Then it is forwarded, if
    /// the client still waits.
    pub fn hold(self) -> Fault {
        self.rule(What::Hold)
    }

    /// Keeps the request on its way until the fault is lifted. Then it reaches the server, also if
    /// the client has gone: what it has sent, it cannot take back.
    pub fn carry(self) -> Fault {
        self.rule(What::Carry)
    }

    /// Forwards the request after this time.
    pub fn delay(self, time: Duration) -> Fault {
        self.rule(What::Delay(time))
    }

    /// Limits lists to pages of this many objects, if the client asks for pages of any size.
    pub fn pages_of(self, objects: u32) -> Fault {
        self.rule(What::PagesOf(objects))
    }

    /// Forwards the request, and answers only when the fault is lifted.
    pub fn hold_answer(self) -> Fault {
        self.rule(What::HoldAnswer)
    }

    /// Forwards the request, and breaks the connection instead of answering.
    pub fn lose_answer(self) -> Fault {
        self.rule(What::Lose)
    }

    /// Forwards the request, and answers with this instead of the server's answer.
    pub fn replace_answer(self, answer: Answer) -> Fault {
        self.rule(What::Replace(answer))
    }

    // Bodies, including those of watches.

    /// Passes this many bytes a second.
    pub fn slow(self, bytes_per_second: usize) -> Fault {
        self.rule(What::Slow(bytes_per_second))
    }

    /// Breaks the connection after this many bytes of the body.
    pub fn truncate(self, bytes: usize) -> Fault {
        self.rule(What::Truncate(bytes))
    }

    // Lines of watches, also of those that are open already.

    /// Passes nothing until the fault is lifted. The connection stays open, and others work.
    pub fn stall(self) -> Fault {
        self.rule(What::Stall)
    }

    /// Passes every line this much later.
    pub fn delay_lines(self, time: Duration) -> Fault {
        self.rule(What::DelayLines(time))
    }

    /// Replaces a line by others. A line for which `edit` returns `None` stays as it is and does
    /// not count as a hit.
    pub fn edit(self, edit: impl FnMut(&str) -> Option<Vec<String>> + Send + 'static) -> Fault {
        self.rule(What::Edit(Mutex::new(Box::new(edit))))
    }

    /// Replaces the line of an event by this text. An event for which `replacement` returns `None`
    /// stays as it is and does not count as a hit.
    pub fn replace_events(
        self,
        replacement: impl Fn(&Value) -> Option<String> + Send + 'static,
    ) -> Fault {
        self.edit(move |line| {
            let event = serde_json::from_str(line).ok()?;
            Some(vec![replacement(&event)?])
        })
    }

    /// Drops the lines that contain this text.
    pub fn drop_lines_with(self, text: &'static str) -> Fault {
        self.edit(move |line| line.contains(text).then(Vec::new))
    }

    pub fn strip_bookmarks(self) -> Fault {
        self.drop_lines_with(r#""type":"BOOKMARK""#)
    }

    /// Drops the bookmark that marks the end of a streamed list.
    pub fn strip_end_of_initial_events(self) -> Fault {
        self.drop_lines_with("k8s.io/initial-events-end")
    }

    /// Holds this many events back and then sends them in reverse order. Events that are held when
    /// the fault is lifted, or when a bookmark comes, are sent then, so nothing is lost. `times`
    /// and `after` do not apply. A hit is a group that was reversed.
    pub fn reverse_each(self, count: usize) -> Fault {
        self.rule(What::Reverse(count))
    }

    fn rule(self, what: What) -> Fault {
        let rule = Arc::new(Rule {
            which: self.which,
            what,
            counts: Mutex::new(Counts {
                to_pass: self.to_pass,
                left: self.times,
                hits: 0,
            }),
            is_lifted: watch::Sender::new(false),
        });
        self.state.add_rule(rule.clone());
        Fault {
            rule,
            state: self.state.clone(),
        }
    }
}
