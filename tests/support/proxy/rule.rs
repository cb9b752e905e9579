//! Faults that hold from now on, for the requests or lines that match.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;

use super::answer::Answer;
use super::request::{Seen, Which};
use super::state::State;

/// None leaves a line as it is.
pub(super) type Edit = dyn FnMut(&str) -> Option<Vec<String>> + Send;

pub(super) enum What {
    // Instead of an answer from the server.
    Answer(Answer),
    Reset,
    Hold,
    Delay(Duration),
    // To the request that is forwarded.
    PagesOf(u32),
    // Instead of the answer that the server has given.
    Lose,
    Replace(Answer),
    // To the body of an answer.
    Slow(usize),
    Truncate(usize),
    // To the lines of a watch, those that are open too.
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

    /// Later rules have no say.
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

    /// One more is there that the rule is for. True if it is its turn.
    pub(super) fn take(&self) -> bool {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// None: the line stays as it is.
    pub(super) fn edit(&self, line: &str) -> Option<Vec<String>> {
        let What::Edit(edit) = &self.what else {
            return None;
        };
        let mut edit = edit.lock().unwrap_or_else(PoisonError::into_inner);
        let edited = edit(line)?;
        self.take().then_some(edited)
    }

    pub(super) fn lift(&self) {
        self.is_lifted.send_replace(true);
    }

    pub(super) async fn lifted(&self) {
        let mut is_lifted = self.is_lifted.subscribe();
        // The rule holds the sender.
        let _ = is_lifted.wait_for(|is_lifted| *is_lifted).await;
    }
}

/// A fault in force until it is lifted, by itself or with all others by [`super::Proxy::heal`]. Dropping this changes nothing.
pub struct Fault {
    rule: Arc<Rule>,
    state: Arc<State>,
}

impl Fault {
    /// How many requests it has hit, or lines.
    pub fn hits(&self) -> usize {
        let counts = self.rule.counts.lock();
        counts.unwrap_or_else(PoisonError::into_inner).hits
    }

    pub fn lift(self) {
        self.state.lift(&self.rule);
    }
}

/// The beginning of a rule: which requests. What is to happen to them follows.
///
/// Of several rules the one made first comes first.
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

    /// Only so many; for faults of lines, so many lines.
    #[must_use]
    pub fn times(mut self, times: usize) -> Self {
        self.times = times;
        self
    }

    /// Only after so many.
    #[must_use]
    pub fn after(mut self, count: usize) -> Self {
        self.to_pass = count;
        self
    }

    // Requests.

    /// Answers in the server's place, which never sees the request.
    pub fn answer(self, answer: Answer) -> Fault {
        self.rule(What::Answer(answer))
    }

    /// Breaks the connection; the server never sees the request.
    pub fn reset(self) -> Fault {
        self.rule(What::Reset)
    }

    /// Does not forward the request, nor answer it, until the fault is lifted and if its sender still waits then.
    pub fn hold(self) -> Fault {
        self.rule(What::Hold)
    }

    /// Forwards later.
    pub fn delay(self, time: Duration) -> Fault {
        self.rule(What::Delay(time))
    }

    /// Lists come in pages of so many, whatever was asked for.
    pub fn pages_of(self, objects: u32) -> Fault {
        self.rule(What::PagesOf(objects))
    }

    /// The server does what it is asked, and then the connection breaks without an answer.
    pub fn lose_answer(self) -> Fault {
        self.rule(What::Lose)
    }

    /// The server does what it is asked, but this is the answer.
    pub fn replace_answer(self, answer: Answer) -> Fault {
        self.rule(What::Replace(answer))
    }

    // Bodies, of watches too.

    /// So many bytes a second.
    pub fn slow(self, bytes_per_second: usize) -> Fault {
        self.rule(What::Slow(bytes_per_second))
    }

    /// The connection ends after so many bytes of the body.
    pub fn truncate(self, bytes: usize) -> Fault {
        self.rule(What::Truncate(bytes))
    }

    // Lines of watches, those that are open too.

    /// Nothing passes until the fault is lifted; the connection stays open, and others work.
    pub fn stall(self) -> Fault {
        self.rule(What::Stall)
    }

    /// Every line comes so much later.
    pub fn delay_lines(self, time: Duration) -> Fault {
        self.rule(What::DelayLines(time))
    }

    /// Puts lines in the place of one. None leaves it as it is, and is not counted.
    pub fn edit(self, edit: impl FnMut(&str) -> Option<Vec<String>> + Send + 'static) -> Fault {
        self.rule(What::Edit(Mutex::new(Box::new(edit))))
    }

    /// The line of an event becomes another text. None leaves it as it is, and is not counted.
    pub fn replace_events(
        self,
        replacement: impl Fn(&Value) -> Option<String> + Send + 'static,
    ) -> Fault {
        self.edit(move |line| {
            let event = serde_json::from_str(line).ok()?;
            Some(vec![replacement(&event)?])
        })
    }

    /// Lines with this text are lost.
    pub fn drop_lines_with(self, text: &'static str) -> Fault {
        self.edit(move |line| line.contains(text).then(Vec::new))
    }

    pub fn strip_bookmarks(self) -> Fault {
        self.drop_lines_with(r#""type":"BOOKMARK""#)
    }

    /// Streamed lists have no end.
    pub fn strip_end_of_initial_events(self) -> Fault {
        self.drop_lines_with("k8s.io/initial-events-end")
    }

    /// So many events are held back and then come in the reverse order. What is held when the fault is lifted, or when a bookmark
    /// comes, is sent then: nothing is lost. `times` and `after` do not apply; a hit is a group that was reversed.
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
