//! What has been accepted of plugins. It is kept across restarts in a directory of the host's user,
//! for each plugin name and for each file name.
//!
//! Both are needed, because a stranger can choose either alone: the plugin's name is in the file,
//! and a file can be copied under another name. Acceptance outlives the plugin's file. Besides what
//! the accepted versions asked for, their digests are kept, so that a host that reads more or less
//! out of a manifest than this one still accepts the same file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use pilothouse_core::Wants;
use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::Asked;
use crate::access::Access;
use crate::output;

/// The most digests of one plugin; the oldest are forgotten.
const DIGESTS: usize = 100;

/// The largest file with accepted requests. A manifest has at most 256 KiB, and several may have
/// been accepted together.
const BYTES: u64 = 16 << 20;

/// What has been accepted for one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Record {
    /// SHA-256 of files, the newest last.
    digests: Vec<String>,
    wants: Wants,
}

/// A record as it is read from a file. A host of another version may have written it, with `wants`
/// that this one does not understand.
#[derive(Deserialize)]
struct Kept {
    #[serde(default)]
    digests: Vec<String>,
    #[serde(default)]
    wants: serde_json::Value,
}

/// How a version compares with what was accepted before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing has been accepted for these names yet.
    First,
    Accepted,
    /// It asks for this in addition.
    More(Vec<String>),
    /// The record cannot be read.
    Unreadable(String),
}

/// What has been accepted.
#[derive(Debug)]
pub struct AcceptedStore {
    /// `None`: kept in memory only.
    directory: Option<PathBuf>,
    /// What could not be written, or is kept in memory only.
    unwritten: BTreeMap<String, Record>,
    /// Whether it was logged that the directory cannot be used.
    has_warned: bool,
}

/// `$XDG_STATE_HOME/pilothouse` or `~/.local/state/pilothouse`. `None` without a home directory.
pub fn usual_directory() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").filter(|path| !path.is_empty());
    let home = || std::env::home_dir().map(|home| home.join(".local/state"));
    let state = state.map(PathBuf::from).or_else(home)?;
    Some(state.join("pilothouse"))
}

impl AcceptedStore {
    /// Keeps records below the state directory. `None`: in memory, until the process ends.
    pub fn new(state: Option<&Path>) -> Self {
        Self {
            directory: state.map(|state| state.join("accepted")),
            unwritten: BTreeMap::new(),
            has_warned: false,
        }
    }

    /// Compares a version that asks for this with what was accepted.
    pub fn judge(&self, asked: Asked<'_>, wants: &Wants) -> Verdict {
        let mut more = BTreeSet::new();
        let mut is_first = true;
        for key in keys(asked) {
            match self.read(&key) {
                Err(error) => return Verdict::Unreadable(output::chain(&error)),
                Ok(None) => {}
                Ok(Some(record)) => {
                    is_first = false;
                    if !record.digests.iter().any(|known| known == asked.digest) {
                        more.extend(wants.beyond(&record.wants));
                    }
                }
            }
        }
        match more.is_empty() {
            _ if is_first => Verdict::First,
            true => Verdict::Accepted,
            false => Verdict::More(more.into_iter().collect()),
        }
    }

    /// Accepts this file, whatever a host reads out of it, and other versions that ask for no more
    /// than `wants`.
    pub fn accept(&mut self, asked: Asked<'_>, wants: &Wants) {
        for key in keys(asked) {
            let known = self.read(&key).ok().flatten();
            let mut record = known.clone().unwrap_or_default();
            if !record.digests.iter().any(|known| known == asked.digest) {
                record.digests.push(asked.digest.to_owned());
            }
            let old = record.digests.len().saturating_sub(DIGESTS);
            record.digests.drain(..old);
            if !wants.beyond(&record.wants).is_empty() {
                record.wants.join(wants);
            }
            if known.as_ref() != Some(&record) {
                self.keep(key, record);
            }
        }
    }

    fn keep(&mut self, key: String, record: Record) {
        let Some(directory) = &self.directory else {
            self.unwritten.insert(key, record);
            return;
        };
        match write(directory, &key, &record) {
            Ok(()) => {
                self.unwritten.remove(&key);
            }
            Err(error) => {
                if !std::mem::replace(&mut self.has_warned, true) {
                    let reason = output::chain(&error);
                    warn!(
                        reason,
                        "what plugins are accepted with is lost when the host ends; give --state-dir a directory that the host can write to"
                    );
                }
                self.unwritten.insert(key, record);
            }
        }
    }

    fn read(&self, key: &str) -> anyhow::Result<Option<Record>> {
        if let Some(record) = self.unwritten.get(key) {
            return Ok(Some(record.clone()));
        }
        let Some(directory) = &self.directory else {
            return Ok(None);
        };
        if !is_there(directory)? {
            return Ok(None);
        }
        read(&directory.join(key))
    }
}

/// The file names of a version's records.
fn keys(asked: Asked<'_>) -> [String; 2] {
    let file = asked.file.strip_suffix(".wasm").unwrap_or(asked.file);
    [
        format!("plugin-{}.json", asked.name),
        format!("file-{file}.json"),
    ]
}

/// Returns whether the directory exists. An error if other users could write to it: then its
/// contents are not trusted.
fn is_there(directory: &Path) -> anyhow::Result<bool> {
    let shown = directory.display();
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = match openat(CWD, directory, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(false),
        opened => opened.with_context(|| format!("cannot read {shown}"))?,
    };
    match Access::of(&fstat(&opened)?).fault() {
        Some(fault) => bail!("{shown}: {fault}"),
        None => Ok(true),
    }
}

fn read(path: &Path) -> anyhow::Result<Option<Record>> {
    let shown = path.display();
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(BYTES).read_to_string(&mut text));
    match read {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        read => read.with_context(|| format!("cannot read {shown}"))?,
    };
    let kept: Kept = serde_json::from_str(&text)
        .with_context(|| format!("{shown} is damaged; restore it, or remove it"))?;
    Ok(Some(Record {
        digests: kept.digests,
        // If they cannot be read, the digests in the record stay valid.
        wants: serde_json::from_value(kept.wants).unwrap_or_default(),
    }))
}

/// Writes the file completely or not at all, also if another process writes it at the same time.
fn write(directory: &Path, key: &str, record: &Record) -> anyhow::Result<()> {
    let shown = directory.display();
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    let made = builder.create(directory);
    made.with_context(|| format!("cannot make {shown}"))?;
    is_there(directory)?;
    let number = RandomState::new().build_hasher().finish();
    let partial = directory.join(format!("{number:016x}.partial"));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&partial)
        .and_then(|mut file| {
            file.write_all(&serde_json::to_vec(record)?)?;
            file.sync_all()
        })
        .and_then(|()| std::fs::rename(&partial, directory.join(key)));
    written
        .inspect_err(|_| drop(std::fs::remove_file(&partial)))
        .with_context(|| format!("cannot write {shown}/{key}"))
}

#[cfg(test)]
mod tests;
