//! Digests by which what was made for a key is told from what was made for others.

use sha2::{Digest, Sha256};

use crate::model::subject_key::SubjectKey;
use crate::model::text::hex;

/// 64 hex digits that depend only on the plugin's name, the key and `parts`.
pub(super) fn digest(plugin: &str, key: &SubjectKey, parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    // The kind's version is left out. Otherwise names and children would change when a kind
    // graduates to a new version.
    let kind = key.kind.as_ref();
    let kind = kind.map(|kind| format!("{}/{}", kind.group, kind.kind));
    let kind = kind.unwrap_or_default();
    for part in [plugin, &kind, &key.object.namespace, &key.object.name]
        .iter()
        .chain(parts)
    {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hex(&hasher.finalize())
}
