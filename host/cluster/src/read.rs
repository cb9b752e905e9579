//! Reads of one object past every cache, for when a watch does not show what was written.

use std::time::Duration;

use http::Request;
use pilothouse_core::key::{Kind, ObjectKey};

use crate::ApiCluster;
use crate::client::{CanRepeat, Terms};
use crate::path;
use crate::request::RequestError;

/// For one request. Short: a key waits for it, and asks again.
const DEADLINE: Duration = Duration::from_secs(5);

/// Largest answer; an object is at most 3 MiB.
const MAX_ANSWER: usize = 16 * 1024 * 1024;

impl ApiCluster {
    /// The object as the server has it now (a quorum read), or none if there is no such object.
    pub(crate) async fn get(&self, kind: &Kind, key: &ObjectKey) -> Result<Option<String>, String> {
        let resource = self.discovery().resolve(kind).await;
        let resource = resource.map_err(|error| error.to_string())?;
        let path = path::object(&resource, key, None).map_err(|error| error.to_string())?;
        let request = Request::get(path)
            .header(http::header::ACCEPT, "application/json")
            .body(Vec::new())
            .expect("the path is percent-encoded");
        let terms = Terms {
            deadline: DEADLINE,
            limit: MAX_ANSWER,
            can_repeat: CanRepeat::Never,
            plugin: None,
        };
        match self.client.fetch(&request, terms).await {
            Ok(body) => String::from_utf8(body)
                .map(Some)
                .map_err(|error| error.to_string()),
            Err(RequestError::Status(status))
                if status.code == 404 && !status.reason.is_empty() =>
            {
                Ok(None)
            }
            Err(error) => Err(error.to_string()),
        }
    }
}
