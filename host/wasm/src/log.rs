//! A plugin's lines in the host's log.
//!
//! A guest cannot imitate a line of the host or fill a disk. Its lines carry the plugin's name and
//! a target of their own, its fields never have the names of the host's fields, and texts and lines
//! are limited. Escaping is left to the code that writes the log, which escapes text from plugins
//! like any other text from outside.

mod budget;

use std::sync::Arc;

use pilothouse_core::SubjectKey;
use pilothouse_core::text::cut;

pub use budget::LogBudget;

/// The target of plugins' lines. With it they can be told from the host's lines, filtered and
/// switched off.
pub const LOG_TARGET: &str = "plugin";
/// The field that holds the plugin's own fields, as a JSON array of pairs. They cannot be fields of
/// their own, because tracing's field names are constants.
pub const LOG_FIELDS: &str = "fields";

/// Most lines of one run. A reader needs no more, and a loop that logs would write millions. A
/// [`LogBudget`] limits the lines over time.
const LINES: u32 = 100;
/// Most bytes of one line as it is written, message and fields together: enough for a stack trace
/// of the usual depth.
const LINE_BYTES: usize = 4 << 10;

/// Most fields of one line, and most bytes of a field's name.
const FIELDS: usize = 32;
const NAME_BYTES: usize = 64;
/// Names of fields that the host or the log format uses in a plugin's line.
const TAKEN: &[&str] = &[
    "level",
    "message",
    "target",
    "timestamp",
    "plugin",
    "version",
    "kind",
    "object",
    "reconcile_id",
    LOG_FIELDS,
];

/// The severity of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

/// The log of one run.
pub(crate) struct PluginLog {
    /// `None`: nothing is written.
    budget: Option<Arc<LogBudget>>,
    key: SubjectKey,
    lines: u32,
    dropped: u64,
}

impl PluginLog {
    pub(crate) fn new(budget: Arc<LogBudget>, key: SubjectKey) -> Self {
        Self {
            budget: Some(budget),
            key,
            lines: 0,
            dropped: 0,
        }
    }

    /// A log that writes nothing, for a run that only repeats another one.
    pub(crate) fn silent() -> Self {
        Self {
            budget: None,
            key: SubjectKey::singleton(),
            lines: 0,
            dropped: 0,
        }
    }

    /// Writes one line. Once the run has written [`LINES`], further lines are only counted.
    pub(crate) fn line(&mut self, level: Level, message: &str, fields: &[(String, String)]) {
        let Some(budget) = &self.budget else { return };
        if self.lines == LINES {
            self.dropped += 1;
            return;
        }
        self.lines += 1;
        let (message, written) = cut_as_written(message, LINE_BYTES);
        let fields = named(fields, LINE_BYTES - written);
        let of_field = |(name, value): &(String, String)| name.len() + as_written(value);
        if !budget.take(written + fields.iter().map(of_field).sum::<usize>()) {
            return;
        }
        self.emit(budget, level, &message, &fields);
    }

    /// Reports how many lines were dropped, and by which limits, unless that was reported a short
    /// time ago. Must be called once, after the run.
    pub(crate) fn finish(&mut self) {
        let Some(budget) = &self.budget else { return };
        budget.drop_lines(std::mem::take(&mut self.dropped));
        if let Some(dropped) = budget.report_by_limit() {
            let limits = [
                (dropped.elsewhere, "limit_per_run", LINES),
                (
                    dropped.per_second,
                    "limit_per_second",
                    budget.lines_per_second(),
                ),
            ];
            let limits = limits.into_iter().filter(|(dropped, ..)| *dropped > 0);
            let limits = limits.map(|(_, name, limit)| (name.to_owned(), limit.to_string()));
            let dropped = ("dropped".to_owned(), dropped.total().to_string());
            let fields: Vec<_> = std::iter::once(dropped).chain(limits).collect();
            self.emit(
                budget,
                Level::Warn,
                "plugin logs too much; lines dropped",
                &fields,
            );
        }
    }

    fn emit(&self, budget: &LogBudget, level: Level, message: &str, fields: &[(String, String)]) {
        let plugin = budget.plugin();
        let kind = self.key.kind.as_deref().map(tracing::field::display);
        let object = tracing::field::display(&self.key.object);
        let fields = (!fields.is_empty()).then(|| serde_json::json!(fields).to_string());
        // tracing records this local variable under its own name, which is [`LOG_FIELDS`].
        let fields = fields.as_deref();
        match level {
            Level::Debug => {
                tracing::debug!(target: LOG_TARGET, plugin, kind, object, fields, "{message}");
            }
            Level::Info => {
                tracing::info!(target: LOG_TARGET, plugin, kind, object, fields, "{message}");
            }
            Level::Warn => {
                tracing::warn!(target: LOG_TARGET, plugin, kind, object, fields, "{message}");
            }
            Level::Error => {
                tracing::error!(target: LOG_TARGET, plugin, kind, object, fields, "{message}");
            }
        }
    }
}

/// Cuts a text to what takes at most `max` bytes in the log, and returns how many it takes. What is
/// no letter, digit or common mark may be escaped there, and fields are escaped twice.
fn cut_as_written(text: &str, max: usize) -> (String, usize) {
    let (mut written, mut end) = (0, 0);
    for char in text.chars() {
        let bytes = match char {
            '"' | '\\' => 4,
            ' '..='~' => 1,
            _ if char.is_alphanumeric() => char.len_utf8(),
            _ => 12,
        };
        if written + bytes > max {
            break;
        }
        written += bytes;
        end += char.len_utf8();
    }
    let text = match end == text.len() {
        true => text.to_owned(),
        false => cut(text, end),
    };
    (text, written)
}

/// How many bytes a text takes in the log.
fn as_written(text: &str) -> usize {
    cut_as_written(text, usize::MAX).1
}

/// Gives a guest's fields names that no other field of the line has. The result takes not much more
/// than `max` bytes.
fn named(fields: &[(String, String)], max: usize) -> Vec<(String, String)> {
    let mut named: Vec<(String, String)> = vec![];
    let mut room = max;
    for (name, value) in fields {
        if room == 0 || named.len() == FIELDS {
            named.push((
                "guest.more".to_owned(),
                (fields.len() - named.len()).to_string(),
            ));
            break;
        }
        let name = unique(&plain(name), &named);
        let (value, written) = cut_as_written(value, room);
        room = room.saturating_sub(name.len() + written);
        named.push((name, value));
    }
    named
}

/// Replaces everything but ASCII letters, digits and a few marks in a name, so that it needs no
/// quotes.
fn plain(name: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "_-./".contains(char);
    let chars = name.chars().take(NAME_BYTES);
    let plain: String = chars
        .map(|char| if is_plain(char) { char } else { '_' })
        .collect();
    match plain.is_empty() {
        true => "_".to_owned(),
        false => plain,
    }
}

fn unique(name: &str, named: &[(String, String)]) -> String {
    let is_free = |name: &String| named.iter().all(|(have, _)| have != name);
    let first = match TAKEN.contains(&name) || name.starts_with("guest.") {
        true => format!("guest.{name}"),
        false => name.to_owned(),
    };
    let numbered = (2..).map(|number| format!("{first}.{number}"));
    std::iter::once(first.clone())
        .chain(numbered)
        .find(is_free)
        .unwrap_or(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    fn names(fields: &[(String, String)]) -> Vec<String> {
        named(fields, LINE_BYTES)
            .into_iter()
            .map(|(name, _)| name)
            .collect()
    }

    #[test]
    fn fields_keep_their_order_and_their_values() {
        let fields = [field("b", "say \"x\"\n y=2"), field("a", "")];
        assert_eq!(named(&fields, 100), fields);
    }

    #[test]
    fn no_field_has_the_name_of_the_host_s_or_of_another_one() {
        let fields: Vec<_> = TAKEN.iter().map(|name| field(name, "")).collect();
        assert!(names(&fields).iter().all(|name| name.starts_with("guest.")));
        let fields =
            ["a", "a", "a b\n", "", "ü", "guest.plugin", "plugin"].map(|name| field(name, ""));
        assert_eq!(
            names(&fields),
            [
                "a",
                "a.2",
                "a_b_",
                "_",
                "_.2",
                "guest.guest.plugin",
                "guest.plugin"
            ]
        );
    }

    #[test]
    fn too_many_or_too_long_fields_are_cut_and_said_to_be() {
        let long = field(&"k".repeat(1_000), &"v".repeat(1_000));
        let cut = named(&[long.clone(), long], 200);
        assert_eq!(cut[0].0.len(), NAME_BYTES);
        assert!(cut[0].1.ends_with('…') && cut[0].1.len() < 210, "{cut:?}");
        assert_eq!(cut[1], field("guest.more", "1"));
        let many = named(&vec![field("", ""); 1_000_000], LINE_BYTES);
        assert_eq!(many.len(), FIELDS + 1);
        assert_eq!(many[FIELDS], field("guest.more", "999968"));
    }

    #[test]
    fn what_is_escaped_in_the_log_counts_as_it_is_written() {
        let plain = "a".repeat(LINE_BYTES);
        assert_eq!(cut_as_written(&plain, LINE_BYTES), (plain, LINE_BYTES));
        let (escapes, written) = cut_as_written(&"\u{1b}".repeat(LINE_BYTES), LINE_BYTES);
        assert!(escapes.escape_debug().count() <= LINE_BYTES, "{escapes:?}");
        assert!(written <= LINE_BYTES);
    }
}
