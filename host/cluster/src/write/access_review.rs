//! Asks the API server what an identity may read. Grants nothing.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use pilothouse_core::Kind;
use serde::Deserialize;
use serde_json::json;

use super::identity::Identity;
use crate::client::{Client, RequestError};
use crate::discovery::{Discovery, DiscoveryError};

/// Deadline of one review. Short: a plugin waits for it, and it is repeated.
const DEADLINE: Duration = Duration::from_secs(5);

/// Largest answer, in bytes.
const MAX_ANSWER: usize = 1024 * 1024;

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

/// Asks the server what an identity may do.
pub(crate) struct AccessReviewer {
    client: Client,
    discovery: Arc<Discovery>,
}

impl AccessReviewer {
    pub(crate) fn new(client: Client, discovery: Arc<Discovery>) -> Self {
        Self { client, discovery }
    }

    /// Returns whether an identity may list and watch a kind in a namespace (the empty one means
    /// all namespaces). Asks with one SubjectAccessReview per verb. An error means that the review
    /// was not answered.
    pub(crate) async fn may_read(
        &self,
        identity: &Identity,
        kind: &Kind,
        namespace: &str,
    ) -> Result<bool, ReviewError> {
        let resource = self.discovery.resolve(kind).await?;
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
