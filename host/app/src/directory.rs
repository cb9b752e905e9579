//! The plugin directory: its files, and notice of changes to them.
//!
//! A file is opened once, and the checks apply to what was opened: it must be a regular file inside
//! the directory, owned by this user or root, and not writable by everybody. Symbolic links are
//! followed as long as they stay inside, so that the links that ConfigMap and Secret volumes swap
//! work.

mod strays;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use notify::event::{AccessKind, EventKind};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use pilothouse_core::{DEFAULTS_FILE, settings_file_of};
use rustix::fs::{
    CWD, FileType, Mode, OFlags, ResolveFlags, Stat, StatVfsMountFlags, fstat, fstatvfs, openat2,
};
use rustix::io::Errno;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::warn;

use crate::access::Access;
use crate::settings;
pub use strays::Stray;

/// The largest plugin. Those of componentize-py have 18 MB.
const WASM_BYTES: u64 = 64 << 20;

/// The largest settings file.
const SETTINGS_BYTES: u64 = 1 << 20;

/// The directory is read once nothing has changed for this long, because a file is written in many
/// steps.
const QUIET: Duration = Duration::from_millis(200);

/// The directory is read at the latest this long after a change, even if changes keep coming.
const NOT_LATER: Duration = Duration::from_secs(2);

/// How often the directory is read without a notification. Not every file system sends them.
const RESCAN: Duration = Duration::from_secs(10);

/// The warning about a file or directory that its group may write to.
pub const OPEN_TO_GROUP: &str = "its group may write to it, and so decide what runs as a controller; if it should not, chmod g-w";

/// Tells one state of a file from another without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    size: i64,
    modified: (i64, u64),
    changed: (i64, u64),
}

/// The files of one plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The `.wasm` file, or why it cannot be used.
    pub wasm: Result<Stamp, String>,
    /// The text of the `.toml` beside it, or why it cannot be read. `None` if there is no such
    /// file.
    pub settings: Option<Result<String, String>>,
}

/// The contents of the directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectoryListing {
    /// By file name, in the order of the names.
    pub plugins: BTreeMap<String, Found>,
    /// The text of the settings for all plugins.
    pub defaults: Option<Result<String, String>>,
    /// The files, plugins or settings, that their group may write to.
    pub open_to_group: BTreeSet<String>,
    /// The settings that are for no plugin.
    pub strays: BTreeSet<Stray>,
}

/// A directory of plugins.
#[derive(Clone, Debug)]
pub struct Directory {
    path: PathBuf,
    /// The only file that is a plugin of this host, if `--plugins` names a file.
    only: Option<String>,
}

impl Directory {
    /// Opens a directory, or one plugin's file in its directory. Refuses anything else, and a
    /// directory to which everybody may write.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let Some(name) = path.file_name().filter(|_| path.is_file()) else {
            return Self::open_directory(path, None);
        };
        let Some(name) = name.to_str().filter(|name| is_plugin(name)) else {
            bail!(
                "{} is no *.wasm file; --plugins names one, or a directory with some",
                path.display()
            );
        };
        let parent = path.parent().filter(|parent| *parent != Path::new(""));
        let parent = parent.unwrap_or(Path::new("."));
        Self::open_directory(parent, Some(name.to_owned()))
    }

    fn open_directory(path: &Path, only: Option<String>) -> anyhow::Result<Self> {
        let shown = path.display();
        let handle = openat2(
            CWD,
            path,
            OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::empty(),
        )
        .with_context(|| {
            format!("cannot read the plugin directory {shown}; --plugins names a directory with *.wasm files")
        })?;
        let stat = fstat(&handle).with_context(|| format!("cannot read {shown}"))?;
        let access = Access::of(&stat);
        if !is_mounted_read_only(&handle) {
            if let Some(fault) = access.fault() {
                bail!(
                    "the plugin directory {shown}, of which each file runs as a controller: {fault}"
                );
            }
            if access.is_open_to_group() {
                warn!(directory = %shown, "{OPEN_TO_GROUP}");
            }
        }
        Ok(Self {
            path: path.into(),
            only,
        })
    }

    /// The current contents.
    pub fn list(&self) -> anyhow::Result<DirectoryListing> {
        let shown = self.path.display();
        let entries = std::fs::read_dir(&self.path)
            .with_context(|| format!("cannot read the plugin directory {shown}"))?;
        let mut listing = DirectoryListing::default();
        listing.defaults = self.settings(DEFAULTS_FILE, &mut listing.open_to_group);
        let (mut wasms, mut tomls) = (BTreeSet::new(), BTreeSet::new());
        for entry in entries {
            let name = entry
                .with_context(|| format!("cannot read the plugin directory {shown}"))?
                .file_name();
            let Some(name) = name.to_str() else {
                continue;
            };
            if is_plugin(name) {
                wasms.insert(name.to_owned());
            } else if is_settings(name) {
                tomls.insert(name.to_owned());
            }
            if !self.is_plugin(name) {
                continue;
            }
            let found = self.found(name, &mut listing.open_to_group);
            listing.plugins.insert(name.to_owned(), found);
        }
        let strays = strays::strays(&wasms, &tomls).into_iter();
        listing.strays = strays.filter(|stray| self.is_told(stray)).collect();
        Ok(listing)
    }

    /// A plugin's file and its settings.
    fn found(&self, name: &str, open_to_group: &mut BTreeSet<String>) -> Found {
        let own = settings_file_of(name);
        if own == DEFAULTS_FILE {
            let reason = format!(
                "its settings would be {DEFAULTS_FILE}, which are for all plugins; rename it"
            );
            return Found {
                wasm: Err(reason),
                settings: None,
            };
        }
        let opened = self.open_file(name);
        Found {
            wasm: opened.map(|(_, stat)| {
                note_group(name, &stat, open_to_group);
                stamp(&stat)
            }),
            settings: self.settings(&own, open_to_group),
        }
    }

    /// Whether the operator may have meant a file to be settings of a plugin of this host. Other
    /// tools have their own `*.toml`.
    fn is_told(&self, stray: &Stray) -> bool {
        match &stray.meant {
            Some(wasm) => self.is_plugin(wasm),
            None if self.only.is_some() => false,
            None => {
                let text = self.settings(&stray.file, &mut BTreeSet::new());
                matches!(text, Some(Ok(text)) if settings::parse(&text).is_ok())
            }
        }
    }

    fn is_plugin(&self, name: &str) -> bool {
        is_plugin(name) && self.only.as_ref().is_none_or(|only| only == name)
    }

    /// The whole of a plugin's file.
    pub fn read(&self, name: &str) -> Result<Vec<u8>, String> {
        let (file, _) = self.open_file(name)?;
        read(file, WASM_BYTES)
    }

    fn settings(
        &self,
        name: &str,
        open_to_group: &mut BTreeSet<String>,
    ) -> Option<Result<String, String>> {
        // A missing file is the usual case, and not an error.
        std::fs::symlink_metadata(self.path.join(name)).ok()?;
        let bytes = self.open_file(name).and_then(|(file, stat)| {
            note_group(name, &stat, open_to_group);
            read(file, SETTINGS_BYTES)
        });
        Some(bytes.and_then(|bytes| {
            String::from_utf8(bytes).map_err(|_| "is not text (UTF-8)".to_owned())
        }))
    }

    fn open_file(&self, name: &str) -> Result<(File, Stat), String> {
        let directory = File::open(&self.path).map_err(|error| error.to_string())?;
        let opened = openat2(
            &directory,
            name,
            // Do not block on a pipe without a writer.
            OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS,
        );
        let opened = opened.map_err(|error| match error {
            Errno::XDEV => {
                "is a symbolic link out of the plugin directory; copy the file there".to_owned()
            }
            Errno::LOOP => "is a symbolic link that leads nowhere".to_owned(),
            error => format!("cannot be opened: {error}"),
        })?;
        let stat = fstat(&opened).map_err(|error| error.to_string())?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err("is not a regular file".to_owned());
        }
        match Access::of(&stat).fault() {
            Some(fault) => Err(fault),
            None => Ok((opened.into(), stat)),
        }
    }
}

/// Whether nobody can write here, whatever the directory's mode says. Kubelet makes the directories
/// of ConfigMaps and Secrets with mode 0777 and mounts them read-only; on the node, they lie in a
/// directory that is root's alone.
fn is_mounted_read_only(directory: &OwnedFd) -> bool {
    let found = fstatvfs(directory);
    found.is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// A file whose name begins with a dot is temporary: it will be renamed.
fn is_plugin(name: &str) -> bool {
    name.ends_with(".wasm") && !name.starts_with('.')
}

fn is_settings(name: &str) -> bool {
    name.ends_with(".toml") && !name.starts_with('.') && name != DEFAULTS_FILE
}

fn note_group(name: &str, stat: &Stat, open_to_group: &mut BTreeSet<String>) {
    if Access::of(stat).is_open_to_group() {
        open_to_group.insert(name.to_owned());
    }
}

fn stamp(stat: &Stat) -> Stamp {
    Stamp {
        device: stat.st_dev,
        inode: stat.st_ino,
        size: stat.st_size,
        modified: (stat.st_mtime, stat.st_mtime_nsec),
        changed: (stat.st_ctime, stat.st_ctime_nsec),
    }
}

/// The limit applies to what is read, because the file may have grown since it was opened.
fn read(file: File, limit: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    file.take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("cannot be read: {error}"))?;
    if bytes.len() as u64 > limit {
        return Err(format!("is larger than {limit} bytes"));
    }
    Ok(bytes)
}

/// Notices changes to a directory. A task of its own decides when the directory should be read, so
/// that nothing is lost if whoever waits for it is cancelled.
pub struct Changes {
    due: watch::Receiver<()>,
    /// The task. It ends when this is dropped.
    task: JoinSet<()>,
    /// The watch ends when this is dropped.
    _watcher: Option<RecommendedWatcher>,
}

impl Changes {
    pub fn of(directory: &Directory) -> Self {
        let heard = Arc::new(Notify::new());
        let hears = heard.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // Opening a file is no change, and the host itself opens all of them.
            let is_look =
                |event: &Event| matches!(event.kind, EventKind::Access(AccessKind::Open(_)));
            if !event.as_ref().is_ok_and(is_look) {
                hears.notify_one();
            }
        });
        let watcher = watcher.and_then(|mut watcher| {
            watcher.watch(&directory.path, RecursiveMode::NonRecursive)?;
            Ok(watcher)
        });
        let watcher = watcher.inspect_err(|error| {
            warn!(%error, "cannot watch the plugin directory; rescanning it every {RESCAN:?}");
        });
        Self {
            _watcher: watcher.ok(),
            ..Self::heard_by(heard)
        }
    }

    fn heard_by(heard: Arc<Notify>) -> Self {
        let (tell, due) = watch::channel(());
        let mut task = JoinSet::new();
        task.spawn(async move {
            loop {
                should_be_read(&heard).await;
                tell.send_replace(());
            }
        });
        Self {
            due,
            task,
            _watcher: None,
        }
    }

    /// Waits until the directory should be read again: once it is quiet after a change, and every
    /// ten seconds in any case. If this is cancelled, the next call returns what it would have.
    pub async fn next(&mut self) {
        if self.due.changed().await.is_err() {
            // The task never ends by itself. An error is a panic, which is passed on.
            if let Some(Err(panicked)) = self.task.join_next().await {
                std::panic::resume_unwind(panicked.into_panic());
            }
        }
    }
}

/// Waits until the directory should be read again. Not to be cancelled: a change that was heard
/// would be lost.
async fn should_be_read(heard: &Notify) {
    if timeout(RESCAN, heard.notified()).await.is_err() {
        return;
    }
    let quiet = async { while timeout(QUIET, heard.notified()).await.is_ok() {} };
    let _ = timeout(NOT_LATER, quiet).await;
}

#[cfg(test)]
mod tests;
