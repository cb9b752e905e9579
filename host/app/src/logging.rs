//! Log lines: a constant message, and fields.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::config::LogFormat;

/// Unless `RUST_LOG` says otherwise. kube logs each request that fails; whoever sent it says what came of it, once per incident.
const FILTER: &str = "info,kube_client=off";

/// Whether lines are coloured: on a terminal, unless `NO_COLOR` says something (https://no-color.org).
fn is_coloured() -> bool {
    let is_refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    std::io::stderr().is_terminal() && !is_refused
}

/// Everything to standard error; standard output stays free for what a command prints.
pub fn init(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(FILTER));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false);
    match format {
        LogFormat::Text => builder.with_ansi(is_coloured()).init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
}
