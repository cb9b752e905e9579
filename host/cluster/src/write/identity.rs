//! The service account under which the host acts for a plugin, by impersonation
//! (<https://kubernetes.io/docs/reference/access-authn-authz/user-impersonation/>). The API server
//! adds a service account's groups by itself. Its priority and fairness runs after impersonation,
//! so each identity is a flow of its own.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use http::{HeaderValue, Request};
use pilothouse_core::Kind;
use serde::Deserialize;
use serde_json::json;

use crate::ApiCluster;
use crate::DiscoveryError;
use crate::client::RequestError;

const DEADLINE: Duration = Duration::from_secs(5);
const MAX_ANSWER: usize = 1024 * 1024;

/// A service account.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    namespace: String,
    name: String,
}

/// The text does not have the form `serviceaccount:NAMESPACE/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an identity; write serviceaccount:NAMESPACE/NAME")]
pub struct IdentityError(String);

impl FromStr for Identity {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<Self, IdentityError> {
        let is_name = |name: &str| {
            let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
            !name.is_empty() && name.len() <= 253 && name.bytes().all(is_plain)
        };
        let account = text.strip_prefix("serviceaccount:");
        match account.and_then(|account| account.split_once('/')) {
            Some((namespace, name)) if is_name(namespace) && is_name(name) => Ok(Self {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            }),
            _ => Err(IdentityError(text.to_owned())),
        }
    }
}

/// The user name that the API server gives the account.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "system:serviceaccount:{}:{}", self.namespace, self.name)
    }
}

impl Identity {
    /// The account's namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The account's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn groups(&self) -> [String; 3] {
        [
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{}", self.namespace),
            "system:authenticated".to_owned(),
        ]
    }
}

/// Makes the request run as this user.
pub(crate) fn impersonate(user: &str, request: &mut Request<Vec<u8>>) -> http::Result<()> {
    let user = HeaderValue::from_str(user)?;
    request.headers_mut().insert("impersonate-user", user);
    Ok(())
}

/// A SubjectAccessReview, as the server answers it.
#[derive(Debug, Deserialize)]
struct Review {
    #[serde(default)]
    status: ReviewStatus,
}

#[derive(Debug, Default, Deserialize)]
struct ReviewStatus {
    #[serde(default)]
    allowed: bool,
}

impl ApiCluster {
    /// Returns whether an identity may list and watch a kind in a namespace (the empty one means
    /// all namespaces). Asks with one SubjectAccessReview per verb. An error means that the review
    /// was not answered.
    pub async fn may_read(
        &self,
        identity: &Identity,
        kind: &Kind,
        namespace: &str,
    ) -> Result<bool, ReviewError> {
        let resource = self.discovery().resolve(kind).await?;
        for verb in ["list", "watch"] {
            let attributes = json!({
                "verb": verb, "group": &*kind.group, "version": &*kind.version,
                "resource": resource.plural, "namespace": namespace,
            });
            if !self.review(identity, &attributes).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn review(
        &self,
        identity: &Identity,
        attributes: &serde_json::Value,
    ) -> Result<bool, RequestError> {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {
                "user": identity.to_string(),
                "groups": identity.groups(),
                "resourceAttributes": attributes,
            },
        });
        let request = Request::post("/apis/authorization.k8s.io/v1/subjectaccessreviews")
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(review.to_string().into_bytes())
            .expect("a constant path");
        let body = match self.client.fetch_once(&request, DEADLINE, MAX_ANSWER).await {
            // The host may not ask. It must not go on as if the answer were yes.
            Err(error) if matches!(error.code(), Some(401 | 403)) => {
                tracing::warn!(%error, %identity, "access review forbidden; treating the identity as having no access");
                return Ok(false);
            }
            answer => answer?,
        };
        let review: Result<Review, _> = serde_json::from_slice(&body);
        // An unreadable answer counts as a no.
        Ok(review.is_ok_and(|review| review.status.allowed))
    }
}

/// Why it is not known what an identity may read.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// Discovery does not know the kind.
    #[error(transparent)]
    Kind(#[from] DiscoveryError),
    /// The review was not answered.
    #[error(transparent)]
    Request(#[from] RequestError),
}

impl ReviewError {
    /// True if the server gave no answer at all, so that asking again would not help now.
    pub fn is_silence(&self) -> bool {
        matches!(
            self,
            Self::Kind(DiscoveryError::Unanswered { .. })
                | Self::Request(RequestError::Transport(_) | RequestError::Deadline(_))
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_a_service_account() {
        let identity: Identity = "serviceaccount:web/deployer".parse().unwrap();
        assert_eq!(identity.to_string(), "system:serviceaccount:web:deployer");
        for wrong in [
            "",
            "web/deployer",
            "serviceaccount:deployer",
            "serviceaccount:web/",
            "serviceaccount:web/a/b",
            "serviceaccount:web/a\r\nb",
            "user:root/x",
        ] {
            assert!(wrong.parse::<Identity>().is_err(), "{wrong:?}");
        }
    }
}
