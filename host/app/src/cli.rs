//! The command line.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use pilothouse_cluster::client::{Limit, RateLimits};
use pilothouse_cluster::connect;
use pilothouse_core::is_dns_label;

use crate::address::Address;
use crate::child_args::ChildArgs;
use crate::compile::NOWHERE;
use crate::settings::{bytes, digest, duration};
use crate::trust::{AcceptedStore, usual_directory};

/// Hosts many Kubernetes controllers, each a WebAssembly component, in one process.
#[derive(Debug, Parser)]
#[command(
    name = "pilothouse",
    version,
    long_version = LONG_VERSION.as_str(),
    propagate_version = true,
    after_long_help = "\
Examples:
  pilothouse new my-plugin --lang rust                  begin to write one
  pilothouse check my-plugin.wasm                       what is in this file, what does it want?
  pilothouse dev --plugins target/plugins               run what is there, against the kubeconfig's cluster
  pilothouse rbac plugins/*.wasm | kubectl apply -f -   let the host do what these plugins need, and no more
  pilothouse plugins                                    how are the plugins of the host on this machine?

Every command ends with status 0 if it did what it was asked to, with 1 if not, and with 2 if the command line is wrong. What it
prints is on standard output, what is wrong on standard error. NO_COLOR in the environment switches colours off."
)]
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
    /// Run the controllers of a directory against a cluster. Each may read its own kind, and
    /// nothing more until it is granted.
    Run(RunArgs),
    /// The same for the one who writes controllers: each is granted what its manifest asks for, and
    /// what is in its file runs, however often it breaks.
    #[command(mut_arg("plugins", |plugins| plugins.required(false).default_value(".")))]
    Dev(RunArgs),
    /// Make a directory with a new plugin, which builds, is tested and runs as its README.md says.
    #[command(after_long_help = "\
The SDK comes with it, so that the project needs nothing of Pilothouse but this program.

Examples:
  pilothouse new website --lang rust && cd website && cargo test
  pilothouse new website --lang python && cd website && python3 -m unittest")]
    New(NewArgs),
    /// Print what a plugin is, wants and costs; fails if it would not load.
    Check(CheckArgs),
    /// Print the permissions that the host needs for these plugins, as YAML for
    /// `kubectl apply -f -`.
    Rbac(RbacArgs),
    /// List the plugins of a running host, and how they are.
    Plugins(ListArgs),
    /// Let a plugin of a running host run nothing. Its keys are kept.
    Pause(PluginArgs),
    /// Let a plugin run that is paused or in quarantine.
    Resume(PluginArgs),
    /// Bring back the version of a plugin that ran before.
    Rollback(PluginArgs),
    /// Let the version of a plugin run that waits because it asks for more than those before it.
    ///
    /// `pilothouse plugins` says what that is, `pilothouse check` what is in the file. It is
    /// remembered.
    Accept(AcceptArgs),
    /// Print a script that completes this command line.
    #[command(after_long_help = "\
Examples:
  pilothouse completions bash > ~/.local/share/bash-completion/completions/pilothouse
  pilothouse completions zsh > \"${fpath[1]}/_pilothouse\"
  pilothouse completions fish > ~/.config/fish/completions/pilothouse.fish")]
    Completions(CompletionsArgs),
    /// Print the manual page of this program, or of one of its commands.
    #[command(after_long_help = "\
Examples:
  pilothouse man run | man -l -
  pilothouse man > /usr/local/share/man/man1/pilothouse.1")]
    Man(ManArgs),
}

/// What the host starts itself as, so that the work has limits. Not typed by anybody, and so in no
/// help and no completion.
#[derive(Debug, Parser)]
pub struct ChildCli {
    #[command(subcommand)]
    pub child: Child,
}

#[derive(Debug, Subcommand)]
pub enum Child {
    /// Compile a plugin from standard input to standard output.
    #[command(name = pilothouse_wasm::COMPILE_CHILD)]
    Compile(ChildArgs),
    /// Check a configuration against a schema, both from standard input.
    #[command(name = crate::schema::SCHEMA_CHILD)]
    Schema(ChildArgs),
}

/// The text of `--version`, for use in bug reports. It includes the commit if that was given at
/// compile time, as `make build` does.
static LONG_VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut text = env!("CARGO_PKG_VERSION").to_owned();
    if let Some(commit) = option_env!("PILOTHOUSE_COMMIT").filter(|commit| !commit.is_empty()) {
        text += &format!("\ncommit: {commit}");
    }
    text + &format!(
        "\ncontract: pilothouse:controller@{}\nwasmtime: {}",
        pilothouse_wasm::ABI_VERSION,
        WASMTIME_VERSION
    )
});

/// The release in `Cargo.lock`. wasmtime does not export its own version.
const WASMTIME_VERSION: &str = "48.0.8";

#[derive(Debug, Args)]
pub struct NewArgs {
    /// The plugin's name, and that of the directory, which must be new or empty.
    #[arg(value_parser = plugin)]
    pub name: String,

    /// The language to write it in.
    #[arg(long, value_name = "LANGUAGE", value_enum)]
    pub lang: Language,
}

/// A language that there is an SDK for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Language {
    /// For any controller: about 150 KB of wasm.
    Rust,
    /// Unit tests without a compiler, and 18 MB of wasm: the interpreter is in it.
    Python,
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The plugins' *.wasm files; the settings beside them are checked, too.
    ///
    /// A directory stands for the plugins that a host would find in it.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,

    #[command(flatten)]
    pub code: CodeCacheArgs,

    #[command(flatten)]
    pub state: StateArgs,

    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Where the host remembers what it was told.
#[derive(Debug, Args)]
pub struct StateArgs {
    /// Where it is remembered what has been accepted of plugins, "none" for as long as the host
    /// runs [default: $XDG_STATE_HOME/pilothouse, ~/.local/state/pilothouse].
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

impl StateArgs {
    /// The records of what has been accepted.
    pub fn accepted(&self) -> AcceptedStore {
        let said = self.state_dir.clone().or_else(usual_directory);
        let is_nowhere = said.as_deref() == Some(Path::new(NOWHERE));
        AcceptedStore::new(said.as_deref().filter(|_| !is_nowhere))
    }
}

/// Where compiled plugins are kept.
#[derive(Debug, Args)]
pub struct CodeCacheArgs {
    /// Where compiled plugins are kept, so that each is compiled once; "none" for nowhere [default:
    /// $XDG_CACHE_HOME/pilothouse/code, ~/.cache/pilothouse/code].
    #[arg(long, value_name = "DIR")]
    pub code_cache: Option<PathBuf>,
}

/// A cluster that is asked something.
#[derive(Debug, Args)]
pub struct ClusterArgs {
    /// Ask the cluster of this kubeconfig which kinds it serves, and what it calls them.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Ask the cluster of this context of the kubeconfig.
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

impl ClusterArgs {
    /// The cluster that the flags name. `None`: no cluster is asked.
    pub fn named(&self) -> Option<connect::Options> {
        (self.kubeconfig.is_some() || self.context.is_some()).then(|| connect::Options {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
        })
    }
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
The NAME.toml beside a NAME.wasm, and the pilothouse.toml in its directory, say what is granted; without grants in them: as `pilothouse run` does it, to read its own kind.")]
pub struct RbacArgs {
    /// The plugins' *.wasm files.
    ///
    /// A directory stands for the plugins that a host would find in it.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// A service account of its own for each plugin, for `identity` in its settings.
    #[arg(long)]
    pub per_plugin: bool,

    /// Grant a plugin all that it asks for where no settings beside it say what it is granted;
    /// without this it may read its own kind, as with `run`.
    #[arg(long)]
    pub as_requested: bool,

    /// Name of the host's service account and role.
    #[arg(long, value_parser = name, default_value = "pilothouse")]
    pub name: String,

    /// Namespace of the host's service account.
    #[arg(long, value_parser = namespace, default_value = "pilothouse")]
    pub namespace: String,

    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Where a running host is.
#[derive(Debug, Args)]
pub struct HostArgs {
    /// What the host's --listen says: HOST:PORT, or http://HOST:PORT.
    #[arg(long, value_name = "ADDR", value_parser = Address::of_host, default_value = "127.0.0.1:8080")]
    pub host: Address,
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

    /// What the host's --command-socket says; without it the socket is found by the port of --host.
    #[arg(long, value_name = "PATH")]
    pub command_socket: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct AcceptArgs {
    #[command(flatten)]
    pub plugin: PluginArgs,

    /// Accept the file with this digest, as `pilothouse check` prints it, and no other that has
    /// come in its place.
    #[arg(long, value_name = "DIGEST", value_parser = digest)]
    pub sha256: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Output {
    /// The most important, a line for each plugin.
    Table,
    /// All that the host's /plugins says.
    Json,
}

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell that is to complete.
    pub shell: Shell,
}

#[derive(Debug, Args)]
pub struct ManArgs {
    /// The command; none means the whole program.
    pub command: Option<String>,
}

#[derive(Debug, Args)]
#[command(
    args_override_self = true,
    after_long_help = "\
Logs go to standard error; RUST_LOG chooses what (default: info).

Ends with status 0 after SIGTERM or SIGINT: what is queued is finished first, within 30 seconds. Ends with 1 only for what waiting
does not mend: the directory is not there, the kubeconfig or its context is wrong, a running server refuses the credentials, the
address is in use. An empty directory, a plugin that does not load and a server that does not answer end nothing: the log and
/readyz say what is waited for."
)]
pub struct RunArgs {
    /// Directory whose *.wasm files are the controllers, with their settings in *.toml; or one such
    /// file.
    ///
    /// It is followed: what comes, changes or goes while the host runs is taken up.
    #[arg(long, value_name = "DIR")]
    pub plugins: PathBuf,

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

/// Parses a service account's name. The server must accept the manifests that are printed with it.
fn name(text: &str) -> Result<String, String> {
    if text.len() <= 253 && text.split('.').all(is_dns_label) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "{text:?} is not a name; write small letters, digits, \"-\" and \".\""
    ))
}

/// Parses a plugin's name, by the rule for manifests.
fn plugin(text: &str) -> Result<String, String> {
    if is_dns_label(text) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "{text:?} is not a plugin's name; write small letters, digits and \"-\", at most 63, beginning and ending with a letter \
         or digit"
    ))
}

fn namespace(text: &str) -> Result<String, String> {
    if is_dns_label(text) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "{text:?} is not a namespace; write small letters, digits and \"-\""
    ))
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

    #[test]
    fn the_version_of_wasmtime_is_the_one_that_is_linked() {
        let lock = include_str!("../../../Cargo.lock");
        let wanted = format!("name = \"wasmtime\"\nversion = \"{WASMTIME_VERSION}\"\n");
        assert!(lock.contains(&wanted), "{wanted}");
        assert!(LONG_VERSION.contains(WASMTIME_VERSION));
    }

    /// The error text for a wrong command line.
    fn refused(arguments: &[&str]) -> String {
        let arguments = ["pilothouse"].iter().chain(arguments);
        let error = Cli::try_parse_from(arguments).expect_err("it is wrong");
        assert_eq!(error.exit_code(), 2);
        error.to_string()
    }

    #[test]
    fn a_value_that_is_wrong_is_told_what_to_write() {
        let run = |flag| refused(&["run", "--plugins", "x", flag]);
        for (flag, says) in [
            ("--workers=0", "write 1 or more"),
            ("--workers=many", "write 1 or more"),
            ("--allowed-host=http://a.example", "without a scheme"),
            ("--allowed-host=a.example:80", "without a scheme"),
            ("--allowed-host=*", "without a scheme"),
            ("--watch-limit=0", "write 1 or more"),
            ("--listen=8080", ":8080 for every address"),
            ("--listen=http://localhost:8080", "write 127.0.0.1:8080"),
        ] {
            let error = run(flag);
            assert!(error.contains(says), "{error}");
        }
        let error = refused(&["plugins", "--host=8080"]);
        assert!(error.contains("localhost:8080"), "{error}");
    }

    #[test]
    fn more_than_one_name_may_be_allowed() {
        let names = ["--allowed-host=a.example", "--allowed-host=[fd00::1]"];
        let all = ["pilothouse", "run", "--plugins", "x"].iter().chain(&names);
        let cli = Cli::try_parse_from(all).unwrap();
        let Command::Run(args) = cli.command else {
            panic!("it is run");
        };
        assert_eq!(args.allowed_host, ["a.example", "[fd00::1]"]);
    }

    #[test]
    fn a_short_help_is_shorter_and_a_line_for_each_flag() {
        let mut program = Cli::command();
        program.build();
        let run = program.find_subcommand_mut("run").expect("it is there");
        let (short, long) = (run.render_help(), run.render_long_help());
        let (short, long) = (short.to_string(), long.to_string());
        assert!(short.len() < long.len(), "{short}");
        for text in ["--listen <ADDR>", "--min-resync-period <DURATION>"] {
            assert!(short.contains(text) && long.contains(text), "{short}");
        }
        assert!(long.contains("An empty directory"), "{long}");
    }

    #[test]
    fn names_that_no_server_takes_are_refused() {
        let rbac = |arguments: &[&str]| {
            let all = ["pilothouse", "rbac", "x.wasm"].iter().chain(arguments);
            let parsed = Cli::try_parse_from(all);
            parsed.map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(rbac(&["--name=a.b-1", "--namespace=web"]), Ok(()));
        for bad in ["", "A", "a b", "a: b", "-a", "a."] {
            let error = rbac(&[&format!("--name={bad}")]).unwrap_err();
            assert!(error.contains("is not a name"), "{error}");
        }
        for bad in ["", "a.b", "A", "kube_system"] {
            let error = rbac(&[&format!("--namespace={bad}")]).unwrap_err();
            assert!(error.contains("is not a namespace"), "{error}");
        }
    }

    #[test]
    fn a_new_plugin_has_a_name_that_a_manifest_can_have_and_a_language_that_is_known() {
        let new = ["pilothouse", "new", "cert-expiry", "--lang", "rust"];
        let Command::New(args) = Cli::try_parse_from(new).unwrap().command else {
            panic!("it is new");
        };
        assert_eq!(args.name, "cert-expiry");
        assert_eq!(args.lang, Language::Rust);
        for bad in ["", "A", "a.b", "a/b", "..", "a_b", "a-", &"a".repeat(64)] {
            let error = refused(&["new", bad, "--lang", "rust"]);
            assert!(error.contains("is not a plugin's name"), "{error}");
        }
        let error = refused(&["new", "a", "--lang", "cobol"]);
        assert!(error.contains("[possible values: rust, python]"), "{error}");
        assert!(refused(&["new", "a"]).contains("--lang <LANGUAGE>"));
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
