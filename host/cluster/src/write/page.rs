//! What requests for many objects have in common: the server answers page by page.

use serde::Deserialize;

/// How many objects one request lists or deletes.
pub(super) const PAGE: u32 = 500;

/// The metadata of a list.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ListMetadata {
    /// Where the next page begins. Empty: this is the last one.
    #[serde(rename = "continue")]
    pub next: String,
    /// The version of the whole list.
    #[serde(rename = "resourceVersion")]
    pub version: String,
}
