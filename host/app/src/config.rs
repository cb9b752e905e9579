//! The command line.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Parser, Subcommand, ValueEnum};
use pilothouse_cluster::limit::{Limit, Limits};

use crate::settings::{bytes, duration};

/// Hosts many Kubernetes controllers, each a WebAssembly component, in one process.
#[derive(Debug, Parser)]
#[command(name = "pilothouse", version, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
#[allow(
    clippy::large_enum_variant,
    reason = "there is one in a process, and it is taken apart at once"
)]
pub enum Command {
    /// Run the controllers of a directory against a cluster. Each may read its own kind, and nothing more until it is granted.
    Run(RunArgs),
    /// The same for the one who writes controllers: each is granted what its manifest asks for, and what is in its file runs, however
    /// often it breaks.
    #[command(mut_arg("plugins", |plugins| plugins.required(false).default_value(".")))]
    Dev(RunArgs),
    /// Print what a plugin is, wants and costs; fails if it would not load.
    Check(CheckArgs),
    /// Print the permissions that the host needs for these plugins, as YAML for `kubectl apply -f -`.
    Rbac(RbacArgs),
    /// List the plugins of a running host.
    Plugins(ListArgs),
    /// Let a plugin of a running host run nothing. Its keys are kept.
    Pause(PluginArgs),
    /// Let a paused plugin run.
    Resume(PluginArgs),
    /// Bring back the version of a plugin that ran before.
    Rollback(PluginArgs),
    /// Compile a plugin from standard input to standard output: what the host starts itself as, so that compiling has limits.
    #[command(name = pilothouse_wasm::COMPILE_CHILD, hide = true)]
    CompileChild(ChildArgs),
    /// Hold a configuration against a schema, both from standard input: started by the host itself, for the same reason.
    #[command(name = crate::schema::SCHEMA_CHILD, hide = true)]
    SchemaChild(ChildArgs),
}

#[derive(Debug, Args)]
pub struct ChildArgs {
    /// Address space.
    pub memory_bytes: u64,
    /// CPU time.
    pub cpu_seconds: u64,
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The plugins' *.wasm files; the settings beside them are checked, too.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,

    #[command(flatten)]
    pub code: CodeCacheArgs,
}

/// Where compiled plugins are kept.
#[derive(Debug, Args)]
pub struct CodeCacheArgs {
    /// Where compiled plugins are kept, so that each is compiled once; "none" for nowhere [default:
    /// $XDG_CACHE_HOME/pilothouse/code, ~/.cache/pilothouse/code].
    #[arg(long, value_name = "DIR")]
    pub code_cache: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The NAME.toml beside a NAME.wasm, and the pilothouse.toml in its directory, say what is granted; without grants in them: what the plugin asks for.")]
pub struct RbacArgs {
    /// The plugins' *.wasm files.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// A service account of its own for each plugin, for `identity` in its settings.
    #[arg(long)]
    pub per_plugin: bool,

    /// Name of the host's service account and role.
    #[arg(long, default_value = "pilothouse")]
    pub name: String,

    /// Namespace of the host's service account.
    #[arg(long, default_value = "pilothouse")]
    pub namespace: String,

    /// Ask the cluster of this kubeconfig for the names of resources.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Ask the cluster of this context for the names of resources.
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// Where a running host is.
#[derive(Debug, Args)]
pub struct HostArgs {
    /// What the host's --listen says.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    pub host: SocketAddr,
}

#[derive(Debug, Args)]
pub struct ListArgs {
    #[command(flatten)]
    pub host: HostArgs,

    /// How to print.
    #[arg(long, short, value_name = "FORMAT", value_enum, default_value_t = Output::Table)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct PluginArgs {
    /// The plugin's name, or its file's without .wasm.
    pub plugin: String,

    #[command(flatten)]
    pub host: HostArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Output {
    Table,
    Json,
}

#[derive(Debug, Args)]
#[command(
    args_override_self = true,
    after_help = "\
Logs go to standard error; RUST_LOG chooses what (default: info).
Ends with status 0 after SIGTERM or SIGINT, and with another when nothing can run: no plugin loads, or the cluster cannot be reached."
)]
pub struct RunArgs {
    /// Directory whose *.wasm files are the controllers, with their settings in *.toml; or one such file. It is followed: what comes,
    /// changes or goes while the host runs is taken up.
    #[arg(long, value_name = "DIR")]
    pub plugins: PathBuf,

    /// Kubeconfig file [default: $KUBECONFIG, ~/.kube/config, or the pod's service account].
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: its current context].
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,

    /// Address for /healthz, /readyz, /metrics, /plugins and /informers. Use 0.0.0.0:8080 in a pod.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,

    /// How log lines are written.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,

    #[command(flatten)]
    pub code: CodeCacheArgs,

    #[command(flatten)]
    pub limits: LimitArgs,

    /// Threads that run guests. One plugin never occupies all of them while there are others [default: one more than cores].
    #[arg(long, value_name = "N")]
    pub workers: Option<NonZeroUsize>,

    /// Reconcile every object again after one to two times this period, though nothing has changed: 12h, 30m, 90s; 0 for never.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "0")]
    pub min_resync_period: Duration,

    /// Most memory for cached objects: 512Mi, 4Gi. What does not fit is not cached, and its plugins wait [default: no limit].
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub cache_limit: Option<usize>,
}

/// How many requests may be sent. Watches are not counted.
#[derive(Clone, Copy, Debug, Args)]
pub struct LimitArgs {
    /// Requests a second to the API server; 0 or less: no limit [default: no limit, the server's priority and fairness sees to it].
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
    pub fn limits(&self) -> anyhow::Result<Limits> {
        let host = Limit::of_flags(self.kube_api_qps, self.kube_api_burst);
        let plugin = Limit::of_flags(self.plugin_api_qps, self.plugin_api_burst);
        Ok(Limits::new(
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn who_writes_a_plugin_need_not_say_where_it_is() {
        let dev = Cli::try_parse_from(["pilothouse", "dev"]).unwrap();
        let Command::Dev(args) = dev.command else {
            panic!("it is dev");
        };
        assert_eq!(args.plugins, PathBuf::from("."));
        let run = Cli::try_parse_from(["pilothouse", "run"]).unwrap_err();
        assert!(run.to_string().contains("--plugins <DIR>"), "{run}");
    }

    fn limits(arguments: &[&str]) -> Result<(), String> {
        let arguments = ["pilothouse", "run", "--plugins", "x"]
            .iter()
            .chain(arguments);
        let cli = Cli::try_parse_from(arguments).map_err(|error| error.to_string())?;
        let Command::Run(args) = cli.command else {
            panic!("it is run");
        };
        args.limits
            .limits()
            .map(drop)
            .map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_limit_is_a_rate_and_perhaps_a_burst() {
        assert_eq!(limits(&[]), Ok(()));
        assert_eq!(limits(&["--kube-api-qps=-1"]), Ok(()));
        assert_eq!(limits(&["--kube-api-qps", "-1"]), Ok(()));
        let both = ["--plugin-api-qps=0.5", "--plugin-api-burst=3"];
        assert_eq!(limits(&both), Ok(()));
        let error = limits(&["--kube-api-burst=3"]).unwrap_err();
        assert!(error.contains("--kube-api-qps <QPS>"), "{error}");
        assert_eq!(
            limits(&["--kube-api-qps=nan"]).unwrap_err(),
            "--kube-api-qps, --kube-api-burst: the rate is not a finite number"
        );
    }
}
