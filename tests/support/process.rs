//! What Linux says about a running process.

use std::time::Duration;

use anyhow::{Context, Result};

/// The resident memory of a process, in bytes.
pub fn memory_of(process: u32) -> Result<u64> {
    status_of(process, "VmRSS:")
}

/// The most resident memory that a process has had, in bytes.
pub fn peak_memory_of(process: u32) -> Result<u64> {
    status_of(process, "VmHWM:")
}

/// As [`memory_of`], but of pages that several processes share only this one's part.
pub fn proportional_memory_of(process: u32) -> Result<u64> {
    amount_in(process, "smaps_rollup", "Pss:")
}

/// An amount of memory in the status of a process, in bytes.
fn status_of(process: u32, name: &str) -> Result<u64> {
    amount_in(process, "status", name)
}

/// An amount of memory in a file about a process, in bytes.
fn amount_in(process: u32, file: &str, name: &str) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/{file}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|line| line.split_whitespace().next());
    let kilobytes = kilobytes.with_context(|| format!("no {name}"))?;
    Ok(kilobytes.parse::<u64>()? * 1024)
}

/// The CPU time that a process has used, in hundredths of a second: what Linux counts.
pub fn cpu_of(process: u32) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The second field is the command in brackets, which may have spaces.
    let (_, fields) = stat.rsplit_once(") ").context("no command")?;
    let ticks = fields.split(' ').skip(11).take(2).map(str::parse::<u64>);
    let ticks: u64 = ticks.sum::<Result<u64, _>>()?;
    Ok(Duration::from_millis(ticks * 10))
}
