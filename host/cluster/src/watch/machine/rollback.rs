//! Decides whether the server was rolled back. One answer proves nothing; only two probes in a row
//! do.

use pilothouse_core::ResourceVersion;

use super::step::Probed;

/// What the probes so far have found. Each excludes the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Finding {
    /// The last probe did not find the server behind the cache, or got no answer.
    #[default]
    Consistent,
    /// The last probe found the server behind the cache.
    BehindOnce,
    /// Two probes in a row have. The next list is the first one after the rollback.
    RolledBack,
    /// The server's lists and probes count differently, so probes of it mean nothing. For ever.
    Incomparable,
}

/// The suspicion that the server was rolled back.
#[derive(Debug, Default)]
pub(super) struct RollbackSuspicion {
    finding: Finding,
    /// Another list-watch has found that the server was rolled back. Until the next complete list.
    is_told: bool,
    /// The version of the list that followed the last rollback.
    rolled_back_to: Option<ResourceVersion>,
}

impl RollbackSuspicion {
    /// Another list-watch has found a rollback.
    pub(super) fn tell(&mut self) {
        self.is_told = true;
    }

    /// False if lists and probes of this server cannot be compared.
    pub(super) fn is_comparable(&self) -> bool {
        self.finding != Finding::Incomparable
    }

    /// A probe found the server where it should be, or failed: the next one will not be the second
    /// in a row.
    pub(super) fn interrupt(&mut self) {
        if self.finding == Finding::BehindOnce {
            self.finding = Finding::Consistent;
        }
    }

    /// A probe found the server behind the cache, which is at `newest`.
    pub(super) fn behind(&mut self, newest: &ResourceVersion) -> Probed {
        match self.finding {
            // One answer may come from a lagging replica.
            Finding::Consistent => {
                self.finding = Finding::BehindOnce;
                Probed::Suspicious
            }
            // The cache is at the list that followed a rollback, and nothing has come since. Lists
            // and probes must count differently.
            Finding::BehindOnce if self.rolled_back_to.as_ref() == Some(newest) => {
                self.finding = Finding::Incomparable;
                Probed::Incomparable
            }
            // After a rollback there is no position until the next list, so nothing is behind it.
            Finding::BehindOnce | Finding::RolledBack => {
                self.finding = Finding::RolledBack;
                Probed::RolledBack {
                    from: newest.clone(),
                    is_news: !self.is_told,
                }
            }
            Finding::Incomparable => Probed::Incomparable,
        }
    }

    /// A complete list of this version has arrived. Returns whether it follows a rollback, so that
    /// it replaces the cache however old it is.
    pub(super) fn listed(&mut self, version: &ResourceVersion) -> bool {
        let is_rollback = self.finding == Finding::RolledBack;
        if is_rollback {
            self.rolled_back_to = Some(version.clone());
        }
        if self.is_comparable() {
            self.finding = Finding::Consistent;
        }
        std::mem::take(&mut self.is_told) || is_rollback
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(number: u64) -> ResourceVersion {
        ResourceVersion::new(&number.to_string())
    }

    fn rolled_back(from: u64, is_news: bool) -> Probed {
        Probed::RolledBack {
            from: version(from),
            is_news,
        }
    }

    #[test]
    fn two_probes_in_a_row_prove_a_rollback_and_only_the_list_after_it_follows_one() {
        let mut suspicion = RollbackSuspicion::default();
        assert_eq!(suspicion.behind(&version(9)), Probed::Suspicious);
        assert_eq!(suspicion.behind(&version(9)), rolled_back(9, true));
        assert!(suspicion.listed(&version(5)));
        assert!(!suspicion.listed(&version(6)));
    }

    #[test]
    fn a_probe_in_between_that_is_not_behind_makes_the_next_one_the_first_again() {
        let mut suspicion = RollbackSuspicion::default();
        suspicion.behind(&version(9));
        suspicion.interrupt();
        assert_eq!(suspicion.behind(&version(9)), Probed::Suspicious);
        suspicion.listed(&version(9));
        assert_eq!(
            suspicion.behind(&version(9)),
            Probed::Suspicious,
            "a list too"
        );
    }

    #[test]
    fn a_failed_probe_does_not_make_a_proven_rollback_unknown_again() {
        let mut suspicion = RollbackSuspicion::default();
        suspicion.behind(&version(9));
        suspicion.behind(&version(9));
        suspicion.interrupt();
        assert!(suspicion.listed(&version(5)));
    }

    #[test]
    fn what_another_list_watch_has_found_is_no_news_and_marks_one_list() {
        let mut suspicion = RollbackSuspicion::default();
        suspicion.tell();
        suspicion.behind(&version(9));
        assert_eq!(suspicion.behind(&version(9)), rolled_back(9, false));
        suspicion = RollbackSuspicion::default();
        suspicion.tell();
        assert!(suspicion.listed(&version(9)));
        assert!(!suspicion.listed(&version(9)));
    }

    #[test]
    fn a_server_behind_the_list_that_followed_its_rollback_is_never_comparable_again() {
        let mut suspicion = RollbackSuspicion::default();
        for newest in [9, 5] {
            suspicion.behind(&version(newest));
            assert!(suspicion.is_comparable());
            suspicion.behind(&version(newest));
            suspicion.listed(&version(5));
        }
        assert!(!suspicion.is_comparable());
        assert_eq!(suspicion.behind(&version(9)), Probed::Incomparable);
    }
}
