//! What has been accepted of plugins, kept in a directory of the host's user across restarts: for
//! each plugin's name, and for each file's.
//!
//! For both, because either alone is a stranger's to choose: the name is in the file, and a file
//! may come under another one. What is accepted outlives the plugin's file. The digests of what was
//! accepted are kept beside what it asked for, so that the same file is accepted by a host that
//! reads more or less out of a manifest than this one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use pilothouse_core::wants::Wants;
use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::Asked;
use crate::access::Access;
use crate::output;

/// Most digests of one plugin; the oldest are forgotten.
const DIGESTS: usize = 100;

/// The largest file of what was accepted: a manifest has 256 KiB, and some of them may have been
/// accepted together.
const BYTES: u64 = 16 << 20;

/// What has been accepted for one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Record {
    /// Of files, the newest last.
    digests: Vec<String>,
    wants: Wants,
}

/// A record as a file has it. A host of another version may have written what this one does not
/// understand.
#[derive(Deserialize)]
struct Kept {
    #[serde(default)]
    digests: Vec<String>,
    #[serde(default)]
    wants: serde_json::Value,
}

/// How a version stands to what was accepted before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nobody has ever been accepted here.
    First,
    Accepted,
    /// It asks for this, too.
    More(Vec<String>),
    /// Nobody knows.
    Unreadable(String),
}

/// What has been accepted.
#[derive(Debug)]
pub struct Accepted {
    /// None: it is forgotten when the host ends.
    directory: Option<PathBuf>,
    /// What could not be written, or has no place to be.
    unwritten: BTreeMap<String, Record>,
    /// Whether it has been said that the directory cannot be used.
    has_warned: bool,
}

/// `$XDG_STATE_HOME/pilothouse`, `~/.local/state/pilothouse`; none without a home.
pub fn usual_directory() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").filter(|path| !path.is_empty());
    let home = || std::env::home_dir().map(|home| home.join(".local/state"));
    let state = state.map(PathBuf::from).or_else(home)?;
    Some(state.join("pilothouse"))
}

impl Accepted {
    /// In the host's directory for what it has to remember; none: for as long as the process lives.
    pub fn new(state: Option<&Path>) -> Self {
        Self {
            directory: state.map(|state| state.join("accepted")),
            unwritten: BTreeMap::new(),
            has_warned: false,
        }
    }

    /// How a version that asks for this stands to what was accepted.
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

    /// From now on a version that asks for no more is accepted, and this file whatever it is taken
    /// to ask for.
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
                        "what plugins are accepted with is forgotten when the host ends; --state-dir names a directory that it may write to"
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

/// The names of the files that are about a version.
fn keys(asked: Asked<'_>) -> [String; 2] {
    let file = asked.file.strip_suffix(".wasm").unwrap_or(asked.file);
    [
        format!("plugin-{}.json", asked.name),
        format!("file-{file}.json"),
    ]
}

/// Whether there is such a directory. What others could write to is not believed.
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
        // Then what it says of digests holds all the same.
        wants: serde_json::from_value(kept.wants).unwrap_or_default(),
    }))
}

/// As a whole or not at all, whoever else writes it.
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
#[path = "accepted_tests.rs"]
mod tests;
