//! Answers that the proxy gives in the server's place: made up, or recorded earlier.

use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use super::serve::Body;

/// An answer to a request other than a watch.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    /// An error with this code, in the form that the API server uses.
    pub fn status(code: u16) -> Self {
        Self::json(code, &status(code))
    }

    /// The answer of a server that has not reached the requested resourceVersion yet.
    pub fn too_large_resource_version() -> Self {
        let mut body = status(504);
        body["message"] = "Timeout: Too large resource version: 9, current: 1".into();
        body["details"] = json!({"retryAfterSeconds": 1, "causes": [
            {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"},
        ]});
        Self::json(504, &body)
    }

    pub fn json(code: u16, body: &Value) -> Self {
        Self {
            status: code,
            headers: vec![("content-type".into(), "application/json".into())],
            body: body.to_string(),
        }
    }

    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.headers
            .push(("retry-after".into(), seconds.to_string()));
        self
    }

    pub(super) fn into_response(self) -> Response<Body> {
        let mut response = Response::new(
            Full::new(self.body.into())
                .map_err(|never| match never {})
                .boxed_unsync(),
        );
        *response.status_mut() =
            StatusCode::from_u16(self.status).expect("a status code of a test");
        for (name, value) in self.headers {
            let name = http::HeaderName::try_from(name).expect("a header name of a test");
            let value = http::HeaderValue::try_from(value).expect("a header value of a test");
            response.headers_mut().insert(name, value);
        }
        response
    }
}

/// Returns a line of a watch: the error event with this code, which ends the watch.
pub fn error_event(code: u16) -> String {
    json!({"type": "ERROR", "object": status(code)}).to_string()
}

fn status(code: u16) -> Value {
    let reason = match code {
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "",
    };
    json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "code": code, "reason": reason, "message": format!("{code} made up by the test's proxy"),
    })
}
