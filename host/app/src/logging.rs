//! Log lines: a constant message and fields. One formatter writes both formats. It makes sure that
//! no text, whoever it comes from, can end a line early, forge another or drive a terminal, and
//! that the fields of a plugin's own lines are fields like the host's.

use std::fmt::{self, Write as _};
use std::io::IsTerminal;

use anyhow::{anyhow, bail};
use pilothouse_wasm::{LOG_FIELDS, LOG_TARGET};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use crate::cli::LogFormat;

/// The filter unless `RUST_LOG` is set. kube logs each failed request, and the verifier each
/// certificate that it refuses. The host's own code reports these failures, once per incident.
const FILTER: &str = "info,kube_client=off,rustls_platform_verifier=off";
const VARIABLE: &str = "RUST_LOG";
const LEVELS: &str = "off, error, warn, info, debug or trace";

/// Whether lines are coloured: on a terminal, unless `NO_COLOR` is set and not empty
/// (<https://no-color.org>).
fn is_coloured() -> bool {
    let is_refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    std::io::stderr().is_terminal() && !is_refused
}

/// Logs to standard error. Standard output stays free for what a command prints.
pub fn init(format: LogFormat) -> anyhow::Result<()> {
    let said = match std::env::var(VARIABLE) {
        Ok(said) => said,
        Err(std::env::VarError::NotPresent) => String::new(),
        Err(error) => bail!("{VARIABLE}: {error}"),
    };
    let is_coloured = matches!(format, LogFormat::Text) && is_coloured();
    tracing_subscriber::fmt()
        .with_env_filter(filter(&said)?)
        .with_writer(std::io::stderr)
        .with_ansi(is_coloured)
        .fmt_fields(Fields(format))
        .event_format(Lines(format))
        .init();
    Ok(())
}

/// Parses `RUST_LOG`. A single word must be a level. It could also be a target, but then a mistyped
/// level would silence everything else.
fn filter(said: &str) -> anyhow::Result<EnvFilter> {
    let directives = said
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty());
    let mut given = 0;
    for directive in directives {
        given += 1;
        let is_word = directive
            .chars()
            .all(|char| char.is_alphanumeric() || "_-:".contains(char));
        if is_word
            && directive
                .parse::<tracing::level_filters::LevelFilter>()
                .is_err()
        {
            bail!(
                "{VARIABLE}: {directive:?} is not a level; write {LEVELS}, or TARGET=LEVEL (info,pilothouse=debug)"
            );
        }
    }
    let said = if given == 0 { FILTER } else { said };
    let said: String = said.split_whitespace().collect();
    EnvFilter::builder().parse(&said).map_err(|error| {
        anyhow!("{VARIABLE}: {said:?} cannot be read ({error}); write {LEVELS}, or TARGET=LEVEL (info,pilothouse=debug)")
    })
}

/// Formats whole lines.
struct Lines(LogFormat);

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut line = Line::new(self.0, metadata.target() == LOG_TARGET);
        match self.0 {
            LogFormat::Text => {
                let level = level(metadata.level(), writer.has_ansi_escapes());
                write!(line.text, "{time} {level}")?;
            }
            LogFormat::Json => {
                line.put("timestamp", &time);
                line.put("level", metadata.level().as_str());
            }
        }
        event.record(&mut line);
        // The target is useful to find out what to filter. At the other levels it tells little.
        if *metadata.level() >= Level::DEBUG {
            let target = line.log_target.take();
            line.put("target", target.as_deref().unwrap_or(metadata.target()));
        }
        let spans = context.event_scope().into_iter().flatten();
        for span in spans {
            if let Some(fields) = span.extensions().get::<FormattedFields<N>>() {
                line.text += &fields.fields;
            }
        }
        match self.0 {
            LogFormat::Text => writeln!(writer, "{}", line.text),
            LogFormat::Json => writeln!(writer, "{{{}}}", line.text.trim_start_matches(',')),
        }
    }
}

/// Formats the fields of spans like those of lines, to be appended to each line within.
struct Fields(LogFormat);

impl<'w> FormatFields<'w> for Fields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut line = Line::new(self.0, false);
        fields.record(&mut line);
        writer.write_str(&line.text)
    }
}

/// A line that is being written.
struct Line {
    format: LogFormat,
    /// True for a plugin's own line.
    is_guest: bool,
    /// The target of a line that came through the `log` crate.
    log_target: Option<String>,
    text: String,
}

/// The prefix of the fields that `tracing_log` adds to lines of the `log` crate: the target, and
/// the position in the source.
const LOG_CRATE: &str = "log.";

impl Line {
    fn new(format: LogFormat, is_guest: bool) -> Self {
        Self {
            format,
            is_guest,
            log_target: None,
            text: String::new(),
        }
    }

    /// Appends one field. In JSON it begins with a comma.
    fn put(&mut self, name: &str, value: &str) {
        match self.format {
            LogFormat::Text if name == "message" => {
                self.text.push(' ');
                escape(&mut self.text, value, "");
            }
            LogFormat::Text if is_plain(value) => self.put_as_is(name, value),
            LogFormat::Text => {
                self.text += &format!(" {name}=\"");
                escape(&mut self.text, value, "\"\\");
                self.text.push('"');
            }
            LogFormat::Json => {
                self.put_json_name(name);
                json_string(&mut self.text, value);
            }
        }
    }

    /// Appends one field whose value is written without quotes in both formats: a number or a word.
    fn put_as_is(&mut self, name: &str, value: impl fmt::Display) {
        match self.format {
            LogFormat::Text => self.text += &format!(" {name}={value}"),
            LogFormat::Json => {
                self.put_json_name(name);
                self.text += &value.to_string();
            }
        }
    }

    fn put_json_name(&mut self, name: &str) {
        self.text.push(',');
        json_string(&mut self.text, name);
        self.text.push(':');
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        if self.is_guest
            && field.name() == LOG_FIELDS
            && let Ok(fields) = serde_json::from_str::<Vec<(String, String)>>(value)
        {
            fields
                .iter()
                .for_each(|(name, value)| self.put(name, value));
            return;
        }
        match field.name().strip_prefix(LOG_CRATE) {
            None => self.put(field.name(), value),
            Some("target") => self.log_target = Some(value.to_owned()),
            Some(_) => {}
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field.name(), &format!("{value:?}"));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put_as_is(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if !field.name().starts_with(LOG_CRATE) {
            self.put_as_is(field.name(), value);
        }
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no number for NaN or infinity.
        match value.is_finite() {
            true => self.put_as_is(field.name(), value),
            false => self.put(field.name(), &value.to_string()),
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put_as_is(field.name(), value);
    }
}

fn level(level: &Level, is_coloured: bool) -> String {
    let colour = match *level {
        Level::ERROR => 31,
        Level::WARN => 33,
        Level::INFO => 32,
        Level::DEBUG => 34,
        Level::TRACE => 35,
    };
    match is_coloured {
        true => format!("\u{1b}[{colour}m{level:>5}\u{1b}[0m"),
        false => format!("{level:>5}"),
    }
}

/// True if a value needs no quotes to be told from what follows.
fn is_plain(value: &str) -> bool {
    let is_special =
        |char: char| char.is_whitespace() || "\"\\=".contains(char) || !is_printable(char);
    !value.is_empty() && !value.contains(is_special)
}

/// False for characters that control, format or combine with others.
fn is_printable(char: char) -> bool {
    matches!(char, '\'' | '"' | '\\') || char.escape_debug().len() == 1
}

/// Appends a text with unprintable characters escaped, and with a backslash before those of
/// `marks`.
fn escape(line: &mut String, text: &str, marks: &str) {
    for char in text.chars() {
        match char {
            _ if marks.contains(char) => line.extend(['\\', char]),
            _ if is_printable(char) => line.push(char),
            _ => line.extend(char.escape_debug()),
        }
    }
}

/// Appends a JSON string. Unprintable characters are written as JSON escapes.
fn json_string(line: &mut String, text: &str) {
    let quoted = serde_json::Value::from(text).to_string();
    for char in quoted.chars() {
        if is_printable(char) {
            line.push(char);
            continue;
        }
        for unit in char.encode_utf16(&mut [0; 2]) {
            *line += &format!("\\u{unit:04x}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use serde_json::{Value, json};
    use tracing::{error, error_span, info, warn};

    use super::*;
    use crate::test_log::subscribed;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The lines that `act` logs, without the time.
    fn logged(format: LogFormat, act: impl FnOnce()) -> Vec<String> {
        let sink = Sink::default();
        let writer = sink.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(Level::DEBUG)
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .fmt_fields(Fields(format))
            .event_format(Lines(format))
            .finish();
        let guard = subscribed(subscriber);
        act();
        drop(guard);
        let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        let lines = text.lines().map(|line| match format {
            LogFormat::Text => line.split_once(' ').unwrap().1.to_owned(),
            LogFormat::Json => line.to_owned(),
        });
        lines.collect()
    }

    fn json(act: impl FnOnce()) -> Value {
        let lines = logged(LogFormat::Json, act);
        let mut line: Value = serde_json::from_str(&lines[0]).unwrap();
        assert!(line["timestamp"].take().as_str().unwrap().ends_with('Z'));
        assert_eq!(lines.len(), 1);
        line
    }

    fn guest() {
        let fields = r#"[["ready","False"],["reason","two \"words\"\nhere"]]"#;
        warn!(target: LOG_TARGET, plugin = "website", fields, "a\nb");
    }

    #[test]
    fn values_are_quoted_where_they_need_it_whatever_they_are() {
        let lines = logged(LogFormat::Text, || {
            let reason = anyhow::anyhow!("say \"no\" = \\");
            error!(plugin = "website", object = %"default/shop", attempt = 1, is_ok = false, empty = "", error = %reason, "reconcile failed");
        });
        assert_eq!(
            lines,
            [
                r#"ERROR reconcile failed plugin=website object=default/shop attempt=1 is_ok=false empty="" error="say \"no\" = \\""#
            ]
        );
    }

    #[test]
    fn a_plugin_s_fields_are_fields_of_the_line_and_escaped_once() {
        let lines = logged(LogFormat::Text, guest);
        assert_eq!(
            lines,
            [r#" WARN a\nb plugin=website ready=False reason="two \"words\"\nhere""#]
        );
        let line = json(guest);
        assert_eq!(
            line,
            json!({"timestamp": null, "level": "WARN", "message": "a\nb", "plugin": "website", "ready": "False", "reason": "two \"words\"\nhere"})
        );
    }

    #[test]
    fn only_a_plugin_s_line_is_taken_apart() {
        let line = json(|| warn!(fields = r#"[["a","b"]]"#, "x"));
        assert_eq!(line[LOG_FIELDS], r#"[["a","b"]]"#);
    }

    #[test]
    fn no_text_ends_a_line_early_or_drives_a_terminal() {
        let text = "a\nERROR b\u{1b}[31m\u{202e}\0\u{1f600}ü";
        let act = || info!(error = text, "{text}");
        let lines = logged(LogFormat::Text, act);
        let escaped = r"a\nERROR b\u{1b}[31m\u{202e}\0😀ü";
        assert_eq!(lines, [format!(" INFO {escaped} error=\"{escaped}\"")]);
        let lines = logged(LogFormat::Json, act);
        assert!(lines[0].chars().all(is_printable), "{lines:?}");
        assert_eq!(json(act)["message"], text);
    }

    #[test]
    fn a_span_s_fields_are_in_each_line_within() {
        let act = || {
            error_span!("reconcile", version = "1.0.0", reconcile_id = %"ab-1")
                .in_scope(|| info!(n = 1, "x"));
        };
        assert_eq!(
            logged(LogFormat::Text, act),
            [" INFO x n=1 version=1.0.0 reconcile_id=ab-1"]
        );
        let line = json(act);
        assert_eq!(
            (&line["n"], &line["version"], &line["reconcile_id"]),
            (&json!(1), &json!("1.0.0"), &json!("ab-1"))
        );
    }

    #[test]
    fn a_debug_line_says_which_target_switches_it() {
        let lines = logged(LogFormat::Text, || {
            tracing::info!("x");
            tracing::debug!("x");
        });
        let wanted = [" INFO x", "DEBUG x target=pilothouse::logging::tests"];
        assert_eq!(lines, wanted);
    }

    /// As `tracing_log` passes it on.
    #[test]
    fn of_a_line_of_the_log_crate_only_its_target_is_said_and_only_where_others_say_theirs() {
        let lines = logged(LogFormat::Text, || {
            tracing::info!(
                log.target = "rustls",
                log.file = "a.rs",
                log.line = 1_u64,
                "x"
            );
            tracing::debug!(log.target = "rustls", log.module_path = "rustls::a", "x");
        });
        assert_eq!(lines, [" INFO x", "DEBUG x target=rustls"]);
    }

    /// While a server's certificate is not trusted, every attempt would log a line.
    #[test]
    fn what_is_said_once_per_incident_is_not_said_by_libraries_for_each_request() {
        let sink = Sink::default();
        let writer = sink.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(filter("").unwrap())
            .with_writer(move || writer.clone())
            .finish();
        let _guard = subscribed(subscriber);
        error!(target: "rustls_platform_verifier::verification", "refused");
        error!(target: "kube_client::client::builder", "failed");
        assert!(sink.0.lock().unwrap().is_empty());
    }

    #[test]
    fn garbage_in_rust_log_is_refused_with_what_is_valid() {
        for good in [
            "",
            " ",
            "debug",
            "INFO",
            "info,pilothouse=debug",
            "off,plugin=warn",
            "info, pilothouse_cluster::watch=trace",
            "[reconcile]=debug",
        ] {
            assert!(filter(good).is_ok(), "{good}");
        }
        for (bad, what) in [
            ("inof", "\"inof\" is not a level"),
            ("info,pilothouse", "\"pilothouse\" is not a level"),
            ("pilothouse=loud", "\"pilothouse=loud\" cannot be read"),
            ("a=b=c", "cannot be read"),
        ] {
            let error = format!("{:#}", filter(bad).unwrap_err());
            assert!(
                error.starts_with("RUST_LOG: ") && error.contains(what),
                "{error}"
            );
            assert!(error.contains(LEVELS), "{error}");
        }
    }
}
