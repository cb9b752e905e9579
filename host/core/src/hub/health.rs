//! Whether a version of a plugin is fit to run.
//!
//! A trap, a run over its limits and a refused outcome are strikes. One object that breaks a plugin is that key's business (see
//! `queue`, broken keys); a version that breaks on most of what it runs is the version's, and is put in quarantine: it runs nothing
//! until its time is over, and longer each time. Whoever has an earlier version can put that in its place.

use std::collections::VecDeque;
use std::time::Duration;

use crate::backoff::Backoff;
use crate::key::ObjectKey;
use crate::queue::Time;

/// Of so many keys that ran last, the latest verdict is remembered.
const KEYS: usize = 100;

/// Fewer strikes in a row condemn nobody, whatever part of the keys they are.
const STRIKES: u32 = 5;

/// How long a quarantine is: half a minute at first, an hour at last.
const QUARANTINE: Backoff = Backoff {
    base: Duration::from_secs(30),
    max: Duration::from_secs(3600),
};

/// After so long without a quarantine the next one is as short as the first.
const FORGIVEN_AFTER: Duration = Duration::from_secs(2 * 3600);

/// Why and how long a version does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantine {
    /// The last strike.
    pub reason: String,
    /// When it may run again.
    pub until: Time,
}

/// One version's record.
#[derive(Debug)]
pub(super) struct Health {
    /// Whether it is ever put in quarantine.
    is_judged: bool,
    /// The keys that ran last, each once, with whether its last run was a strike.
    recent: VecDeque<(ObjectKey, bool)>,
    /// Since the last run that was none.
    strikes: u32,
    quarantine: Option<Quarantine>,
    /// Quarantines so far.
    times: u32,
}

impl Health {
    pub fn new(is_judged: bool) -> Self {
        Self {
            is_judged,
            recent: VecDeque::new(),
            strikes: 0,
            quarantine: None,
            times: 0,
        }
    }

    /// A run has ended; with a strike if there is a reason. Says whether the version goes into quarantine for it.
    pub fn ran(&mut self, key: &ObjectKey, strike: Option<&str>, now: Time) -> bool {
        self.recent.retain(|(have, _)| have != key);
        self.recent.truncate(KEYS - 1);
        self.recent.push_front((key.clone(), strike.is_some()));
        let Some(reason) = strike else {
            self.strikes = 0;
            return false;
        };
        self.strikes += 1;
        if self.is_quarantined(now) || !self.is_unfit() {
            return false;
        }
        self.condemn(reason, now)
    }

    /// Puts the version in quarantine, if that is ever done. Says whether it has.
    pub fn condemn(&mut self, reason: &str, now: Time) -> bool {
        if !self.is_judged {
            return false;
        }
        let ended = self.quarantine.take().map(|quarantine| quarantine.until);
        if ended.is_some_and(|ended| now.saturating_sub(ended) > FORGIVEN_AFTER) {
            self.times = 0;
        }
        self.times += 1;
        self.recent.clear();
        self.strikes = 0;
        self.quarantine = Some(Quarantine {
            reason: reason.to_owned(),
            until: now + QUARANTINE.delay(self.times),
        });
        true
    }

    /// Somebody has mended something, or says that it is to be tried: it is, at once.
    pub fn forgive(&mut self) {
        self.recent.clear();
        self.strikes = 0;
        self.quarantine = None;
    }

    pub fn is_quarantined(&self, now: Time) -> bool {
        self.current(now).is_some()
    }

    /// The quarantine it is in.
    pub fn current(&self, now: Time) -> Option<&Quarantine> {
        self.quarantine
            .as_ref()
            .filter(|quarantine| now < quarantine.until)
    }

    /// When the last quarantine is or was over.
    pub fn until(&self) -> Time {
        self.quarantine
            .as_ref()
            .map_or(Time::ZERO, |quarantine| quarantine.until)
    }

    /// Whether nothing speaks against coming back to it.
    pub fn is_fit(&self) -> bool {
        let is_good = |(_, strike): &(ObjectKey, bool)| !strike;
        let has_run_well = self.recent.is_empty() || self.recent.iter().any(is_good);
        self.quarantine.is_none() && has_run_well
    }

    /// Strikes in a row on most keys that ran lately.
    fn is_unfit(&self) -> bool {
        let struck = self.recent.iter().filter(|(_, strike)| *strike).count();
        self.strikes >= STRIKES && struck * 2 > self.recent.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> ObjectKey {
        ObjectKey::new("default", &format!("key-{number}"))
    }

    const TRAP: Option<&str> = Some("trap: unreachable");

    #[test]
    fn a_version_that_breaks_on_everything_is_condemned_at_the_fifth_strike() {
        let mut health = Health::new(true);
        for number in 0..4 {
            assert!(!health.ran(&key(number), TRAP, Time::ZERO));
        }
        assert!(health.ran(&key(4), TRAP, Time::ZERO));
        assert!(health.is_quarantined(Duration::from_secs(29)));
        assert!(!health.is_quarantined(Duration::from_secs(30)));
    }

    #[test]
    fn a_version_that_is_not_judged_is_never_put_in_quarantine() {
        let mut health = Health::new(false);
        for _ in 0..1000 {
            assert!(!health.ran(&key(0), TRAP, Time::ZERO));
        }
        assert!(!health.condemn("panic: of the host", Time::ZERO));
        assert!(!health.is_quarantined(Time::ZERO) && health.until() == Time::ZERO);
        assert!(!health.is_fit(), "it has not run well all the same");
    }

    #[test]
    fn one_key_of_many_condemns_nobody_however_often_it_breaks() {
        let mut health = Health::new(true);
        for number in 0..3 {
            health.ran(&key(number), None, Time::ZERO);
        }
        for _ in 0..1000 {
            assert!(!health.ran(&key(0), TRAP, Time::ZERO));
        }
    }

    #[test]
    fn the_only_key_there_is_condemns_the_version() {
        let mut health = Health::new(true);
        health.ran(&key(0), None, Time::ZERO);
        let condemned = (0..5).map(|_| health.ran(&key(0), TRAP, Time::ZERO));
        assert_eq!(condemned.filter(|condemned| *condemned).count(), 1);
    }

    #[test]
    fn a_version_that_turns_bad_late_is_condemned_too() {
        let mut health = Health::new(true);
        for number in 0..10_000 {
            health.ran(&key(number), None, Time::ZERO);
        }
        let first = (0..10_000).position(|number| health.ran(&key(number), TRAP, Time::ZERO));
        assert_eq!(first, Some(KEYS / 2));
    }

    #[test]
    fn a_version_that_never_ran_well_is_not_worth_coming_back_to() {
        let mut health = Health::new(true);
        assert!(health.is_fit(), "it had nothing to run");
        health.ran(&key(0), TRAP, Time::ZERO);
        assert!(!health.is_fit());
        health.ran(&key(1), None, Time::ZERO);
        assert!(health.is_fit());
        health.condemn("trap", Time::ZERO);
        assert!(!health.is_fit());
    }

    #[test]
    fn each_quarantine_is_longer_until_there_was_none_for_long() {
        let mut health = Health::new(true);
        let mut now = Time::ZERO;
        let mut lengths = Vec::new();
        for _ in 0..9 {
            health.condemn("trap", now);
            lengths.push((health.until() - now).as_secs());
            now = health.until();
        }
        assert_eq!(lengths, [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]);
        now += FORGIVEN_AFTER + Duration::from_secs(1);
        health.condemn("trap", now);
        assert_eq!((health.until() - now).as_secs(), 30);
    }
}
