//! A plugin's lines in the host's log. Nothing a guest says can forge a line, drive a terminal or fill a disk: text is escaped, cut,
//! and counted.

mod budget;

use std::fmt::Write as _;
use std::sync::Arc;

use pilothouse_core::key::ObjectKey;

pub(crate) use budget::LogBudget;

/// Lines of one run. Whoever reads them needs no more; a loop that logs would write millions. Over time there is a [`LogBudget`].
const LINES: u32 = 100;
/// Bytes of one line, message and fields together: a stack trace of the usual depth.
const LINE_BYTES: usize = 4 << 10;

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

/// The log of one run.
pub(crate) struct PluginLog {
    /// None: nothing is written.
    budget: Option<Arc<LogBudget>>,
    /// The subject's kind; none for a singleton.
    kind: Option<Arc<str>>,
    object: ObjectKey,
    lines: u32,
    dropped: u64,
}

impl PluginLog {
    pub(crate) fn new(budget: Arc<LogBudget>, kind: Option<Arc<str>>, object: ObjectKey) -> Self {
        Self {
            budget: Some(budget),
            kind,
            object,
            lines: 0,
            dropped: 0,
        }
    }

    /// A log that nobody reads: of a run that only repeats another one.
    pub(crate) fn silent() -> Self {
        Self {
            budget: None,
            kind: None,
            object: ObjectKey::singleton(),
            lines: 0,
            dropped: 0,
        }
    }

    /// Writes one line, or counts it when there have been enough.
    pub(crate) fn line(&mut self, level: Level, message: &str, fields: &[(String, String)]) {
        let Some(budget) = &self.budget else { return };
        if self.lines == LINES {
            self.dropped += 1;
            return;
        }
        self.lines += 1;
        if !budget.take() {
            return;
        }
        let message = escaped(message, LINE_BYTES);
        let fields = render(fields, LINE_BYTES.saturating_sub(message.len()));
        self.emit(budget, level, &message, &fields);
    }

    /// Says how many lines were dropped, if that has not been said just now. To be called once, after the run.
    pub(crate) fn finish(&mut self) {
        let Some(budget) = &self.budget else { return };
        budget.drop_lines(std::mem::take(&mut self.dropped));
        if let Some(dropped) = budget.report() {
            let fields = format!("dropped={dropped} limit={LINES}");
            self.emit(
                budget,
                Level::Warn,
                "plugin logs too much; lines dropped",
                &fields,
            );
        }
    }

    fn emit(&self, budget: &LogBudget, level: Level, message: &str, fields: &str) {
        let plugin = budget.plugin();
        let kind = self.kind.as_deref();
        let object = tracing::field::display(&self.object);
        let fields = (!fields.is_empty()).then_some(fields);
        match level {
            Level::Debug => {
                tracing::debug!(target: "plugin", plugin, kind, object, fields, "{message}");
            }
            Level::Info => {
                tracing::info!(target: "plugin", plugin, kind, object, fields, "{message}");
            }
            Level::Warn => {
                tracing::warn!(target: "plugin", plugin, kind, object, fields, "{message}");
            }
            Level::Error => {
                tracing::error!(target: "plugin", plugin, kind, object, fields, "{message}");
            }
        }
    }
}

/// `a="1" b="two words"`.
fn render(fields: &[(String, String)], max: usize) -> String {
    let mut out = String::new();
    for (name, value) in fields {
        if out.len() >= max {
            out.push('…');
            break;
        }
        let separator = if out.is_empty() { "" } else { " " };
        let (name, value) = (
            escaped(name, max - out.len()),
            escaped(value, max - out.len()),
        );
        write!(out, "{separator}{name}=\"{}\"", value.replace('"', "\\\""))
            .expect("a String takes all that is written");
    }
    out
}

/// `text`, or its first `max` bytes or so.
pub(crate) fn cut(text: &str, max: usize) -> String {
    match text.char_indices().find(|(at, _)| *at >= max) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// `text` without control, formatting and unprintable characters, and no longer than about `max` bytes.
pub(crate) fn escaped(text: &str, max: usize) -> String {
    let mut out = String::with_capacity(text.len().min(max));
    for char in text.chars() {
        if out.len() >= max {
            out.push('…');
            break;
        }
        match char {
            '\'' | '"' => out.push(char),
            _ => out.extend(char.escape_debug()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_cannot_be_forged_nor_a_terminal_driven() {
        assert_eq!(
            escaped("a\nERROR b\u{1b}[31m\u{202e}\0'ü'", 100),
            r"a\nERROR b\u{1b}[31m\u{202e}\0'ü'"
        );
    }

    #[test]
    fn a_long_line_is_cut() {
        assert_eq!(escaped("aaaaaa", 3), "aaa…");
        let field = ("k".to_owned(), "v".repeat(100));
        assert!(render(&[field.clone(), field], 20).len() < 60);
    }

    #[test]
    fn fields_are_quoted() {
        let fields = [
            ("a".into(), "1".into()),
            ("b".into(), "say \"x\" y=2".into()),
        ];
        assert_eq!(render(&fields, 100), r#"a="1" b="say \"x\" y=2""#);
    }
}
