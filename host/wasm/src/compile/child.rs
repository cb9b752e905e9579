//! The compiling process: limits itself, reads a file from standard input, writes native code to standard output. It holds nothing
//! worth stealing (no environment, no credentials, no open files) and can open nothing.

use std::io::{Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, nice, setrlimit};

use super::CompileLimits;
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
/// About a tenth of what a thread of the host gets where both want a core.
const NICENESS: i32 = 10;

/// Compiles what standard input holds, within these limits, which it sets itself: nothing is read before. Call it first thing in the
/// process, before there are threads. Returns what the process has to end with.
pub fn compile_child(memory_bytes: u64, cpu: Duration) -> ExitCode {
    let limits = CompileLimits {
        memory_bytes,
        cpu,
        ..CompileLimits::default()
    };
    let code = match confine(&limits).and_then(|()| compile()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            NOT_TRIED
        }
    };
    ExitCode::from(code)
}

/// Besides memory and CPU time: no files (which are sockets, too) and no processes. What there is of them keeps working.
fn confine(limits: &CompileLimits) -> std::io::Result<()> {
    // With the host's death nobody waits for it any more.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    nice(NICENESS)?;
    // One second between the signal that says which limit it was, and the one that cannot be ignored.
    let seconds = limits.cpu.as_secs().max(1);
    for (resource, soft, hard) in [
        (Resource::As, limits.memory_bytes, limits.memory_bytes),
        (Resource::Cpu, seconds, seconds + 1),
        (Resource::Core, 0, 0),
        (Resource::Fsize, 0, 0),
        (Resource::Nofile, 0, 0),
        (Resource::Nproc, 0, 0),
    ] {
        // Whoever started the host may have set lower ones, which cannot be raised.
        let most = getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let limit = Rlimit {
            current: Some(soft.min(most)),
            maximum: Some(hard.min(most)),
        };
        setrlimit(resource, limit)?;
    }
    Ok(())
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
