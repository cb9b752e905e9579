//! What happens to a member, and what is to be done.

use super::records::{MemberId, Offer, Shard, StoredRecord};
use super::requests::{SharingAnswer, SharingRequest};

/// What happens.
#[derive(Clone, Debug)]
pub enum SharingEvent {
    /// Nothing but time passes. To be sent when [`next_due`](super::Sharing::next_due) comes.
    Tick,
    /// A request is answered.
    Answered {
        /// Its number.
        request: u64,
        /// The answer.
        answer: SharingAnswer,
    },
    /// A watch on the group's Leases has begun (from a list of its own), or has ended. While there
    /// is none, the group is listed each retry period, else each lease duration.
    Watching(bool),
    /// The watch has shown a Lease of the group. Nobody acts on what it says; it says when to read.
    Observed(StoredRecord),
    /// The watch has shown that a Lease of the group was deleted.
    ObservedDeletion,
    /// What this host can run from now on.
    Offered(Offer),
    /// Nothing of this shard runs on this host any more, and nothing of it is on its way to the
    /// API server. Answers `Finish` and `Stop`, once for each `Gained`.
    Released(Shard),
    /// Give everything away and go.
    Leave,
}

/// What is to be done, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SharingEffect {
    /// Send a request.
    Send(SharingRequest),
    /// Run this shard's keys.
    Gained(Shard),
    /// Begin no more keys of this shard, let end what runs, and say `Released`.
    Finish(Shard),
    /// Halt at once all that runs of this shard, and say `Released`. It may follow `Finish`.
    Stop(Shard),
    /// Tell the operator.
    Tell(SharingNotice),
}

/// What the operator may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SharingNotice {
    /// This host has become a member.
    Joined(MemberId),
    /// The Lease was not renewed in time. Everything stops; it may be renewed yet.
    Lapsed(MemberId),
    /// This member's Lease is gone. The host joins again as another member.
    Lost(MemberId),
    /// Another member's Lease has expired, and this host has deleted it.
    Removed(MemberId),
    /// This host has left, or was no member when it was asked to leave. It sends no more.
    Left,
}
