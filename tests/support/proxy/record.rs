//! The record of what has passed, for assertions and for replaying it.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::answer::Answer;
use super::request::{Seen, Which};

/// A line of a watch, and the request that opened the watch.
#[derive(Clone, Debug)]
pub struct PassedLine {
    pub watch: Seen,
    pub text: String,
}

impl PassedLine {
    /// Returns whether the line is a change of an object. Bookmarks and errors are not.
    pub fn is_change(&self) -> bool {
        let is_of = |kind: &str| self.text.contains(&format!(r#""type":"{kind}""#));
        is_of("ADDED") || is_of("MODIFIED") || is_of("DELETED")
    }
}

/// A line of a watch on its way to the host, after all rules.
#[derive(Clone, Debug)]
pub struct SentLine {
    pub at: Instant,
    pub text: Bytes,
}

/// What the proxy has recorded.
#[derive(Default)]
pub struct Record {
    pub requests: Vec<Seen>,
    pub lines: Vec<PassedLine>,
    pub sent: Vec<SentLine>,
    /// The server's answers to requests other than watches.
    pub answers: Vec<(Seen, Answer)>,
}

impl Record {
    pub(super) fn request(&mut self, seen: &Seen) {
        self.requests.push(seen.clone());
    }

    pub(super) fn line(&mut self, watch: &Seen, text: &str) {
        self.lines.push(PassedLine {
            watch: watch.clone(),
            text: text.to_owned(),
        });
    }

    pub(super) fn sent(&mut self, text: &Bytes) {
        self.sent.push(SentLine {
            at: Instant::now(),
            text: text.clone(),
        });
    }

    pub(super) fn answer(&mut self, seen: &Seen, answer: Answer) {
        self.answers.push((seen.clone(), answer));
    }

    pub(super) fn seen(&self, which: &Which) -> Vec<Seen> {
        let matching = self.requests.iter().filter(|seen| which.matches(seen));
        matching.cloned().collect()
    }

    pub(super) fn lines(&self, which: &Which) -> Vec<PassedLine> {
        let matching = self.lines.iter().filter(|line| which.matches(&line.watch));
        matching.cloned().collect()
    }

    pub(super) fn answers(&self, which: &Which) -> Vec<Answer> {
        let matching = self.answers.iter().filter(|(seen, _)| which.matches(seen));
        matching.map(|(_, answer)| answer.clone()).collect()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns how often each path was requested, for the message of a failed assertion.
    pub(super) fn summary(&self) -> String {
        let mut counts = BTreeMap::<String, usize>::new();
        for seen in &self.requests {
            let watch = if seen.is_watch() { " (watch)" } else { "" };
            *counts
                .entry(format!("{} {}{watch}", seen.method, seen.path))
                .or_default() += 1;
        }
        format!("{counts:?}")
    }
}

/// How many requests of a kind may come in addition to one a second. After a watch breaks, a probe
/// and the watch follow at once. After a watch has expired, a stream for its version, a stream for
/// the newest version and a list follow.
const AT_ONCE: usize = 4;

/// Returns whether a client that got nowhere for this time has tried at all, and at most once a
/// second apart from `AT_ONCE`.
pub fn is_patient(requests: &[Seen], time: Duration) -> bool {
    let seconds = usize::try_from(time.as_secs()).unwrap_or(usize::MAX);
    (1..=seconds + AT_ONCE).contains(&requests.len())
}

/// Returns the largest number of requests within one second.
pub fn busiest_second(requests: &[Seen]) -> usize {
    let within = |first: &Seen, other: &Seen| {
        other.at >= first.at && other.at - first.at < Duration::from_secs(1)
    };
    let counts = requests.iter().map(|first| {
        let second = requests.iter().filter(|other| within(first, other));
        second.count()
    });
    counts.max().unwrap_or_default()
}
