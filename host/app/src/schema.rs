//! Checks a plugin's configuration against the JSON Schema of its manifest. A schema is untrusted
//! input, and evaluating one may take any amount of time, memory or stack. Therefore a separate
//! process does it, under limits, as for compilation.

mod child;
mod evaluate;

use std::path::PathBuf;
use std::time::Duration;

use pilothouse_confine::own_executable;
use pilothouse_confine::{Confined, Ended};
use serde::{Deserialize, Serialize};
use tracing::warn;

pub use child::run;
use evaluate::evaluate;

/// The first argument that makes the host's executable a process that checks a configuration
/// against a schema.
pub const SCHEMA_CHILD: &str = "schema-child";

/// A schema and a configuration of reasonable size take a few milliseconds and megabytes. The rest
/// of the memory limit is for the executable itself.
const PROCESS: Confined = Confined {
    word: SCHEMA_CHILD,
    memory_bytes: 512 << 20,
    cpu: Duration::from_secs(1),
    // The CPU time is the effective limit, also on a machine that is busy with other work.
    wall: Duration::from_secs(60),
    output_bytes: 64 << 10,
};

/// The input of the evaluating process.
#[derive(Debug, Serialize, Deserialize)]
struct Question {
    schema: String,
    /// `None`: check only the schema.
    config: Option<String>,
}

/// Why a configuration is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The schema is invalid, or cannot be evaluated within the limits.
    #[error("configSchema: {0}")]
    Schema(String),
    /// Where in the configuration, and what.
    #[error("{0}")]
    Config(String),
    /// The result is unknown. Another attempt may succeed.
    #[error("the configuration cannot be held against its schema: {0}")]
    NotTried(String),
}

/// Checks schemas and configurations.
#[derive(Clone, Debug)]
pub struct Schemas {
    /// The executable that is started. `None`: this process evaluates the schema itself, without
    /// limits.
    executable: Option<PathBuf>,
}

impl Schemas {
    /// Evaluates in processes of the host's own executable.
    pub fn of_own_executable() -> Self {
        let executable = own_executable()
            .inspect_err(|error| warn!(%error, "cannot find the host's own executable; evaluating configSchemas in this process, without limits"));
        Self {
            executable: executable.ok(),
        }
    }

    /// Checks that this is a valid schema.
    pub fn check(&self, schema: &str) -> Result<(), Fault> {
        self.ask(schema, None)
    }

    /// Checks a configuration against a schema. Blocks, usually for milliseconds, so it must not be
    /// called on an async thread.
    pub fn judge(&self, schema: &str, config: &str) -> Result<(), Fault> {
        self.ask(schema, Some(config))
    }

    fn ask(&self, schema: &str, config: Option<&str>) -> Result<(), Fault> {
        let Some(executable) = &self.executable else {
            return evaluate(schema, config);
        };
        let question = Question {
            schema: schema.to_owned(),
            config: config.map(str::to_owned),
        };
        let not_tried = |error: std::io::Error| Fault::NotTried(error.to_string());
        let input = serde_json::to_vec(&question).map_err(std::io::Error::from);
        let ended = PROCESS
            .run(executable, &input.map_err(not_tried)?)
            .map_err(not_tried)?;
        verdict(&ended)
    }
}

/// Reads the result from how the process ended. If it died, the schema is taken to be the cause,
/// unless it was killed from outside or ran out of wall-clock time.
fn verdict(ended: &Ended) -> Result<(), Fault> {
    match ended.code() {
        Some(child::FITS) => return Ok(()),
        Some(child::NO_SCHEMA) => return Err(Fault::Schema(ended.text())),
        Some(child::DOES_NOT_FIT) => return Err(Fault::Config(ended.text())),
        _ => {}
    }
    let too_much = |of: String| Err(Fault::Schema(format!("evaluating it needs more than {of}")));
    if ended.is_out_of_memory() {
        return too_much(format!("{} MiB of memory", PROCESS.memory_bytes >> 20));
    }
    if ended.is_out_of_time() {
        return too_much(format!("{} s of CPU time", PROCESS.cpu.as_secs()));
    }
    if ended.status.is_none() {
        return Err(Fault::NotTried(format!(
            "that takes more than {:?}",
            PROCESS.wall
        )));
    }
    let death = format!("the process that evaluates it {}", ended.death());
    Err(
        match ended.is_killed() || ended.code() == Some(child::NOT_TRIED) {
            true => Fault::NotTried(death),
            false => Fault::Schema(death),
        },
    )
}
