//! The command line.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Hosts many Kubernetes controllers, each a WebAssembly component, in one process.
#[derive(Debug, Parser)]
#[command(name = "pilothouse", version, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the controllers of a directory against a cluster.
    Run(RunArgs),
}

#[derive(Debug, Args)]
#[command(
    args_override_self = true,
    after_help = "\
Logs go to standard error; RUST_LOG chooses what (default: info).
Ends with status 0 after SIGTERM or SIGINT, and with another when nothing can run: no plugin loads, or the cluster cannot be reached."
)]
pub struct RunArgs {
    /// Directory whose *.wasm files are the controllers.
    #[arg(long, value_name = "DIR")]
    pub plugins: PathBuf,

    /// Kubeconfig file [default: $KUBECONFIG, ~/.kube/config, or the pod's service account].
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: its current context].
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,

    /// Address for /healthz, /readyz, /metrics and /plugins. Use 0.0.0.0:8080 in a pod.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,

    /// How log lines are written.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,

    /// Threads that run guests [default: one per core].
    #[arg(long, value_name = "N")]
    pub workers: Option<NonZeroUsize>,
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
}
