//! The real host binary, started for one test.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::held::{Held, compiling, signal};
use crate::{cpu_of, memory_of, peak_memory_of};

/// How the host is started.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// `dev`, which grants what manifests ask for, or `run`.
    pub command: &'static str,
    pub plugins: PathBuf,
    pub kubeconfig: PathBuf,
    pub arguments: Vec<String>,
    /// Whether it takes part in the leader election. Otherwise it runs its plugins at once.
    pub elects: bool,
    /// A program, with its arguments, that starts the host in its own place; empty for none.
    pub launcher: Vec<String>,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            command: "dev",
            plugins: PathBuf::new(),
            kubeconfig: PathBuf::new(),
            arguments: vec![],
            elects: false,
            launcher: vec![],
        }
    }
}

/// The environment variable with the directory in which a host listens for commands. Those who send
/// commands look for it there.
pub const RUNTIME_DIRECTORY: &str = "XDG_RUNTIME_DIR";

/// The environment variable with the directory in which a host remembers what was accepted.
pub const STATE_DIRECTORY: &str = "XDG_STATE_HOME";

pub struct Host {
    child: Child,
    address: SocketAddr,
    log: tempfile::NamedTempFile,
    /// The directory that both variables name for this host. It is deleted when the value is
    /// dropped, also after the host was killed.
    runtime: tempfile::TempDir,
}

impl Host {
    /// Starts the host and waits until it is ready.
    pub async fn ready(plugins: &Path, kubeconfig: &Path) -> Result<Self> {
        let mut host = Self::start(&HostOptions {
            plugins: plugins.into(),
            kubeconfig: kubeconfig.into(),
            ..HostOptions::default()
        })
        .await?;
        host.wait_until_ready().await?;
        Ok(host)
    }

    /// Starts the host and waits until it listens.
    pub async fn start(options: &HostOptions) -> Result<Self> {
        let runtime = tempfile::tempdir()?;
        Self::listening(command(options, runtime.path())?, runtime).await
    }

    /// Starts a host by another command, which ends in `pilothouse run` with `--log-format json`,
    /// and waits until it listens.
    pub async fn start_by(command: Command) -> Result<Self> {
        Self::listening(command, tempfile::tempdir()?).await
    }

    async fn listening(command: Command, runtime: tempfile::TempDir) -> Result<Self> {
        let (mut child, log) = spawn(command)?;
        for _ in 0..1200 {
            if let Some(line) = find_line(&log, "listening") {
                let address = line["address"]
                    .as_str()
                    .context("no address in the log")?
                    .parse()?;
                return Ok(Self {
                    child,
                    address,
                    log,
                    runtime,
                });
            }
            if let Some(status) = child.try_wait()? {
                bail!(
                    "the host ended with {status}:\n{}",
                    std::fs::read_to_string(log.path())?
                );
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        bail!(
            "the host does not listen:\n{}",
            std::fs::read_to_string(log.path())?
        )
    }

    /// Runs the host until it ends by itself. Returns its exit status and its log.
    pub async fn fails(options: &HostOptions) -> Result<(ExitStatus, String)> {
        let runtime = tempfile::tempdir()?;
        let (mut child, log) = spawn(command(options, runtime.path())?)?;
        let status = tokio::time::timeout(Duration::from_secs(60), child.wait())
            .await
            .context("the host does not end")??;
        Ok((status, std::fs::read_to_string(log.path())?))
    }

    pub async fn wait_until_ready(&mut self) -> Result<()> {
        for _ in 0..2400 {
            if self
                .get("/readyz")
                .await
                .is_ok_and(|(status, _)| status == 200)
            {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the host ended with {status}:\n{}", self.log());
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        bail!("the host does not get ready:\n{}", self.log())
    }

    /// Waits until the host knows that it does not lead.
    pub async fn wait_until_standing_by(&self) -> Result<()> {
        for _ in 0..1200 {
            if self.metric("leader_election_master_status", "").await? == 0.0 {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        bail!("the host still leads:\n{}", self.log())
    }

    /// The address at which the host serves HTTP.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The id of the host's process.
    pub fn process(&self) -> Result<u32> {
        self.child.id().context("the host has ended")
    }

    /// The value of [`RUNTIME_DIRECTORY`] for this host.
    pub fn runtime_directory(&self) -> &Path {
        self.runtime.path()
    }

    /// Sends a `GET` to the host. Returns the status and the body.
    pub async fn get(&self, path: &str) -> Result<(u16, String)> {
        let (head, body) = self.request("GET", path, &[]).await?;
        let status = head.split(' ').nth(1).context("no HTTP status")?.parse()?;
        Ok((status, body))
    }

    /// Sends a request without a body to the host. Returns the head and the body of the answer as
    /// they came.
    pub async fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[&str],
    ) -> Result<(String, String)> {
        let mut stream = TcpStream::connect(self.address).await?;
        let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
        let request = format!("{method} {path} HTTP/1.0\r\nHost: localhost\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
        Ok((head.to_owned(), body.to_owned()))
    }

    /// Runs a command that asks a running host. Returns its output, or its error output if it
    /// fails.
    pub async fn command(&self, arguments: &[&str]) -> Result<Result<String, String>> {
        let address = self.address.to_string();
        let binary = std::env::var("PILOTHOUSE_BIN").context("PILOTHOUSE_BIN is not set")?;
        let output = Command::new(binary)
            .args(arguments)
            .args(["--host", &address])
            .env(RUNTIME_DIRECTORY, self.runtime_directory())
            .output()
            .await?;
        let text = |bytes| String::from_utf8_lossy(bytes).trim_end().to_owned();
        Ok(match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(text(&output.stderr)),
        })
    }

    /// Returns the entry of a plugin file in `/plugins`.
    pub async fn plugin(&self, file: &str) -> Result<Value> {
        let plugin = self.plugin_if_known(file).await?;
        plugin.with_context(|| format!("{file} is not in /plugins"))
    }

    /// Returns all entries in `/plugins`.
    pub async fn plugins(&self) -> Result<Vec<Value>> {
        let (_, body) = self.get("/plugins").await?;
        Ok(serde_json::from_str(&body)?)
    }

    /// The host answers before it has read the directory: then there is no entry yet.
    async fn plugin_if_known(&self, file: &str) -> Result<Option<Value>> {
        let mut plugins = self.plugins().await?.into_iter();
        Ok(plugins.find(|plugin| plugin["file"] == file))
    }

    /// Waits until the entry of a plugin file in `/plugins` is as wanted, and returns it.
    pub async fn eventually(
        &self,
        file: &str,
        what: &str,
        is_wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let mut last = Value::Null;
        for _ in 0..1200 {
            if let Some(plugin) = self.plugin_if_known(file).await? {
                if is_wanted(&plugin) {
                    return Ok(plugin);
                }
                last = plugin;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        bail!("{file} never was {what}; it is {last}\n{}", self.log())
    }

    /// Kills the host, as `kill -9` does.
    pub async fn kill(&mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Ends the host as Kubernetes does: SIGTERM, and 30 s to end. Returns its exit status and its
    /// log.
    pub async fn terminate(mut self) -> Result<(ExitStatus, String)> {
        self.ask_to_end()?;
        let status = self.end().await?;
        Ok((status, self.log()))
    }

    /// Stops the process as SIGSTOP does: connections stay open, and nothing answers.
    pub fn pause(&self) -> Result<()> {
        signal(self.child.id().context("the host has ended")?, "-STOP")
    }

    /// Ends [`Host::pause`].
    pub fn resume(&self) -> Result<()> {
        signal(self.child.id().context("the host has ended")?, "-CONT")
    }

    /// Sends SIGTERM.
    pub fn ask_to_end(&self) -> Result<()> {
        signal(self.child.id().context("the host has ended")?, "-TERM")
    }

    /// Waits until the host has ended, for 30 s as Kubernetes does by default.
    pub async fn end(&mut self) -> Result<ExitStatus> {
        let status = tokio::time::timeout(Duration::from_secs(30), self.child.wait()).await;
        Ok(status.context("the host does not end within 30 s of SIGTERM")??)
    }

    /// Waits until the host has logged this message. Returns the first such line.
    pub async fn logs(&self, message: &str) -> Result<Value> {
        for _ in 0..1200 {
            if let Some(line) = find_line(&self.log, message) {
                return Ok(line);
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        bail!("the host never logged {message:?}:\n{}", self.log())
    }

    /// Returns the sum of a metric over all series whose labels contain this text; 0 if there is no
    /// such series.
    pub async fn metric(&self, name: &str, labels: &str) -> Result<f64> {
        let (_, text) = self.get("/metrics").await?;
        Ok(sum_of(&text, name, labels))
    }

    /// Waits until the host compiles a plugin, and stops the compiling process until the returned
    /// value is dropped.
    pub async fn hold_compiling(&self) -> Result<Held> {
        let id = self.child.id().context("the host has ended")?;
        let held = async {
            loop {
                if let Some(compiling) = compiling(id) {
                    return Held::new(compiling);
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let held = tokio::time::timeout(Duration::from_secs(30), held).await;
        held.context("the host compiles nothing")?
    }

    /// Returns the host's resident memory in bytes.
    pub fn memory(&self) -> Result<u64> {
        memory_of(self.child.id().context("the host has ended")?)
    }

    /// Returns the most resident memory that the host has had, in bytes.
    pub fn peak_memory(&self) -> Result<u64> {
        peak_memory_of(self.child.id().context("the host has ended")?)
    }

    /// Returns the CPU time that the host has used.
    pub fn cpu(&self) -> Result<Duration> {
        cpu_of(self.child.id().context("the host has ended")?)
    }

    /// Returns the log, one JSON value for each line.
    pub fn log_lines(&self) -> Vec<Value> {
        let log = self.log();
        let lines = log.lines();
        lines
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// Returns the whole log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log.path()).unwrap_or_default()
    }
}

/// Returns the sum of a metric in an answer of `/metrics`, over all series whose labels contain
/// this text.
pub fn sum_of(metrics: &str, name: &str, labels: &str) -> f64 {
    let is_of_metric = |line: &&str| {
        let rest = line.strip_prefix(name).unwrap_or_default();
        rest.starts_with(['{', ' ']) && rest.contains(labels)
    };
    let series = metrics.lines().filter(is_of_metric);
    let values = series.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum()
}

fn command(options: &HostOptions, runtime: &Path) -> Result<Command> {
    let binary =
        std::env::var("PILOTHOUSE_BIN").context("PILOTHOUSE_BIN is not set; run `make test`")?;
    let elects = format!("--leader-elect={}", options.elects);
    let mut words = options.launcher.iter().chain([&binary]);
    let program = words.next().context("at least the host itself")?;
    let mut command = Command::new(program);
    command
        .args(words)
        .arg(options.command)
        .arg("--plugins")
        .arg(&options.plugins)
        .arg("--kubeconfig")
        .arg(&options.kubeconfig)
        .args(["--listen", "127.0.0.1:0", "--log-format", "json", &elects])
        .args(&options.arguments)
        .env(RUNTIME_DIRECTORY, runtime)
        .env(STATE_DIRECTORY, runtime);
    Ok(command)
}

fn spawn(mut command: Command) -> Result<(Child, tempfile::NamedTempFile)> {
    let log = tempfile::NamedTempFile::new()?;
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log.reopen()?)
        // Ctrl-C reaches only the test or the demonstration, which then ends the host.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot start {command:?}"))?;
    Ok((child, log))
}

/// Returns the first log line with this message.
fn find_line(log: &tempfile::NamedTempFile, message: &str) -> Option<Value> {
    let text = std::fs::read_to_string(log.path()).ok()?;
    let mut lines = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.find(|line| line["message"] == message)
}
