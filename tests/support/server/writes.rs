//! What the server in `tests/apiserver` writes down about each change.

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Deserializer};

/// A request that may have changed something, and its answer.
#[derive(Clone, Debug, Deserialize)]
pub struct ServerWrite {
    pub user: String,
    /// `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// Such as `pods`.
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    /// The HTTP status of the answer.
    pub code: u16,
    /// The version that the change has made, or that of before if there was nothing to change.
    /// `None` for a deletion that was answered without the object, and for what was refused.
    #[serde(deserialize_with = "version")]
    pub version: Option<u64>,
    pub uid: String,
    /// The holder of a Lease.
    pub holder: String,
    /// When it reached the server.
    pub began: Timestamp,
    pub ended: Timestamp,
}

impl ServerWrite {
    /// Whether the server has carried it out.
    pub fn is_done(&self) -> bool {
        (200..300).contains(&self.code)
    }
}

/// Zero stands for none, and so does a text that is no number.
fn version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let text = String::deserialize(deserializer)?;
    Ok(text.parse().ok().filter(|version| *version > 0))
}
