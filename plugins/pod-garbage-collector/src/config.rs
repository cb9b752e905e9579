//! What the operator can configure.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

/// The defaults are upstream's. Of these, it lets only the first be changed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Config {
    /// How many pods that have ended may stay. None are deleted for their number if it is not
    /// positive.
    pub terminated_pod_threshold: i64,
    /// How much time there is at least between two looks at all pods.
    check_period_seconds: u64,
    /// How long a node has to be missing before its pods are deleted.
    quarantine_seconds: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            terminated_pod_threshold: 12_500,
            check_period_seconds: 20,
            quarantine_seconds: 40,
        }
    }
}

impl Config {
    /// What is valid.
    pub fn schema() -> Value {
        let Self {
            terminated_pod_threshold,
            check_period_seconds,
            quarantine_seconds,
        } = Self::default();
        json!({
            "type": "object", "additionalProperties": false,
            "properties": {
                "terminatedPodThreshold": {"type": "integer", "default": terminated_pod_threshold},
                "checkPeriodSeconds": {
                    "type": "integer", "minimum": 0, "maximum": 3_600,
                    "default": check_period_seconds,
                },
                "quarantineSeconds": {
                    "type": "integer", "minimum": 0, "maximum": 86_400,
                    "default": quarantine_seconds,
                },
            },
        })
    }

    pub fn check_period(&self) -> Duration {
        Duration::from_secs(self.check_period_seconds)
    }

    pub fn quarantine(&self) -> Duration {
        Duration::from_secs(self.quarantine_seconds)
    }
}
