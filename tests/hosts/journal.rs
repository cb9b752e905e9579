//! The auditor: who has written what, in the server's order.
//!
//! All versions of all objects are one sequence, etcd's, and so are those of the Leases. A write is
//! *stale* if another host had acquired the Lease before the server carried it out; where hosts
//! share, if the shard had another owner.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::jiff::Timestamp;
use pilothouse_tests::{Change, Server, ServerWrite, What};

/// So many violations are shown.
const SHOWN: usize = 10;

/// The uids of objects that are gone, each with the version of its deletion.
pub type Deletions = BTreeMap<String, u64>;

/// All that the competitors have written so far.
#[derive(Default)]
pub struct Journal {
    writes: Vec<ServerWrite>,
    read: usize,
}

/// A change of the Lease's holder.
#[derive(Clone, Debug)]
pub struct Term {
    version: u64,
    /// Who holds the Lease from here on; empty if nobody does.
    user: String,
    /// When it was told.
    since: Timestamp,
}

/// Who may write what, and since when: for each shard the terms of its owners. Where hosts do not
/// share, all is one shard without a name.
#[derive(Clone, Debug, Default)]
pub struct Terms(BTreeMap<String, Vec<Term>>);

impl Terms {
    /// From now on this user may write what is in the shard; nobody if the name is empty.
    fn begin(&mut self, shard: &str, user: &str, change: &Change) {
        let terms = self.0.entry(shard.to_owned()).or_default();
        let before = terms.last().map_or("", |term| &term.user);
        if before != user {
            terms.push(Term {
                version: change.version,
                user: user.to_owned(),
                since: change.at,
            });
        }
    }

    /// By the changes of the one Lease. `users` says which user each holder is.
    pub fn of_a_leader(leases: &[Change], users: &BTreeMap<String, String>) -> Self {
        let mut terms = Self::default();
        let mut before = String::new();
        for change in leases {
            let holder = change.object["spec"]["holderIdentity"].as_str();
            let holder = holder
                .filter(|_| change.what != What::Deleted)
                .unwrap_or_default();
            if holder != before {
                let user = users.get(holder).map_or(holder, String::as_str);
                terms.begin("", user, change);
            }
            holder.clone_into(&mut before);
        }
        terms
    }

    /// By the changes of the assignment. `users` says which user each member is.
    pub fn of_members(leases: &[Change], users: &BTreeMap<String, String>) -> Self {
        let mut terms = Self::default();
        let is_assignment = |change: &&Change| change.object["metadata"]["name"] == "pilothouse";
        for change in leases.iter().filter(is_assignment) {
            let said = change.object["metadata"]["annotations"]["pilothouse.dev/owners"].as_str();
            let owners: BTreeMap<String, String> =
                serde_json::from_str(said.unwrap_or("{}")).expect("a map from shard to member");
            let known: Vec<String> = terms.0.keys().cloned().collect();
            for shard in known.iter().filter(|shard| !owners.contains_key(*shard)) {
                terms.begin(shard, "", change);
            }
            for (shard, member) in &owners {
                terms.begin(shard, users.get(member).unwrap_or(member), change);
            }
        }
        terms
    }

    fn of(&self, shard: &str) -> &[Term] {
        self.0.get(shard).map_or(&[], Vec::as_slice)
    }

    fn count(&self) -> usize {
        let all = self.0.values().flatten();
        all.filter(|term| !term.user.is_empty()).count()
    }
}

/// What the journal says.
#[derive(Debug)]
pub struct Judged {
    /// Writes that the server carried out when another had the Lease.
    pub stale: Vec<String>,
    /// Writes that the server carried out when nobody had the Lease any more: it was given back.
    pub unled: Vec<String>,
    /// How often the Lease was acquired.
    pub terms: usize,
    /// How many writes were judged.
    pub writes: usize,
}

impl Judged {
    /// Fails if there is a write that should not be.
    pub fn is_clean(&self) -> Result<()> {
        let Self { stale, unled, .. } = self;
        let shown = |all: &[String]| all[..all.len().min(SHOWN)].join("\n  ");
        ensure!(
            stale.is_empty() && unled.is_empty(),
            "{} stale writes:\n  {}\n{} writes after the Lease was given back:\n  {}",
            stale.len(),
            shown(stale),
            unled.len(),
            shown(unled)
        );
        Ok(())
    }
}

/// Whether it is a write that the right to write is about. Events about the host itself are not.
fn is_of_a_plugin(write: &ServerWrite) -> bool {
    write.is_done() && write.user != "admin" && !matches!(&*write.resource, "leases" | "events")
}

impl Journal {
    /// Reads what was written since the last call.
    pub async fn read(&mut self, server: &Server) -> Result<()> {
        let more = server.writes(self.read).await?;
        self.read += more.len();
        let competitors = more.into_iter().filter(|write| write.user != "admin");
        self.writes.extend(competitors);
        Ok(())
    }

    /// The first write of a plugin that reached the server after this time and is not by this user.
    pub fn first_write(&self, after: Timestamp, not_by: &str) -> Option<&ServerWrite> {
        let writes = self
            .writes
            .iter()
            .filter(|write| is_of_a_plugin(write) && write.began > after && write.user != not_by);
        writes.min_by_key(|write| write.began)
    }

    /// The writes of this user's plugins that reached the server after this time.
    pub fn writes_of(&self, user: &str, after: Timestamp) -> Vec<&ServerWrite> {
        let writes = self.writes.iter();
        let is_one = |write: &&ServerWrite| {
            is_of_a_plugin(write) && write.user == user && write.began > after
        };
        writes.filter(is_one).collect()
    }

    /// The user of each member of a group that shares: who has created its Lease.
    pub fn members(&self) -> BTreeMap<String, String> {
        let is_creation =
            |write: &&ServerWrite| write.resource == "leases" && write.verb == "create";
        let created = self.writes.iter().filter(is_creation);
        let member =
            |write: &ServerWrite| write.name.strip_prefix("pilothouse-").map(str::to_owned);
        created
            .filter_map(|write| Some((member(write)?, write.user.clone())))
            .collect()
    }

    /// All writes, one in a line, in the order in which they were answered.
    pub fn text(&self) -> String {
        let lines = self.writes.iter().map(|write| format!("{write:?}\n"));
        lines.collect()
    }

    /// Judges each write by who had the Lease when the server carried it out.
    pub fn judge(
        &self,
        terms: &Terms,
        deletions: &Deletions,
        shard_of: impl Fn(&ServerWrite) -> String,
    ) -> Judged {
        let mut judged = Judged {
            stale: Vec::new(),
            unled: Vec::new(),
            terms: terms.count(),
            writes: 0,
        };
        for write in self.writes.iter().filter(|write| is_of_a_plugin(write)) {
            judged.writes += 1;
            let shard = shard_of(write);
            let terms = terms.of(&shard);
            let at = version_of(write, deletions, terms);
            let term = terms.iter().rev().find(|term| term.version <= at);
            let user = term.map_or("", |term| &term.user);
            if user == write.user {
                continue;
            }
            let late = term.map(|term| since(term.since, write.ended));
            let said = format!(
                "{} {} {} {} of {shard:?} at {at}, {late:?} after it was {user:?}'s: {write:?}",
                write.user, write.verb, write.resource, write.name
            );
            match user {
                "" => judged.unled.push(said),
                _ => judged.stale.push(said),
            }
        }
        judged
    }
}

/// Where the write is in the sequence of versions. A write that found nothing to change has made no
/// version: it comes after each change of the Lease that had ended when it reached the server.
fn version_of(write: &ServerWrite, deletions: &Deletions, terms: &[Term]) -> u64 {
    let is_deletion = write.verb == "delete";
    let deleted = deletions.get(&write.uid).filter(|_| is_deletion).copied();
    let before = terms.iter().filter(|term| term.since < write.began);
    let least = before.map(|term| term.version).max().unwrap_or_default();
    deleted.or(write.version).unwrap_or_default().max(least)
}

/// The time between two moments; zero if the second is the earlier one.
pub fn since(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}
