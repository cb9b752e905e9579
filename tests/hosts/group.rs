//! Hosts that compete for one Lease, each with a user and a proxy of its own, before one server.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::jiff::Timestamp;
use pilothouse_core::{DividedBy, Division};
use pilothouse_tests::proxy::Proxy;
use pilothouse_tests::{Change, Host, HostOptions, Server, ServerOptions, plugin_directory};
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::followed::Followed;
use crate::journal::{Journal, Judged, Terms};
use crate::load::{Load, shard_of};

/// The Lease for which the hosts compete.
pub const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases/pilothouse";

/// How long a test waits for what comes with the next leader, as the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// The pause between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// The times of an election.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub lease: Duration,
    pub renew: Duration,
    pub retry: Duration,
}

impl Times {
    /// The shortest with which a busy machine keeps a leader.
    pub const SHORT: Self = Self {
        lease: Duration::from_secs(3),
        renew: Duration::from_secs(2),
        retry: Duration::from_millis(400),
    };

    /// Those of Kubernetes.
    pub const USUAL: Self = Self {
        lease: Duration::from_secs(15),
        renew: Duration::from_secs(10),
        retry: Duration::from_secs(2),
    };

    pub fn arguments(self, prefix: &str) -> Vec<String> {
        let argument =
            |name: &str, time: Duration| format!("--{prefix}{name}={}ms", time.as_millis());
        vec![
            argument("lease-duration", self.lease),
            argument("renew-deadline", self.renew),
            argument("retry-period", self.retry),
        ]
    }
}

/// One host among those that compete; it may not run at the moment.
pub struct Member {
    /// Its user at the server.
    pub name: String,
    pub proxy: Proxy,
    pub plugins: TempDir,
    /// What starts the host: a program and its arguments.
    pub launcher: Vec<String>,
    host: Option<Host>,
    identity: String,
}

impl Member {
    /// The host, which runs.
    pub fn host(&self) -> &Host {
        self.host.as_ref().expect("the test has started it")
    }

    pub fn is_running(&self) -> bool {
        self.host.is_some()
    }
}

/// The hosts, their server and the journal of what they write.
pub struct Group {
    pub server: Server,
    pub members: Vec<Member>,
    pub journal: Journal,
    pub times: Times,
    pub namespace: String,
    /// The namespaces of the ledger's entries.
    pub entries: Vec<String>,
    /// Whether the hosts share. Otherwise one leads.
    pub shares: bool,
    /// How the keys of the ledger are divided.
    division: Division,
    leases: Followed,
    /// The user of each process that has competed.
    users: BTreeMap<String, String>,
    /// Compiled plugins, so that a host that starts again is soon there.
    code: TempDir,
}

impl Group {
    /// A server and so many hosts, none of which runs yet.
    pub async fn of(size: usize, times: Times, guests: &[&str]) -> Result<Self> {
        Self::before(ServerOptions::default(), size, times, guests).await
    }

    /// As [`Group::of`], with a server that has these options, too.
    pub async fn before(
        server: ServerOptions,
        size: usize,
        times: Times,
        guests: &[&str],
    ) -> Result<Self> {
        let names: Vec<String> = (0..size).map(|number| format!("host-{number}")).collect();
        let others = [String::from("client-go")];
        let users = names.iter().chain(&others);
        let server = ServerOptions {
            tokens: users.map(|name| format!("{name}={name}")).collect(),
            records_writes: true,
            ..server
        };
        let server = Server::start_own(server).await?;
        let mut members = Vec::new();
        for name in names {
            members.push(Member {
                proxy: Proxy::before(&server.kubeconfig_for(&name)?).await?,
                plugins: plugin_directory(guests),
                launcher: Vec::new(),
                host: None,
                identity: String::new(),
                name,
            });
        }
        let namespace = server.namespace().await?;
        let mut leases = Followed::default();
        let collection = LEASE.trim_end_matches("/pilothouse");
        leases.add(&server.api, "leases", collection.to_owned());
        Ok(Self {
            shares: false,
            division: Division::UNDIVIDED,
            entries: vec![namespace.clone()],
            leases,
            users: BTreeMap::new(),
            server,
            members,
            journal: Journal::default(),
            times,
            namespace,
            code: private_directory()?,
        })
    }

    /// As [`Group::of`], and starts the hosts. They are ready; one leads.
    pub async fn start(size: usize, times: Times, guests: &[&str]) -> Result<Self> {
        let mut group = Self::of(size, times, guests).await?;
        for number in 0..size {
            group.start_host(number).await?;
        }
        group.leader().await?;
        Ok(group)
    }

    /// Starts a host that does not run, and waits until it is ready.
    pub async fn start_host(&mut self, number: usize) -> Result<()> {
        let mut arguments = self.times.arguments("leader-elect-");
        arguments.push(format!("--code-cache={}", self.code.path().display()));
        if self.shares {
            arguments.push("--share".into());
        }
        let member = &mut self.members[number];
        let options = HostOptions {
            plugins: member.plugins.path().into(),
            kubeconfig: member.proxy.kubeconfig(),
            arguments,
            elects: true,
            launcher: member.launcher.clone(),
            ..HostOptions::default()
        };
        let mut host = Host::start(&options).await?;
        if self.shares {
            host.logs("this host is a member").await?;
            host.wait_until_ready().await?;
            member.host = Some(host);
            return Ok(());
        }
        let line = host.logs("taking part in the leader election").await?;
        line["identity"]
            .as_str()
            .unwrap_or_default()
            .clone_into(&mut member.identity);
        self.users
            .insert(member.identity.clone(), member.name.clone());
        host.wait_until_ready().await?;
        member.host = Some(host);
        Ok(())
    }

    pub fn host(&self, number: usize) -> &Host {
        self.members[number].host()
    }

    pub fn path(&self, collection: &str) -> String {
        let namespace = &self.namespace;
        match collection.split_once('/') {
            Some((group, resource)) => {
                format!("/apis/{group}/v1/namespaces/{namespace}/{resource}")
            }
            None => format!("/api/v1/namespaces/{namespace}/{collection}"),
        }
    }

    /// The host that has the Lease, if one of these has it.
    pub async fn holder(&self) -> Result<Option<usize>> {
        let lease = self.server.api.get(LEASE).await?.unwrap_or_default();
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        let is_holder = |member: &Member| member.is_running() && member.identity == holder;
        Ok(self.members.iter().position(is_holder))
    }

    /// Waits until one of the hosts that run has the Lease.
    pub async fn leader(&self) -> Result<usize> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(leader) = self.holder().await? {
                return Ok(leader);
            }
            if Instant::now() > deadline {
                let lease = self.server.api.get(LEASE).await?.unwrap_or_default();
                bail!(
                    "no host leads; the Lease says {}\n{}",
                    lease["spec"],
                    self.logs()
                );
            }
            sleep(LOOK).await;
        }
    }

    /// Waits until a plugin of another than this host has written after this time. Returns how long
    /// after it that was.
    pub async fn next_write(&mut self, not_by: &str, after: Timestamp) -> Result<Duration> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.journal.read(&self.server).await?;
            if let Some(write) = self.journal.first_write(after, not_by) {
                return Ok(crate::journal::since(after, write.began));
            }
            if Instant::now() > deadline {
                bail!("nobody but {not_by} writes after {after}\n{}", self.logs());
            }
            sleep(LOOK).await;
        }
    }

    /// Divides the keys of the ledger, for hosts that start after it. If by namespace, there will
    /// be entries in several.
    pub async fn divide_the_ledger(&mut self, division: Division) -> Result<()> {
        let Division { shards, by } = division;
        let mut settings = format!("shards = {shards}\n");
        if by == DividedBy::Namespace {
            settings.push_str("shard-by = \"namespace\"\n");
            for _ in 0..2 * shards.get() {
                self.entries.push(self.server.namespace().await?);
            }
        }
        for member in &self.members {
            std::fs::write(member.plugins.path().join("ledger.toml"), &settings)?;
        }
        self.division = division;
        Ok(())
    }

    /// Kills a host, as `kill -9` does.
    pub async fn kill(&mut self, number: usize) -> Result<()> {
        let host = self.members[number].host.take();
        host.context("it runs")?.kill().await
    }

    /// Sends SIGTERM to a host. Returns it, to wait for its end.
    pub fn ask_to_end(&mut self, number: usize) -> Result<Host> {
        let host = self.members[number].host.take().context("it runs")?;
        host.ask_to_end()?;
        Ok(host)
    }

    /// Waits until all is as it should be when nothing more happens, and judges all that was
    /// written. If something is wrong, the error says where the records are.
    pub async fn conclude(&mut self, load: &mut Load) -> Result<Judged> {
        let settled = load.settle().await;
        self.journal.read(&self.server).await?;
        let judged = self.judge(load);
        let wrong = [settled.err(), judged.is_clean().err()];
        let wrong: Vec<String> = wrong
            .iter()
            .flatten()
            .map(|one| format!("{one:#}"))
            .collect();
        if wrong.is_empty() {
            return Ok(judged);
        }
        let records = self.keep_records(load)?;
        bail!(
            "{}\nall writes, changes and logs are in {records}",
            wrong.join("\n")
        )
    }

    /// Judges what was written up to the journal's last reading.
    pub fn judge(&self, load: &Load) -> Judged {
        let leases = self.leases.sorted();
        let deletions = load.deletions();
        if self.shares {
            let terms = Terms::of_members(&leases, &self.journal.members());
            return self
                .journal
                .judge(&terms, &deletions, |write| shard_of(write, self.division));
        }
        let terms = Terms::of_a_leader(&leases, &self.users);
        self.journal.judge(&terms, &deletions, |_| String::new())
    }

    /// Writes down everything that is known, and returns the directory.
    fn keep_records(&self, load: &Load) -> Result<String> {
        let records = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?.keep();
        std::fs::write(records.join("writes"), self.journal.text())?;
        std::fs::write(records.join("changes"), load.text())?;
        let leases = self.leases.sorted();
        let lease =
            |change: &Change| format!("{} {:?} {}\n", change.version, change.what, change.object);
        let leases: String = leases.iter().map(lease).collect();
        std::fs::write(records.join("leases"), leases)?;
        for member in &self.members {
            let log = member.host.as_ref().map(Host::log).unwrap_or_default();
            std::fs::write(
                records.join(&member.name),
                format!("{}\n{log}", member.identity),
            )?;
        }
        Ok(records.display().to_string())
    }

    /// The last lines of all logs.
    pub fn logs(&self) -> String {
        let mut text = String::new();
        for member in &self.members {
            let log = member.host.as_ref().map(Host::log).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines[lines.len().saturating_sub(15)..].join("\n");
            text.push_str(&format!("--- {}\n{last}\n", member.name));
        }
        text
    }

    /// The server as this user sees it.
    pub fn kubeconfig_for(&self, user: &str) -> Result<PathBuf> {
        self.server.kubeconfig_for(user)
    }

    /// Puts another version of a plugin in the place of the one that a host has, in one step.
    pub fn replace_plugin(&self, number: usize, file: &str, content: &[u8]) -> Result<()> {
        let directory = self.members[number].plugins.path();
        let fresh: &Path = &directory.join("fresh");
        std::fs::write(fresh, content)?;
        Ok(std::fs::rename(fresh, directory.join(file))?)
    }
}

/// A directory that only this user can read, as the host wants it for compiled plugins.
fn private_directory() -> Result<TempDir> {
    let mode = std::fs::Permissions::from_mode(0o700);
    let directory = tempfile::Builder::new().permissions(mode).tempdir();
    Ok(directory?)
}

/// A number of an object, such as `status.replicas`.
pub fn number(object: &Value, section: &str, member: &str) -> Option<u64> {
    object[section][member].as_u64()
}
