//! The evaluating process: limits itself, reads a question from standard input, says with its exit code what the answer is, and on
//! standard output what is wrong.

use std::io::{Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use pilothouse_wasm::confined::confine;

use super::evaluate::evaluate;
use super::{Fault, Question};
use crate::config::ChildArgs;

/// It is a schema, and the configuration fits it.
pub const FITS: u8 = 0;
/// Standard output says what is wrong with the schema. Not 1 or 2, which argument parsers end with.
pub const NO_SCHEMA: u8 = 10;
/// Standard output says what is wrong with the configuration.
pub const DOES_NOT_FIT: u8 = 11;
/// Standard error says why it is not known.
pub const NOT_TRIED: u8 = 12;

/// Begins before there is a log, a runtime or a second thread.
pub fn run(args: &ChildArgs) -> ExitCode {
    let limited = confine(args.memory_bytes, Duration::from_secs(args.cpu_seconds));
    let code = match limited.and_then(|()| answer()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            NOT_TRIED
        }
    };
    ExitCode::from(code)
}

fn answer() -> std::io::Result<u8> {
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes)?;
    let Question { schema, config } = serde_json::from_slice(&bytes)?;
    let (code, text) = match evaluate(&schema, config.as_deref()) {
        Ok(()) => (FITS, String::new()),
        Err(Fault::Schema(reason)) => (NO_SCHEMA, reason),
        Err(Fault::Config(reason)) => (DOES_NOT_FIT, reason),
        Err(Fault::NotTried(reason)) => return Err(std::io::Error::other(reason)),
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(code)
}
