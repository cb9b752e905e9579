//! A refusal of the API server, whatever form it has.

use std::time::Duration;

use http::StatusCode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::StatusDetails;
use serde::Deserialize;

use pilothouse_core::text::cut_line;

/// A refusal: a `metav1.Status`, or the nearest equivalent made of an answer that is not one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// HTTP status code.
    pub code: u16,
    /// `AlreadyExists`, `Expired`, …; empty if the server gave no reason.
    pub reason: String,
    /// `details.name`: the object that it is about; empty if the server named none.
    pub name: String,
    /// One line, for people.
    pub message: String,
    /// `details.causes`.
    pub causes: Vec<StatusCause>,
    /// Delay after which the server wants to be asked again.
    pub retry_after: Option<Duration>,
}

/// One of the causes of a refusal. What the server leaves out is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusCause {
    /// `FieldValueInvalid`, `FieldManagerConflict`, …
    pub reason: String,
    /// For people.
    pub message: String,
    /// The path of the field: `metadata.uid`.
    pub field: String,
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.message.is_empty() {
            return f.write_str(&self.message);
        }
        let text = StatusCode::from_u16(self.code)
            .ok()
            .and_then(|code| code.canonical_reason());
        write!(f, "HTTP {} {}", self.code, text.unwrap_or(&self.reason))
    }
}

/// As much of a `metav1.Status` as is of interest, in any JSON object. Not kube's type or that of
/// k8s-openapi: the one refuses a `null` and the other an object without the right kind, and then a
/// refusal would lose its reason.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RawStatus {
    code: u16,
    reason: Option<String>,
    message: Option<String>,
    details: Option<StatusDetails>,
}

impl Status {
    /// Reads a Status object. Of any other text, such as a proxy's page or the mux's plain text,
    /// the text becomes the message.
    pub(crate) fn parse(code: u16, retry_after: Option<Duration>, body: &[u8]) -> Self {
        let Ok(raw) = serde_json::from_slice::<RawStatus>(body) else {
            let message = cut_line(&String::from_utf8_lossy(body), 200);
            return Self {
                code,
                message,
                retry_after,
                ..Self::default()
            };
        };
        let details = raw.details.unwrap_or_default();
        let causes = details.causes.unwrap_or_default().into_iter();
        let asked = details
            .retry_after_seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .filter(|seconds| *seconds > 0)
            .map(Duration::from_secs);
        Self {
            code: if code == 0 { raw.code } else { code },
            reason: raw.reason.unwrap_or_default(),
            name: details.name.unwrap_or_default(),
            message: cut_line(&raw.message.unwrap_or_default(), 2000),
            causes: causes
                .map(|cause| StatusCause {
                    reason: cause.reason.unwrap_or_default(),
                    message: cause.message.unwrap_or_default(),
                    field: cause.field.unwrap_or_default(),
                })
                .collect(),
            retry_after: retry_after.or(asked),
        }
    }

    /// True if this says that there is no object of this name. Another 404 says that nothing is
    /// served at the path, and has the same reason where it comes from the API machinery: only a
    /// refusal that is about an object names it. So does one that client-go has made, in an
    /// aggregated server, of an answer that is no Status to a request for the object: that has a
    /// cause which says so.
    pub(crate) fn is_absence_of(&self, name: &str) -> bool {
        let mut causes = self.causes.iter();
        let is_made_up = causes.any(|cause| cause.reason == "UnexpectedServerResponse");
        self.code == 404 && self.reason == "NotFound" && self.name == name && !is_made_up
    }

    /// True if the requested resourceVersion or `continue` token has been compacted away.
    pub fn is_expired(&self) -> bool {
        self.code == 410 || matches!(&*self.reason, "Expired" | "Gone")
    }

    /// True if this server has not reached the requested resourceVersion. Newer servers report it
    /// as a cause, older ones in the message (client-go's `TestReflectorFullListIfTooLarge`).
    pub fn is_too_large_resource_version(&self) -> bool {
        let says = |text: &str| text.contains("Too large resource version");
        let by_cause = self
            .causes
            .iter()
            .any(|cause| cause.reason == "ResourceVersionTooLarge" || says(&cause.message));
        by_cause || ((self.code == 504 || self.reason == "Timeout") && says(&self.message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_whether_its_resource_version_is_too_old_or_too_new() {
        let parse = |body: &str| Status::parse(504, None, body.as_bytes());
        let by_cause = r#"{"reason":"Timeout","message":"x","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"y"}],"retryAfterSeconds":1}}"#;
        assert!(parse(by_cause).is_too_large_resource_version());
        assert_eq!(parse(by_cause).retry_after, Some(Duration::from_secs(1)));
        let by_cause_text = r#"{"reason":"Timeout","details":{"causes":[{"message":"Too large resource version"}]}}"#;
        assert!(parse(by_cause_text).is_too_large_resource_version());
        let by_text =
            r#"{"reason":"Timeout","message":"Too large resource version: 9, current: 3"}"#;
        assert!(parse(by_text).is_too_large_resource_version());
        assert!(
            !parse(r#"{"reason":"Timeout","message":"etcd is slow"}"#)
                .is_too_large_resource_version()
        );
        assert!(Status::parse(410, None, b"").is_expired());
        assert!(Status::parse(0, None, br#"{"code":410,"reason":"Expired"}"#).is_expired());
    }

    #[test]
    fn a_status_with_nulls_or_of_another_kind_still_says_why() {
        for body in [
            r#"{"kind":"Status","reason":"NotFound","message":null,"details":{"causes":null}}"#,
            r#"{"kind":"Refusal","apiVersion":"acme.io/v1","reason":"NotFound"}"#,
        ] {
            let status = Status::parse(404, None, body.as_bytes());
            assert_eq!((&*status.reason, &*status.message), ("NotFound", ""));
        }
    }

    /// The answers of kube-apiserver for an object that is not there, for a resource that a served
    /// group does not have, and for a group that is not served.
    #[test]
    fn only_a_refusal_that_names_the_object_says_that_it_is_absent() {
        let is_absence = |body: &str| Status::parse(404, None, body.as_bytes()).is_absence_of("a");
        let named = |name| {
            format!(
                r#"{{"kind":"Status","reason":"NotFound","details":{{"name":"{name}","kind":"pods"}}}}"#
            )
        };
        assert!(is_absence(&named("a")));
        assert!(!is_absence(&named("b")));
        let no_resource = r#"{"kind":"Status","reason":"NotFound","message":"the server could not find the requested resource","details":{}}"#;
        assert!(!is_absence(no_resource));
        assert!(!is_absence("404 page not found"));
        assert!(!Status::parse(403, None, named("a").as_bytes()).is_absence_of("a"));
    }

    #[test]
    fn an_answer_that_is_no_status_object_is_its_own_message() {
        let status = Status::parse(502, None, b"<html>\n<h1>Bad   Gateway</h1>\n</html>");
        assert_eq!(status.to_string(), "<html> <h1>Bad Gateway</h1> </html>");
        assert_eq!(
            Status::parse(503, None, b"").to_string(),
            "HTTP 503 Service Unavailable"
        );
    }
}
