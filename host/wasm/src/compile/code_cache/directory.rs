//! The cache's directory. It belongs to this user alone and holds the secret. An entry in it is
//! either complete or absent.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const SECRET: &str = "secret";
/// Extension of a file that is being written. One that is older than [`ABANDONED`] was left behind
/// by a process that died.
const PARTIAL: &str = "partial";
const ABANDONED: Duration = Duration::from_secs(60);

/// Why there is no cache.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// An operation of the file system failed.
    #[error("code cache {path:?}: {cause}")]
    Io {
        /// The path it failed on.
        path: PathBuf,
        /// The error of the file system.
        cause: io::Error,
    },
    /// Somebody else could put code into the cache.
    #[error("code cache {path:?} {what}; it must be this user's alone (chmod go=)")]
    Exposed {
        /// The path that is exposed.
        path: PathBuf,
        /// How it is exposed.
        what: &'static str,
    },
    /// The secret's file does not have 32 bytes.
    #[error("code cache {0:?} is not a secret of this host's; remove the file")]
    Secret(PathBuf),
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> CacheError {
    let path = path.to_owned();
    move |cause| CacheError::Io { path, cause }
}

/// Creates the directory if it does not exist, and checks that it belongs to this user alone.
pub(super) fn make(directory: &Path) -> Result<(), CacheError> {
    let made = DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory);
    made.map_err(io_error(directory))?;
    check(directory, fs::Metadata::is_dir)
}

/// Checks that `path` belongs to this user alone. Symbolic links are not followed.
fn check(path: &Path, is_of_type: fn(&fs::Metadata) -> bool) -> Result<(), CacheError> {
    let found = path.symlink_metadata().map_err(io_error(path))?;
    let exposed = |what| {
        Err(CacheError::Exposed {
            path: path.to_owned(),
            what,
        })
    };
    if !is_of_type(&found) {
        return exposed("is a link or a special file");
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return exposed("belongs to another user");
    }
    if found.mode() & 0o077 != 0 {
        return exposed("can be read or written by others");
    }
    Ok(())
}

/// This host's secret. It is created once and never changed.
pub(super) fn secret(directory: &Path) -> Result<[u8; 32], CacheError> {
    let path = directory.join(SECRET);
    if !path.exists() {
        make_secret(directory, &path).map_err(io_error(&path))?;
    }
    check(&path, fs::Metadata::is_file)?;
    let bytes = fs::read(&path).map_err(io_error(&path))?;
    bytes.try_into().map_err(|_| CacheError::Secret(path))
}

/// Several processes may do this at the same time. The first that links its file wins, and all of
/// them read that file.
fn make_secret(directory: &Path, path: &Path) -> io::Result<()> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(io::Error::other)?;
    let partial = write_partial(directory, &[&secret])?;
    let linked = fs::hard_link(&partial, path);
    fs::remove_file(&partial)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Writes a new file that only this user can read, and syncs it to disk.
fn write_partial(directory: &Path, parts: &[&[u8]]) -> io::Result<PathBuf> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let number = u64::from_ne_bytes(random);
    let path = directory.join(format!("{number:016x}.{PARTIAL}"));
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    let written = parts.iter().try_for_each(|part| file.write_all(part));
    if let Err(error) = written.and_then(|()| file.sync_all()) {
        fs::remove_file(&path)?;
        return Err(error);
    }
    Ok(path)
}

/// Stores a file atomically: it appears complete or not at all.
pub(super) fn store(directory: &Path, name: &str, parts: &[&[u8]]) -> io::Result<()> {
    let partial = write_partial(directory, parts)?;
    fs::rename(partial, directory.join(name))
}

/// Marks an entry as used just now. If that fails, the entry is merely evicted earlier than it
/// should be.
pub(super) fn touch(path: &Path) {
    let touched = File::open(path).and_then(|file| file.set_modified(SystemTime::now()));
    if let Err(error) = touched {
        tracing::debug!(path = %path.display(), %error, "cannot touch cached code");
    }
}

/// An entry, in the order in which entries are evicted.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stored {
    used: SystemTime,
    path: PathBuf,
    bytes: u64,
}

/// Removes files that were left half-written, then the least recently used entries until at most
/// `max_bytes` are left. Returns the number of entries removed.
pub(super) fn evict(directory: &Path, max_bytes: u64) -> io::Result<u64> {
    make_room(tidy(directory)?, max_bytes)
}

/// Removes files that were left half-written. Returns the entries.
pub(super) fn tidy(directory: &Path) -> io::Result<Vec<Stored>> {
    let mut entries = Vec::new();
    for file in fs::read_dir(directory)? {
        let file = file?;
        let Ok(metadata) = file.metadata() else {
            continue;
        };
        let (path, used) = (file.path(), metadata.modified()?);
        let is_called = |extension| path.extension().is_some_and(|found| found == extension);
        if is_called("code") {
            let bytes = metadata.len();
            entries.push(Stored { used, path, bytes });
        } else if is_called(PARTIAL) && used.elapsed().is_ok_and(|age| age > ABANDONED) {
            remove(&path)?;
        }
    }
    Ok(entries)
}

/// Removes the least recently used of these entries until at most `max_bytes` are left. Returns the
/// number of entries removed.
pub(super) fn make_room(mut entries: Vec<Stored>, max_bytes: u64) -> io::Result<u64> {
    entries.sort();
    let mut total: u64 = entries.iter().map(|entry| entry.bytes).sum();
    let mut removed = 0;
    for Stored { path, bytes, .. } in entries {
        if total <= max_bytes {
            break;
        }
        removed += u64::from(remove(&path)?);
        total -= bytes;
    }
    Ok(removed)
}

/// Removes a file. Returns whether there was one: another process that makes room in the same
/// directory may have been first.
fn remove(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        removed => removed.map(|()| true),
    }
}
