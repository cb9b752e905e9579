//! The state that a store carries during one run: what the guest may read, what it may use, and
//! where its log lines go. Nothing in it is carried over to the next run.

use pilothouse_core::Reader;

use crate::log::{Level, PluginLog};
use crate::run::last_words::LastWords;
use crate::run::limits::{Limiter, RunLimits};
use crate::run::wasi::{LineBuffer, WasiState};
use crate::secret::Random;

/// The representations of the two output streams.
pub(crate) const STDOUT: u32 = 1;
pub(crate) const STDERR: u32 = 2;

/// The `T` of `Store<T>`.
pub(crate) struct StoreState {
    /// `None` in `describe`, which has no snapshot to read.
    reader: Option<Reader>,
    pub(crate) limiter: Limiter,
    pub(crate) log: PluginLog,
    pub(crate) last_words: LastWords,
    pub(crate) wasi: WasiState,
}

impl StoreState {
    pub(crate) fn new(
        random: Random,
        reader: Option<Reader>,
        log: PluginLog,
        limits: &RunLimits,
    ) -> Self {
        Self {
            reader,
            limiter: Limiter::new(limits),
            log,
            last_words: LastWords::default(),
            wasi: WasiState::new(random),
        }
    }

    /// The reader, or an error that becomes a trap and names the forbidden import.
    pub(crate) fn reader(&mut self, import: &str) -> wasmtime::Result<&mut Reader> {
        self.reader.as_mut().ok_or_else(|| {
            wasmtime::format_err!(
                "{import} was called from describe, which may call no import but log"
            )
        })
    }

    /// The reader, if there is one.
    pub(crate) fn reader_if_any(&mut self) -> Option<&mut Reader> {
        self.reader.as_mut()
    }

    /// Takes the reader out, with what it recorded, to give it back to the caller.
    pub(crate) fn take_reader(&mut self) -> Option<Reader> {
        self.reader.take()
    }

    /// Takes what the guest writes to one of its output streams.
    pub(crate) fn write(&mut self, stream: u32, bytes: &[u8]) {
        self.with_stream(stream, |buffer, line| buffer.write(bytes, line));
    }

    fn with_stream(
        &mut self,
        stream: u32,
        act: impl FnOnce(&mut LineBuffer, &mut dyn FnMut(&str)),
    ) {
        let Self {
            wasi,
            log,
            last_words,
            ..
        } = self;
        let mut write = |level, line: &str| {
            if !line.is_empty() {
                log.line(level, line, &[]);
            }
        };
        match stream {
            STDERR => act(&mut wasi.stderr, &mut |line| {
                last_words.printed(line);
                write(Level::Warn, line);
            }),
            _ => act(&mut wasi.stdout, &mut |line| write(Level::Info, line)),
        }
    }

    /// Logs the unfinished lines and closes the log.
    pub(crate) fn finish_log(&mut self) {
        for stream in [STDOUT, STDERR] {
            self.with_stream(stream, |buffer, line| buffer.flush(line));
        }
        self.log.finish();
    }
}
