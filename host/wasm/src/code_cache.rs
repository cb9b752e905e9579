//! Native code on disk, so that a plugin is compiled once. Whoever can write an entry could run code as the host, so an entry counts
//! only with an authentication code (HMAC-SHA256) that nobody can make who has not read this host's secret. What has none, or another's,
//! is removed and compiled again.

mod directory;
mod entry;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, io};

pub use directory::CacheError;
pub(crate) use entry::{EntryKey, hex};

use crate::native::NativeCode;
use crate::secret::Secret;

/// A directory with native code, for one user.
#[derive(Clone)]
pub struct CodeCache {
    directory: PathBuf,
    secret: Arc<[u8; 32]>,
    max_bytes: u64,
    counts: Arc<Counts>,
}

/// Without the secret.
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

/// What a cache did since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Entries that were used.
    pub hits: u64,
    /// Times there was none.
    pub misses: u64,
    /// Entries that were not this host's, or not what it had stored, and were removed.
    pub refused: u64,
    /// Entries that were removed to make room.
    pub evicted: u64,
}

impl CodeCache {
    /// Room for the code of some hundred plugins, or a dozen of Python's.
    pub const DEFAULT_BYTES: u64 = 1 << 30;

    /// Opens the cache in `directory`, which is made if it is not there. With more than `max_bytes` in it, what has not been used for
    /// the longest time goes.
    ///
    /// # Errors
    /// The directory, or the secret in it, is another user's, or others may read or write it; or neither can be made. The host can
    /// go on without a cache.
    pub fn open(directory: &Path, max_bytes: u64) -> Result<Self, CacheError> {
        directory::make(directory)?;
        Ok(Self {
            secret: Arc::new(directory::secret(directory)?),
            directory: directory.to_owned(),
            max_bytes,
            counts: Arc::default(),
        })
    }

    /// What it did so far.
    pub fn stats(&self) -> CacheStats {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        CacheStats {
            hits: read(&self.counts.hits),
            misses: read(&self.counts.misses),
            refused: read(&self.counts.refused),
            evicted: read(&self.counts.evicted),
        }
    }

    /// A secret of this host's that is the same when it starts again.
    pub(crate) fn random_secret(&self) -> Secret {
        Secret::of_host(&self.secret)
    }

    /// The code stored under this key, if it is this host's own.
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

    /// Removes an entry that is not to be used.
    pub(crate) fn refuse(&self, key: &EntryKey, reason: &str) {
        count(&self.counts.refused);
        let file = self.directory.join(key.file_name());
        let removed = fs::remove_file(&file);
        tracing::warn!(file = %file.display(), reason, is_removed = removed.is_ok(), "cached code is not this host's; compiling again");
    }

    /// Stores code. What goes wrong is logged: the plugin runs all the same.
    pub(crate) fn put(&self, key: &EntryKey, code: &NativeCode) {
        let tag = entry::tag(key, &self.secret, code.bytes());
        let stored = directory::store(&self.directory, &key.file_name(), &[&tag, code.bytes()])
            .and_then(|()| directory::evict(&self.directory, self.max_bytes));
        match stored {
            Ok(evicted) => {
                self.counts.evicted.fetch_add(evicted, Ordering::Relaxed);
            }
            Err(error) => self.cannot_store(&error),
        }
    }

    fn cannot_store(&self, error: &io::Error) {
        tracing::warn!(directory = %self.directory.display(), %error, "compiled code cannot be cached");
    }
}

fn count(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
#[path = "code_cache_tests.rs"]
mod tests;
