//! Many stories side by side while watches fail and the host is killed, and what is made of them.

use std::fmt::Write;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use pilothouse_tests::{DEFINITIONS, Random, Server, WorkloadRig};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::actor::{Actor, Doings, Thing};
use crate::ending::shortcomings;
use crate::faults::Faults;
use crate::judge::{Verdict, judge};
use crate::kinds::{KINDS, definitions};
use crate::scenario::{finish, live, object};
use crate::witness::Witness;
use crate::world::{Keepers, World};

const COLLECTOR: &str = "garbage-collector";
const PROTECTION: &str = "persistentvolumeclaim-protection";
const SETTINGS: &str = r#"
grants.reads = ["*"]
grants.writes = [{ kind = "*", verbs = ["patch", "delete"] }]
grants.events = true
"#;

/// How many stories are told at the same time.
const SIDE_BY_SIDE: usize = 16;

/// How long nothing may be written when all is well.
const REST: Duration = Duration::from_secs(2);

/// How long it may take until all is well when nothing goes wrong any more.
const SETTLED: Duration = Duration::from_secs(60);

/// So many violations are shown.
const SHOWN: usize = 10;

/// How much is done: at least so many stories, and so many kills of the host.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub stories: usize,
    pub kills: usize,
}

/// Tells the stories of this seed, and judges all that the host did meanwhile.
pub async fn run(seed: u64, plan: Plan) -> Result<()> {
    let seed = match std::env::var("PILOTHOUSE_ENDS_SEED") {
        Ok(chosen) => chosen.parse()?,
        Err(_) => seed,
    };
    println!("PILOTHOUSE_ENDS_SEED={seed}");
    let mut run = Run::begin(seed).await?;
    let lived = run.live(plan).await;
    let judged = run.judge();
    let wrong = [lived.err(), judged.err()];
    let wrong: Vec<String> = wrong
        .iter()
        .flatten()
        .map(|one| format!("{one:#}"))
        .collect();
    if wrong.is_empty() {
        return Ok(());
    }
    let (records, log) = (run.keep_records(seed)?, run.end_of_log());
    let wrong = wrong.join("\n");
    bail!("PILOTHOUSE_ENDS_SEED={seed}, all changes are in {records}\n{log}\n{wrong}")
}

struct Run {
    rig: WorkloadRig,
    world: World,
    keepers: Keepers,
    actor: Actor,
    stranger: Thing,
    faults: Faults,
    witness: Witness,
    random: Random,
    /// The namespaces of the stories that are over.
    told: Vec<String>,
    begun: Instant,
}

impl Run {
    async fn begin(seed: u64) -> Result<Self> {
        let server = Server::start().await?;
        for definition in definitions() {
            server.api.create(DEFINITIONS, &definition).await?;
        }
        let is_served = |found: Option<&Value>| found.is_some();
        for kind in &KINDS {
            let path = kind.path("", "");
            server.api.eventually(&path, "served", is_served).await?;
        }
        let mut rig = WorkloadRig::before(server, &[COLLECTOR, PROTECTION]).await?;
        rig.configure(COLLECTOR, SETTINGS)?;
        let (world, keepers) = World::begin(rig.api());
        let actor = Actor {
            api: rig.api().clone(),
            doings: Doings::default(),
        };
        let stranger = object("configmaps", "stranger", &[], &[], &Value::Null);
        let stranger = actor
            .create("configmaps", &rig.namespace, &stranger)
            .await?;
        rig.start_host().await?;
        Ok(Self {
            stranger: stranger.context("the namespace is new")?,
            rig,
            world,
            keepers,
            actor,
            faults: Faults::new(seed),
            witness: Witness::default(),
            random: Random(seed ^ 1),
            told: Vec::new(),
            begun: Instant::now(),
        })
    }

    /// Tells the stories while everything goes wrong, and waits until all is well.
    async fn live(&mut self, plan: Plan) -> Result<()> {
        let mut stories = JoinSet::new();
        let mut number = 0;
        let mut kills = plan.kills;
        let mut next_kill = self.faults.next_kill();
        while number < plan.stories || kills > 0 || !stories.is_empty() {
            let has_more = number < plan.stories || kills > 0;
            while has_more && stories.len() < SIDE_BY_SIDE {
                number += 1;
                stories.spawn(self.story(number));
            }
            self.go_wrong(&mut kills, &mut next_kill).await?;
            while let Some(ended) = stories.try_join_next() {
                self.told.push(ended??);
                if self.told.len().is_multiple_of(100) {
                    println!("  {} stories, {:?}", self.told.len(), self.begun.elapsed());
                }
            }
        }
        self.rest().await
    }

    fn story(&mut self, number: usize) -> impl Future<Output = Result<String>> + Send + 'static {
        let (actor, world) = (self.actor.clone(), self.world.clone());
        let (stranger, seed) = (self.stranger.clone(), self.random.below(u64::MAX));
        live(actor, world, stranger, format!("story-{number}"), seed)
    }

    /// Causes one fault, or kills the host.
    async fn go_wrong(&mut self, kills: &mut usize, next_kill: &mut Instant) -> Result<()> {
        if *kills > 0 && Instant::now() >= *next_kill {
            let before = self.faults.damage.host_kills;
            self.faults.kill(&mut self.rig).await?;
            *kills = kills.saturating_sub(self.faults.damage.host_kills - before);
            *next_kill = self.faults.next_kill();
        }
        tokio::select! {
            () = self.faults.one(&self.rig.proxy) => {}
            error = self.keepers.broken() => return Err(error),
        }
        self.faults.pause().await;
        self.see();
        Ok(())
    }

    /// Takes in what has passed the proxy.
    fn see(&mut self) {
        let record = self.rig.proxy.take_record();
        self.witness.learn(&record);
        self.faults.remember(record.lines);
    }

    /// Waits until all is well, and sees that nobody writes any more.
    async fn rest(&mut self) -> Result<()> {
        self.rig.proxy.heal().await;
        let deadline = Instant::now() + SETTLED;
        loop {
            let mut wrong = Vec::new();
            for namespace in &self.told {
                // The last writes of a story may have been told after its end.
                finish(&self.actor, &self.world, namespace).await?;
                wrong.extend(shortcomings(&self.world, namespace));
            }
            let differences = self.world.differences().await?;
            if wrong.is_empty() && differences.is_empty() {
                break;
            }
            ensure!(Instant::now() < deadline, "{wrong:#?} {differences:?}");
            sleep(Duration::from_millis(200)).await;
        }
        sleep(REST).await;
        self.see();
        let before = self.witness.counts.writes;
        sleep(REST).await;
        self.see();
        let writes = self.witness.counts.writes - before;
        ensure!(writes == 0, "{writes} writes while all is well");
        Ok(())
    }

    fn judge(&mut self) -> Result<()> {
        self.see();
        let records = self.world.records();
        let verdict = judge(&records, &self.actor.doings, &self.witness);
        self.tell(&verdict, records.len());
        let violations = &verdict.violations;
        let first = &violations[..violations.len().min(SHOWN)];
        let count = violations.len();
        ensure!(count == 0, "{count} violations:\n{}", first.join("\n"));
        for (rule, count) in &verdict.checks {
            ensure!(*count > 0, "never judged: {rule}");
        }
        Ok(())
    }

    fn tell(&self, verdict: &Verdict, changes: usize) {
        let (stories, acts) = (self.told.len(), self.actor.doings.writes());
        let time = self.begun.elapsed();
        println!("  {stories} stories in {time:?}: {acts} writes of actors, {changes} changes");
        println!("  the host: {:?}", self.witness.counts);
        println!("  {:?}", self.faults.damage);
        for (rule, count) in &verdict.checks {
            println!("  {count:6} times: {rule}");
        }
        for (reason, count) in &verdict.excused {
            println!("  {count:6} times set apart: {reason}");
        }
        println!("  {} violations", verdict.violations.len());
    }

    /// Writes down all changes, one a line.
    fn keep_records(&self, seed: u64) -> Result<String> {
        let mut lines = String::new();
        for record in self.world.records() {
            let who = match self.actor.doings.include(&record) {
                true => "actor",
                false => "other",
            };
            writeln!(lines, "{who} {record:?}")?;
        }
        let path = std::env::temp_dir().join(format!("pilothouse-ends-{seed}.log"));
        std::fs::write(&path, lines)?;
        Ok(path.display().to_string())
    }

    fn end_of_log(&self) -> String {
        let log = self.rig.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}
