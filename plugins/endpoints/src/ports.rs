//! Finds the port of a pod that a Service's port leads to.

use crate::objects::{Pod, Port, Service, ServicePort, TargetPort};

/// The pod's ports for the ports of the Service. A port that the pod does not have is left out; the
/// others remain.
///
/// A single `None` stands for an endpoint without a port. A headless Service need not have ports,
/// and its pods are then found only by name. A Service with a cluster IP and without ports has no
/// endpoints.
pub fn of(pod: &Pod, service: &Service) -> Vec<Option<Port>> {
    if service.spec.ports.is_empty() {
        let is_headless = service.spec.cluster_ip == "None";
        return if is_headless { vec![None] } else { Vec::new() };
    }
    let ports = service.spec.ports.iter();
    ports
        .filter_map(|port| Some(Some(resolve(port, pod)?)))
        .collect()
}

fn resolve(port: &ServicePort, pod: &Pod) -> Option<Port> {
    let number = match &port.target_port {
        Some(TargetPort::Name(name)) if !name.is_empty() => named(name, &port.protocol, pod)?,
        Some(TargetPort::Number(number)) if *number != 0 => *number,
        // The API server's default, which also replaces zero and the empty name.
        _ => port.port,
    };
    Some(Port {
        name: port.name.clone(),
        protocol: port.protocol.clone(),
        port: number,
        app_protocol: port.app_protocol.clone(),
    })
}

/// Upstream's `FindPort`: the first container that has a port of this name and protocol. Sidecars
/// (init containers that keep running) come after the containers.
fn named(name: &str, protocol: &str, pod: &Pod) -> Option<i32> {
    let sidecars = pod
        .spec
        .init_containers
        .iter()
        .filter(|container| container.restart_policy == "Always");
    let mut ports = pod
        .spec
        .containers
        .iter()
        .chain(sidecars)
        .flat_map(|container| &container.ports);
    let found = ports.find(|port| port.name == name && port.protocol == protocol);
    found.map(|port| port.container_port)
}
