//! What has passed, for assertions and for playing it again.

use std::collections::BTreeMap;
use std::time::Duration;

use super::answer::Answer;
use super::request::{Seen, Which};

/// A line of a watch, and the request that opened the watch.
#[derive(Clone, Debug)]
pub struct PassedLine {
    pub watch: Seen,
    pub text: String,
}

impl PassedLine {
    /// A change of an object: neither a bookmark nor the server's word that the watch is over.
    pub fn is_change(&self) -> bool {
        let is_of = |kind: &str| self.text.contains(&format!(r#""type":"{kind}""#));
        is_of("ADDED") || is_of("MODIFIED") || is_of("DELETED")
    }
}

#[derive(Default)]
pub(super) struct Record {
    requests: Vec<Seen>,
    lines: Vec<PassedLine>,
    answers: Vec<(Seen, Answer)>,
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

    /// For a failed assertion: how often what was asked.
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

/// Requests that a kind may make on its own before the pace of one a second holds: a watch that breaks is followed at once by a
/// probe, that by the watch, and one that has expired by a stream for its version, one for the newest, and a list.
const AT_ONCE: usize = 4;

/// Whether somebody who gets nowhere for so long has tried, and no oftener than once a second.
pub fn is_patient(requests: &[Seen], time: Duration) -> bool {
    let seconds = usize::try_from(time.as_secs()).unwrap_or(usize::MAX);
    (1..=seconds + AT_ONCE).contains(&requests.len())
}

/// The most requests within any second.
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
