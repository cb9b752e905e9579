//! What the Leases of a group of hosts say.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::model::division::Division;
use crate::model::key::ResourceVersion;

/// A member: one host, from the creation of its Lease until that Lease is gone. A host that joins
/// again is another member.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub(super) Arc<str>);

impl MemberId {
    /// The member of this name.
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// Its name, which ends the name of its Lease.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One part of a plugin's keys.
///
/// Shards of one plugin under different divisions overlap. That no key of theirs has two owners is
/// the assignment's rule: it holds shards of one division alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard {
    /// The plugin's name.
    pub plugin: Arc<str>,
    /// How the plugin's keys are divided.
    pub of: Division,
    /// Which of them, from 0.
    pub index: u32,
}

impl Shard {
    /// A shard.
    pub fn new(plugin: &str, index: u32, of: Division) -> Self {
        Self {
            plugin: plugin.into(),
            of,
            index,
        }
    }
}

/// As the assignment names it: `cronjob/0-of-1`, `job/3-of-8-by-namespace`.
impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}-of-{}", self.plugin, self.index, self.of)
    }
}

/// A text that is no shard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no shard: PLUGIN/INDEX-of-DIVISION is expected")]
pub struct NotAShard(String);

impl FromStr for Shard {
    type Err = NotAShard;

    fn from_str(text: &str) -> Result<Self, NotAShard> {
        let parse = || {
            let (plugin, part) = text.rsplit_once('/')?;
            let (index, of) = part.split_once("-of-")?;
            let shard = Self::new(plugin, index.parse().ok()?, of.parse().ok()?);
            // Other spellings of the numbers would be the same shard twice.
            (shard.of.all().contains(&shard.index) && shard.to_string() == text).then_some(shard)
        };
        parse().ok_or_else(|| NotAShard(text.to_owned()))
    }
}

/// The plugins that a host has, and how the keys of each are divided.
pub type Offer = BTreeMap<Arc<str>, Division>;

/// Who owns which shard. A shard that nobody owns is not in it.
pub type Owners = BTreeMap<Shard, MemberId>;

/// What a member's own Lease says. Only the member writes it; others may delete it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberRecord {
    /// The member.
    pub id: MemberId,
    /// What it can run.
    pub offer: Arc<Offer>,
    /// It gives everything away, and takes nothing.
    pub leaving: bool,
    /// For how long after its last change the Lease counts.
    pub lease_duration: Duration,
    /// How often the Lease was written. The API server drops an update that changes nothing, and
    /// keeps the resourceVersion; this number makes every renewal a change.
    pub writes: u64,
}

/// What the one Lease says that holds who owns what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AssignmentRecord {
    /// Who owns what.
    pub owners: Owners,
    /// How often the Lease was written, which makes every update a change: an update whose outcome
    /// is unknown is voided by any other.
    pub writes: u64,
}

/// What one of the group's Leases says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A member's own Lease.
    Member(Arc<MemberRecord>),
    /// The assignment.
    Assignment(Arc<AssignmentRecord>),
}

/// Which state of which object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseVersion {
    /// The object's uid.
    pub uid: Arc<str>,
    /// Its resourceVersion.
    pub resource_version: ResourceVersion,
}

/// A Lease as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    /// Its state.
    pub version: LeaseVersion,
    /// What it says.
    pub record: Record,
}
