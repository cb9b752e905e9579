//! What became of a write whose answer was lost: the object itself says.

use std::time::Duration;

use http::Request;
use pilothouse_core::cluster::{Operation, Write};
use serde::Deserialize;

use super::{MAX_ANSWER, answer};
use crate::ApiCluster;
use crate::client::{CanRepeat, Terms};
use crate::discovery::Resource;
use crate::path;
use crate::request::RequestError;

/// Short: the key has waited for the write already.
const DEADLINE: Duration = Duration::from_secs(10);

/// An object, as far as it matters to what became of a write.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    uid: String,
    resource_version: String,
    deletion_timestamp: Option<String>,
}

impl Found {
    fn is_being_deleted(&self) -> bool {
        self.deletion_timestamp.is_some()
    }
}

/// What a look at an object shows.
#[derive(Debug)]
enum Seen {
    There(Found),
    Gone,
    /// Nobody knows.
    Unanswered,
}

impl Seen {
    fn of(answer: &Result<Vec<u8>, RequestError>) -> Self {
        #[derive(Deserialize)]
        struct Object {
            metadata: Found,
        }
        match answer {
            Ok(body) => serde_json::from_slice::<Object>(body)
                .map_or(Self::Unanswered, |object| Self::There(object.metadata)),
            Err(error) if error.code() == Some(404) && !answer::is_no_such_path(error) => {
                Self::Gone
            }
            Err(_) => Self::Unanswered,
        }
    }
}

impl ApiCluster {
    /// Whether an object whose deletion was not confirmed is gone or going.
    pub(super) async fn is_deleted(
        &self,
        resource: &Resource,
        manager: &str,
        write: &Write,
    ) -> bool {
        let Operation::Delete { uid, .. } = &write.operation else {
            return false;
        };
        match self.look(resource, manager, write).await {
            Seen::Gone => true,
            Seen::There(found) => {
                found.is_being_deleted() || uid.as_ref().is_some_and(|uid| *uid != found.uid)
            }
            Seen::Unanswered => false,
        }
    }

    /// The resourceVersion at which the server has the object of a write now; none if there is no object, or no answer.
    ///
    /// To be asked after a write failed with an unknown outcome: a cache that has come this far shows the write, if it was done.
    pub async fn version_now(&self, manager: &str, write: &Write) -> Option<String> {
        let subresource = write.subresource.as_deref();
        let resource = self.discovery().resolve_write(&write.kind, subresource);
        match self.look(&*resource.await.ok()?, manager, write).await {
            Seen::There(found) => Some(found.resource_version),
            Seen::Gone | Seen::Unanswered => None,
        }
    }

    /// Reads the object of a write: the latest there is, not what a cache of the server's has.
    async fn look(&self, resource: &Resource, manager: &str, write: &Write) -> Seen {
        let Ok(uri) = path::object(resource, &write.key, None) else {
            return Seen::Unanswered;
        };
        let request = Request::get(uri).header(http::header::ACCEPT, "application/json");
        let Ok(request) = request.body(Vec::new()) else {
            return Seen::Unanswered;
        };
        let terms = Terms {
            deadline: DEADLINE,
            limit: MAX_ANSWER,
            can_repeat: CanRepeat::Never,
            plugin: Some(manager),
        };
        Seen::of(&self.client.fetch(&request, terms).await)
    }
}
