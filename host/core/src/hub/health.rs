//! The record of one version of a plugin, and its quarantine.
//!
//! A trap, a reconcile that exceeds its limits, and a refused outcome are faults. If a single
//! object makes a plugin fail, that concerns only its key (see broken keys in `queue`). A version
//! that fails on most of its keys, and several times in a row, is put in quarantine: nothing of it
//! runs until the quarantine is over, and each further quarantine is longer. This module only
//! judges. A rollback to an earlier version is decided elsewhere.

use std::collections::VecDeque;
use std::time::Duration;

use crate::model::subject_key::SubjectKey;
use crate::queue::Time;
use crate::queue::backoff::Backoff;

/// The result of the latest reconcile is kept for this many keys, those that ran last.
const REMEMBERED_KEYS: usize = 100;

/// A version is quarantined only after this many consecutive faults, however large the share of
/// failing keys. A success ends the row, and so does a failure that the guest returns:
/// it is the guest's way to say "not yet".
const QUARANTINE_AFTER: u32 = 5;

/// The length of a quarantine: 30 seconds at first, at most one hour.
const QUARANTINE: Backoff = Backoff {
    base: Duration::from_secs(30),
    max: Duration::from_secs(3600),
};

/// If no quarantine began for this long after the last one ended, the next one is as short as the
/// first.
const PARDONED_AFTER: Duration = Duration::from_secs(2 * 3600);

/// Why a version does not run, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantine {
    /// The last fault.
    pub reason: String,
    /// When the version may run again.
    pub until: Time,
}

/// The record of one version.
#[derive(Debug)]
pub(super) struct Health {
    /// Whether this version can be put in quarantine at all.
    is_judged: bool,
    /// The keys that ran last, each once, and whether its latest reconcile was a fault.
    recent: VecDeque<(SubjectKey, bool)>,
    /// Consecutive faults, over all keys.
    faults: u32,
    quarantine: Option<Quarantine>,
    /// The number of quarantines so far, for their length.
    times: u32,
}

impl Health {
    pub fn new(is_judged: bool) -> Self {
        Self {
            is_judged,
            recent: VecDeque::new(),
            faults: 0,
            quarantine: None,
            times: 0,
        }
    }

    /// Applies the setting. If the version can no longer be put in quarantine, one that it is in
    /// ends.
    pub fn judge(&mut self, is_judged: bool) {
        self.is_judged = is_judged;
        if !is_judged {
            self.quarantine = None;
        }
    }

    /// Records the end of a reconcile; `fault` is the reason if it was a fault. Returns whether
    /// this puts the version in quarantine.
    pub fn ran(&mut self, key: &SubjectKey, fault: Option<&str>, now: Time) -> bool {
        self.recent.retain(|(have, _)| have != key);
        self.recent.truncate(REMEMBERED_KEYS - 1);
        self.recent.push_front((key.clone(), fault.is_some()));
        let Some(reason) = fault else {
            self.faults = 0;
            return false;
        };
        self.faults += 1;
        if self.is_quarantined(now) || !self.is_unfit() {
            return false;
        }
        self.put_in_quarantine(reason, now)
    }

    /// Puts the version in quarantine, if quarantine is enabled for it. Returns whether it did.
    pub fn put_in_quarantine(&mut self, reason: &str, now: Time) -> bool {
        if !self.is_judged {
            return false;
        }
        let ended = self.quarantine.take().map(|quarantine| quarantine.until);
        if ended.is_some_and(|ended| now.saturating_sub(ended) > PARDONED_AFTER) {
            self.times = 0;
        }
        self.times += 1;
        self.recent.clear();
        self.faults = 0;
        self.quarantine = Some(Quarantine {
            reason: reason.to_owned(),
            until: now + QUARANTINE.delay(self.times),
        });
        true
    }

    /// Clears the record and ends the quarantine: an operator or new settings ask for another
    /// attempt.
    pub fn pardon(&mut self) {
        self.recent.clear();
        self.faults = 0;
        self.quarantine = None;
    }

    pub fn is_quarantined(&self, now: Time) -> bool {
        self.current(now).is_some()
    }

    /// The quarantine in force, if any.
    pub fn current(&self, now: Time) -> Option<&Quarantine> {
        self.quarantine
            .as_ref()
            .filter(|quarantine| now < quarantine.until)
    }

    /// The end of the last quarantine, past or future; zero if there was none.
    pub fn until(&self) -> Time {
        self.quarantine
            .as_ref()
            .map_or(Time::ZERO, |quarantine| quarantine.until)
    }

    /// Whether a rollback may return to this version: it has not been quarantined, and it has never
    /// run or at least one recent key did not end with a fault.
    pub fn may_roll_back_to(&self) -> bool {
        let is_good = |(_, fault): &(SubjectKey, bool)| !fault;
        let has_run_well = self.recent.is_empty() || self.recent.iter().any(is_good);
        self.quarantine.is_none() && has_run_well
    }

    /// Whether enough consecutive faults have occurred and most of the recent keys ended with one.
    fn is_unfit(&self) -> bool {
        let faulty = self.recent.iter().filter(|(_, fault)| *fault).count();
        self.faults >= QUARANTINE_AFTER && faulty * 2 > self.recent.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::key::ObjectKey;

    fn key(number: usize) -> SubjectKey {
        SubjectKey {
            object: ObjectKey::new("default", &format!("key-{number}")),
            ..SubjectKey::singleton()
        }
    }

    const TRAP: Option<&str> = Some("trap: unreachable");

    #[test]
    fn a_version_that_breaks_on_everything_is_quarantined_at_the_fifth_fault() {
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
        assert!(!health.put_in_quarantine("panic: of the host", Time::ZERO));
        assert!(!health.is_quarantined(Time::ZERO) && health.until() == Time::ZERO);
        assert!(
            !health.may_roll_back_to(),
            "it has not run well all the same"
        );
    }

    #[test]
    fn one_key_of_many_quarantines_nothing_however_often_it_breaks() {
        let mut health = Health::new(true);
        for number in 0..3 {
            health.ran(&key(number), None, Time::ZERO);
        }
        for _ in 0..1000 {
            assert!(!health.ran(&key(0), TRAP, Time::ZERO));
        }
    }

    #[test]
    fn the_only_key_there_is_quarantines_the_version() {
        let mut health = Health::new(true);
        health.ran(&key(0), None, Time::ZERO);
        let quarantined = (0..5).map(|_| health.ran(&key(0), TRAP, Time::ZERO));
        assert_eq!(quarantined.filter(|quarantined| *quarantined).count(), 1);
    }

    #[test]
    fn a_version_that_turns_bad_late_is_quarantined_too() {
        let mut health = Health::new(true);
        for number in 0..10_000 {
            health.ran(&key(number), None, Time::ZERO);
        }
        let first = (0..10_000).position(|number| health.ran(&key(number), TRAP, Time::ZERO));
        assert_eq!(first, Some(REMEMBERED_KEYS / 2));
    }

    #[test]
    fn a_version_that_never_ran_well_is_not_worth_coming_back_to() {
        let mut health = Health::new(true);
        assert!(health.may_roll_back_to(), "it had nothing to run");
        health.ran(&key(0), TRAP, Time::ZERO);
        assert!(!health.may_roll_back_to());
        health.ran(&key(1), None, Time::ZERO);
        assert!(health.may_roll_back_to());
        health.put_in_quarantine("trap", Time::ZERO);
        assert!(!health.may_roll_back_to());
    }

    #[test]
    fn each_quarantine_is_longer_until_there_was_none_for_long() {
        let mut health = Health::new(true);
        let mut now = Time::ZERO;
        let mut lengths = Vec::new();
        for _ in 0..9 {
            health.put_in_quarantine("trap", now);
            lengths.push((health.until() - now).as_secs());
            now = health.until();
        }
        assert_eq!(lengths, [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]);
        now += PARDONED_AFTER + Duration::from_secs(1);
        health.put_in_quarantine("trap", now);
        assert_eq!((health.until() - now).as_secs(), 30);
    }
}
