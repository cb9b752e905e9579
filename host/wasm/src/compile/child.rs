//! The compiling process. It limits itself, reads a file from standard input and writes native code
//! to standard output. It has no environment, no credentials and no open files, so there is nothing
//! to steal, and it cannot open anything.

use std::io::{Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use pilothouse_confine::confine;

use super::component::native_code;
use crate::engine::Engine;

/// The first argument that makes the host's executable a compiling process.
pub const COMPILE_CHILD: &str = "compile-child";
/// Exit code: standard output is native code.
pub(super) const COMPILED: u8 = 0;
/// Exit code: standard output is the reason why the file is not a plugin.
pub(super) const REFUSED: u8 = 1;
/// Exit code: nothing was compiled, and standard error is the reason.
const NOT_TRIED: u8 = 3;

/// Compiles the file on standard input. First it sets these limits for its own process, before it
/// reads anything. Call it before anything else in the process, while there is only one thread.
/// Returns the exit code of the process.
pub fn compile_child(memory_bytes: u64, cpu: Duration) -> ExitCode {
    let code = match confine(memory_bytes, cpu).and_then(|()| compile()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            NOT_TRIED
        }
    };
    ExitCode::from(code)
}

fn compile() -> std::io::Result<u8> {
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes)?;
    let engine = Engine::for_compiling().map_err(std::io::Error::other)?;
    let mut output = std::io::stdout();
    let code = match native_code(&engine, &bytes) {
        Ok(code) => {
            output.write_all(code.bytes())?;
            COMPILED
        }
        Err(error) => {
            output.write_all(error.to_string().as_bytes())?;
            REFUSED
        }
    };
    output.flush()?;
    Ok(code)
}
