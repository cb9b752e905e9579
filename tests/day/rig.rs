//! A day from its beginning to its end, and what is made of it.

use std::fmt::Write;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use pilothouse_tests::{Server, ServerOptions, WorkloadRig};
use tokio::time::{Instant, sleep, sleep_until};

use crate::audit::{Evidence, Verdict, audit};
use crate::ending::shortcomings;
use crate::faults::{self, Damage, Plan};
use crate::story::Story;
use crate::world::{Keepers, World};

const PLUGINS: [&str; 7] = [
    "cronjob",
    "daemonset",
    "deployment",
    "job",
    "replicaset",
    "replicationcontroller",
    "statefulset",
];

/// How long it may take until all is well when nothing more happens, and how long nothing may be
/// written then.
const SETTLED: Duration = Duration::from_secs(300);
const REST: Duration = Duration::from_secs(3);

/// So many violations are shown: what comes after the first ones mostly follows from them.
const SHOWN: usize = 20;

/// Lives through a day that lasts so long, and until everything that is planned has gone wrong.
pub async fn a_day(seed: u64, time: Duration, plan: Plan) -> Result<()> {
    let seed = chosen("PILOTHOUSE_DAY_SEED").unwrap_or(seed);
    let time = match chosen("PILOTHOUSE_DAY_SECONDS") {
        Some(seconds) if time > Duration::from_secs(60) => Duration::from_secs(seconds),
        _ => time,
    };
    println!("PILOTHOUSE_DAY_SEED={seed}");
    let mut day = Day::begin(seed).await?;
    let lived = day.live(time, plan, seed).await;
    let judged = day.judge();
    let mut wrong: Vec<String> = Vec::new();
    for error in [lived.err(), judged.err()].into_iter().flatten() {
        wrong.push(format!("{error:#}"));
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let (records, log) = (day.keep_records(seed)?, day.end_of_log());
    let wrong = wrong.join("\n");
    bail!("PILOTHOUSE_DAY_SEED={seed}, all changes are in {records}\n{log}\n{wrong}")
}

fn chosen(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap())
}

struct Day {
    rig: WorkloadRig,
    world: World,
    keepers: Keepers,
    story: Story,
    damage: Damage,
}

impl Day {
    async fn begin(seed: u64) -> Result<Self> {
        // Then the auditor's watches miss nothing when the server is killed. The host finds out
        // that its own have expired by answers of the proxy.
        let server = ServerOptions {
            no_watch_cache: true,
            ..ServerOptions::default()
        };
        let server = Server::start_own(server).await?;
        let mut rig = WorkloadRig::before(server, &PLUGINS).await?;
        rig.configure("job", "[config]\npodFailureBackOffSeconds = 0\n")?;
        rig.start_host().await?;
        let (world, keepers) = World::begin(rig.api(), &rig.namespace, seed);
        Ok(Self {
            rig,
            world,
            keepers,
            story: Story::new(seed),
            damage: Damage::default(),
        })
    }

    async fn live(&mut self, time: Duration, plan: Plan, seed: u64) -> Result<()> {
        self.story.begin(&self.world).await?;
        let end = Instant::now() + time;
        let (rig, damage) = (&mut self.rig, &mut self.damage);
        let goes_wrong = async {
            faults::cause(rig, plan, seed, damage).await?;
            while Instant::now() < end {
                sleep_until(end.min(Instant::now() + Duration::from_secs(2))).await;
                damage.count(rig);
            }
            anyhow::Ok(())
        };
        let world = &self.world;
        tokio::select! {
            ended = goes_wrong => ended?,
            failed = self.story.go_on(world) => failed?,
            error = self.keepers.broken() => return Err(error),
        }
        self.settle().await
    }

    /// Wants only what can be had, and waits until it is, and until nobody writes any more.
    async fn settle(&mut self) -> Result<()> {
        let begun = Instant::now();
        self.story.make_well(&self.world).await?;
        loop {
            self.damage.count(&self.rig);
            let wrong = shortcomings(&self.world, &self.story);
            if wrong.is_empty() {
                break;
            }
            if begun.elapsed() > SETTLED {
                bail!("after {SETTLED:?}: {wrong:#?}");
            }
            tokio::select! {
                () = sleep(Duration::from_millis(100)) => {}
                error = self.keepers.broken() => return Err(error),
            }
        }
        println!("  settled in {:?}", begun.elapsed());
        // The last status may come a moment later.
        sleep(Duration::from_secs(1)).await;
        let before = self.world.events();
        sleep(REST).await;
        let after = self.world.events();
        ensure!(
            after == before,
            "{} changes while all is well",
            after - before
        );
        let wrong = shortcomings(&self.world, &self.story);
        ensure!(wrong.is_empty(), "it did not last: {wrong:#?}");
        let differences = self.world.differences().await?;
        ensure!(differences.is_empty(), "the auditor missed {differences:?}");
        Ok(())
    }

    /// Holds everything that has happened against what is promised.
    fn judge(&mut self) -> Result<()> {
        self.damage.count(&self.rig);
        self.damage.read_log(&self.rig);
        let evidence = Evidence {
            records: self.world.records(),
            doings: self.world.doings.all(),
            stalls: self.damage.behind.clone(),
        };
        let verdict = audit(&evidence);
        self.tell(&verdict);
        let violations = &verdict.violations;
        let first = &violations[..violations.len().min(SHOWN)];
        ensure!(
            first.is_empty(),
            "{} violations: {first:#?}",
            violations.len()
        );
        Ok(())
    }

    fn tell(&self, verdict: &Verdict) {
        let Damage {
            host_kills,
            early_kills,
            server_kills,
            stalls,
            writes,
            log,
            ..
        } = &self.damage;
        println!(
            "  {} acts, {} changes, {writes} writes of the host, {} Jobs",
            self.story.acts,
            verdict.events,
            self.story.jobs.len()
        );
        println!(
            "  host killed {host_kills} times ({early_kills} while it started), server \
             {server_kills}, {stalls} stalls"
        );
        let (times, longest) = verdict.behind;
        println!("  a controller was behind {times} times, for at most {longest:#}");
        for (rule, count) in &verdict.checks {
            println!("  {count:6} times: {rule}");
        }
        for (words, count) in log {
            println!("  log {count:6} times: {words}");
        }
        println!("  {} violations", verdict.violations.len());
    }

    /// Writes down all changes, one a line, numbered as the violations number them.
    fn keep_records(&self, seed: u64) -> Result<String> {
        let mut records = self.world.records();
        records.sort_by_key(|record| record.version);
        let mut lines = String::new();
        for (number, record) in (1..).zip(&records) {
            writeln!(lines, "{number} {record:?}")?;
        }
        let path = std::env::temp_dir().join(format!("pilothouse-day-{seed}.log"));
        std::fs::write(&path, lines)?;
        Ok(path.display().to_string())
    }

    fn end_of_log(&mut self) -> String {
        let log = self.rig.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }
}
