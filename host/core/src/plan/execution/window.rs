//! How many writes may be under way at the same time: slow start.

use crate::plan::execution::Execution;

/// A window that begins with one write and grows by one with each write that is accepted: one
/// write, then two, then four, … as in TCP's slow start. So when every write fails for the same
/// reason (a quota, an admission webhook) the server is asked only a few times.
pub(super) struct Window {
    size: usize,
    under_way: usize,
}

impl Window {
    pub fn new() -> Self {
        Self {
            size: 1,
            under_way: 0,
        }
    }

    /// Whether one more write may be begun.
    pub fn is_open(&self) -> bool {
        self.under_way < self.size
    }

    /// Whether a write is under way.
    pub fn is_in_use(&self) -> bool {
        self.under_way > 0
    }

    pub fn begin(&mut self) {
        self.under_way += 1;
    }

    /// A write has ended. One that has failed does not make the window larger.
    pub fn end(&mut self, is_accepted: bool) {
        self.under_way -= 1;
        if is_accepted {
            self.size = Execution::MAX_WINDOW.min(self.size + 1);
        }
    }
}
