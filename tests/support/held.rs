//! Processes that a test stops, and the signals to them.

use std::time::Duration;

use anyhow::Result;

/// How often is looked, a millisecond apart, whether a process has stopped.
const LOOKS: usize = 20_000;

/// A stopped process, which continues when this is dropped.
pub struct Held(u32);

impl Held {
    pub(crate) fn new(process: u32) -> Result<Self> {
        signal(process, "-STOP")?;
        Ok(Self(process))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // The process may have ended meanwhile.
        let _ = signal(self.0, "-CONT");
    }
}

/// Sends a signal, such as `-STOP`. After `-STOP` returns when the process has stopped: on a busy
/// machine its threads run on for a while, until one of them has taken the signal.
pub(crate) fn signal(process: u32, signal: &str) -> Result<()> {
    let mut kill = std::process::Command::new("kill");
    let sent = kill.arg(signal).arg(process.to_string()).status()?;
    anyhow::ensure!(sent.success(), "cannot send {signal} to {process}");
    let mut looks = 0;
    while signal == "-STOP" && !has_stopped(process) {
        looks += 1;
        anyhow::ensure!(looks < LOOKS, "{process} does not stop");
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Whether no thread of a process runs any more.
fn has_stopped(process: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task"));
    let mut threads = threads.into_iter().flatten().flatten();
    threads.all(|thread| {
        let text = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The state follows the name, which is in parentheses and may contain anything.
        let state = text.rsplit_once(')').map_or("", |(_, rest)| rest.trim());
        !state.starts_with(['R', 'S', 'D'])
    })
}

/// Returns the id of the process that compiles for this host, if there is one.
pub(crate) fn compiling(host: u32) -> Option<u32> {
    let threads = std::fs::read_dir(format!("/proc/{host}/task")).ok()?;
    let children = threads.flatten().filter_map(|thread| {
        let children = std::fs::read_to_string(thread.path().join("children"));
        children.ok()
    });
    let children: Vec<u32> = children
        .flat_map(|text| {
            text.split_whitespace()
                .flat_map(str::parse)
                .collect::<Vec<_>>()
        })
        .collect();
    children.into_iter().find(|child| {
        let command = std::fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&command).contains("compile-child")
    })
}
