//! Writes a command's output and its errors.

use std::io::{ErrorKind, Write};

use anyhow::Context;

/// Prints to standard output. It is no error if the reader has closed the pipe, as `head` does;
/// cargo and ripgrep do the same.
pub fn print(text: &str) -> anyhow::Result<()> {
    print_to(std::io::stdout().lock(), text)
}

/// Prints an error to standard error. A failure to do so is ignored, because it cannot be reported
/// anywhere.
pub fn complain(problem: &str) {
    let _ = writeln!(std::io::stderr(), "error: {}", harmless(problem));
}

/// Escapes control characters, except line feeds, so that a stranger's text cannot drive the
/// terminal.
fn harmless(text: &str) -> String {
    let is_harmful = |char: char| char != '\n' && char.is_control();
    let shown = text.chars().map(|char| match is_harmful(char) {
        true => char.escape_default().to_string(),
        false => char.to_string(),
    });
    shown.collect()
}

/// An error and its causes in one line. A cause whose text is already part of the line is left out.
pub fn chain(error: &anyhow::Error) -> String {
    let mut said = String::new();
    for cause in error.chain() {
        let text = cause.to_string();
        if !said.contains(&text) {
            let colon = if said.is_empty() { "" } else { ": " };
            said = said + colon + &text;
        }
    }
    said
}

fn print_to(mut to: impl Write, text: &str) -> anyhow::Result<()> {
    match writeln!(to, "{text}").and_then(|()| to.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        printed => printed.context("cannot write to standard output"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer that always fails in this way.
    struct Failing(ErrorKind);

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Err(self.0.into())
        }
    }

    #[test]
    fn an_error_drives_no_terminal_and_keeps_its_lines() {
        assert_eq!(harmless("a\n\u{1b}[8mb\u{e9}"), "a\n\\u{1b}[8mb\u{e9}");
    }

    #[test]
    fn a_reader_that_has_gone_is_no_error_and_a_full_disk_is() {
        assert!(print_to(Failing(ErrorKind::BrokenPipe), "text").is_ok());
        let error = print_to(Failing(ErrorKind::StorageFull), "text").unwrap_err();
        assert!(chain(&error).starts_with("cannot write to standard output: "));
    }

    #[test]
    fn a_cause_that_the_error_has_said_is_not_said_again() {
        #[derive(Debug, thiserror::Error)]
        #[error("manifest: {0}")]
        struct Outer(#[source] std::fmt::Error);
        let cause = std::fmt::Error.to_string();
        let error = anyhow::Error::new(Outer(std::fmt::Error)).context("plugin.wasm");
        assert_eq!(chain(&error), format!("plugin.wasm: manifest: {cause}"));
        let error = anyhow::anyhow!("inner").context("outer");
        assert_eq!(chain(&error), "outer: inner");
    }
}
