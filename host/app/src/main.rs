//! The `pilothouse` binary: joins core, wasm and cluster, and decides nothing.

mod config;
mod http;
mod logging;
mod metrics;
mod plugins;
mod run;
mod shared;
mod status;
mod watches;
mod workers;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let config::Command::Run(args) = config::Cli::parse().command;
    logging::init(args.log_format);
    let result = tokio::runtime::Runtime::new()
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(run::run(args)));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
