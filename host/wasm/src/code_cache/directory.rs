//! The cache's directory: nobody else's, with a secret in it, and entries that are there whole or not at all.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const SECRET: &str = "secret";
/// Files being written are called so; one that is older than a minute was left behind.
const PARTIAL: &str = "partial";
const ABANDONED: Duration = Duration::from_secs(60);

/// Why there is no cache.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The file system says no.
    #[error("code cache {path:?}: {cause}")]
    Io {
        /// Of what.
        path: PathBuf,
        /// What it says.
        cause: io::Error,
    },
    /// Somebody else could put code into it.
    #[error("code cache {path:?} {what}; it must be this user's alone (chmod go=)")]
    Exposed {
        /// Of what.
        path: PathBuf,
        /// In which way.
        what: &'static str,
    },
    /// Not 32 bytes.
    #[error("code cache {0:?} is not a secret of this host's; remove the file")]
    Secret(PathBuf),
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> CacheError {
    let path = path.to_owned();
    move |cause| CacheError::Io { path, cause }
}

/// Makes the directory if it is not there, and looks whether it is fit.
pub(super) fn make(directory: &Path) -> Result<(), CacheError> {
    let made = DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory);
    made.map_err(io_error(directory))?;
    check(directory, fs::Metadata::is_dir)
}

/// Whether what is there belongs to this user alone. Links are not followed.
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

/// This host's secret: made the first time, and never changed.
pub(super) fn secret(directory: &Path) -> Result<[u8; 32], CacheError> {
    let path = directory.join(SECRET);
    if !path.exists() {
        make_secret(directory, &path).map_err(io_error(&path))?;
    }
    check(&path, fs::Metadata::is_file)?;
    let bytes = fs::read(&path).map_err(io_error(&path))?;
    bytes.try_into().map_err(|_| CacheError::Secret(path))
}

/// Another process may be doing the same: whoever links first has made it, and everybody reads that one.
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

/// A new file that only this user can read, on disk.
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

/// Stores a file: as a whole, or not.
pub(super) fn store(directory: &Path, name: &str, parts: &[&[u8]]) -> io::Result<()> {
    let partial = write_partial(directory, parts)?;
    fs::rename(partial, directory.join(name))
}

/// Says that an entry has been used. Without that it only goes earlier than it should.
pub(super) fn touch(path: &Path) {
    let touched = File::open(path).and_then(|file| file.set_modified(SystemTime::now()));
    if let Err(error) = touched {
        tracing::debug!(path = %path.display(), %error, "cannot touch cached code");
    }
}

/// Removes what was left behind half-written, and the entries that have not been used for the longest time, until at most `max_bytes` are
/// left. Says how many entries.
pub(super) fn evict(directory: &Path, max_bytes: u64) -> io::Result<u64> {
    let (mut entries, mut total) = (Vec::new(), 0);
    for file in fs::read_dir(directory)? {
        let file = file?;
        let Ok(metadata) = file.metadata() else {
            continue;
        };
        let (path, used) = (file.path(), metadata.modified()?);
        let is_called = |extension| path.extension().is_some_and(|found| found == extension);
        if is_called("code") {
            total += metadata.len();
            entries.push((used, metadata.len(), path));
        } else if is_called(PARTIAL) && used.elapsed().is_ok_and(|age| age > ABANDONED) {
            fs::remove_file(path)?;
        }
    }
    entries.sort();
    let mut removed = 0;
    for (_, size, path) in entries {
        if total <= max_bytes {
            break;
        }
        fs::remove_file(path)?;
        (total, removed) = (total - size, removed + 1);
    }
    Ok(removed)
}
