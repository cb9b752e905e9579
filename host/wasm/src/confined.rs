//! Another process of the same executable that may do nothing but compute: for what a stranger's file can make slow, large, or crash.
//!
//! [`Confined`] is the host's side: it starts the process, feeds it, waits no longer than its limits allow, and says how it ended.
//! [`confine`] is the process's own first act.
#![allow(
    clippy::disallowed_types,
    reason = "a child process is waited for in real time"
)]

#[cfg(target_os = "linux")]
mod calls;

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, nice, setrlimit};

use crate::load::one_line;
use pilothouse_core::text::escaped;

/// Of what a dying process says.
const STDERR_BYTES: u64 = 16 << 10;
/// Of a text that is shown.
const TEXT_BYTES: usize = 2 << 10;
/// Between two looks at a running process.
const LOOK: Duration = Duration::from_millis(5);
/// About a tenth of what a thread of the host gets where both want a core.
const NICENESS: i32 = 10;

/// A process to start as `EXECUTABLE WORD MEMORY_BYTES CPU_SECONDS`, and what it may use.
#[derive(Clone, Copy, Debug)]
pub struct Confined {
    /// Its first argument, which says what it is to do.
    pub word: &'static str,
    /// Address space, in bytes (`RLIMIT_AS`).
    pub memory_bytes: u64,
    /// CPU time, in whole seconds (`RLIMIT_CPU`).
    pub cpu: Duration,
    /// Wall-clock time. The process is niced, so on a busy host it takes longer than its CPU time.
    pub wall: Duration,
    /// Of its standard output.
    pub output_bytes: u64,
}

/// How a process ended.
#[derive(Debug)]
pub struct Ended {
    /// None: it was killed, having taken too long.
    pub status: Option<ExitStatus>,
    /// What it wrote to standard output.
    pub stdout: Vec<u8>,
    stderr: String,
}

impl Confined {
    /// Starts the process, gives it the input, and waits for its end. Blocks: not for an async thread.
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
                // A process that dies before it has read all says why in other ways.
                stdin.map(|mut stdin| stdin.write_all(input))
            })?;
            let stdout =
                spawn("child-out").spawn_scoped(scope, move || read(stdout, self.output_bytes))?;
            let stderr =
                spawn("child-err").spawn_scoped(scope, move || read(stderr, STDERR_BYTES))?;
            let status = wait(&mut child.0, self.wall);
            // Killed if it still runs: the threads end with their pipes.
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
    /// What it returned, if it did.
    pub fn code(&self) -> Option<u8> {
        let code = self.status.and_then(|status| status.code());
        code.and_then(|code| u8::try_from(code).ok())
    }

    /// Whether it wanted more memory than it may have, and died of that.
    pub fn is_out_of_memory(&self) -> bool {
        is_out_of_memory(&self.stderr)
    }

    /// Whether its CPU time ran out.
    pub fn is_out_of_time(&self) -> bool {
        self.is_signalled(Signal::XCPU)
    }

    /// Whether somebody else has ended it.
    pub fn is_killed(&self) -> bool {
        self.is_signalled(Signal::KILL)
    }

    fn is_signalled(&self, signal: Signal) -> bool {
        let status = self.status.and_then(|status| status.signal());
        status == Some(signal.as_raw())
    }

    /// What it died of, in one line.
    pub fn death(&self) -> String {
        let status = self.status.map(|status| status.to_string());
        let said = escaped(&one_line(&self.stderr), TEXT_BYTES);
        format!("has died ({}): {said}", status.unwrap_or_default())
    }

    /// What it wrote to standard output, fit to be shown: it may repeat what the file says.
    pub fn text(&self) -> String {
        escaped(&String::from_utf8_lossy(&self.stdout), TEXT_BYTES)
    }
}

/// In Rust's words, wasmtime's, and the kernel's for ENOMEM.
pub(crate) fn is_out_of_memory(text: &str) -> bool {
    ["memory allocation of", "out of memory", "os error 12"]
        .iter()
        .any(|words| text.contains(words))
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

/// Limits this process for the rest of its life. Besides memory and CPU time: no files (which are sockets, too) and no processes, and no
/// system calls but those for computing. What there is of them keeps working. Call it first thing, before there are threads, and before
/// anything is read.
pub fn confine(memory_bytes: u64, cpu: Duration) -> std::io::Result<()> {
    // With the host's death nobody waits for it any more.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    nice(NICENESS)?;
    // One second between the signal that says which limit it was, and the one that cannot be ignored.
    let seconds = cpu.as_secs().max(1);
    for (resource, soft, hard) in [
        (Resource::As, memory_bytes, memory_bytes),
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
    #[cfg(target_os = "linux")]
    calls::limit()?;
    Ok(())
}

/// Keeps other processes of this user from reading this one's memory and from following what it does: it has the host's credentials,
/// and they are strangers' compilers.
pub fn hide_memory() -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(())
}
