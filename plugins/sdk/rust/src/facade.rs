//! Connects the `log` crate to the host's log, for libraries that use that crate.

use log::{LevelFilter, Log, Metadata, Record};

use crate::Level;

/// The level until the plugin calls `log::set_max_level`. The host writes only the first hundred
/// lines of a run, and verbose libraries would use them up before the plugin's own.
const MAX_LEVEL: LevelFilter = LevelFilter::Info;

/// Writes a line to the host's log.
pub(crate) type Write = fn(Level, &str, &[(String, String)]);

/// The logger of the `log` crate.
pub(crate) struct Facade {
    write: Write,
}

impl Facade {
    pub(crate) const fn new(write: Write) -> Self {
        Self { write }
    }

    /// Makes this the logger, unless it is already, as in a reused instance.
    pub(crate) fn install(&'static self) {
        if log::set_logger(self).is_ok() {
            log::set_max_level(MAX_LEVEL);
        }
    }
}

impl Log for Facade {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let level = match record.level() {
            log::Level::Error => Level::Error,
            log::Level::Warn => Level::Warn,
            log::Level::Info => Level::Info,
            log::Level::Debug | log::Level::Trace => Level::Debug,
        };
        let target = ("target".to_owned(), record.target().to_owned());
        (self.write)(level, &record.args().to_string(), &[target]);
    }

    fn flush(&self) {}
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    type Line = (Level, String, Vec<(String, String)>);

    thread_local! {
        static LINES: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
    }

    fn keep(level: Level, message: &str, fields: &[(String, String)]) {
        let line = (level, message.to_owned(), fields.to_vec());
        LINES.with_borrow_mut(|lines| lines.push(line));
    }

    #[test]
    fn a_line_keeps_its_level_and_its_place() {
        static FACADE: Facade = Facade::new(keep);
        FACADE.install();
        log::warn!(target: "library", "still {}", "there");
        log::info!(target: "library", "on it");
        log::debug!(target: "library", "too much");
        log::set_max_level(LevelFilter::Trace);
        // As in a reused instance.
        FACADE.install();
        log::trace!(target: "library", "all of it");

        let line = |level, message: &str| {
            let target = ("target".to_owned(), "library".to_owned());
            (level, message.to_owned(), vec![target])
        };
        let wanted = [
            line(Level::Warn, "still there"),
            line(Level::Info, "on it"),
            line(Level::Debug, "all of it"),
        ];
        assert_eq!(LINES.take(), wanted);
    }
}
