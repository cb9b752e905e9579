//! Which port of a pod a Service's port leads to.

use crate::objects::{Pod, Port, Service, ServicePort, TargetPort};

/// The pod's ports behind the Service's. A port that the pod does not have is left out, the pod's other ports are not.
///
/// None stands for "no port": a headless Service need not have any, and its pods are found by name alone. A Service with a cluster
/// IP and no port leads nowhere.
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
        // The API server's default, which it also puts in place of zero and of the empty name.
        _ => port.port,
    };
    Some(Port {
        name: port.name.clone(),
        protocol: port.protocol.clone(),
        port: number,
        app_protocol: port.app_protocol.clone(),
    })
}

/// Upstream's `FindPort`: the first container with a port of this name and protocol; sidecars, which are init containers that
/// stay, come after the containers.
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
