//! What hosts have done, and what they have used for it.

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use pilothouse_tests::{memory_of, proportional_memory_of};
use tokio::time::Instant;

use crate::group::{Group, RECONCILES};

/// What each host had done and used at a moment.
pub struct Reading(Vec<OfHost>);

struct OfHost {
    at: Instant,
    reconciles: f64,
    cpu: Duration,
}

impl Reading {
    pub async fn of(group: &Group) -> Result<Self> {
        let mut hosts = Vec::new();
        for host in &group.hosts {
            hosts.push(OfHost {
                cpu: host.cpu()?,
                reconciles: host.metric(RECONCILES, "").await?,
                at: Instant::now(),
            });
        }
        Ok(Self(hosts))
    }

    pub fn since(&self, began: &Self) -> Used {
        let hosts = self.0.iter().zip(&began.0).map(|(ended, began)| {
            let seconds = (ended.at - began.at).as_secs_f64();
            let reconciles = ended.reconciles - began.reconciles;
            let cpu = (ended.cpu - began.cpu).as_secs_f64();
            (reconciles / seconds, cpu / seconds)
        });
        Used(hosts.collect())
    }
}

/// For each host the reconciles and the CPU time of a second.
pub struct Used(Vec<(f64, f64)>);

impl Used {
    /// The reconciles a second of all hosts together.
    pub fn per_second(&self) -> f64 {
        self.0.iter().map(|(reconciles, _)| reconciles).sum()
    }

    fn cores(&self) -> f64 {
        self.0.iter().map(|(_, cores)| cores).sum()
    }

    /// The CPU time of all hosts for one reconcile, in seconds.
    pub fn cpu_of_one(&self) -> f64 {
        self.cores() / self.per_second()
    }
}

impl fmt::Display for Used {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (all, cores) = (self.per_second(), self.cores());
        write!(f, "{all:>6.0} reconciles a second")?;
        if self.0.len() > 1 {
            let each: Vec<String> = self.0.iter().map(|(one, _)| format!("{one:.0}")).collect();
            write!(f, " ({})", each.join(" and "))?;
        }
        let cpu = self.cpu_of_one() * 1e6;
        write!(f, "; CPU time of one {cpu:.0} µs; {cores:.2} cores")
    }
}

/// The memory of a process, in bytes.
pub struct Memory {
    pub resident: u64,
    /// As above, but of what several processes share only this one's part.
    proportional: u64,
}

impl Memory {
    pub fn of(process: u32) -> Result<Self> {
        Ok(Self {
            resident: memory_of(process)?,
            proportional: proportional_memory_of(process)?,
        })
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let (resident, proportional) = (mib(self.resident), mib(self.proportional));
        write!(
            f,
            "{resident:>4.0} MiB resident, {proportional:>4.0} MiB proportional"
        )
    }
}
