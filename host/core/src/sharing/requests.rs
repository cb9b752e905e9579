//! What a member asks of the API server, and what that answers.

use std::time::Duration;

use super::records::{LeaseVersion, MemberId, Record, StoredRecord};

/// A request. Each gets one [`SharingAnswer`], sooner or later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharingRequest {
    /// The request's number, for its answer.
    pub id: u64,
    /// What is asked.
    pub call: SharingCall,
    /// For how long its answer is awaited. After that the answer is `Unknown`.
    pub timeout: Duration,
}

/// What is asked of the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SharingCall {
    /// List all Leases of the group by a quorum read: without a resourceVersion.
    List,
    /// Create a Lease.
    Create(Record),
    /// Replace a Lease, with the uid and the resourceVersion as preconditions.
    Update(Record, LeaseVersion),
    /// Delete a member's Lease, with the uid and the resourceVersion as preconditions.
    Delete(MemberId, LeaseVersion),
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SharingAnswer {
    /// All Leases of the group, in one state of the server.
    Listed(Vec<StoredRecord>),
    /// Created or replaced; the Lease as it is stored now.
    Written(StoredRecord),
    /// Deleted.
    Deleted,
    /// 409 `Conflict`: a precondition does not hold. Nothing was done.
    Conflict,
    /// 404: there is no such object. Nothing was done.
    NotFound,
    /// 409 `AlreadyExists`. Nothing was done.
    AlreadyExists,
    /// Surely not done, and may be asked again: no connection, or refused with another 4xx (403,
    /// 429).
    Failed,
    /// Perhaps done, perhaps still to be done: no answer in time, the connection broke after
    /// sending, or a 5xx.
    Unknown,
}
