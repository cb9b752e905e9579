//! The command line.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Parser, Subcommand, ValueEnum};
use pilothouse_cluster::limit::{Limit, Limits};

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

    /// Address for /healthz, /readyz, /metrics, /plugins and /informers. Use 0.0.0.0:8080 in a pod.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,

    /// How log lines are written.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,

    #[command(flatten)]
    pub limits: LimitArgs,

    /// Threads that run guests. One plugin never occupies all of them while there are others [default: one more than cores].
    #[arg(long, value_name = "N")]
    pub workers: Option<NonZeroUsize>,

    /// Reconcile every object again after one to two times this period, though nothing has changed: 12h, 30m, 90s; 0 for never.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "0")]
    pub min_resync_period: Duration,

    /// A plugin's share of the workers' time against the others', which have 1 each: endpoints=4. May be repeated.
    #[arg(long, value_name = "PLUGIN=N", value_parser = weight)]
    pub weight: Vec<(String, u32)>,

    /// Most memory for cached objects: 512Mi, 4Gi. What does not fit is not cached, and its plugins wait [default: no limit].
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub cache_limit: Option<usize>,

    /// Plugins that may read the values of Secrets; the host keeps them in memory for no others.
    #[arg(long, value_name = "PLUGIN,...", value_delimiter = ',')]
    pub secret_values: Vec<String>,
}

/// As Kubernetes writes durations: `1h30m`, `90s`.
fn duration(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let parsed = text.parse::<jiff::SignedDuration>().ok();
    parsed
        .and_then(|duration| duration.try_into().ok())
        .ok_or_else(|| format!("{text:?} is not a duration; write 12h, 1h30m, 90s or 0"))
}

/// As Kubernetes writes quantities of memory, with the binary suffixes.
fn bytes(text: &str) -> Result<usize, String> {
    let digits = text
        .find(|byte: char| !byte.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "" => 1,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => 0,
    };
    let bytes = number
        .parse()
        .ok()
        .and_then(|number: usize| number.checked_mul(unit));
    bytes
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| format!("{text:?} is not an amount of memory; write 512Mi or 4Gi"))
}

fn weight(text: &str) -> Result<(String, u32), String> {
    let (plugin, weight) = text.split_once('=').unwrap_or((text, ""));
    match weight.parse() {
        Ok(weight @ 1..) if !plugin.is_empty() => Ok((plugin.to_owned(), weight)),
        _ => Err(format!(
            "{text:?} is not PLUGIN=N with N of 1 or more; write endpoints=4"
        )),
    }
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
    fn durations_are_written_as_in_kubernetes() {
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        for wrong in ["12", "-5s", "soon", ""] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn memory_is_written_as_in_kubernetes() {
        assert_eq!(bytes("512Mi"), Ok(512 << 20));
        assert_eq!(bytes("1000"), Ok(1000));
        for wrong in ["", "0", "4GB", "Mi", "-1Gi", "99999999999999999999Gi"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_weight_is_of_a_plugin_and_at_least_one() {
        assert_eq!(weight("endpoints=4"), Ok(("endpoints".into(), 4)));
        for wrong in ["endpoints", "=4", "endpoints=0", "endpoints=x"] {
            assert!(weight(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    fn limits(arguments: &[&str]) -> Result<(), String> {
        let arguments = ["pilothouse", "run", "--plugins", "x"]
            .iter()
            .chain(arguments);
        let cli = Cli::try_parse_from(arguments).map_err(|error| error.to_string())?;
        let Command::Run(args) = cli.command;
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
