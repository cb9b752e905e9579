//! Keeps as many pods as every ReplicationController wants.
//!
//! The rules are those of kube-controller-manager's replicationcontroller controller
//! (`pkg/controller/replication` in kubernetes/kubernetes). They are shared with the ReplicaSet's,
//! in `workloads::replicas`. The README lists them, with the differences.

use pilothouse_sdk::{Controller, Failure, Host, Manifest, Outcome, Request};
use workloads::replicas::Flavor;

const FLAVOR: Flavor = Flavor {
    name: "replicationcontroller",
    kind: "v1/ReplicationController",
    selects_by_map: true,
    counts_terminating: false,
};

/// The replicationcontroller controller.
pub struct ReplicationControllerController;

impl Controller for ReplicationControllerController {
    fn manifest() -> Manifest {
        FLAVOR.manifest()
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        FLAVOR.reconcile(request, host)
    }
}

pilothouse_sdk::register!(ReplicationControllerController);
