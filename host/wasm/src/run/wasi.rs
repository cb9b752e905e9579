//! WASI's state in one run: a clock that does not follow real time, random numbers, and the output
//! that has not been logged yet.

use wasmtime::component::Resource;

use crate::secret::Random;

/// How far each read advances the monotonic clock.
pub(crate) const STEP_NS: u64 = 1_000_000;
const NS_PER_MS: u64 = 1_000_000;
/// A longer line is logged in pieces, so that a guest that never ends its line cannot fill the
/// host's memory.
const LINE_BYTES: usize = 4 << 10;

/// WASI's state in one run.
pub(crate) struct WasiState {
    pub(crate) clock: VirtualClock,
    pub(crate) random: Random,
    pub(crate) stdout: LineBuffer,
    pub(crate) stderr: LineBuffer,
}

impl WasiState {
    pub(crate) fn new(random: Random) -> Self {
        Self {
            clock: VirtualClock::default(),
            random,
            stdout: LineBuffer::default(),
            stderr: LineBuffer::default(),
        }
    }
}

/// Something that a guest can wait for. Its representation is the millisecond of the monotonic
/// clock at which it becomes ready; 0 is ready immediately.
pub(crate) enum Pollable {}

/// The monotonic clock of one run, in nanoseconds. It does not depend on real time, so reading it
/// does not make the reconcile depend on time.
#[derive(Default)]
pub(crate) struct VirtualClock {
    pub(crate) now_ns: u64,
}

impl VirtualClock {
    pub(crate) fn read(&mut self) -> u64 {
        self.now_ns = self.now_ns.saturating_add(STEP_NS);
        self.now_ns
    }

    pub(crate) fn pollable_at(deadline_ns: u64) -> Resource<Pollable> {
        let deadline_ms = deadline_ns.div_ceil(NS_PER_MS);
        Resource::new_own(u32::try_from(deadline_ms).unwrap_or(u32::MAX))
    }

    pub(crate) fn is_ready(&self, pollable: &Resource<Pollable>) -> bool {
        deadline_ns(pollable) <= self.now_ns
    }

    /// Sleeps until the first of `pollables` is ready and returns the indices of those that are.
    pub(crate) fn poll(&mut self, pollables: &[Resource<Pollable>]) -> Vec<u32> {
        let first = pollables.iter().map(deadline_ns).min().unwrap_or_default();
        self.now_ns = self.now_ns.max(first);
        let ready = (0..)
            .zip(pollables)
            .filter(|(_, pollable)| self.is_ready(pollable));
        ready.map(|(index, _)| index).collect()
    }
}

fn deadline_ns(pollable: &Resource<Pollable>) -> u64 {
    u64::from(pollable.rep()).saturating_mul(NS_PER_MS)
}

/// The part of a line that has been written so far.
#[derive(Default)]
pub(crate) struct LineBuffer {
    bytes: Vec<u8>,
}

impl LineBuffer {
    /// Takes bytes that the guest writes and calls `line` for each complete line.
    pub(crate) fn write(&mut self, bytes: &[u8], mut line: impl FnMut(&str)) {
        for piece in bytes
            .split_inclusive(|&byte| byte == b'\n')
            .flat_map(|line| line.chunks(LINE_BYTES))
        {
            self.bytes.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.bytes.len() >= LINE_BYTES {
                self.flush(&mut line);
            }
        }
    }

    pub(crate) fn flush(&mut self, mut line: impl FnMut(&str)) {
        if self.bytes.is_empty() {
            return;
        }
        let text = String::from_utf8_lossy(&self.bytes);
        line(text.trim_end_matches(['\r', '\n']));
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_moves_the_clock_and_a_sleep_jumps() {
        let mut clock = VirtualClock::default();
        assert_eq!((clock.read(), clock.read()), (STEP_NS, 2 * STEP_NS));
        let hour = VirtualClock::pollable_at(3_600_000 * NS_PER_MS);
        let minute = VirtualClock::pollable_at(60_000 * NS_PER_MS);
        assert!(!clock.is_ready(&minute));
        assert_eq!(clock.poll(&[hour, minute]), [1], "the first to be ready");
        assert_eq!(clock.now_ns, 60_000 * NS_PER_MS);
    }
}
