//! The endpoints that a Service should have.

use std::collections::BTreeMap;

use services::ip::is_ipv6;
use services::pod::Pod;
use services::port;
use services::service::ServiceSpec;
use services::slice::{Endpoint, EndpointConditions, EndpointSet, Port, TargetRef, port_map};

use crate::nodes::Nodes;
use crate::objects::Node;

/// The address types of a Service's slices, `IPv4` before `IPv6`.
///
/// Where the server does not fill in the families of the Service, its cluster IP says which it is;
/// a headless one has both.
pub fn address_types(service: &ServiceSpec) -> Vec<&'static str> {
    let all = ["IPv4", "IPv6"].into_iter();
    let said = all
        .clone()
        .filter(|family| service.ip_families.iter().any(|said| said == family));
    let said: Vec<&str> = said.collect();
    match () {
        () if !said.is_empty() => said,
        () if !service.has_cluster_ip() => all.collect(),
        () if is_ipv6(&service.cluster_ip) => vec!["IPv6"],
        () => vec!["IPv4"],
    }
}

/// What a Service should have of one address type.
#[derive(Default)]
pub struct Desired {
    /// The endpoints, by the ports that they have.
    pub groups: BTreeMap<Vec<Port>, EndpointSet>,
    /// Pods whose node there is not, and that node. They are left out.
    pub without_node: Vec<(String, String)>,
}

impl Desired {
    pub fn of(
        service: &ServiceSpec,
        name: &str,
        address_type: &str,
        pods: &[Pod],
        nodes: &Nodes,
    ) -> Self {
        let mut desired = Self::default();
        for pod in pods.iter().filter(|pod| pod.is_reachable()) {
            let group = desired.groups.entry(port_map(&ports_of(pod, service)));
            let group = group.or_default();
            let node = nodes.get(&pod.spec.node_name);
            // Who publishes what is not ready wants the address in any case.
            if node.is_none() && !service.publish_not_ready_addresses {
                let pod_name = pod.metadata.name.clone();
                let missing = (pod_name, pod.spec.node_name.clone());
                desired.without_node.push(missing);
                continue;
            }
            let zone = node.and_then(Node::zone).map(str::to_owned);
            let endpoint = endpoint(pod, service, name, address_type, zone);
            if !endpoint.addresses.is_empty() {
                group.insert(endpoint.identity(), endpoint);
            }
        }
        desired
    }
}

/// The pod's ports for the ports of the Service. One that the pod does not have is left out.
fn ports_of(pod: &Pod, service: &ServiceSpec) -> Vec<Port> {
    let ports = service.ports.iter();
    ports
        .filter_map(|port| Some(Port::of(port, port::target(port, pod)?)))
        .collect()
}

fn endpoint(
    pod: &Pod,
    service: &ServiceSpec,
    service_name: &str,
    address_type: &str,
    zone: Option<String>,
) -> Endpoint {
    let serving = pod.is_ready();
    let terminating = pod.is_terminating();
    let ready = service.publish_not_ready_addresses || (serving && !terminating);
    let wants_ipv6 = address_type == "IPv6";
    let ips = pod.ips().filter(|ip| ip.is_ipv6() == wants_ipv6);
    let node = Some(&pod.spec.node_name).filter(|node| !node.is_empty());
    Endpoint {
        addresses: ips.map(|ip| ip.to_string()).collect(),
        conditions: EndpointConditions {
            ready: Some(ready),
            serving: Some(serving),
            terminating: Some(terminating),
        },
        hostname: pod.hostname_in(service_name).map(str::to_owned),
        target_ref: Some(TargetRef {
            kind: "Pod".to_owned(),
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
            uid: pod.metadata.uid.clone(),
            ..TargetRef::default()
        }),
        node_name: node.cloned(),
        zone,
        ..Endpoint::default()
    }
}
