//! The reason that a guest prints before it traps. To the host a panic is a trap like any other.
//! The reason is in what the guest's language runtime writes just before, to the log or to standard
//! error.

use pilothouse_core::text::{cut, escaped, one_line};

use crate::log::Level;

/// The field of an error line that holds the reason for the trap that follows.
const PANIC: &str = "panic";
/// Most bytes that are kept. The beginning contains the reason.
const BYTES: usize = 1 << 10;

/// The last message of one run that looks like the reason for a trap.
#[derive(Default)]
pub(crate) struct LastWords {
    text: Option<String>,
    /// The part of a message that the last line of standard error belongs to.
    part: Part,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Part {
    #[default]
    None,
    /// Python's traceback. The exception follows after it.
    Traceback,
    /// The message itself, which may have more lines.
    Message,
}

impl LastWords {
    /// The reason, in one line of about `max` bytes.
    pub fn text(&self, max: usize) -> Option<String> {
        let text = one_line(self.text.as_deref()?);
        (!text.is_empty()).then(|| escaped(&text, max))
    }

    /// Inspects a line for the log.
    pub fn logged(&mut self, level: Level, fields: &[(String, String)]) {
        let panic = fields.iter().find(|(name, _)| name == PANIC);
        if let (Level::Error, Some((_, text))) = (level, panic) {
            self.text = Some(cut(text, BYTES));
        }
    }

    /// Inspects a line for standard error, where languages with a WASI print the reason.
    pub fn printed(&mut self, line: &str) {
        // Rust prints `thread 'main' panicked at FILE:LINE:COLUMN:`, the message, a note. Go prints
        // `panic: MESSAGE`, an empty line, the stack. Python prints an indented traceback, then the
        // exception.
        let rust = line
            .starts_with("thread '")
            .then(|| line.find("panicked at "));
        let begins = match rust.flatten() {
            Some(at) => Some(&line[at..]),
            None => line.starts_with("panic: ").then_some(line),
        };
        let is_indented = line.starts_with([' ', '\t']);
        match begins {
            Some(text) => self.begin(text),
            None if line.starts_with("Traceback ") => self.part = Part::Traceback,
            None if line.is_empty() || line.starts_with("note: ") => self.part = Part::None,
            None if self.part == Part::Traceback && !is_indented => self.begin(line),
            None if self.part == Part::Message => self.go_on(line),
            None => {}
        }
    }

    fn begin(&mut self, text: &str) {
        self.text = Some(cut(text, BYTES));
        self.part = Part::Message;
    }

    fn go_on(&mut self, line: &str) {
        let text = self.text.get_or_insert_default();
        if text.len() < BYTES {
            *text = cut(&format!("{text} {line}"), BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(printed: &str) -> Option<String> {
        let mut words = LastWords::default();
        printed.lines().for_each(|line| words.printed(line));
        words.text(100)
    }

    #[test]
    fn each_language_s_way_to_say_why_it_ends_is_known() {
        let rust = "loading\n\nthread 'main' (1) panicked at src/lib.rs:3:4:\nimage boom\nof two lines\nnote: run with `RUST_BACKTRACE=1`\nmore";
        assert_eq!(
            after(rust).unwrap(),
            "panicked at src/lib.rs:3:4: image boom of two lines"
        );
        let python = "Traceback (most recent call last):\n  File \"app.py\", line 7, in reconcile\n    raise ValueError(\"no\")\nValueError: no\n";
        assert_eq!(after(python).unwrap(), "ValueError: no");
        let chained = format!(
            "{python}\nDuring handling of the above exception, another exception occurred:\n\n{}",
            python.replace("Value", "Key")
        );
        assert_eq!(after(&chained).unwrap(), "KeyError: no");
        let go = "panic: assignment to entry in nil map\n\ngoroutine 1 [running]:\nmain.main()";
        assert_eq!(after(go).unwrap(), "panic: assignment to entry in nil map");
        assert_eq!(after("a warning\nthread 'x' began\nand so on"), None);
    }

    #[test]
    fn of_the_log_only_an_error_with_a_panic_counts() {
        let fields = |name: &str| vec![(name.to_owned(), "a\n  b\u{1b}".to_owned())];
        let mut words = LastWords::default();
        words.logged(Level::Warn, &fields("panic"));
        words.logged(Level::Error, &fields("reason"));
        assert_eq!(words.text(100), None);
        words.logged(Level::Error, &fields("panic"));
        assert_eq!(words.text(100).unwrap(), r"a b\u{1b}");
    }

    #[test]
    fn words_without_end_are_not_kept() {
        let mut words = LastWords::default();
        words.printed("panic: x");
        (0..100_000).for_each(|_| words.printed("and so on"));
        assert!(words.text.as_ref().unwrap().len() < BYTES + 10);
        assert!(words.text(50).unwrap().len() < 60);
    }
}
