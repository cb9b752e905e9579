//! Runs the same executable as a child process that can only compute. It is used for work in which
//! a stranger's file can make the process slow, large, or crash.
//!
//! [`Confined`] is the host's side: it starts the process, sends it the input, enforces its limits
//! and reports how it ended. [`confine`] is the first thing that the child process does.
#![allow(
    clippy::disallowed_types,
    reason = "a child process is waited for in real time"
)]

#[cfg(target_os = "linux")]
mod calls;

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, nice, setrlimit};

use pilothouse_core::text::{escaped, one_line};

/// Most bytes read of the child's standard error.
const STDERR_BYTES: u64 = 16 << 10;
/// Most bytes of a text that is shown.
const TEXT_BYTES: usize = 2 << 10;
/// Time between two checks whether the process has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// With this the process gets about a tenth of what a thread of the host gets, where both want the
/// same core.
const NICENESS: i32 = 10;

/// A process to be started as `EXECUTABLE WORD MEMORY_BYTES CPU_SECONDS`, and its limits.
#[derive(Clone, Copy, Debug)]
pub struct Confined {
    /// Its first argument, which selects what it does.
    pub word: &'static str,
    /// Address space, in bytes (`RLIMIT_AS`).
    pub memory_bytes: u64,
    /// CPU time, in whole seconds (`RLIMIT_CPU`).
    pub cpu: Duration,
    /// Wall-clock time. The process is niced, so on a busy host it takes longer than its CPU time.
    pub wall: Duration,
    /// Most bytes read of its standard output.
    pub output_bytes: u64,
}

/// How a process ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status. `None` if it was killed because it exceeded its wall-clock time.
    pub status: Option<ExitStatus>,
    /// What it wrote to standard output.
    pub stdout: Vec<u8>,
    stderr: String,
}

impl Confined {
    /// Starts the process, sends it `input`, and waits until it ends. Blocks, so do not call it
    /// from an async thread.
    pub fn run(&self, executable: &Path, input: &[u8]) -> std::io::Result<Ended> {
        let child = self.start(executable)?;
        self.follow(child, input)
    }

    fn start(&self, executable: &Path) -> std::io::Result<Owned> {
        Command::new(executable)
            .arg(self.word)
            .arg(self.memory_bytes.to_string())
            .arg(self.cpu.as_secs().to_string())
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map(Owned)
    }

    fn follow(&self, mut child: Owned, input: &[u8]) -> std::io::Result<Ended> {
        let (stdin, stdout, stderr) = (
            child.0.stdin.take(),
            child.0.stdout.take(),
            child.0.stderr.take(),
        );
        thread::scope(|scope| {
            let spawn = |name: &str| thread::Builder::new().name(name.into());
            spawn("child-in").spawn_scoped(scope, move || {
                // A failed write is ignored: if the process dies before it has read all input, its
                // exit status and standard error tell why.
                stdin.map(|mut stdin| stdin.write_all(input))
            })?;
            let stdout =
                spawn("child-out").spawn_scoped(scope, move || read(stdout, self.output_bytes))?;
            let stderr =
                spawn("child-err").spawn_scoped(scope, move || read(stderr, STDERR_BYTES))?;
            let status = wait(&mut child.0, self.wall);
            // Kills the process if it still runs. The threads end when their pipes close.
            drop(child);
            let lost = |_| std::io::Error::other("a thread that read its output panicked");
            let stdout = stdout.join().map_err(lost)??;
            let stderr = stderr.join().map_err(lost)??;
            Ok(Ended {
                status: status?,
                stdout,
                stderr: String::from_utf8_lossy(&stderr).into_owned(),
            })
        })
    }
}

impl Ended {
    /// Its exit code, if it exited by itself.
    pub fn code(&self) -> Option<u8> {
        let code = self.status.and_then(|status| status.code());
        code.and_then(|code| u8::try_from(code).ok())
    }

    /// True if it needed more memory than its limit and died of that.
    pub fn is_out_of_memory(&self) -> bool {
        is_out_of_memory(&self.stderr)
    }

    /// True if it exceeded its CPU time.
    pub fn is_out_of_time(&self) -> bool {
        self.is_signalled(Signal::XCPU)
    }

    /// True if it was killed by SIGKILL, as by another process or the kernel.
    pub fn is_killed(&self) -> bool {
        self.is_signalled(Signal::KILL)
    }

    fn is_signalled(&self, signal: Signal) -> bool {
        let status = self.status.and_then(|status| status.signal());
        status == Some(signal.as_raw())
    }

    /// Why it died, in one line.
    pub fn death(&self) -> String {
        let status = self.status.map(|status| status.to_string());
        let said = escaped(&one_line(&self.stderr), TEXT_BYTES);
        format!("has died ({}): {said}", status.unwrap_or_default())
    }

    /// Its standard output, escaped and cut so that it can be shown. It may quote the file.
    pub fn text(&self) -> String {
        escaped(&String::from_utf8_lossy(&self.stdout), TEXT_BYTES)
    }
}

/// True if `text` contains Rust's or wasmtime's message about a failed allocation, or the kernel's
/// ENOMEM.
pub fn is_out_of_memory(text: &str) -> bool {
    ["memory allocation of", "out of memory", "os error 12"]
        .iter()
        .any(|words| text.contains(words))
}

/// A child process that is killed when this value is dropped.
struct Owned(Child);

impl Drop for Owned {
    fn drop(&mut self) {
        // Both calls fail only if the process has ended and has been waited for already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads to the end or up to the limit. The stream is then closed, so a process that keeps writing
/// gets an error.
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
        thread::sleep(POLL_INTERVAL);
    }
}

/// Limits this process for the rest of its life. Besides memory and CPU time: it can open no files
/// and no sockets, start no processes or threads, and make no system calls but those needed for
/// computing. Files that are open already keep working. Call it before anything else in the
/// process, while there is only one thread, and before reading any input.
pub fn confine(memory_bytes: u64, cpu: Duration) -> std::io::Result<()> {
    // If the host dies, nobody waits for the result any more.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    nice(NICENESS)?;
    // The soft limit sends SIGXCPU, which identifies the exceeded limit. One second later the hard
    // limit sends SIGKILL, which cannot be ignored.
    let seconds = cpu.as_secs().max(1);
    for (resource, soft, hard) in [
        (Resource::As, memory_bytes, memory_bytes),
        (Resource::Cpu, seconds, seconds + 1),
        (Resource::Core, 0, 0),
        (Resource::Fsize, 0, 0),
        (Resource::Nofile, 0, 0),
        (Resource::Nproc, 0, 0),
    ] {
        // The process that started the host may have set lower hard limits, which cannot be raised.
        let most = getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let limit = Rlimit {
            current: Some(soft.min(most)),
            maximum: Some(hard.min(most)),
        };
        setrlimit(resource, limit)?;
    }
    #[cfg(target_os = "linux")]
    calls::limit()?;
    Ok(())
}

/// Keeps other processes of this user from reading this process's memory and from tracing it. This
/// process holds the host's credentials, and the others include compilers that work on strangers'
/// files.
pub fn hide_memory() -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// This process's executable, for [`Confined::run`].
///
/// On Linux this is the running executable even if its file has been replaced since. A newer one
/// might compile for another version of wasmtime.
pub fn own_executable() -> std::io::Result<PathBuf> {
    let own = PathBuf::from("/proc/self/exe");
    if own.exists() {
        return Ok(own);
    }
    std::env::current_exe()
}
