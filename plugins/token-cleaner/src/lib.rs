//! Deletes bootstrap tokens that have expired.
//!
//! The rules are those of kube-controller-manager's token cleaner (`pkg/controller/bootstrap` in
//! kubernetes/kubernetes). The README lists the differences.

use bootstrap_tokens::{SECRETS, SecretValue, Validity, selection};
use pilothouse_sdk::{
    Controller, Delete, Failure, Host, Manifest, Metadata, Outcome, Projection, Request, Verb,
};
use serde::Deserialize;

#[derive(Deserialize, Projection)]
struct Token {
    metadata: Metadata,
    #[serde(default)]
    data: TokenData,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
struct TokenData {
    #[projection(whole)]
    expiration: SecretValue,
}

/// The token cleaner.
pub struct TokenCleaner;

impl Controller for TokenCleaner {
    fn manifest() -> Manifest {
        let manifest = Manifest::new("token-cleaner", env!("CARGO_PKG_VERSION"), selection());
        bootstrap_tokens::reads(manifest, &Token::fields()).writes(SECRETS, [Verb::Delete])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let Some(Token { metadata, data }) = request.object()? else {
            return Ok(Outcome::done());
        };
        if metadata.deletion_timestamp.is_some() {
            return Ok(Outcome::done());
        }
        Ok(match Validity::of(&data.expiration, host.now()) {
            Validity::Forever => Outcome::done(),
            Validity::For(time) => Outcome::done().requeue_after(time),
            Validity::Over => Outcome::done().with(Delete::new(request.key()).uid(&metadata.uid)),
        })
    }
}

pilothouse_sdk::register!(TokenCleaner);
