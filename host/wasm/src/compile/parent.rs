//! The host's side of the compiling process: starts it, feeds it, waits no longer than its limits allow, and says how it ended.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::CompileLimits;
use super::child::{COMPILE_CHILD, COMPILED, REFUSED};
use crate::load::{LoadError, one_line};
use crate::log::escaped;
use crate::native::NativeCode;

/// Native code is two to four times its wasm.
const NATIVE_BYTES: u64 = 512 << 20;
/// Of what a dying process says.
const STDERR_BYTES: u64 = 16 << 10;
/// Of a refusal's text.
const TEXT_BYTES: usize = 2 << 10;
/// Between two looks at a running process.
const LOOK: Duration = Duration::from_millis(5);

pub(super) fn compile(
    executable: &Path,
    bytes: &[u8],
    limits: &CompileLimits,
) -> Result<NativeCode, LoadError> {
    let child = start(executable, limits)
        .map_err(|error| LoadError::Compiler(format!("cannot be started: {error}")))?;
    let ended = run(child, bytes, limits.wall)
        .map_err(|error| LoadError::Compiler(format!("is lost: {error}")))?;
    ended.judge(limits)
}

fn start(executable: &Path, limits: &CompileLimits) -> std::io::Result<Owned> {
    Command::new(executable)
        .arg(COMPILE_CHILD)
        .arg(limits.memory_bytes.to_string())
        .arg(limits.cpu.as_secs().to_string())
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map(Owned)
}

/// A process that does not outlive whoever waits for it.
struct Owned(Child);

impl Drop for Owned {
    fn drop(&mut self) {
        // Both fail only if it has ended and been waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How a process ended.
struct Ended {
    /// None: it was killed, having taken too long.
    status: Option<ExitStatus>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

fn run(mut child: Owned, bytes: &[u8], wall: Duration) -> std::io::Result<Ended> {
    let (stdin, stdout, stderr) = (
        child.0.stdin.take(),
        child.0.stdout.take(),
        child.0.stderr.take(),
    );
    thread::scope(|scope| {
        let spawn = |name: &str| thread::Builder::new().name(name.into());
        spawn("compile-in").spawn_scoped(scope, move || {
            // A process that dies before it has read all says why in other ways.
            stdin.map(|mut stdin| stdin.write_all(bytes))
        })?;
        let stdout =
            spawn("compile-out").spawn_scoped(scope, move || read(stdout, NATIVE_BYTES))?;
        let stderr =
            spawn("compile-err").spawn_scoped(scope, move || read(stderr, STDERR_BYTES))?;
        let status = wait(&mut child.0, wall);
        // Killed if it still runs: the threads end with their pipes.
        drop(child);
        let lost = |_| std::io::Error::other("a thread that read its output panicked");
        Ok(Ended {
            status: status?,
            stdout: stdout.join().map_err(lost)??,
            stderr: stderr.join().map_err(lost)??,
        })
    })
}

/// Reads to the end, or to the limit: whoever then writes on gets an error.
fn read(stream: Option<impl Read>, limit: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        stream.take(limit).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

fn wait(child: &mut Child, wall: Duration) -> std::io::Result<Option<ExitStatus>> {
    let started = Instant::now();
    loop {
        let status = child.try_wait()?;
        if status.is_some() || started.elapsed() >= wall {
            return Ok(status);
        }
        thread::sleep(LOOK);
    }
}

impl Ended {
    fn judge(self, limits: &CompileLimits) -> Result<NativeCode, LoadError> {
        let Some(status) = self.status else {
            return Err(LoadError::CompileLimit(format!("{:?}", limits.wall)));
        };
        let has_ended_with = |code: u8| status.code() == Some(code.into());
        if has_ended_with(COMPILED) && !self.stdout.is_empty() {
            return Ok(NativeCode::of_own_child(self.stdout));
        }
        let said = String::from_utf8_lossy(&self.stderr);
        let refusal = String::from_utf8_lossy(&self.stdout);
        if is_out_of_memory(&said) || has_ended_with(REFUSED) && is_out_of_memory(&refusal) {
            let mebibytes = limits.memory_bytes >> 20;
            return Err(LoadError::CompileLimit(format!(
                "{mebibytes} MiB of memory"
            )));
        }
        if has_ended_with(REFUSED) && !refusal.is_empty() {
            return Err(LoadError::Refused(escaped(&refusal, TEXT_BYTES)));
        }
        if status.signal() == Some(Signal::XCPU.as_raw()) {
            let seconds = limits.cpu.as_secs();
            return Err(LoadError::CompileLimit(format!("{seconds} s of CPU time")));
        }
        let said = escaped(&one_line(&said), TEXT_BYTES);
        Err(LoadError::Compiler(format!("has died ({status}): {said}")))
    }
}

/// In Rust's words, wasmtime's, and the kernel's for ENOMEM.
fn is_out_of_memory(text: &str) -> bool {
    ["memory allocation of", "out of memory", "os error 12"]
        .iter()
        .any(|words| text.contains(words))
}
