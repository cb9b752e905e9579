//! Asks the API server what an identity may read. Grants nothing.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use k8s_openapi::Resource as _;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use pilothouse_core::Kind;
use serde_json::json;

use super::identity::Identity;
use crate::client::{Client, RequestError};
use crate::discovery::{Discovery, DiscoveryError};

/// Deadline of one review. Short: a plugin waits for it, and it is repeated.
const DEADLINE: Duration = Duration::from_secs(5);

/// Largest answer, in bytes.
const MAX_ANSWER: usize = 1024 * 1024;

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
    /// all namespaces), and also get it if it is a pattern: objects of its kinds that cannot be
    /// watched are got one by one. Asks with one SubjectAccessReview per verb. An error means that
    /// the review was not answered.
    pub(crate) async fn may_read(
        &self,
        identity: &Identity,
        kind: &Kind,
        namespace: &str,
    ) -> Result<bool, ReviewError> {
        // RBAC writes patterns as this does: `*` for every group, and `*` for every resource.
        let (version, plural, verbs) = match kind.is_pattern() {
            true => (
                "*".to_owned(),
                "*".to_owned(),
                &["list", "watch", "get"][..],
            ),
            false => {
                let resource = self.discovery.look_for(kind, None).await?;
                let version = kind.version.to_string();
                (version, resource.plural.clone(), &["list", "watch"][..])
            }
        };
        for &verb in verbs {
            let attributes = ResourceAttributes {
                verb: Some(verb.to_owned()),
                group: Some(kind.group.to_string()),
                version: Some(version.clone()),
                resource: Some(plural.clone()),
                namespace: Some(namespace.to_owned()),
                ..ResourceAttributes::default()
            };
            if !self.review(identity, attributes).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn review(
        &self,
        identity: &Identity,
        attributes: ResourceAttributes,
    ) -> Result<bool, RequestError> {
        let spec = SubjectAccessReviewSpec {
            user: Some(identity.to_string()),
            groups: Some(identity.groups().into()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        // Not the whole type: it would send empty metadata too.
        let review = json!({
            "apiVersion": SubjectAccessReview::API_VERSION, "kind": SubjectAccessReview::KIND,
            "spec": spec,
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
        let review: Result<SubjectAccessReview, _> = serde_json::from_slice(&body);
        let status = review.ok().and_then(|review| review.status);
        // An unreadable answer counts as a no.
        Ok(status.is_some_and(|status| status.allowed))
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
    use serde_json::Value;

    use super::*;
    use crate::testing::{Scenario, json as answer, status, text};

    fn reviewer(scenario: &Scenario) -> AccessReviewer {
        let client = Client::from(scenario.client());
        let discovery = Arc::new(Discovery::new(client.clone()));
        AccessReviewer::new(client, discovery)
    }

    fn group(group: &str, resources: &Value) -> Value {
        json!({"kind": "APIGroupDiscoveryList", "items": [
            {"metadata": {"name": group}, "versions": [{"version": "v1", "resources": resources}]},
        ]})
    }

    fn discovery() -> [Value; 2] {
        let deployments = json!([{
            "resource": "deployments", "scope": "Namespaced",
            "responseKind": {"group": "apps", "version": "v1", "kind": "Deployment"},
            "verbs": ["list", "watch"],
        }]);
        [group("", &json!([])), group("apps", &deployments)]
    }

    async fn review(
        answers: impl IntoIterator<Item = crate::testing::ScriptedAnswer>,
    ) -> (bool, Vec<Value>) {
        let documents = discovery();
        let script = documents.iter().map(answer).chain(answers);
        let scenario = Scenario::new(script);
        let identity = "serviceaccount:web/deployer".parse().unwrap();
        let kind = Kind::new("apps", "v1", "Deployment");
        let reviewer = reviewer(&scenario);
        let may = reviewer.may_read(&identity, &kind, "shop").await.unwrap();
        let bodies = scenario.seen().into_iter().skip(2).map(|seen| seen.body);
        (may, bodies.collect())
    }

    fn allowed(is_allowed: bool) -> crate::testing::ScriptedAnswer {
        answer(&json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "metadata": {"creationTimestamp": null}, "spec": {},
            "status": {"allowed": is_allowed, "reason": "RBAC"},
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_review_asks_for_list_and_then_for_watch_as_the_account_with_its_groups() {
        let (may, bodies) = review([allowed(true), allowed(true)]).await;
        assert!(may);
        let of = |verb: &str| {
            json!({
                "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                "spec": {
                    "user": "system:serviceaccount:web:deployer",
                    "groups": [
                        "system:serviceaccounts", "system:serviceaccounts:web",
                        "system:authenticated",
                    ],
                    "resourceAttributes": {
                        "verb": verb, "group": "apps", "version": "v1",
                        "resource": "deployments", "namespace": "shop",
                    },
                },
            })
        };
        assert_eq!(bodies, [of("list"), of("watch")]);
    }

    /// Objects of a pattern that cannot be watched are got by the host for the plugin.
    #[tokio::test(start_paused = true)]
    async fn a_review_of_a_pattern_asks_for_get_as_well() {
        let identity = "serviceaccount:web/deployer".parse().unwrap();
        for may_get in [true, false] {
            let answers = [true, true, may_get].map(allowed);
            let scenario = Scenario::new(answers);
            let reviewer = reviewer(&scenario);
            let pattern = "apps/*".parse().unwrap();
            let may = reviewer.may_read(&identity, &pattern, "").await;
            assert_eq!(may.unwrap(), may_get);
            let asked = scenario.seen().into_iter().map(|seen| {
                let what = &seen.body["spec"]["resourceAttributes"];
                ["verb", "group", "version", "resource"]
                    .map(|part| what[part].as_str().unwrap().to_owned())
            });
            let asked: Vec<_> = asked.collect();
            let wanted = ["list", "watch", "get"].map(|verb| [verb, "apps", "*", "*"]);
            assert_eq!(asked, wanted);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_answered_with_a_yes_is_a_no() {
        assert!(!review([allowed(true), allowed(false)]).await.0);
        for no in [
            allowed(false),
            answer(&json!({"kind": "SubjectAccessReview"})),
            text(200, "<html>"),
            status(403, "Forbidden", "no"),
        ] {
            let (may, bodies) = review([no]).await;
            assert!(!may && bodies.len() == 1);
        }
    }
}
