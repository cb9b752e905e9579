//! The evaluating process. It limits itself and reads a question from standard input. The exit code
//! is the answer, and what is wrong is written to standard output.

use std::io::{Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use pilothouse_confine::confine;

use super::evaluate::evaluate;
use super::{Fault, Question};
use crate::child_args::ChildArgs;

/// The schema is valid, and the configuration fits it.
pub const FITS: u8 = 0;
/// The schema is invalid; standard output has the reason. The code is neither 1 nor 2, with which
/// argument parsers exit.
pub const NO_SCHEMA: u8 = 10;
/// The configuration does not fit; standard output has the reason.
pub const DOES_NOT_FIT: u8 = 11;
/// The result is unknown; standard error has the reason.
pub const NOT_TRIED: u8 = 12;

/// Runs before there is a log, a runtime or a second thread.
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
