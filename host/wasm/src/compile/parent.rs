//! The host's side of compiling in a child process: starts the process, enforces its limits and
//! turns the way it ended into a result.

use std::path::Path;

use pilothouse_confine::{Confined, Ended, is_out_of_memory};

use super::child::{COMPILE_CHILD, COMPILED, REFUSED};
use super::{CompileLimits, check_native, most_native};
use crate::compile::native::NativeCode;
use crate::file::error::LoadError;

pub(super) fn compile(
    executable: &Path,
    bytes: &[u8],
    limits: &CompileLimits,
) -> Result<NativeCode, LoadError> {
    let process = Confined {
        word: COMPILE_CHILD,
        memory_bytes: limits.memory_bytes,
        cpu: limits.cpu,
        wall: limits.wall,
        // One byte above the limit shows that the output is too large.
        output_bytes: most_native(bytes.len()) as u64 + 1,
    };
    let ended = process
        .run(executable, bytes)
        .map_err(|error| LoadError::Compiler(format!("cannot be started or followed: {error}")))?;
    check_native(bytes.len(), ended.stdout.len())?;
    judge(ended, limits)
}

fn judge(ended: Ended, limits: &CompileLimits) -> Result<NativeCode, LoadError> {
    if ended.status.is_none() {
        return Err(LoadError::CompileLimit(format!("{:?}", limits.wall)));
    }
    let has_ended_with = |code: u8| ended.code() == Some(code);
    if has_ended_with(COMPILED) && !ended.stdout.is_empty() {
        return Ok(NativeCode::of_own_child(ended.stdout));
    }
    let refusal = has_ended_with(REFUSED).then(|| ended.text());
    if ended.is_out_of_memory() || refusal.as_deref().is_some_and(is_out_of_memory) {
        let mebibytes = limits.memory_bytes >> 20;
        return Err(LoadError::CompileLimit(format!(
            "{mebibytes} MiB of memory"
        )));
    }
    if let Some(refusal) = refusal.filter(|text| !text.is_empty()) {
        return Err(LoadError::Refused(refusal));
    }
    if ended.is_out_of_time() {
        let seconds = limits.cpu.as_secs();
        return Err(LoadError::CompileLimit(format!("{seconds} s of CPU time")));
    }
    Err(LoadError::Compiler(ended.death()))
}
