//! Remembers which configurations fit the schemas of a plugin's versions, so that each is checked
//! only once.

use pilothouse_core::Digest;

use super::loading::LoadedVersion;
use crate::schema::{Fault, Schemas};

/// The version that runs, the previous one, and the candidate.
const KEPT: usize = 3;

/// The last answers for one plugin.
#[derive(Default)]
pub struct ConfigChecks(Vec<Answer>);

struct Answer {
    version: Digest,
    config: String,
    is: Result<(), Fault>,
}

impl ConfigChecks {
    /// Checks a configuration against a version's schema. An error is the reason why the version
    /// may not be given it.
    pub async fn ask(
        &mut self,
        schemas: &Schemas,
        version: &LoadedVersion,
        config: String,
    ) -> Result<(), Fault> {
        let Some(schema) = version.manifest.config_schema.clone() else {
            return Ok(());
        };
        let is_it = |answer: &&Answer| answer.version == version.digest && answer.config == config;
        if let Some(known) = self.0.iter().find(is_it) {
            return known.is.clone();
        }
        let schemas = schemas.clone();
        let asked = config.clone();
        let judge = move || schemas.judge(&schema, &asked);
        let is = match tokio::task::spawn_blocking(judge).await {
            Ok(is) => is,
            Err(error) => Err(Fault::NotTried(error.to_string())),
        };
        if !matches!(is, Err(Fault::NotTried(_))) {
            self.0.retain(|answer| answer.version != version.digest);
            self.0.truncate(KEPT - 1);
            let version = version.digest.clone();
            let is = is.clone();
            self.0.insert(
                0,
                Answer {
                    version,
                    config,
                    is,
                },
            );
        }
        is
    }
}
