//! Who does the work, and what it takes.

use std::fmt;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use pilothouse_tests::{Host, Server, cpu_of, memory_of};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// A running process with the two controllers.
pub enum Side {
    /// They are plugins.
    Host(Box<Host>),
    /// They are linked in: see `native`.
    Native(Box<Native>),
}

pub struct Native {
    child: Child,
    pipes: Mutex<(ChildStdin, Lines<BufReader<ChildStdout>>)>,
}

impl Side {
    /// Starts this program as `native`, and waits until it has filled its caches.
    pub async fn native(server: &Server) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("native")
            .arg(server.kubeconfig())
            // As the host has it.
            .env("MALLOC_ARENA_MAX", "2")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdin = child.stdin.take().context("it has an input")?;
        let stdout = child.stdout.take().context("it has an output")?;
        let mut lines = BufReader::new(stdout).lines();
        lines.next_line().await?.context("it does not get ready")?;
        let pipes = Mutex::new((stdin, lines));
        Ok(Self::Native(Box::new(Native { child, pipes })))
    }

    pub fn name(&self) -> &'static str {
        match self {
            Self::Host(_) => "host",
            Self::Native(_) => "native",
        }
    }

    pub fn log(&self) -> String {
        match self {
            Self::Host(host) => host.log(),
            Self::Native(_) => String::new(),
        }
    }

    /// What the process has used so far.
    pub async fn reading(&self) -> Result<Reading> {
        let at = Instant::now();
        let (reconciles, writes) = match self {
            Self::Host(host) => {
                let reconciles = host
                    .metric("controller_runtime_reconcile_total", "")
                    .await?;
                let mut writes = 0.0;
                for method in ["POST", "PUT", "PATCH", "DELETE"] {
                    let method = format!("method=\"{method}\"");
                    writes += host.metric("rest_client_requests_total", &method).await?;
                }
                (reconciles, writes)
            }
            Self::Native(native) => native.counts().await?,
        };
        let (cpu, memory) = match self {
            Self::Host(host) => (host.cpu()?, host.memory()?),
            Self::Native(native) => {
                let process = native.child.id().context("it has ended")?;
                (cpu_of(process)?, memory_of(process)?)
            }
        };
        Ok(Reading {
            at,
            cpu,
            memory,
            reconciles,
            writes,
        })
    }
}

impl Native {
    async fn counts(&self) -> Result<(f64, f64)> {
        let mut pipes = self.pipes.lock().await;
        pipes.0.write_all(b"\n").await?;
        pipes.0.flush().await?;
        let line = pipes.1.next_line().await?.context("it has ended")?;
        let (reconciles, writes) = line.split_once(' ').context("two numbers")?;
        Ok((reconciles.parse()?, writes.parse()?))
    }
}

pub struct Reading {
    at: Instant,
    cpu: Duration,
    memory: u64,
    reconciles: f64,
    writes: f64,
}

impl Reading {
    pub fn since(&self, before: &Self) -> Usage {
        Usage {
            seconds: (self.at - before.at).as_secs_f64(),
            cpu: self.cpu.saturating_sub(before.cpu).as_secs_f64(),
            memory: self.memory as f64 / f64::from(1 << 20),
            reconciles: self.reconciles - before.reconciles,
            writes: self.writes - before.writes,
        }
    }
}

/// What a part of the work took: times in seconds, and the memory at its end in MiB.
#[derive(Default)]
pub struct Usage {
    seconds: f64,
    cpu: f64,
    memory: f64,
    reconciles: f64,
    writes: f64,
}

impl Usage {
    pub fn add(&mut self, other: &Self) {
        self.seconds += other.seconds;
        self.cpu += other.cpu;
        self.memory += other.memory;
        self.reconciles += other.reconciles;
        self.writes += other.writes;
    }

    /// The ratios to another.
    pub fn to(&self, other: &Self) -> String {
        format!(
            "time {:.2}, CPU {:.2}, CPU for each write {:.2}, memory {:.2}, reconciles {:.2}, \
             writes {:.2}",
            self.seconds / other.seconds,
            self.cpu / other.cpu,
            self.cpu / self.writes / (other.cpu / other.writes),
            self.memory / other.memory,
            self.reconciles / other.reconciles,
            self.writes / other.writes,
        )
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{:.1} s, CPU {:.1} s, {:.0} MiB; {:.0} reconciles ({:.0} a second), {:.0} writes \
             ({:.2} ms of CPU for each)",
            self.seconds,
            self.cpu,
            self.memory,
            self.reconciles,
            self.reconciles / self.seconds,
            self.writes,
            self.cpu * 1000.0 / self.writes,
        )
    }
}
