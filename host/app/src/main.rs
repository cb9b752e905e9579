//! The `pilothouse` binary. It connects core, wasm and cluster, and makes no decisions of its own.

mod access;
mod address;
mod allocator;
mod check;
mod child_args;
mod cli;
mod client;
mod compile;
mod controllers;
mod directory;
mod events;
mod host_events;
mod hosts;
mod http;
mod informers;
mod kinds;
mod logging;
mod manual;
mod metrics;
mod named_files;
mod new;
mod output;
mod patterns;
mod plugins;
mod rbac;
mod reach;
mod reports;
mod run;
mod schema;
mod settings;
mod shared;
mod status;
#[cfg(test)]
mod test_log;
mod trust;
mod workers;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use pilothouse_core::CommandVerb;

use cli::{Child, ChildCli, Cli, Command, RunArgs};
use settings::HostDefaults;

fn main() -> ExitCode {
    let word = std::env::args_os().nth(1);
    if word.is_some_and(|word| word.to_str().is_some_and(Child::has_subcommand)) {
        return match ChildCli::parse().child {
            Child::Compile(args) => compile::run(&args),
            Child::Schema(args) => schema::run(&args),
        };
    }
    match Cli::parse().command {
        Command::Run(args) => host(args, HostDefaults::of_run()),
        Command::Dev(args) => host(args, HostDefaults::of_dev()),
        Command::New(args) => ask(std::future::ready(new::print(&args))),
        Command::Check(args) => ask(check::print(&args)),
        Command::Rbac(args) => ask(rbac::print(&args)),
        Command::Plugins(args) => ask(client::plugins(&args)),
        Command::Pause(args) => ask(client::command(&args, CommandVerb::Pause, None)),
        Command::Resume(args) => ask(client::command(&args, CommandVerb::Resume, None)),
        Command::Rollback(args) => ask(client::command(&args, CommandVerb::Rollback, None)),
        Command::Accept(args) => ask(client::command(
            &args.plugin,
            CommandVerb::Accept,
            args.sha256.as_deref(),
        )),
        Command::Completions(args) => ask(std::future::ready(manual::completions(&args))),
        Command::Man(args) => ask(std::future::ready(manual::page(&args))),
    }
}

fn host(args: RunArgs, defaults: HostDefaults) -> ExitCode {
    allocator::limit_arenas();
    if let Err(error) = logging::init(args.log_format) {
        eprintln!("error: {error:#}");
        return ExitCode::FAILURE;
    }
    let result = match tokio::runtime::Runtime::new() {
        Ok(runtime) => {
            let result = runtime.block_on(run::run(args, defaults));
            // A plugin may still be compiling. Its result is not needed any more.
            runtime.shutdown_background();
            result
        }
        Err(error) => Err(anyhow::Error::new(error).context("cannot start the async runtime")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("cannot run: {}", output::chain(&error));
            ExitCode::FAILURE
        }
    }
}

/// Prints the answer of a command that ends by itself.
fn ask(question: impl Future<Output = anyhow::Result<String>>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let answer = match runtime {
        Ok(runtime) => runtime.block_on(question),
        Err(error) => Err(error.into()),
    };
    match answer.and_then(|text| output::print(&text)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&output::chain(&error));
            ExitCode::FAILURE
        }
    }
}
