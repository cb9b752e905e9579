//! Faults between the host and its API server: an HTTP proxy that a test tells what to do to which requests.
//!
//! ```ignore
//! let proxy = Proxy::before(server.kubeconfig()).await?;
//! let host = Host::ready(plugins.path(), proxy.kubeconfig()).await?;
//!
//! proxy.on(lists("pods")).times(1).answer(Answer::status(410)); // a rule: from now on, for what matches
//! proxy.on(watches("pods")).strip_bookmarks(); //                  also for the watches that are open
//! proxy.reset(watches(ANY)); //                                    at once, on what is open now
//! proxy.heal().await; //                                           no fault is left
//! assert!(proxy.seen(lists("pods")).len() <= 1);
//! ```
//!
//! It speaks plain HTTP/1.1 to the host and has one connection to the server for each of the host's, so that a broken one breaks
//! the other, as without a proxy. A watch passes line by line, everything else as a whole. Dropping the proxy ends it and resets
//! every connection.

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
pub use record::{PassedLine, busiest_second, is_patient};
pub use request::{
    ANY, Seen, Which, all, complete_lists, gets, lists, reads, resumes, watches, writes,
};
pub use rule::{Fault, On};

use crate::Server;
use link::Mode;
use state::State;
use upstream::Upstream;

/// See the module.
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
    /// A proxy before the server of this kubeconfig.
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

    /// What the host is to be started with.
    pub fn kubeconfig(&self) -> PathBuf {
        kubeconfig_in(&self.directory)
    }

    /// The beginning of a rule for requests.
    pub fn on(&self, which: Which) -> On<'_> {
        On::new(&self.state, which)
    }

    /// New connections go to another server behind the same address, as after a load balancer's change of mind.
    pub fn switch_to(&self, server: &Server) -> Result<()> {
        self.upstream.set_port(server.port()?);
        Ok(())
    }

    // What is open now.

    /// Breaks connections with a TCP reset: those whose open request matches, with [`all`] idle ones too. Says how many.
    pub fn reset(&self, which: Which) -> usize {
        self.state.set_mode(&which, Mode::Reset)
    }

    /// Ends the sending side of connections in the middle of their answer, and goes on reading.
    pub fn half_close(&self, which: Which) -> usize {
        self.state.set_mode(&which, Mode::HalfClosed)
    }

    /// Ends watches as a server does whose `timeoutSeconds` are over.
    pub fn close(&self, which: Which) -> usize {
        self.state.close_streams(&which)
    }

    /// Sends a line on open watches, after those that wait to be sent.
    pub fn inject(&self, which: Which, line: &str) -> usize {
        self.state.inject(&which, line)
    }

    /// How many watches are open.
    pub fn open(&self, which: Which) -> usize {
        self.state.open_streams(&which)
    }

    /// Open connections fall silent and stay open; nothing passes, in neither direction. New ones work.
    pub fn freeze(&self, which: Which) -> usize {
        self.state.set_mode(&which, Mode::Frozen)
    }

    /// All connections fall silent, the new ones too.
    /// How many are open.
    pub fn freeze_everything(&self) -> usize {
        self.state.freeze_new(true);
        self.freeze(all())
    }

    /// After [`Proxy::freeze_everything`]: what is frozen stays so for ever, but new connections work.
    pub fn thaw_new(&self) {
        self.state.freeze_new(false);
    }

    /// What was frozen goes on where it was: nothing is lost that its client still waits for.
    pub fn thaw(&self) {
        self.state.freeze_new(false);
        self.state.thaw();
    }

    /// New connections are refused from now on.
    pub async fn refuse(&self) {
        self.state.listen(false).await;
    }

    /// New connections are reset as soon as they are there, and counted. Another reset breaks those that are open.
    pub fn turn_away(&self) {
        self.state.turn_away(true);
    }

    /// How many have been since [`Proxy::turn_away`].
    pub fn turned_away(&self) -> usize {
        self.state.turned_away()
    }

    /// New connections are accepted.
    pub async fn accept(&self) {
        self.state.listen(true).await;
    }

    /// Ends every fault.
    pub async fn heal(&self) {
        self.state.lift_all();
        self.thaw();
        self.state.turn_away(false);
        self.accept().await;
    }

    // What has passed.

    /// The requests that came, in the order they came.
    pub fn seen(&self, which: Which) -> Vec<Seen> {
        self.state.record().seen(&which)
    }

    /// The lines that came from the server over watches, as they came.
    pub fn lines(&self, which: Which) -> Vec<PassedLine> {
        self.state.record().lines(&which)
    }

    /// The server's answers to requests other than watches.
    pub fn answers(&self, which: Which) -> Vec<Answer> {
        self.state.record().answers(&which)
    }

    /// Forgets what has passed.
    pub fn forget(&self) {
        self.state.record().clear();
    }

    /// Waits until so many matching requests have come since the start or [`Proxy::forget`].
    pub async fn until_seen(&self, which: Which, count: usize, within: Duration) -> Result<()> {
        let what = format!("{count} of {which:?}");
        self.until(&what, within, || self.seen(which.clone()).len() >= count)
            .await
    }

    /// Waits until so many matching watches are open.
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

/// The same users, but the server is the proxy.
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
