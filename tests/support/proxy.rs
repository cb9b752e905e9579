//! Faults between the host and its API server: an HTTP proxy to which a test says what happens to
//! which requests.
//!
//! ```ignore
//! let proxy = Proxy::before(server.kubeconfig()).await?;
//! let host = Host::ready(plugins.path(), proxy.kubeconfig()).await?;
//!
//! // A rule, for matching requests from now on.
//! proxy.on(lists("pods")).times(1).answer(Answer::status(410));
//! // A rule for lines holds for open watches too.
//! proxy.on(watches("pods")).strip_bookmarks();
//! // At once, for what is open now.
//! proxy.reset(watches(ANY));
//! // No fault is left.
//! proxy.heal().await;
//! assert!(proxy.seen(lists("pods")).len() <= 1);
//! ```
//!
//! The proxy speaks plain HTTP/1.1 to the host. For each of the host's connections it has one to
//! the server, so that when one breaks the other breaks too, as without a proxy. A watch passes
//! line by line, everything else as a whole. Dropping the proxy ends it and resets every
//! connection.

mod answer;
mod lines;
mod link;
mod port;
mod record;
mod request;
mod rule;
mod serve;
mod state;
mod upstream;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::config::Kubeconfig;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub use answer::{Answer, error_event};
pub use port::Port;
pub use record::{PassedLine, Record, SentLine, busiest_second, is_patient};
pub use request::{
    ANY, Seen, Which, all, complete_lists, gets, lists, reads, resumes, watches, writes,
};
pub use rule::{Fault, On};

use crate::Server;
use link::Mode;
use state::State;
use upstream::Upstream;

/// The proxy; see the module.
pub struct Proxy {
    state: Arc<State>,
    upstream: Arc<Upstream>,
    task: JoinHandle<()>,
    directory: TempDir,
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "`proxy.reset(watches(ANY))` reads best without an ampersand"
)]
impl Proxy {
    /// Starts a proxy in front of the server of this kubeconfig.
    pub async fn before(kubeconfig: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(kubeconfig)?;
        let config = Kubeconfig::from_yaml(&text)?;
        let upstream = Arc::new(Upstream::of(config.clone()).await?);
        let port = Port::take()?;
        let directory = tempfile::tempdir()?;
        let state = Arc::new(State::default());
        write_kubeconfig(config, &port, &kubeconfig_in(&directory))?;
        let task = tokio::spawn(serve::run(port, upstream.clone(), state.clone()));
        let proxy = Self {
            state,
            upstream,
            task,
            directory,
        };
        proxy.accept().await;
        Ok(proxy)
    }

    /// Returns the path of the kubeconfig with which the host must be started.
    pub fn kubeconfig(&self) -> PathBuf {
        kubeconfig_in(&self.directory)
    }

    /// Begins a rule for requests.
    pub fn on(&self, which: Which) -> On<'_> {
        On::new(&self.state, which)
    }

    /// New connections go to another server behind the same address, as when a load balancer
    /// chooses another one.
    pub fn switch_to(&self, server: &Server) -> Result<()> {
        self.upstream.set_port(server.port()?);
        Ok(())
    }

    // Connections and watches that are open now.

    /// Breaks connections with a TCP reset: those whose open request matches and, with [`all`],
    /// idle ones too. Returns how many.
    pub fn reset(&self, which: Which) -> usize {
        self.state.set_mode(&which, Mode::Reset)
    }

    /// Ends the sending side of connections in the middle of their answer, and continues to read.
    /// Returns how many.
    pub fn half_close(&self, which: Which) -> usize {
        self.state.set_mode(&which, Mode::HalfClosed)
    }

    /// Ends watches as a server does whose `timeoutSeconds` are over. Returns how many.
    pub fn close(&self, which: Which) -> usize {
        self.state.close_streams(&which)
    }

    /// Sends a line on open watches, after the lines that wait to be sent. Returns on how many.
    pub fn inject(&self, which: Which, line: &str) -> usize {
        self.state.inject(&which, line)
    }

    /// Returns how many watches are open.
    pub fn open(&self, which: Which) -> usize {
        self.state.open_streams(&which)
    }

    /// Makes open connections silent: they stay open, but nothing passes in either direction. New
    /// connections work. Returns how many.
    pub fn freeze(&self, which: Which) -> usize {
        self.state.set_mode(&which, Mode::Frozen)
    }

    /// Makes all connections silent, also new ones. Returns how many were open.
    pub fn freeze_everything(&self) -> usize {
        self.silence(Mode::Frozen)
    }

    /// Nothing that the host sends gets anywhere from now on, on any connection. What the server
    /// sends still reaches the host: the lines of open watches.
    pub fn cut_requests(&self) {
        self.silence(Mode::Deaf);
    }

    /// Nothing reaches the host from now on, on any connection. What it sends still reaches the
    /// server.
    pub fn cut_answers(&self) {
        self.silence(Mode::Mute);
    }

    fn silence(&self, mode: Mode) -> usize {
        self.state.set_new_mode(Some(mode));
        self.state.set_mode(&all(), mode)
    }

    /// Ends the effect of [`Proxy::freeze_everything`] on new connections. Frozen ones stay frozen.
    pub fn thaw_new(&self) {
        self.state.set_new_mode(None);
    }

    /// Lets silent connections continue where they were. Nothing is lost that the client still
    /// waits for.
    pub fn thaw(&self) {
        self.state.set_new_mode(None);
        self.state.thaw();
    }

    /// Refuses new connections from now on.
    pub async fn refuse(&self) {
        self.state.listen(false).await;
    }

    /// Resets new connections as soon as they are accepted, and counts them. Connections that are
    /// open are not affected; [`Proxy::reset`] breaks those.
    pub fn turn_away(&self) {
        self.state.turn_away(true);
    }

    /// Returns how many were turned away since [`Proxy::turn_away`].
    pub fn turned_away(&self) -> usize {
        self.state.turned_away()
    }

    /// Accepts new connections again.
    pub async fn accept(&self) {
        self.state.listen(true).await;
    }

    /// Ends all faults.
    pub async fn heal(&self) {
        self.state.lift_all();
        self.thaw();
        self.state.turn_away(false);
        self.accept().await;
    }

    // The record of what has passed.

    /// Returns the matching requests in the order in which they came.
    pub fn seen(&self, which: Which) -> Vec<Seen> {
        self.state.record().seen(&which)
    }

    /// Returns the lines of matching watches as the server sent them, before any rule changed them.
    pub fn lines(&self, which: Which) -> Vec<PassedLine> {
        self.state.record().lines(&which)
    }

    /// Returns the server's answers to matching requests other than watches.
    pub fn answers(&self, which: Which) -> Vec<Answer> {
        self.state.record().answers(&which)
    }

    /// Clears the record.
    pub fn forget(&self) {
        self.state.record().clear();
    }

    /// Takes the record out, so that nothing is left out between two calls.
    pub fn take_record(&self) -> Record {
        std::mem::take(&mut *self.state.record())
    }

    /// Waits until this many matching requests have come since the start or the last
    /// [`Proxy::forget`].
    pub async fn until_seen(&self, which: Which, count: usize, within: Duration) -> Result<()> {
        let what = format!("{count} of {which:?}");
        self.until(&what, within, || self.seen(which.clone()).len() >= count)
            .await
    }

    /// Waits until the server has answered this many matching requests other than watches, since
    /// the start or the last [`Proxy::forget`].
    pub async fn until_answered(&self, which: Which, count: usize, within: Duration) -> Result<()> {
        let what = format!("{count} answers to {which:?}");
        self.until(&what, within, || self.answers(which.clone()).len() >= count)
            .await
    }

    /// Waits until this many matching watches are open.
    pub async fn until_open(&self, which: Which, count: usize, within: Duration) -> Result<()> {
        let what = format!("{count} open of {which:?}");
        self.until(&what, within, || self.open(which.clone()) >= count)
            .await
    }

    async fn until(&self, what: &str, within: Duration, is_so: impl Fn() -> bool) -> Result<()> {
        let deadline = Instant::now() + within;
        while !is_so() {
            let seen = || self.state.record().summary();
            ensure!(
                Instant::now() < deadline,
                "the proxy has not seen {what} in {within:?}; it has seen {}",
                seen()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.set_mode(&all(), Mode::Reset);
        self.task.abort();
    }
}

fn kubeconfig_in(directory: &TempDir) -> PathBuf {
    directory.path().join("kubeconfig")
}

/// Writes a kubeconfig with the same users, whose server is the proxy.
fn write_kubeconfig(mut config: Kubeconfig, port: &Port, path: &Path) -> Result<()> {
    for named in &mut config.clusters {
        let cluster = named.cluster.as_mut().context("a cluster without data")?;
        cluster.server = Some(format!("http://{}", port.address()));
        cluster.certificate_authority = None;
        cluster.certificate_authority_data = None;
        cluster.insecure_skip_tls_verify = None;
    }
    Ok(std::fs::write(path, serde_json::to_string(&config)?)?)
}
