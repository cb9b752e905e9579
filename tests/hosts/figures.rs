//! How long hand-overs took.

use std::fmt;
use std::time::Duration;

/// Times that were measured.
#[derive(Debug, Default)]
pub struct Figures(Vec<Duration>);

impl Figures {
    pub fn add(&mut self, time: Duration) {
        self.0.push(time);
    }

    pub fn worst(&self) -> Duration {
        self.0.iter().max().copied().unwrap_or_default()
    }

    fn median(&self) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort();
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, median, worst) = (self.0.len(), self.median(), self.worst());
        write!(
            f,
            "{count} hand-overs, median {median:.2?}, worst {worst:.2?}"
        )
    }
}
