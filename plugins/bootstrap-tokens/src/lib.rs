//! What the plugins of bootstrap tokens share: Secrets with which new nodes join a cluster.
//!
//! The rules are those of Kubernetes' `cluster-bootstrap`.

use std::borrow::Cow;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pilothouse_sdk::{Manifest, Read, Selection, Time};
use serde::de::{Deserialize, Deserializer, Error};

/// The kind of the tokens.
pub const SECRETS: &str = "v1/Secret";

/// The namespace of the tokens: what is elsewhere is none.
pub const NAMESPACE: &str = "kube-system";

/// The API server's selector of Secrets that are tokens.
const TYPE: &str = "type=bootstrap.kubernetes.io/token";

/// The keys of all tokens.
#[must_use]
pub fn selection() -> Selection {
    Selection::of(SECRETS)
        .namespace(NAMESPACE)
        .field_selector(TYPE)
}

/// Adds a read of these values of all tokens.
#[must_use]
pub fn reads(manifest: Manifest, fields: &[String]) -> Manifest {
    let fields = fields.to_vec();
    let tokens = Read::new(SECRETS, []);
    let tokens = tokens.namespace(NAMESPACE).field_selector(TYPE);
    manifest.reads_only(Read { fields, ..tokens })
}

/// A value of a Secret, as it is before base64. One that is missing is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretValue(Vec<u8>);

impl SecretValue {
    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text. Bytes that are none become U+FFFD.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }

    /// True if it is missing or empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'de> Deserialize<'de> for SecretValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        let bytes = STANDARD.decode(text.as_bytes());
        // The text is not shown: it is secret.
        bytes
            .map(Self)
            .map_err(|_| D::Error::custom("a value of the Secret is not base64"))
    }
}

/// How long a token is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// It has no end.
    Forever,
    /// For this time, which is not zero.
    For(Duration),
    /// It is over, or when it ends cannot be read.
    Over,
}

impl Validity {
    /// Of a token with this value of `expiration`, an RFC 3339 time.
    #[must_use]
    pub fn of(expiration: &SecretValue, now: Duration) -> Self {
        if expiration.is_empty() {
            return Self::Forever;
        }
        match expiration.text().parse::<Time>() {
            Ok(end) if end.0 > now => Self::For(end.0 - now),
            _ => Self::Over,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn validity(expiration: &str) -> Validity {
        let now: Time = "2026-01-01T00:00:00Z".parse().unwrap_or_default();
        Validity::of(&SecretValue(expiration.into()), now.0)
    }

    #[test]
    fn a_token_is_valid_until_its_end() {
        let hour = Validity::For(Duration::from_secs(3600));
        assert_eq!(validity("2026-01-01T01:00:00Z"), hour);
        assert_eq!(validity("2026-01-01T03:00:00+02:00"), hour);
        for over in [
            "2026-01-01T00:00:00Z",
            "2025-12-31T00:00:00Z",
            "1960-01-01T00:00:00Z",
        ] {
            assert_eq!(validity(over), Validity::Over, "{over}");
        }
        assert_eq!(validity("garbage"), Validity::Over);
        assert_eq!(validity(""), Validity::Forever);
    }
}
