//! Native code on disk, so that a plugin is compiled only once.
//!
//! Anyone who can write an entry could run code as the host. Therefore an entry counts only if it
//! carries an authentication code (HMAC-SHA256), which cannot be made without this host's secret.
//! An entry without one, or with another host's, is removed, and its plugin is compiled again.

mod directory;
mod entry;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use directory::CacheError;
pub(crate) use entry::EntryKey;

use crate::compile::native::NativeCode;
use crate::secret::Secret;

/// A directory of native code that belongs to one user.
#[derive(Clone)]
pub struct CodeCache {
    directory: PathBuf,
    secret: Arc<[u8; 32]>,
    max_bytes: u64,
    counts: Arc<Counts>,
}

/// Leaves out the secret.
impl std::fmt::Debug for CodeCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CodeCache")
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Counts {
    hits: AtomicU64,
    misses: AtomicU64,
    refused: AtomicU64,
    evicted: AtomicU64,
}

/// What a cache has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Lookups that found an authentic entry.
    pub hits: u64,
    /// Lookups that found no entry.
    pub misses: u64,
    /// Entries that were removed because this host had not written them, because they had been
    /// changed since, or because wasmtime did not load them.
    pub refused: u64,
    /// Entries that were removed to make room.
    pub evicted: u64,
}

impl CodeCache {
    /// Room for the code of several hundred small plugins, or of a dozen in Python.
    pub const DEFAULT_BYTES: u64 = 1 << 30;

    /// Opens the cache in `directory` and creates the directory if it does not exist. Whenever an
    /// entry is stored and the cache holds more than `max_bytes`, the least recently used entries
    /// are removed.
    ///
    /// # Errors
    /// The directory or the secret in it belongs to another user, or others may read or write it,
    /// or it cannot be created. The host can run without a cache.
    pub fn open(directory: &Path, max_bytes: u64) -> Result<Self, CacheError> {
        directory::make(directory)?;
        Ok(Self {
            secret: Arc::new(directory::secret(directory)?),
            directory: directory.to_owned(),
            max_bytes,
            counts: Arc::default(),
        })
    }

    /// What the cache has done since it was opened.
    pub fn stats(&self) -> CacheStats {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        CacheStats {
            hits: read(&self.counts.hits),
            misses: read(&self.counts.misses),
            refused: read(&self.counts.refused),
            evicted: read(&self.counts.evicted),
        }
    }

    /// The secret that guests' random numbers derive from. It survives a restart of the host.
    pub(crate) fn random_secret(&self) -> Secret {
        Secret::of_host(&self.secret)
    }

    /// The code stored under this key, if this host wrote it.
    pub(crate) fn get(&self, key: &EntryKey) -> Option<NativeCode> {
        let found = entry::read(&self.directory.join(key.file_name())).transpose();
        let Some(found) = found else {
            count(&self.counts.misses);
            return None;
        };
        match found.and_then(|entry| entry::open(key, &self.secret, entry)) {
            Ok(code) => {
                count(&self.counts.hits);
                directory::touch(&self.directory.join(key.file_name()));
                Some(code)
            }
            Err(reason) => {
                self.refuse(key, &reason.to_string());
                None
            }
        }
    }

    /// Removes an entry that must not be used.
    pub(crate) fn refuse(&self, key: &EntryKey, reason: &str) {
        count(&self.counts.refused);
        let file = self.directory.join(key.file_name());
        let removed = fs::remove_file(&file);
        tracing::warn!(file = %file.display(), reason, is_removed = removed.is_ok(), "cached code is not this host's; compiling again");
    }

    /// Stores code. A failure is only logged, as the plugin runs without the cache, too.
    pub(crate) fn put(&self, key: &EntryKey, code: &NativeCode) {
        let tag = entry::tag(key, &self.secret, code.bytes());
        let path = &self.directory;
        let directory = path.display();
        let stored = directory::store(path, &key.file_name(), &[&tag, code.bytes()]);
        if let Err(error) = stored {
            tracing::warn!(%directory, %error, "compiled code cannot be cached");
            return;
        }
        match directory::evict(path, self.max_bytes) {
            Ok(evicted) => {
                self.counts.evicted.fetch_add(evicted, Ordering::Relaxed);
            }
            Err(error) => {
                tracing::warn!(%directory, %error, "old compiled code cannot be removed");
            }
        }
    }
}

fn count(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests;
