//! The flags of `run` and `dev`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use pilothouse_cluster::client::{Limit, RateLimits};

use super::{CodeCacheArgs, ElectionArgs, StateArgs};
use crate::address::Address;
use crate::controllers::Item;
use crate::settings::{bytes, duration};

#[derive(Debug, Args)]
#[command(
    args_override_self = true,
    after_long_help = "\
Logs go to standard error; RUST_LOG chooses what (default: info).

Ends with status 0 after SIGTERM or SIGINT, within 30 seconds: what runs is ended first, and what is queued is left to the next
host, or finished with --leader-elect=false. Ends with 1 only for what waiting does not mend: the directory is not there, the
kubeconfig or its context is wrong, a running server refuses the credentials, the address is in use. An empty directory, a plugin
that does not load and a server that does not answer end nothing: the log and /readyz say what is waited for."
)]
pub struct RunArgs {
    /// Directory whose *.wasm files are the controllers, with their settings in *.toml; or one such
    /// file.
    ///
    /// It is followed: what comes, changes or goes while the host runs is taken up.
    #[arg(long, value_name = "DIR")]
    pub plugins: PathBuf,

    /// Which of these plugins run: '*' for all, foo for that of this name, -foo for all but that.
    ///
    /// A list, as kube-controller-manager's flag: '*,-cronjob'. The first item that names a plugin
    /// decides; one that no item names runs if '*' is among them. A plugin is called as its file is
    /// without .wasm, or as its settings or its manifest name it; what stands for one of
    /// kube-controller-manager's controllers has that one's names, too (cronjob-controller). What
    /// is switched off is not loaded.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        allow_hyphen_values = true,
        default_value = "*"
    )]
    pub controllers: Vec<Item>,

    /// Kubeconfig file [default: $KUBECONFIG, ~/.kube/config, or the pod's service account].
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: its current context].
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,

    /// Address for /healthz, /readyz, /metrics, /plugins and /informers. Use :8080 in a pod.
    ///
    /// HOST:PORT. Without a host, as in ":8080", it is every address of the machine, IPv6 and IPv4,
    /// as in Go; with port 0 any that is free, and the log says which.
    #[arg(long, value_name = "ADDR", value_parser = Address::to_listen, default_value = "127.0.0.1:8080")]
    pub listen: Address,

    /// Another name under which the host answers at a loopback address; may be said more than once.
    ///
    /// For a reverse proxy on this machine that passes on the name it was asked under. Web pages
    /// are answered under none.
    #[arg(long, value_name = "NAME", value_parser = host_name)]
    pub allowed_host: Vec<String>,

    /// Unix socket where the host takes commands, "none" for no commands [default:
    /// $PILOTHOUSE_COMMAND_SOCKET, or one for each port in $XDG_RUNTIME_DIR/pilothouse,
    /// ~/.cache/pilothouse/run or /tmp/pilothouse-UID].
    ///
    /// Only the host's user may use it.
    #[arg(long, value_name = "PATH")]
    pub command_socket: Option<PathBuf>,

    /// How log lines are written.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,

    #[command(flatten)]
    pub code: CodeCacheArgs,

    #[command(flatten)]
    pub state: StateArgs,

    #[command(flatten)]
    pub limits: LimitArgs,

    #[command(flatten)]
    pub election: ElectionArgs,

    /// Threads that run guests [default: one more than cores].
    ///
    /// One plugin never occupies all of them while there are others.
    #[arg(long, value_name = "N", value_parser = workers)]
    pub workers: Option<NonZeroUsize>,

    /// Reconcile every object again after one to two times this period: 12h, 30m, 90s; 0 for never.
    ///
    /// That is done though nothing has changed. Settings say otherwise for a plugin with `resync`.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "0")]
    pub min_resync_period: Duration,

    /// Most memory for cached objects: 512Mi, 4Gi [default: no limit].
    ///
    /// What does not fit is not cached, and the plugins that read it wait.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub cache_limit: Option<usize>,

    /// Most native code of all plugins, in memory for as long as they may run: 512Mi, 4Gi.
    ///
    /// A plugin that does not fit waits. Python takes 40 MB, a small plugin in Rust less than one.
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "2Gi")]
    pub code_limit: usize,

    /// Most list-watches [default: 1000, or a quarter of the descriptors that the host may open if
    /// that is less].
    ///
    /// Each kind takes one, or one for each namespace that a manifest or the settings name. A
    /// plugin that would take more waits.
    #[arg(long, value_name = "N", value_parser = watches)]
    pub watch_limit: Option<usize>,
}

/// How many requests may be sent. Watches are not counted.
#[derive(Clone, Copy, Debug, Args)]
pub struct LimitArgs {
    /// Requests a second to the API server; 0 or less: no limit [default: no limit].
    ///
    /// By default the server's priority and fairness sees to it.
    #[arg(long, value_name = "QPS", allow_negative_numbers = true)]
    pub kube_api_qps: Option<f64>,

    /// Requests at once beyond --kube-api-qps [default: 10, as in client-go].
    #[arg(long, value_name = "N", requires = "kube_api_qps")]
    pub kube_api_burst: Option<u32>,

    /// Writes a second of each plugin; 0 or less: no limit [default: no limit].
    #[arg(long, value_name = "QPS", allow_negative_numbers = true)]
    pub plugin_api_qps: Option<f64>,

    /// Writes at once of each plugin beyond --plugin-api-qps [default: 10].
    #[arg(long, value_name = "N", requires = "plugin_api_qps")]
    pub plugin_api_burst: Option<u32>,
}

impl LimitArgs {
    pub fn limits(&self) -> anyhow::Result<RateLimits> {
        let host = Limit::of_flags(self.kube_api_qps, self.kube_api_burst);
        let plugin = Limit::of_flags(self.plugin_api_qps, self.plugin_api_burst);
        Ok(RateLimits::new(
            host.context("--kube-api-qps, --kube-api-burst")?,
            plugin.context("--plugin-api-qps, --plugin-api-burst")?,
        ))
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

fn workers(text: &str) -> Result<NonZeroUsize, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is not a number of threads; write 1 or more"))
}

fn host_name(text: &str) -> Result<String, String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_name = !text.is_empty() && text.bytes().all(is_part);
    let is_v6 = |text: &str| text.parse::<std::net::Ipv6Addr>().is_ok();
    let inner = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    if is_name || inner.is_some_and(is_v6) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "{text:?} is not a host's name; write it without a scheme and a port: pilothouse.example"
    ))
}

fn watches(text: &str) -> Result<usize, String> {
    let count: Option<usize> = text.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| format!("{text:?} is not a number of list-watches; write 1 or more"))
}
