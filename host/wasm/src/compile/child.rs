//! The compiling process: limits itself, reads a file from standard input, writes native code to standard output. It holds nothing
//! worth stealing (no environment, no credentials, no open files) and can open nothing.

use std::io::{Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use crate::confined::confine;
use crate::engine::Engine;
use crate::load;

/// The first argument that makes the host's executable a compiling process.
pub const COMPILE_CHILD: &str = "compile-child";
/// Standard output is native code.
pub(super) const COMPILED: u8 = 0;
/// Standard output says why the file is not a plugin.
pub(super) const REFUSED: u8 = 1;
/// Standard error says why there was no compiling.
const NOT_TRIED: u8 = 3;

/// Compiles what standard input holds, within these limits, which it sets itself: nothing is read before. Call it first thing in the
/// process, before there are threads. Returns what the process has to end with.
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
    let code = match load::native_code(&engine, &bytes) {
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
