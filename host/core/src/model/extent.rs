//! How much an informer brings.

use std::fmt;

use super::detail::Detail;
use super::namespaces::Namespaces;

/// How much of an informer's objects is fetched and kept: the most that any of its plugins needs.
///
/// It is not part of the informer's identity: it changes while plugins, and shards of theirs, come
/// and go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Extent {
    /// How much of each object.
    pub detail: Detail,
    /// The objects of which namespaces.
    pub namespaces: Namespaces,
}

impl Extent {
    /// Whether who has this much has the other, too. Of no namespace everybody has everything.
    pub fn covers(self, other: Self) -> bool {
        let has_detail = self.detail >= other.detail || other.namespaces.is_none();
        has_detail && self.namespaces.covers(other.namespaces)
    }
}

/// Every object.
impl From<Detail> for Extent {
    fn from(detail: Detail) -> Self {
        let namespaces = Namespaces::ALL;
        Self { detail, namespaces }
    }
}

/// `Full`, or `Full, 16 of 64 of the namespaces`.
impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.detail)?;
        match self.namespaces {
            Namespaces::ALL => Ok(()),
            some => write!(f, ", {some} of the namespaces"),
        }
    }
}
