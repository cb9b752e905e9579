//! The server in `tests/apiserver`: its process, its data and its port.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::{ServerOptions, command, end};
use crate::proxy::Port;

pub(super) struct Own {
    child: Child,
    directory: TempDir,
    /// Reserved also while no server runs.
    port: Port,
    options: ServerOptions,
}

/// A copy of a server's data at one time.
pub struct Snapshot(TempDir);

impl Own {
    pub(super) async fn start(options: ServerOptions) -> Result<Self> {
        Self::start_in(tempfile::tempdir()?, options).await
    }

    /// Starts a server with the data that another one had.
    pub(super) async fn start_from(snapshot: &Snapshot, options: ServerOptions) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        copy(
            &snapshot.0.path().join("data"),
            &directory.path().join("data"),
        )?;
        Self::start_in(directory, options).await
    }

    async fn start_in(directory: TempDir, options: ServerOptions) -> Result<Self> {
        let port = Port::take()?;
        let child = spawn(&directory, &port, &options)?;
        let mut own = Self {
            child,
            directory,
            port,
            options,
        };
        let kubeconfig = own.kubeconfig();
        if let Err(error) = wait_for_file(&kubeconfig, &mut own.child).await {
            let log = std::fs::read_to_string(own.path("log")).unwrap_or_default();
            return Err(error.context(log));
        }
        Ok(own)
    }

    /// Returns the path of a file that exists as long as this value.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.path("kubeconfig")
    }

    pub(super) fn port(&self) -> u16 {
        self.port.address().port()
    }

    /// Starts the process again after it has ended.
    pub(super) fn spawn(&mut self) -> Result<()> {
        self.child = spawn(&self.directory, &self.port, &self.options)?;
        Ok(())
    }

    pub(super) async fn signal(&self, signal: &str) -> Result<()> {
        let id = self.child.id().context("the API server has ended")?;
        let mut kill = Command::new("kill");
        kill.arg(format!("-{signal}")).arg(id.to_string());
        ensure!(kill.status().await?.success(), "cannot signal the server");
        Ok(())
    }

    pub(super) async fn kill(&mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }

    pub(super) async fn end(&mut self) -> Result<()> {
        end(&mut self.child).await
    }

    /// Copies the data. No process may be running.
    pub(super) fn save(&self) -> Result<Snapshot> {
        let snapshot = Snapshot(tempfile::tempdir()?);
        copy(&self.path("data"), &snapshot.0.path().join("data"))?;
        Ok(snapshot)
    }

    /// Replaces the data. No process may be running.
    pub(super) fn restore(&self, snapshot: &Snapshot) -> Result<()> {
        std::fs::remove_dir_all(self.path("data"))?;
        copy(&snapshot.0.path().join("data"), &self.path("data"))
    }
}

fn spawn(directory: &TempDir, port: &Port, options: &ServerOptions) -> Result<Child> {
    let binary = std::env::var("PILOTHOUSE_TESTSERVER")
        .context("PILOTHOUSE_TESTSERVER is not set; run `make test`")?;
    let path = |name: &str| directory.path().join(name);
    let mut command = command(Path::new(&binary));
    command.arg("--data-dir").arg(path("data"));
    command.arg("--kubeconfig").arg(path("kubeconfig"));
    command.args(["--port", &port.address().port().to_string()]);
    let mode = if options.rbac { "rbac" } else { "always-allow" };
    command.args(["--authorization-mode", mode]);
    for token in &options.tokens {
        command.args(["--token", token]);
    }
    if options.tells_progress {
        command.args(["--etcd-progress-interval", "5s"]);
    }
    if options.records_writes {
        command.arg("--record-writes");
    }
    if options.selects_shards {
        command.args(["--feature-gates", "ShardedListAndWatch=true"]);
    }
    if options.no_watch_cache {
        command.arg("--watch-cache=false");
    }
    command.stderr(std::fs::File::create(path("log"))?);
    command
        .spawn()
        .with_context(|| format!("cannot start {binary}"))
}

async fn wait_for_file(path: &Path, child: &mut Child) -> Result<()> {
    for _ in 0..1200 {
        if path.is_file() {
            return Ok(());
        }
        if let Some(status) = child.try_wait()? {
            bail!("the API server ended with {status} before it was ready");
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    bail!("the API server has not written {} in 30 s", path.display())
}

/// Copies a directory with everything in it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy(&entry.path(), &target)?;
        } else if kind.is_file() {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
