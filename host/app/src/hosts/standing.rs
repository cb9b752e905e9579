//! Whether this host leads, for the parts that want to know.

use std::sync::Arc;

use pilothouse_cluster::client::WriteRight;
use pilothouse_core::{MemberId, Owners, Shard};
use tokio::sync::watch;

/// Whether this host leads, and who does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StandingState {
    /// Counts how often this host has begun to lead. Two terms are never the same, even if they
    /// follow each other at once.
    pub term: u64,
    /// Whether this host leads now.
    pub leads: bool,
    /// Who holds the Lease, as last seen. Empty if nobody does, or if that is not known.
    pub holder: String,
    /// Why this host can neither lead nor be a member, if there is a reason.
    pub problem: Option<String>,
    /// Whether this host has begun to give everything away, because it is to end.
    pub is_leaving: bool,
    /// What the group says that this host shares with; `None` if one host leads.
    pub sharing: Option<SharingState>,
}

/// The group of hosts that share, as this host sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharingState {
    /// Which member this host is, or tries to be.
    pub member: MemberId,
    /// Whether it has a Lease.
    pub is_member: bool,
    /// How many members there are, this host included.
    pub members: usize,
    /// Who owns what.
    pub owners: Owners,
}

impl SharingState {
    /// The shards of this host.
    pub fn own(&self) -> impl Iterator<Item = &Shard> {
        let own = self
            .owners
            .iter()
            .filter(|(_, owner)| **owner == self.member);
        own.map(|(shard, _)| shard)
    }
}

impl StandingState {
    /// Why this host runs nothing, in a few words; `None` if it leads, or is a member.
    pub fn why_idle(&self) -> Option<String> {
        let state = match &self.sharing {
            Some(sharing) if sharing.is_member => return None,
            Some(_) => "it is no member of the group yet".to_owned(),
            None if self.leads => return None,
            None if self.problem.is_some() => "no leader can be elected".to_owned(),
            None if self.holder.is_empty() => "no host leads yet".to_owned(),
            None => format!("{} leads", self.holder),
        };
        Some(match &self.problem {
            Some(problem) => format!("{state}: {problem}"),
            None => state,
        })
    }
}

/// Follows the standing of this host.
#[derive(Clone)]
pub struct Standing {
    state: watch::Receiver<StandingState>,
    right: Arc<WriteRight>,
}

impl Standing {
    /// What it is before anything is known, and the sender that changes it.
    pub fn new(right: Arc<WriteRight>) -> (watch::Sender<StandingState>, Self) {
        let (sender, state) = watch::channel(StandingState::default());
        (sender, Self { state, right })
    }

    /// What is wrong if this host could not renew in time and nobody has noticed: then the thread
    /// that keeps the Lease is stuck. The host writes nothing, but does not give up either.
    pub fn overdue(&self) -> Option<String> {
        let seconds = self.right.overdue()?.as_secs();
        Some(format!(
            "the right to write ended {seconds} s ago, and the thread that keeps the Lease has not noticed"
        ))
    }

    /// Why this host runs nothing, in a few words; `None` if it leads.
    pub fn why_idle(&self) -> Option<String> {
        self.state.borrow().why_idle()
    }

    /// The group that this host shares with, if it shares.
    pub fn sharing(&self) -> Option<SharingState> {
        self.state.borrow().sharing.clone()
    }

    /// Waits until the standing differs from what was last returned by [`seen`](Self::seen).
    pub async fn changed(&mut self) {
        if self.state.changed().await.is_err() {
            // The elector has ended, and with it the host.
            std::future::pending::<()>().await;
        }
    }

    /// The standing now, which counts as seen.
    pub fn seen(&mut self) -> StandingState {
        self.state.borrow_and_update().clone()
    }
}
