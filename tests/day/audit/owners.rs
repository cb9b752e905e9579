//! No pod and no ReplicaSet of a Deployment without an owner.

use pilothouse_tests::What;

use super::{Audit, Event};
use crate::facts::Of;

/// Every pod has a manager, and has had one since it was created. When it was created, that one was
/// there, or had been until a moment before: then the garbage collector deletes the pod.
pub fn judge(audit: &mut Audit, event: &Event) {
    let is_pod = matches!(event.now.of, Of::Pod(_));
    if !is_pod || event.what == What::Deleted {
        return;
    }
    let name = &event.now.name;
    let owner = event.now.owner.clone();
    audit.check("a pod has an owner", owner.is_some(), || {
        format!("{name} has none")
    });
    if let Some(owner) = owner
        && event.before.is_none()
    {
        let track = audit.cluster.track(&owner.uid);
        let was_there = track.is_some_and(|track| track.since(event.horizon).next().is_some());
        audit.check(
            "a pod's owner is there when it is created",
            was_there,
            || format!("{name} belongs to a {} that is gone", owner.kind),
        );
    }
}
