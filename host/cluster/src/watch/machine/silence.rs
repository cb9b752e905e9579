//! Decides when the server has been silent for so long that it is to be probed. Does not decide
//! what an answer means.

use super::failure_class::FailureClass;

/// A server may answer probes with something useless, and that answer may be large. With each such
/// answer it is probed half as often, up to this many times.
const MAX_PROBE_DOUBLINGS: u32 = 6;

/// After this many watches in a row without a change, about half a minute, the server is probed,
/// unless one of them has shown that it is at the position. The last of them is opened so that it
/// can.
const QUIET_WATCHES_PER_PROBE: u32 = 3;

/// How long nothing has changed, and whether a probe is due.
#[derive(Debug, Default)]
pub(super) struct WatchSilence {
    /// Number of watches in a row without a change.
    quiet_watches: u32,
    /// True if the current watch has brought a change.
    has_changes: bool,
    /// True if the current watch has shown that the server is at the position or beyond.
    has_proof: bool,
    /// The server may have been rolled back since it was last probed, so a probe is due.
    owes_probe: bool,
    /// Number of probes in a row whose answers were useless.
    senseless_probes: u32,
    /// Number of due probes to leave out because of that.
    probes_to_skip: u32,
}

impl WatchSilence {
    /// True if the next watch is to be short: the last one brought no change, or a probe is due
    /// after it.
    pub(super) fn is_quiet(&self) -> bool {
        self.quiet_watches > 0 || self.owes_probe
    }

    /// True if a probe is due because nothing has come for so long. One that is owed for another
    /// reason is sent before it comes to that.
    pub(super) fn is_long(&self) -> bool {
        self.quiet_watches >= QUIET_WATCHES_PER_PROBE
    }

    /// True if a probe is due after the next watch, unless that shows where the server is.
    pub(super) fn is_proof_due(&self) -> bool {
        !self.owes_probe && self.quiet_watches + 1 == QUIET_WATCHES_PER_PROBE
    }

    pub(super) fn is_probe_due(&self) -> bool {
        self.owes_probe || self.is_long()
    }

    /// A complete list has arrived.
    pub(super) fn listed(&mut self) {
        self.quiet_watches = 0;
        self.has_changes = false;
        self.has_proof = false;
    }

    /// The current watch has brought a change.
    pub(super) fn changed(&mut self) {
        self.has_changes = true;
    }

    /// The current watch has brought something that a server which had been rolled back to before
    /// the position could not have sent.
    pub(super) fn proven(&mut self) {
        self.has_proof = true;
    }

    /// Whether the current watch has brought such a thing.
    pub(super) fn has_proof(&self) -> bool {
        self.has_proof
    }

    /// The current watch has ended. Returns whether it had brought a change.
    pub(super) fn take_changes(&mut self) -> bool {
        std::mem::take(&mut self.has_changes)
    }

    /// The watch that has ended worked, with or without changes.
    pub(super) fn count(&mut self, had_changes: bool) {
        let has_proof = std::mem::take(&mut self.has_proof);
        self.quiet_watches = match (had_changes, has_proof) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => self.quiet_watches + 1,
        };
    }

    /// The server may be another than before.
    pub(super) fn owe_probe(&mut self) {
        self.owes_probe = true;
    }

    /// A probe is wanted. Returns whether to send it. It counts as answered if probes mean nothing,
    /// or if this one is to be skipped.
    pub(super) fn begin_probe(&mut self, is_comparable: bool) -> bool {
        let must_skip = self.probes_to_skip > 0;
        self.probes_to_skip = self.probes_to_skip.saturating_sub(1);
        let is_sent = is_comparable && !must_skip;
        if !is_sent {
            self.owes_probe = false;
            self.watch_again();
        }
        is_sent
    }

    /// The server has answered a probe with a version.
    pub(super) fn probed(&mut self) {
        self.owes_probe = false;
        self.senseless_probes = 0;
        self.watch_again();
    }

    /// A probe failed.
    pub(super) fn probe_failed(&mut self, class: FailureClass) {
        self.owes_probe &= class == FailureClass::Lost;
        if class == FailureClass::Broken {
            // An answer, but not a list: this server may never answer probes usefully.
            self.senseless_probes = (self.senseless_probes + 1).min(MAX_PROBE_DOUBLINGS);
            self.probes_to_skip = (1 << self.senseless_probes) - 1;
        }
        self.watch_again();
    }

    /// The count to the next probe starts over, and the kind remains a quiet one.
    fn watch_again(&mut self) {
        self.quiet_watches = self.quiet_watches.min(1);
        self.has_proof = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_due_after_three_watches_without_a_change_and_then_after_two_more() {
        let mut silence = WatchSilence::default();
        for _ in 0..2 {
            silence.count(false);
            assert!(silence.is_quiet() && !silence.is_probe_due());
        }
        silence.count(false);
        assert!(silence.is_probe_due());
        silence.probed();
        assert!(silence.is_quiet() && !silence.is_probe_due());
        silence.count(false);
        silence.count(false);
        assert!(silence.is_probe_due());
        silence.count(true);
        assert!(!silence.is_quiet());
    }

    #[test]
    fn no_probe_is_due_while_watches_show_where_the_server_is() {
        let mut silence = WatchSilence::default();
        for _ in 0..9 {
            silence.proven();
            assert!(!silence.take_changes());
            silence.count(false);
            assert!(silence.is_quiet() && !silence.is_probe_due());
        }
        silence.count(false);
        assert!(!silence.is_probe_due());
        silence.count(false);
        assert!(silence.is_probe_due(), "once they no longer do");
    }

    #[test]
    fn the_last_watch_before_a_probe_is_to_show_where_the_server_is() {
        let mut silence = WatchSilence::default();
        let mut due = Vec::new();
        for _ in 0..4 {
            due.push(silence.is_proof_due());
            silence.count(false);
        }
        assert_eq!(due, [false, false, true, false]);
        silence.probed();
        silence.count(false);
        assert!(silence.is_proof_due());
        silence.owe_probe();
        assert!(!silence.is_proof_due(), "it is probed in any case");
    }

    #[test]
    fn a_probe_that_got_no_answer_stays_due_and_one_that_was_refused_does_not() {
        let mut silence = WatchSilence::default();
        silence.owe_probe();
        silence.probe_failed(FailureClass::Lost);
        assert!(silence.is_probe_due());
        silence.probe_failed(FailureClass::Refused { retry_after: None });
        assert!(!silence.is_probe_due());
    }

    #[test]
    fn a_server_that_answers_probes_uselessly_is_probed_half_as_often_each_time() {
        let mut silence = WatchSilence::default();
        let mut skipped = Vec::new();
        for _ in 0..8 {
            silence.probe_failed(FailureClass::Broken);
            let count = (0..).take_while(|_| !silence.begin_probe(true)).count();
            skipped.push(count);
        }
        assert_eq!(skipped, [1, 3, 7, 15, 31, 63, 63, 63]);
        silence.probed();
        silence.probe_failed(FailureClass::Broken);
        assert!(!silence.begin_probe(true) && silence.begin_probe(true));
    }

    #[test]
    fn a_probe_that_would_mean_nothing_is_not_sent_and_not_owed() {
        let mut silence = WatchSilence::default();
        silence.owe_probe();
        assert!(!silence.begin_probe(false));
        assert!(!silence.is_probe_due());
    }
}
