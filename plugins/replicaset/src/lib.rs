//! Keeps as many pods as every ReplicaSet wants.
//!
//! The rules are those of kube-controller-manager's replicaset controller
//! (`pkg/controller/replicaset` in kubernetes/kubernetes). They are shared with the
//! ReplicationController's, in `workloads::replicas`. The README lists them, with the differences.

use pilothouse_sdk::{Controller, Failure, Host, Manifest, Outcome, Request};
use workloads::replicas::Flavor;

const FLAVOR: Flavor = Flavor {
    name: "replicaset",
    kind: "apps/v1/ReplicaSet",
    selects_by_map: false,
    counts_terminating: true,
};

/// The replicaset controller.
pub struct ReplicaSetController;

impl Controller for ReplicaSetController {
    fn manifest() -> Manifest {
        FLAVOR.manifest()
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        FLAVOR.reconcile(request, host)
    }
}

pilothouse_sdk::register!(ReplicaSetController);
