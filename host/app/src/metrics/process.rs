//! The resources of the host's process, under the names that all Prometheus clients use. They are
//! read from Linux's /proc; elsewhere there are no such series.

use std::fs::{read_dir, read_to_string};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use rustix::process::{Resource, getrlimit};

/// Clock ticks per second in /proc, which is the same on every Linux machine.
const TICKS: f64 = 100.0;

/// Indexes into the fields of /proc/self/stat that follow the process name. The name is in brackets
/// and may contain spaces. proc(5) numbers the fields from 1, and the first one after the name is
/// the third.
const USER_TIME: usize = 14 - 3;
const SYSTEM_TIME: usize = 15 - 3;
const START_TIME: usize = 22 - 3;

#[derive(Debug)]
pub struct ProcessMetrics;

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let stat = read_to_string("/proc/self/stat").unwrap_or_default();
        let ticks = |field| ticks(&stat, field);
        let cpu = ticks(USER_TIME).zip(ticks(SYSTEM_TIME));
        if let Some((user, system)) = cpu {
            let (name, help) = ("process_cpu_seconds", "CPU time used");
            let value = ConstCounter::new((user + system) / TICKS);
            let family = encoder.encode_descriptor(name, help, None, value.metric_type())?;
            value.encode(family)?;
        }
        let started = ticks(START_TIME).zip(boot_time());
        let gauges = [
            (
                "process_start_time_seconds",
                "When the process was started, since the epoch",
                started.map(|(ticks, boot)| boot + ticks / TICKS),
            ),
            (
                "process_resident_memory_bytes",
                "Memory that the process has in RAM",
                resident(),
            ),
            (
                "process_open_fds",
                "Open files and connections",
                open_descriptors(),
            ),
            (
                "process_max_fds",
                "How many files and connections may be open",
                getrlimit(Resource::Nofile).current.map(|most| most as f64),
            ),
        ];
        for (name, help, value) in gauges {
            if let Some(value) = value {
                let value = ConstGauge::new(value);
                let family = encoder.encode_descriptor(name, help, None, value.metric_type())?;
                value.encode(family)?;
            }
        }
        Ok(())
    }
}

fn ticks(stat: &str, field: usize) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(field)?.parse().ok()
}

fn boot_time() -> Option<f64> {
    number_after("/proc/stat", "btime ")
}

fn resident() -> Option<f64> {
    Some(number_after("/proc/self/status", "VmRSS:")? * 1024.0)
}

fn number_after(file: &str, name: &str) -> Option<f64> {
    let text = read_to_string(file).ok()?;
    let mut lines = text.lines();
    let rest = lines.find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

fn open_descriptors() -> Option<f64> {
    // Without the descriptor that reads the directory.
    let open = read_dir("/proc/self/fd").ok()?.count().checked_sub(1)?;
    Some(open as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_a_process_are_found_whatever_its_name() {
        let numbers: Vec<String> = (4..30).map(|number| number.to_string()).collect();
        let stat = format!("17 (a ) b) S {}", numbers.join(" "));
        assert_eq!(ticks(&stat, USER_TIME), Some(14.0));
        assert_eq!(ticks(&stat, START_TIME), Some(22.0));
        assert_eq!(ticks("", USER_TIME), None);
    }
}
