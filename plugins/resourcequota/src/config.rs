//! What the operator can configure.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

/// Longest period that can be configured.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    #[serde(default = "five_minutes")]
    recalculation_seconds: u64,
}

/// As upstream's `--resource-quota-sync-period`.
fn five_minutes() -> u64 {
    300
}

impl Config {
    /// What is valid.
    pub fn schema() -> Value {
        json!({
            "type": "object", "additionalProperties": false,
            "properties": {
                "recalculationSeconds": {
                    "type": "integer", "minimum": 0, "maximum": LONGEST.as_secs(),
                    "default": five_minutes(),
                },
            },
        })
    }

    /// How often everything is counted although nothing has gone. `None`: never.
    pub fn period(&self) -> Option<Duration> {
        let seconds = self.recalculation_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds))
    }
}
