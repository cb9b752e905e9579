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
    let result = match tokio::runtime::Runtime::new() {
        Ok(runtime) => {
            let result = runtime.block_on(run::run(args));
            // A plugin may still be compiling; nobody needs it any more.
            runtime.shutdown_background();
            result
        }
        Err(error) => Err(anyhow::Error::new(error).context("cannot start the async runtime")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("cannot run: {error:#}");
            ExitCode::FAILURE
        }
    }
}
