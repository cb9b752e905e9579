//! The limit on the native code of all plugins together. It stays in memory for as long as a
//! version may run, and the plugin files determine its size.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use pilothouse_core::Digest;

use crate::settings::size;

/// How many versions that found no room are remembered. Few directories have more files than this;
/// further versions are compiled again before they are refused.
const REMEMBERED: usize = 1_000;

/// See the module's documentation. Clones share the same room.
#[derive(Clone, Debug)]
pub struct CodeRoom {
    limit: usize,
    used: Arc<Mutex<Used>>,
}

#[derive(Debug, Default)]
struct Used {
    bytes: usize,
    /// The size of each version that found no room, so that it is not compiled again just to be
    /// refused.
    refused: HashMap<Digest, usize>,
}

/// Room for one version's native code. It is given back on drop.
#[derive(Debug)]
pub struct ReservedRoom {
    bytes: usize,
    used: Arc<Mutex<Used>>,
}

impl Drop for ReservedRoom {
    fn drop(&mut self) {
        lock(&self.used).bytes -= self.bytes;
    }
}

impl CodeRoom {
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            used: Arc::default(),
        }
    }

    /// Takes room for a version's native code. The error is the reason why there is not enough.
    pub fn take(&self, digest: &Digest, bytes: usize) -> Result<ReservedRoom, String> {
        let mut used = lock(&self.used);
        used.refused.remove(digest);
        if used.bytes.saturating_add(bytes) > self.limit {
            if used.refused.len() < REMEMBERED {
                used.refused.insert(digest.clone(), bytes);
            }
            return Err(self.refusal(&used, bytes));
        }
        used.bytes += bytes;
        let used = self.used.clone();
        Ok(ReservedRoom { bytes, used })
    }

    /// Why there is still no room for a version that was refused before. `None` if there is room
    /// now, or if it was never refused.
    pub fn lack(&self, digest: &Digest) -> Option<String> {
        let used = lock(&self.used);
        let bytes = *used.refused.get(digest)?;
        let is_lacking = used.bytes.saturating_add(bytes) > self.limit;
        is_lacking.then(|| self.refusal(&used, bytes))
    }

    fn refusal(&self, used: &Used, bytes: usize) -> String {
        let (bytes, have, limit) = (size(bytes), size(used.bytes), size(self.limit));
        format!(
            "its native code takes {bytes}; that of the others takes {have}, and --code-limit allows {limit}"
        )
    }
}

fn lock(used: &Mutex<Used>) -> MutexGuard<'_, Used> {
    used.lock()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_again_when_a_version_has_gone() {
        let room = CodeRoom::new(100);
        let (first, second): (Digest, Digest) = ("first".into(), "second".into());
        let taken = room.take(&first, 60).unwrap();
        assert_eq!(room.lack(&second), None, "nobody has tried");
        let reason = room.take(&second, 41).unwrap_err();
        assert!(reason.contains("--code-limit allows"), "{reason}");
        assert_eq!(room.lack(&second), Some(reason));
        drop(taken);
        assert_eq!(room.lack(&second), None);
        let _taken = room.take(&second, 41).unwrap();
        assert!(room.take(&first, 60).is_err());
    }

    #[test]
    fn nothing_is_remembered_of_more_versions_than_a_directory_has() {
        let room = CodeRoom::new(0);
        for number in 0..2 * REMEMBERED {
            let digest: Digest = number.to_string().into();
            assert!(room.take(&digest, 1).is_err());
        }
        assert_eq!(lock(&room.used).refused.len(), REMEMBERED);
    }
}
