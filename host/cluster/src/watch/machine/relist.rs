//! Decides in which form everything is listed: as a stream, in pages or unpaged. Does not decide
//! when.

/// After this many streams that break before they are complete, a list is tried.
const MAX_INCOMPLETE_STREAMS: u32 = 2;

/// After this many failures the unpaged list is given up: no request costs the server and the
/// network more.
const MAX_WHOLE_FAILURES: u32 = 2;

/// The attempts at the current list, by form.
#[derive(Debug)]
pub(super) struct RelistForm {
    /// The settings allow streams.
    is_streaming: bool,
    /// Streams that broke since the last complete list.
    incomplete_streams: u32,
    /// Failures of the current unpaged list.
    whole_failures: u32,
}

impl RelistForm {
    pub(super) fn new(is_streaming: bool) -> Self {
        Self {
            is_streaming,
            incomplete_streams: 0,
            whole_failures: 0,
        }
    }

    /// True if the next attempt is a stream, false if it is a list.
    pub(super) fn is_stream(&self) -> bool {
        self.is_streaming && self.incomplete_streams < MAX_INCOMPLETE_STREAMS
    }

    /// A stream broke before it was complete.
    pub(super) fn stream_broke(&mut self) {
        self.incomplete_streams += 1;
    }

    /// An unpaged list begins.
    pub(super) fn begin_whole(&mut self) {
        self.whole_failures = 0;
    }

    /// An unpaged list failed. Returns whether it is to be given up.
    pub(super) fn whole_failed(&mut self) -> bool {
        self.whole_failures += 1;
        self.whole_failures >= MAX_WHOLE_FAILURES
    }

    /// A complete list has arrived.
    pub(super) fn listed(&mut self) {
        self.incomplete_streams = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_two_broken_streams_it_is_a_list_until_one_is_complete() {
        let mut form = RelistForm::new(true);
        for is_stream in [true, true, false, false] {
            assert_eq!(form.is_stream(), is_stream);
            form.stream_broke();
        }
        form.listed();
        assert!(form.is_stream());
        assert!(!RelistForm::new(false).is_stream());
    }

    #[test]
    fn each_unpaged_list_may_fail_once() {
        let mut form = RelistForm::new(true);
        for _ in 0..3 {
            form.begin_whole();
            assert!(!form.whole_failed());
            assert!(form.whole_failed());
        }
    }
}
