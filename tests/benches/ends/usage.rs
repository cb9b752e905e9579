//! What a part of the work takes, of the host and of the API server.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::Result;
use pilothouse_tests::{Host, Server, requests_of};
use tokio::time::Instant;

/// What the host has used so far.
pub struct Reading {
    at: Instant,
    cpu: Duration,
    memory: u64,
    /// The requests of the host that reached the server, by verb.
    requests: BTreeMap<String, u64>,
}

impl Reading {
    pub async fn of(server: &Server, host: &Host) -> Result<Self> {
        Ok(Self {
            at: Instant::now(),
            cpu: host.cpu()?,
            memory: host.memory()?,
            requests: requests(server).await?,
        })
    }

    /// What was used since another reading, in which the plugin has dealt with so many objects.
    pub fn since(&self, before: &Self, objects: usize) -> Usage {
        let new = self.requests.iter().map(|(verb, count)| {
            let old = before.requests.get(verb).copied().unwrap_or_default();
            (verb.clone(), count.saturating_sub(old))
        });
        Usage {
            objects: objects as u64,
            time: self.at - before.at,
            cpu: self.cpu.saturating_sub(before.cpu),
            memory: [before.memory, self.memory],
            requests: new.filter(|(_, count)| *count > 0).collect(),
        }
    }
}

/// Counts the requests that the server has had from the host, by verb. Those without a resource
/// count as `discovery`.
async fn requests(server: &Server) -> Result<BTreeMap<String, u64>> {
    let mut counts = BTreeMap::new();
    for (asked, count) in requests_of(server, "pilothouse/").await? {
        let verb = match asked.is_about_a_resource() {
            true => asked.verb,
            false => "discovery".to_owned(),
        };
        *counts.entry(verb).or_default() += count;
    }
    Ok(counts)
}

pub struct Usage {
    objects: u64,
    time: Duration,
    cpu: Duration,
    /// In bytes, before and after.
    memory: [u64; 2],
    requests: BTreeMap<String, u64>,
}

impl Usage {
    /// How many requests there were of all verbs.
    pub fn requests(&self) -> u64 {
        self.requests.values().sum()
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [before, after] = self.memory.map(|bytes| bytes as f64 / f64::from(1 << 20));
        let verbs = self.requests.iter();
        let verbs: Vec<String> = verbs
            .map(|(verb, count)| format!("{count} {verb}"))
            .collect();
        let objects = self.objects as f64;
        write!(
            formatter,
            "{} objects in {:.1?}; CPU {:.1?}, {:.2} ms an object; memory {before:.0} MiB before, \
             {after:.0} after; {:.2} requests an object ({})",
            self.objects,
            self.time,
            self.cpu,
            self.cpu.as_secs_f64() * 1000.0 / objects,
            self.requests() as f64 / objects,
            verbs.join(", "),
        )
    }
}
