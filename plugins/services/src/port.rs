//! Finds the port of a pod that a Service's port leads to.

use pilothouse_sdk::IntOrString;

use crate::pod::Pod;
use crate::service::ServicePort;

/// The number of the pod's port for a port of the Service (upstream's `FindPort`). `None`: the pod
/// has no port of that name and protocol.
#[must_use]
pub fn target(port: &ServicePort, pod: &Pod) -> Option<i32> {
    match &port.target_port {
        Some(IntOrString::String(name)) if !name.is_empty() => named(name, &port.protocol, pod),
        Some(IntOrString::Int(number)) if *number != 0 => Some(*number),
        // The API server's default, which also replaces zero and the empty name.
        _ => Some(port.port),
    }
}

/// The first container that has a port of this name and protocol. Sidecars (init containers that
/// keep running) come after the containers.
fn named(name: &str, protocol: &str, pod: &Pod) -> Option<i32> {
    let sidecars = pod.spec.init_containers.iter();
    let sidecars = sidecars.filter(|container| container.restart_policy == "Always");
    let of_sidecars = sidecars.flat_map(|container| &container.ports);
    let containers = pod.spec.containers.iter();
    let mut ports = containers
        .flat_map(|container| &container.ports)
        .chain(of_sidecars);
    let found = ports.find(|port| port.name == name && port.protocol == protocol);
    found.map(|port| port.container_port)
}
