//! What goes wrong between the host and the API server: watches are late, stand still or say
//! nonsense, lists and questions are not answered, answers to writes are lost; and the host is
//! killed.

use std::collections::BTreeMap;

use anyhow::Result;
use pilothouse_tests::proxy::{
    ANY, Answer, PassedLine, Proxy, all, complete_lists, error_event, gets, lists, reads, watches,
    writes,
};
use pilothouse_tests::{Random, WorkloadRig};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

/// The kinds whose watches fail by themselves, each as often as it comes: of pods it is told while
/// claims go.
const APART: [&str; 9] = [
    ANY,
    "configmaps",
    "secrets",
    "pods",
    "pods",
    "pods",
    "persistentvolumeclaims",
    "gadgets",
    "beacons",
];

/// How many earlier lines are kept, to be sent again.
const KEPT: usize = 500;

/// What has gone wrong.
#[derive(Debug, Default)]
pub struct Damage {
    /// How often each fault was caused.
    pub faults: BTreeMap<&'static str, usize>,
    pub host_kills: usize,
    /// Of these: hosts that were not ready yet.
    pub early_kills: usize,
}

/// Causes faults, at random.
pub struct Faults {
    random: Random,
    /// Some of the lines that watches have brought.
    lines: Vec<PassedLine>,
    pub damage: Damage,
}

impl Faults {
    pub fn new(seed: u64) -> Self {
        Self {
            random: Random(seed),
            lines: Vec::new(),
            damage: Damage::default(),
        }
    }

    /// Remembers one of these lines in ten.
    pub fn remember(&mut self, lines: Vec<PassedLine>) {
        for line in lines {
            if line.is_change() && self.random.percent(10) {
                self.lines.push(line);
            }
        }
        let surplus = self.lines.len().saturating_sub(KEPT);
        self.lines.drain(..surplus);
    }

    /// A time between two faults.
    pub async fn pause(&mut self) {
        sleep(self.random.milliseconds(200)).await;
    }

    /// Causes a fault, and ends it.
    pub async fn one(&mut self, proxy: &Proxy) {
        let what = self.begin(proxy).await;
        *self.damage.faults.entry(what).or_default() += 1;
        let longest = match what {
            "stall" | "delay" => 2500,
            _ => 400,
        };
        sleep(self.random.milliseconds(longest)).await;
        proxy.heal().await;
    }

    async fn begin(&mut self, proxy: &Proxy) -> &'static str {
        let kind = self.random.one_of(&APART).copied().unwrap_or(ANY);
        let statuses = [410, 429, 500, 503, 504];
        let status = self.random.one_of(&statuses).copied().unwrap_or(500);
        match self.random.below(20) {
            0..6 => {
                proxy.on(watches(kind)).stall();
                "stall"
            }
            6..10 => {
                let time = self.random.milliseconds(1500);
                proxy.on(watches(kind)).delay_lines(time);
                "delay"
            }
            10 => {
                proxy.reset(watches(kind));
                "reset"
            }
            11 => {
                proxy.close(watches(kind));
                "close"
            }
            12 => {
                proxy.inject(watches(kind), &error_event(status));
                "error event"
            }
            13 => self.nonsense(proxy, kind),
            14 => {
                self.say_again(proxy);
                "an old line again"
            }
            15 => {
                proxy.on(watches(kind)).reverse_each(2);
                "reverse"
            }
            16 => {
                proxy
                    .on(complete_lists(kind))
                    .times(1)
                    .answer(Answer::status(410));
                proxy.on(lists(kind)).slow(100_000);
                proxy.inject(watches(kind), &error_event(410));
                "a slow list"
            }
            17 => {
                proxy
                    .on(reads(kind))
                    .times(3)
                    .answer(Answer::status(status));
                proxy.reset(watches(kind));
                "lists refused"
            }
            18 => self.questions(proxy, kind, status),
            _ => self.writes(proxy, status).await,
        }
    }

    fn nonsense(&mut self, proxy: &Proxy, kind: &str) -> &'static str {
        if self.random.percent(50) {
            proxy.inject(watches(kind), "{\"type\":\"ADDED\",\"obj");
            return "half a line";
        }
        let garbled = proxy.on(watches(kind)).times(2);
        garbled
            .replace_events(|event| Some(json!({"type": event["type"], "object": 1}).to_string()));
        "garbled"
    }

    fn questions(&mut self, proxy: &Proxy, kind: &str, status: u16) -> &'static str {
        if self.random.percent(50) {
            let time = self.random.milliseconds(400);
            proxy.on(gets(kind)).delay(time);
            proxy.on(lists(kind)).delay(time);
            return "late answers";
        }
        proxy.on(gets(kind)).times(5).answer(Answer::status(status));
        proxy
            .on(lists(kind))
            .times(5)
            .answer(Answer::status(status));
        "no answers"
    }

    async fn writes(&mut self, proxy: &Proxy, status: u16) -> &'static str {
        match self.random.below(4) {
            0 => {
                proxy.on(writes(ANY)).times(3).lose_answer();
                "answers to writes lost"
            }
            1 => {
                proxy
                    .on(writes(ANY))
                    .times(3)
                    .answer(Answer::status(status));
                "writes refused"
            }
            2 => {
                proxy.on(writes(ANY)).delay(self.random.milliseconds(300));
                "late writes"
            }
            _ => {
                proxy.refuse().await;
                proxy.reset(all());
                "no connection"
            }
        }
    }

    /// Sends an earlier event of some watch again, on all open watches of its resource.
    fn say_again(&mut self, proxy: &Proxy) {
        if let Some(old) = self.random.one_of(&self.lines) {
            proxy.inject(watches(&old.watch.resource), &old.text);
        }
    }

    /// Kills the host at a random moment, one in five times while the next one starts, too.
    pub async fn kill(&mut self, rig: &mut WorkloadRig) -> Result<()> {
        rig.kill_host().await?;
        self.damage.host_kills += 1;
        if self.random.percent(20) {
            // What is not finished is dropped, which kills the host.
            let time = self.random.milliseconds(1000);
            if timeout(time, rig.start_host()).await.is_err() {
                self.damage.host_kills += 1;
                self.damage.early_kills += 1;
            }
        }
        rig.start_host().await
    }

    /// When the next kill is due.
    pub fn next_kill(&mut self) -> Instant {
        Instant::now() + self.random.milliseconds(4000)
    }
}
