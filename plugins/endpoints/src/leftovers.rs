//! Endpoints without a Service. Upstream deletes those of a Service that it sees deleted, and, when
//! it starts, all that it finds without one.

use std::time::Duration;

use pilothouse_sdk::{Delete, Failure, Host, ObjectRef, Outcome, Request};
use serde::Deserialize;
use services::service::SERVICES;

use crate::objects::Endpoints;
use crate::{ENDPOINTS, MANAGED_BY, Memo, subsets};

/// Annotation of Endpoints that are a lock of client-go's leader election. They never had a
/// Service.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

/// How old Endpoints without a Service are at least, when they are first seen, to be left over from
/// the time before the host's start. Younger ones may have been made just before their Service.
const OLD: Duration = Duration::from_secs(60);

/// Endpoints that somebody else maintains are deleted if they have no Service when a host first
/// sees them. What a memo says has been seen already: it is there as long as the Endpoints are.
pub fn of_others(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
    #[derive(Deserialize)]
    struct Named {}

    let Some(endpoints) = request.object::<Endpoints>()? else {
        return Ok(Outcome::done());
    };
    let seen = Outcome::done().remember(&Memo::default())?;
    let service = request.key().of_kind(SERVICES);
    let has_service = host.get::<Named>(&service)?.is_some();
    let is_known = has_service || request.memo::<Memo>().is_some();
    if is_known || is_lock(&endpoints) || is_young(&endpoints, host) {
        return Ok(seen);
    }
    Ok(deleting(seen, &service, &endpoints.metadata.uid))
}

/// What becomes of the Endpoints of a Service that is gone. They go with it if it was seen here, or
/// if a controller wrote them.
pub fn of_service(request: &Request, current: Option<&Endpoints>) -> Outcome {
    let was_seen = request.memo::<Memo>().is_some();
    match current {
        Some(current) if was_seen || is_ours(current) => {
            deleting(Outcome::done(), request.key(), &current.metadata.uid)
        }
        _ => Outcome::done(),
    }
}

/// Deletes the Endpoints of this uid, unless the API server knows of a Service after all.
fn deleting(outcome: Outcome, service: &ObjectRef, uid: &str) -> Outcome {
    let delete = Delete::new(&service.of_kind(ENDPOINTS)).uid(uid);
    outcome.with(delete).confirm(service)
}

/// True if this controller wrote the Endpoints, or kube-controller-manager's did, which has marked
/// them since 1.33. Without the mark: only an endpoints controller gives every address a reference
/// to a pod.
fn is_ours(endpoints: &Endpoints) -> bool {
    let by = endpoints.metadata.labels.get(MANAGED_BY.0);
    let is_marked = by.is_some_and(|by| by == MANAGED_BY.1);
    !is_lock(endpoints) && (is_marked || subsets::are_all_pods(&endpoints.subsets))
}

fn is_lock(endpoints: &Endpoints) -> bool {
    endpoints.metadata.annotations.contains_key(LEADER)
}

fn is_young(endpoints: &Endpoints, host: &dyn Host) -> bool {
    let created = endpoints.metadata.creation_timestamp;
    created.is_some_and(|created| host.now() < created.0 + OLD)
}
