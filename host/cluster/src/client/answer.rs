//! Reads an answer: its body, up to a limit, and the delay that it asks for.

use std::time::Duration;

use futures::StreamExt;
use http::Response;
use http_body_util::BodyExt;
use kube::client::Body;

use super::error::RequestError;

/// Maximum number of bytes read of an answer that only explains a refusal.
pub(super) const MAX_REFUSAL: usize = 256 * 1024;

/// The whole body, which must not be larger than `limit` bytes. (`http_body_util::Limited` would
/// return a `Box<dyn Error>`, of which the transport's error would have to be guessed again.)
pub(super) async fn collect(body: Body, limit: usize) -> Result<Vec<u8>, RequestError> {
    let mut data = body.into_data_stream();
    let mut all = Vec::new();
    while let Some(chunk) = data.next().await {
        let chunk = chunk.map_err(RequestError::Transport)?;
        if all.len() + chunk.len() > limit {
            return Err(RequestError::TooLarge(limit));
        }
        all.extend_from_slice(&chunk);
    }
    Ok(all)
}

/// `Retry-After` in seconds. RFC 9110, 10.2.3 also allows a date, which the API server never sends.
pub(super) fn retry_after(response: &Response<Body>) -> Option<Duration> {
    let value = response.headers().get(http::header::RETRY_AFTER)?;
    value
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()
        .map(Duration::from_secs)
}
