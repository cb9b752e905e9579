//! The Unix socket where a host takes commands. Only the host's user may use it. A TCP address
//! would prove nothing about the client: a mesh's proxy, every process of the machine and, through
//! a browser, every web page connect from the same one.

use std::fs::{DirBuilder, Metadata, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use rustix::process::geteuid;
use rustix::system::uname;
use tokio::net::UnixListener;

/// The path in the environment variable, which is used without a flag. In a pod it applies to all
/// commands.
pub fn of_environment() -> Option<PathBuf> {
    variable("PILOTHOUSE_COMMAND_SOCKET")
}

fn variable(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os(name).filter(|path| !path.is_empty());
    path.map(PathBuf::from)
}

/// The possible paths of the socket of a host that listens at this port, the most likely first:
/// below the user's runtime directory (which lives as long as a login), the cache directory, and
/// the temporary directory. The machine's name is part of the file name, because machines may share
/// a home directory.
pub fn usual_places(port: u16) -> Vec<PathBuf> {
    let cache = || std::env::home_dir().map(|home| home.join(".cache"));
    let directories = [
        variable("XDG_RUNTIME_DIR").map(|path| path.join("pilothouse")),
        variable("XDG_CACHE_HOME")
            .or_else(cache)
            .map(|path| path.join("pilothouse/run")),
        Some(std::env::temp_dir().join(format!("pilothouse-{}", geteuid().as_raw()))),
    ];
    let machine = uname();
    let machine = machine.nodename().to_string_lossy();
    let file = format!("{machine}-{port}.sock");
    let directories = directories.into_iter().flatten();
    directories.map(|directory| directory.join(&file)).collect()
}

/// A socket that is removed when the host ends.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    /// Identifies the file: another host may have replaced it with its own.
    identity: [i128; 4],
}

impl Socket {
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let is_own = |found: Metadata| identity(&found) == self.identity;
        if std::fs::symlink_metadata(&self.path).is_ok_and(is_own) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Binds the first of these paths that can be used, in a directory that only this user can write
/// to.
pub fn bind_usual(places: &[PathBuf]) -> anyhow::Result<(UnixListener, Socket)> {
    let mut problem = anyhow::anyhow!("there is no place for a socket");
    for path in places {
        match private_directory(path).and_then(|()| bind(path)) {
            Ok(bound) => return Ok(bound),
            Err(error) => problem = error,
        }
    }
    Err(problem)
}

fn private_directory(path: &Path) -> anyhow::Result<()> {
    let directory = directory(path);
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    let shown = directory.display();
    builder
        .create(directory)
        .with_context(|| format!("cannot make {shown}"))?;
    let found = std::fs::symlink_metadata(directory)?;
    let is_own = found.is_dir() && found.uid() == geteuid().as_raw();
    ensure!(
        is_own && found.mode() & 0o022 == 0,
        "{shown} is another user's, or others may write to it"
    );
    Ok(())
}

fn is_socket(path: &Path) -> bool {
    let found = std::fs::symlink_metadata(path);
    found.is_ok_and(|found| found.file_type().is_socket())
}

/// Tells a file from a later one of the same name. The inode alone is not enough, because a free
/// number may be used again.
fn identity(file: &Metadata) -> [i128; 4] {
    let (inode, device) = (file.ino().into(), file.dev().into());
    [device, inode, file.ctime().into(), file.ctime_nsec().into()]
}

fn directory(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    parent.unwrap_or(Path::new("."))
}

/// Binds the socket. Replaces a socket file that a killed host has left behind.
pub fn bind(path: &Path) -> anyhow::Result<(UnixListener, Socket)> {
    let shown = path.display();
    match UnixStream::connect(path) {
        Ok(_) => bail!("another host takes commands at {shown}"),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused && is_socket(path) => {
            std::fs::remove_file(path)?;
        }
        Err(_) => {}
    }
    let listener = UnixListener::bind(path).with_context(|| format!("cannot listen at {shown}"))?;
    std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
    let found = std::fs::symlink_metadata(path)?;
    let socket = Socket {
        path: path.to_owned(),
        identity: identity(&found),
    };
    Ok((listener, socket))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().mode() & 0o777
    }

    #[tokio::test]
    async fn a_socket_is_its_users_alone_and_goes_with_its_host() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run/8080.sock");
        let (_listener, socket) = bind_usual(std::slice::from_ref(&path)).unwrap();
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        drop(socket);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_host_that_was_killed_keeps_no_other_from_taking_commands_and_one_that_runs_does() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("8080.sock");
        let (listener, socket) = bind(&path).unwrap();
        let error = bind(&path).unwrap_err().to_string();
        assert!(error.starts_with("another host"), "{error}");
        drop(listener);
        let (_next, next_socket) = bind(&path).unwrap();
        drop(socket);
        assert!(path.exists(), "it is its successor's by now");
        drop(next_socket);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn what_is_no_socket_is_not_taken_away() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notes");
        std::fs::write(&path, "text").unwrap();
        assert!(bind(&path).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "text");
    }

    #[tokio::test]
    async fn where_one_place_is_not_to_be_had_the_next_is_taken() {
        let directory = tempfile::tempdir().unwrap();
        let open = directory.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        let places = [
            PathBuf::from("/proc/nowhere/8080.sock"),
            open.join("8080.sock"),
            directory.path().join("own/8080.sock"),
        ];
        let (_listener, socket) = bind_usual(&places).unwrap();
        assert_eq!(socket.path(), places[2]);
        let error = bind_usual(&places[..2]).unwrap_err();
        assert!(error.to_string().contains("others may write"), "{error}");
    }
}
