//! What a pod adds to the Endpoints of a Service.

use std::net::IpAddr;

use services::ip::is_ipv6;
use services::pod::Pod;
use services::port;
use services::service::ServiceSpec;
use services::slice::TargetRef;
use services::subsets::{Address, Endpoint, Port};

/// The endpoints that one pod adds to a Service: one for each port of the Service that the pod has.
pub fn endpoints_of(pod: &Pod, service: &ServiceSpec, service_name: &str) -> Vec<Endpoint> {
    let publish_not_ready = service.publish_not_ready_addresses;
    // A pod that is being deleted belongs only to a Service that publishes addresses that are not
    // ready.
    if !pod.is_reachable() || (pod.is_terminating() && !publish_not_ready) {
        return Vec::new();
    }
    let Some(ip) = ip_of(pod, service) else {
        return Vec::new();
    };
    let address = address(pod, &ip, service_name);
    let is_ready = publish_not_ready || pod.is_ready();
    let ports = ports_of(pod, service).into_iter();
    ports
        .map(|port| Endpoint {
            address: address.clone(),
            is_ready,
            port,
        })
        .collect()
}

/// The pod's first IP of the Service's first family. `None` while the pod has no IP of that family,
/// as while a cluster is changed to dual stack.
fn ip_of(pod: &Pod, service: &ServiceSpec) -> Option<IpAddr> {
    let wants_ipv6 = match service.ip_families.first() {
        Some(family) => family == "IPv6",
        // The remaining cases are for servers that do not fill in the families. Upstream then uses
        // the family of the cluster IP, and for a headless Service the pod's own first family.
        None if service.has_cluster_ip() => is_ipv6(&service.cluster_ip),
        None => is_ipv6(&pod.status.pod_ip),
    };
    pod.ips().find(|ip| ip.is_ipv6() == wants_ipv6)
}

/// The pod's ports for the ports of the Service. A port that the pod does not have is left out; the
/// others remain.
///
/// A single `None` stands for an endpoint without a port. A headless Service need not have ports,
/// and its pods are then found only by name. A Service with a cluster IP and without ports has no
/// endpoints.
fn ports_of(pod: &Pod, service: &ServiceSpec) -> Vec<Option<Port>> {
    if service.ports.is_empty() {
        let is_headless = service.is_headless();
        return if is_headless { vec![None] } else { Vec::new() };
    }
    let ports = service.ports.iter().filter_map(|port| {
        let number = port::target(port, pod)?;
        Some(Some(Port {
            name: port.name.clone(),
            protocol: port.protocol.clone(),
            port: number,
            app_protocol: port.app_protocol.clone(),
        }))
    });
    ports.collect()
}

fn address(pod: &Pod, ip: &IpAddr, service_name: &str) -> Address {
    let hostname = pod.hostname_in(service_name).unwrap_or_default();
    Address {
        ip: ip.to_string(),
        hostname: hostname.to_owned(),
        node_name: pod.spec.node_name.clone(),
        target_ref: Some(TargetRef {
            kind: "Pod".to_owned(),
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
            uid: pod.metadata.uid.clone(),
            ..TargetRef::default()
        }),
    }
}
