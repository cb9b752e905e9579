//! The state that a store carries during one run: what the guest may read, what it may use, and
//! where its log lines go. Nothing in it is carried over to the next run.

use pilothouse_core::Reader;

use crate::imports::wasi::WasiState;
use crate::last_words::LastWords;
use crate::limits::{Limiter, RunLimits};
use crate::log::PluginLog;
use crate::secret::Random;

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
}
