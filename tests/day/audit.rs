//! The auditor: holds everything that has happened against what the controllers promise.
//!
//! The API server's versions are one sequence over all kinds. So the changes of all kinds, put into
//! the order of their versions, are the states that the cluster went through, one after the other,
//! and each of them is checked.
//!
//! # What is promised
//!
//! A controller decides on caches that are behind the server, and what it decides on may have
//! changed when its write arrives. So what Kubernetes promises of a limit is not that it holds of
//! each state, but that no write breaks it that was decided on what could be known. The auditor
//! knows two kinds of rules:
//!
//! - **What only the controller itself adds** holds of each state, however stale its caches are: no
//!   second pod of an index or ordinal, no pod above the replicas, no pod counted twice. The
//!   host's gate has to see to that.
//! - **What others take away**, as a pod that fails or a node that is lost, may not be known yet.
//!   A write is judged by what the controller may have seen: the states of the last
//!   [`KNOWN_AFTER`], or of longer if watches stood still or the controllers were behind (`lag`).
//!   It breaks a rule only if it breaks it by each of these. What a controller has done itself it
//!   always knows, and so what is missing through its own deletions is always counted.

mod cronjobs;
mod daemonsets;
mod deployments;
mod history;
mod jobs;
mod lag;
mod owners;
mod replicas;
mod statefulsets;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use pilothouse_tests::{Change, What};

use crate::facts::Facts;
pub use history::{Cluster, Track};

/// A controller knows what has happened so long ago, if no watch stood still and it is not behind:
/// caches, a Deployment's and then a ReplicaSet's reconcile take this long at most.
const KNOWN_AFTER: SignedDuration = SignedDuration::from_secs(4);

/// A change, cut down to what is judged.
#[derive(Clone, Debug)]
pub struct Record {
    pub at: Timestamp,
    pub version: u64,
    pub what: What,
    pub facts: Arc<Facts>,
}

impl Record {
    pub fn of(change: &Change) -> Self {
        Self {
            at: change.at,
            version: change.version,
            what: change.what,
            facts: Arc::new(Facts::of(change.resource, &change.object)),
        }
    }
}

/// What has happened.
#[derive(Default)]
pub struct Evidence {
    pub records: Vec<Record>,
    /// The uids of what the test, and not a controller, has deleted.
    pub doings: BTreeSet<String>,
    /// When watches stood still, or there was no server: from when to when.
    pub stalls: Vec<(Timestamp, Timestamp)>,
}

/// What the auditor has found.
#[derive(Default)]
pub struct Verdict {
    pub events: usize,
    /// How often each rule had something to judge.
    pub checks: BTreeMap<&'static str, usize>,
    pub violations: Vec<String>,
    /// How often a controller was behind for more than a second, and for how long at most.
    pub behind: (usize, SignedDuration),
}

/// One state and how it differs from the one before.
pub struct Event {
    pub at: Timestamp,
    /// The states since then may be what the controller has decided on.
    pub horizon: Timestamp,
    pub what: What,
    pub before: Option<Arc<Facts>>,
    pub now: Arc<Facts>,
    /// A controller has deleted it, or asked that.
    pub is_taken: bool,
}

pub struct Audit {
    pub cluster: Cluster,
    /// When controllers may not have known what has happened.
    behind: Vec<(Timestamp, Timestamp)>,
    verdict: Verdict,
    /// Of each Job: the pods whose uids have been in the status, and are in the counters.
    counted: BTreeMap<String, BTreeSet<String>>,
}

/// Checks every state.
pub fn audit(evidence: &Evidence) -> Verdict {
    let mut records = evidence.records.clone();
    records.sort_by_key(|record| record.version);
    let mut latest = Timestamp::MIN;
    for record in &mut records {
        // The watches of two kinds do not tell at the same time.
        latest = latest.max(record.at);
        record.at = latest;
    }
    let mut behind = lag::times_behind(&records);
    let longest = behind.iter().map(|(from, to)| to.duration_since(*from));
    let longest = longest.max().unwrap_or_default();
    let verdict = Verdict {
        behind: (behind.len(), longest),
        ..Verdict::default()
    };
    behind.extend(&evidence.stalls);
    let mut audit = Audit {
        cluster: Cluster::new(evidence.doings.clone()),
        behind,
        verdict,
        counted: BTreeMap::new(),
    };
    for record in &records {
        let event = audit.learn(record);
        audit.judge(&event);
    }
    audit.verdict
}

impl Audit {
    fn learn(&mut self, record: &Record) -> Event {
        self.verdict.events += 1;
        let before = self.cluster.now(&record.facts.uid).cloned();
        let is_taken = self.cluster.learn(record);
        Event {
            at: record.at,
            horizon: self.horizon(record.at),
            what: record.what,
            before,
            now: record.facts.clone(),
            is_taken,
        }
    }

    fn judge(&mut self, event: &Event) {
        owners::judge(self, event);
        replicas::judge(self, event);
        deployments::judge(self, event);
        statefulsets::judge(self, event);
        daemonsets::judge(self, event);
        jobs::judge(self, event);
        cronjobs::judge(self, event);
    }

    /// Since when what has happened may be unknown to a controller that writes now.
    fn horizon(&self, at: Timestamp) -> Timestamp {
        let horizon = at - KNOWN_AFTER;
        let mut earliest = horizon;
        for (from, to) in &self.behind {
            // The cache follows again some time after.
            if *from <= at && *to >= horizon {
                earliest = earliest.min(*from - KNOWN_AFTER);
            }
        }
        earliest
    }

    /// Counts that a rule had something to judge, and notes it if it does not hold.
    pub fn check(&mut self, rule: &'static str, holds: bool, words: impl FnOnce() -> String) {
        *self.verdict.checks.entry(rule).or_default() += 1;
        if !holds {
            let number = self.verdict.events;
            let words = words();
            let violation = format!("event {number}: {rule}: {words}");
            self.verdict.violations.push(violation);
        }
    }
}
