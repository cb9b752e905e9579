//! Where a host takes commands: a Unix socket of its user's alone. An address proves nothing of who asks: a
//! mesh's proxy, every process of the machine and, behind a browser, every page come from the same one.

use std::fs::{DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use tokio::net::UnixListener;

/// Of the host that listens at this port: below the user's directory for what lives as long as a login, or
/// else the one for caches.
pub fn usual_path(port: u16) -> Option<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty());
    let home = || std::env::home_dir().map(|home| home.join(".cache"));
    let directory = runtime.map(PathBuf::from).or_else(home)?;
    Some(
        directory
            .join("pilothouse")
            .join("run")
            .join(format!("{port}.sock")),
    )
}

/// A socket that is taken away when the host ends.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Takes the socket, in place of one that a host has left that was killed.
pub fn bind(path: &Path) -> anyhow::Result<(UnixListener, Socket)> {
    let shown = path.display();
    let directory = path.parent().context("it has no directory")?;
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder
        .create(directory)
        .with_context(|| format!("cannot make the directory of {shown}"))?;
    let found = std::fs::metadata(directory)?;
    ensure!(
        found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o022 == 0,
        "{} is another user's, or others may write to it",
        directory.display()
    );
    ensure!(
        UnixStream::connect(path).is_err(),
        "another host takes commands at {shown}"
    );
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path).with_context(|| format!("cannot listen at {shown}"))?;
    std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
    let path = path.to_owned();
    Ok((listener, Socket { path }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_is_its_users_alone_and_goes_with_its_host() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run/8080.sock");
        let (_listener, socket) = bind(&path).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        drop(socket);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_host_that_was_killed_keeps_no_other_from_taking_commands_and_one_that_runs_does() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("8080.sock");
        std::fs::set_permissions(directory.path(), Permissions::from_mode(0o700)).unwrap();
        let (listener, socket) = bind(&path).unwrap();
        let error = bind(&path).unwrap_err().to_string();
        assert!(error.starts_with("another host"), "{error}");
        drop(listener);
        std::mem::forget(socket);
        assert!(path.exists());
        bind(&path).unwrap();
    }

    #[tokio::test]
    async fn a_directory_that_others_may_write_to_is_no_place_for_a_socket() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).unwrap();
        let error = bind(&directory.path().join("8080.sock")).unwrap_err();
        assert!(error.to_string().contains("others may write"), "{error}");
    }
}
