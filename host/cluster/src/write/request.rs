//! Builds the request of a write, and says when it may be repeated.

use std::time::Duration;

use http::header::ACCEPT;
use http::{HeaderValue, Method, Request};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, Preconditions};
use pilothouse_core::{HOST, Operation, PatchType, Propagation, Write};
use serde_json::json;

use super::error::WriteError;
use crate::client::{CanRepeat, METADATA_LIST, Terms};
use crate::discovery::{Resource, path};

/// Deadline of one request. The API server itself gives up after 60 s, its webhooks after at most
/// 30 s.
const DEADLINE: Duration = Duration::from_secs(30);

/// Largest answer, in bytes. An object is at most 3 MiB.
pub(super) const MAX_ANSWER: usize = 16 * 1024 * 1024;

const JSON: &str = "application/json";

/// How a write of a plugin is to be sent.
pub(super) fn terms(plugin: &str, can_repeat: CanRepeat) -> Terms<'_> {
    Terms {
        deadline: DEADLINE,
        limit: MAX_ANSWER,
        can_repeat,
        plugin: Some(plugin),
        // What the host says about itself, every host says.
        needs_right: plugin != HOST,
    }
}

pub(super) fn is_eviction(write: &Write) -> bool {
    write.subresource.as_deref() == Some("eviction")
}

/// Whether a write may be repeated, by the rules of this module.
pub(super) fn can_repeat(write: &Write) -> CanRepeat {
    match &write.operation {
        _ if is_eviction(write) => CanRepeat::Never,
        Operation::Apply { .. }
        | Operation::Update { .. }
        | Operation::Patch {
            patch_type: PatchType::Merge,
            ..
        } => CanRepeat::Always,
        // Without the uid, a repeat could delete a new object of the same name.
        Operation::Delete { uid: Some(_), .. } => CanRepeat::Always,
        _ => CanRepeat::IfRefused,
    }
}

/// The request of a write of anything but an Event.
pub(super) fn request(
    resource: &Resource,
    manager: &str,
    write: &Write,
) -> Result<Request<Vec<u8>>, WriteError> {
    let object = || path::object(resource, &write.key, write.subresource.as_deref());
    let by_manager = ("fieldManager", manager.to_owned());
    match &write.operation {
        Operation::Apply {
            object: body,
            force,
        } => {
            let query = [by_manager, ("force", force.to_string())];
            // JSON is YAML. A JSON media type for apply exists only since 1.33.
            let content_type = "application/apply-patch+yaml";
            with_query(Method::PATCH, &object()?, &query, content_type, body)
        }
        Operation::Create { object: body } => {
            let path = if write.subresource.is_some() {
                object()?
            } else {
                path::siblings(resource, &write.key)?
            };
            with_query(Method::POST, &path, &[by_manager], JSON, body)
        }
        Operation::Update { object: body } => {
            with_query(Method::PUT, &object()?, &[by_manager], JSON, body)
        }
        Operation::Patch { patch_type, body } => {
            let content_type = content_type(*patch_type);
            with_query(Method::PATCH, &object()?, &[by_manager], content_type, body)
        }
        Operation::Delete {
            uid,
            resource_version,
            propagation,
            grace_period_seconds,
        } => {
            let options = delete_options(
                uid.as_deref(),
                resource_version.as_deref(),
                *propagation,
                *grace_period_seconds,
            );
            with_query(Method::DELETE, &object()?, &[], JSON, &options)
        }
        Operation::DeleteAll {
            labels,
            propagation,
        } => {
            let options = delete_options(None, None, *propagation, None);
            let query = [("labelSelector", labels.clone())];
            let path = path::siblings(resource, &write.key)?;
            let mut request = with_query(Method::DELETE, &path, &query, JSON, &options)?;
            // What was in the objects is not wanted.
            let accept = HeaderValue::from_static(METADATA_LIST);
            request.headers_mut().insert(ACCEPT, accept);
            Ok(request)
        }
        Operation::Event { .. } => {
            unreachable!("an Event is not written to the object it is about")
        }
    }
}

fn with_query(
    method: Method,
    path: &str,
    query: &[(&str, String)],
    content_type: &str,
    body: &str,
) -> Result<Request<Vec<u8>>, WriteError> {
    let uri = format!("{path}{}", path::query(query));
    Ok(build(method, uri, content_type, body.into())?)
}

/// A request with a body.
pub(super) fn build(
    method: Method,
    uri: String,
    content_type: &str,
    body: Vec<u8>,
) -> http::Result<Request<Vec<u8>>> {
    Request::builder()
        .method(method)
        .uri(uri)
        .header(ACCEPT, JSON)
        .header(http::header::CONTENT_TYPE, content_type)
        .body(body)
}

fn content_type(patch_type: PatchType) -> &'static str {
    match patch_type {
        PatchType::Json => "application/json-patch+json",
        PatchType::Merge => "application/merge-patch+json",
        PatchType::Strategic => "application/strategic-merge-patch+json",
    }
}

fn delete_options(
    uid: Option<&str>,
    resource_version: Option<&str>,
    propagation: Option<Propagation>,
    grace_period_seconds: Option<u32>,
) -> String {
    let propagation = propagation.map(|propagation| match propagation {
        Propagation::Background => "Background",
        Propagation::Foreground => "Foreground",
        Propagation::Orphan => "Orphan",
    });
    let preconditions = Preconditions {
        uid: uid.map(str::to_owned),
        resource_version: resource_version.map(str::to_owned),
    };
    let options = DeleteOptions {
        api_version: Some("v1".to_owned()),
        kind: Some("DeleteOptions".to_owned()),
        preconditions: Some(preconditions).filter(|some| *some != Preconditions::default()),
        propagation_policy: propagation.map(str::to_owned),
        grace_period_seconds: grace_period_seconds.map(i64::from),
        ..DeleteOptions::default()
    };
    json!(options).to_string()
}
