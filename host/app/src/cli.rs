//! The command line.

mod election_args;
mod run_args;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use pilothouse_cluster::connect;
use pilothouse_core::is_dns_label;

use crate::address::Address;
use crate::child_args::ChildArgs;
use crate::compile::NOWHERE;
use crate::settings::digest;
use crate::trust::{AcceptedStore, usual_directory};
pub use election_args::ElectionArgs;
pub use run_args::{LogFormat, RunArgs};

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
    #[command(
        mut_arg("plugins", |plugins| plugins.required(false).default_value(".")),
        mut_arg("leader_elect", |elect| elect.default_value("false"))
    )]
    Dev(RunArgs),
    /// Make a directory with a new plugin, which builds, is tested and runs as its README.md says.
    #[command(after_long_help = "\
The SDK comes with it, so that the project needs nothing of Pilothouse but this program.

Examples:
  pilothouse new website --lang rust && cd website && cargo test
  pilothouse new website --lang python && cd website && python3 -m unittest")]
    New(NewArgs),
    /// Print what a plugin is, wants and costs; fails if `run` would not run it.
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
Without plugins it prints what the host needs by itself: a service account, and in its namespace a role for its Events and for \
the election of a leader. What the plugins add is in roles of their own, called NAME:plugins.

The NAME.toml beside a NAME.wasm, and the pilothouse.toml in its directory, say what is granted; without grants in them: as `pilothouse run` does it, to read its own kind.")]
pub struct RbacArgs {
    /// The plugins' *.wasm files.
    ///
    /// A directory stands for the plugins that a host would find in it.
    #[arg(value_name = "FILE", required_if_eq("plugins_only", "true"))]
    pub files: Vec<PathBuf>,

    /// Leave out what the host needs by itself, which a manifest in deploy/ has already.
    #[arg(long)]
    pub plugins_only: bool,

    /// For hosts that run with --share: they use a Lease each.
    #[arg(long)]
    pub share: bool,

    /// The Lease of the leader, as for `run`.
    #[arg(long, value_name = "NAME", value_parser = name, default_value = "pilothouse")]
    pub leader_elect_resource_name: String,

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

#[cfg(test)]
mod tests;
