//! What a host has used, and what it has asked of the API server.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::Result;
use pilothouse_tests::{Asked, Host, Server, requests_of, sum_of};
use tokio::time::Instant;

const AGENT: &str = "pilothouse/";

/// What was used until a moment.
pub struct Reading {
    pub at: Instant,
    cpu: Duration,
    /// Resident now and at most, in bytes.
    memory: [u64; 2],
    requests: BTreeMap<Asked, u64>,
}

impl Reading {
    /// Of a host; without one, of the moment before its start.
    pub async fn of(server: &Server, host: Option<&Host>) -> Result<Self> {
        let at = Instant::now();
        let (cpu, memory) = match host {
            Some(host) => (host.cpu()?, [host.memory()?, host.peak_memory()?]),
            None => Default::default(),
        };
        let requests = requests_of(server, AGENT).await?;
        Ok(Self {
            at,
            cpu,
            memory,
            requests,
        })
    }

    /// What the host took to settle, in words.
    pub fn since(&self, began: &Self) -> String {
        let [memory, peak] = self.memory.map(|bytes| bytes as f64 / f64::from(1 << 20));
        let mut verbs: BTreeMap<String, u64> = BTreeMap::new();
        for (asked, count) in new_requests(&began.requests, &self.requests) {
            let verb = match asked.is_about_a_resource() {
                true => asked.verb,
                false => "discovery".to_owned(),
            };
            *verbs.entry(verb).or_default() += count;
        }
        let verbs = verbs.iter().map(|(verb, count)| format!("{count} {verb}"));
        format!(
            "settled after {:.1} s, CPU {:.1} s; {memory:.0} MiB, {peak:.0} at most; requests: {}",
            (self.at - began.at).as_secs_f64(),
            (self.cpu - began.cpu).as_secs_f64(),
            verbs.collect::<Vec<_>>().join(", ")
        )
    }
}

/// The requests that came between two counts.
fn new_requests(
    before: &BTreeMap<Asked, u64>,
    after: &BTreeMap<Asked, u64>,
) -> BTreeMap<Asked, u64> {
    let new = after.iter().map(|(asked, count)| {
        let old = before.get(asked).copied().unwrap_or_default();
        (asked.clone(), count.saturating_sub(old))
    });
    new.filter(|(_, count)| *count > 0).collect()
}

/// A host that has nothing to do.
pub struct Rest {
    began: Reading,
    ended: Reading,
    /// How often the plugins ran that ran at all.
    reconciles: BTreeMap<String, f64>,
}

impl Rest {
    pub async fn begin(server: &Server, host: &Host) -> Result<Self> {
        let reconciles = reconciles(host).await?;
        Ok(Self {
            began: Reading::of(server, Some(host)).await?,
            ended: Reading::of(server, Some(host)).await?,
            reconciles,
        })
    }

    pub async fn end(self, server: &Server, host: &Host) -> Result<Self> {
        let ended = Reading::of(server, Some(host)).await?;
        let counts = reconciles(host).await?.into_iter();
        let counts = counts.map(|(plugin, count)| {
            let old = self.reconciles.get(&plugin).copied().unwrap_or_default();
            (plugin, count - old)
        });
        Ok(Self {
            reconciles: counts.filter(|(_, count)| *count > 0.0).collect(),
            ended,
            ..self
        })
    }
}

/// How often each plugin has run a key.
async fn reconciles(host: &Host) -> Result<BTreeMap<String, f64>> {
    let plugins = host.plugins().await?;
    let (_, metrics) = host.get("/metrics").await?;
    let counts = plugins.iter().map(|plugin| {
        let name = plugin["name"].as_str().unwrap_or_default();
        let label = format!("controller=\"{name}\"");
        let count = sum_of(&metrics, "controller_runtime_reconcile_total", &label);
        (name.to_owned(), count)
    });
    Ok(counts.collect())
}

impl fmt::Display for Rest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = (self.ended.at - self.began.at).as_secs_f64();
        let cpu = (self.ended.cpu - self.began.cpu).as_secs_f64();
        let requests = new_requests(&self.began.requests, &self.ended.requests);
        let (watches, others): (Vec<_>, Vec<_>) = requests
            .into_iter()
            .partition(|(asked, _)| asked.verb == "watch");
        let watches: u64 = watches.iter().map(|(_, count)| count).sum();
        write!(
            formatter,
            "{:.2} % of a core; {:.0} MiB; {:.2} watches a second",
            cpu * 100.0 / seconds,
            self.ended.memory[0] as f64 / f64::from(1 << 20),
            watches as f64 / seconds,
        )?;
        let of_others: u64 = others.iter().map(|(_, count)| count).sum();
        write!(formatter, "; {of_others} other requests")?;
        for (Asked { verb, what }, count) in others {
            write!(formatter, "\n      {count} {verb} {what}")?;
        }
        for (plugin, count) in &self.reconciles {
            write!(formatter, "\n      {plugin} runs {count} keys")?;
        }
        Ok(())
    }
}
