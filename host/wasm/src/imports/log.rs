//! The plugin's own log lines.

use crate::bindings::log::{Host, Level};
use crate::log;
use crate::state::State;

impl Host for State {
    fn log(
        &mut self,
        level: Level,
        message: String,
        fields: Vec<(String, String)>,
    ) -> wasmtime::Result<()> {
        let level = match level {
            Level::Debug => log::Level::Debug,
            Level::Info => log::Level::Info,
            Level::Warn => log::Level::Warn,
            Level::Error => log::Level::Error,
        };
        self.last_words.logged(level, &fields);
        self.log.line(level, &message, &fields);
        Ok(())
    }
}
