//! Selects the pods behind a Service, and their addresses.

use std::net::{IpAddr, Ipv4Addr};

use crate::objects::{Address, Pod, Service, TargetRef};
use crate::ports;
use crate::subsets::Endpoint;

/// The endpoints that one pod adds to a Service: one for each port of the Service that the pod has.
pub fn endpoints_of(pod: &Pod, service: &Service, service_name: &str) -> Vec<Endpoint> {
    let publish_not_ready = service.spec.publish_not_ready_addresses;
    if !belongs(pod, publish_not_ready) {
        return Vec::new();
    }
    let Some(ip) = ip_of(pod, service) else {
        return Vec::new();
    };
    let address = address(pod, &ip, service_name);
    let is_ready = publish_not_ready || is_ready(pod);
    let ports = ports::of(pod, service).into_iter();
    ports
        .map(|port| Endpoint {
            address: address.clone(),
            is_ready,
            port,
        })
        .collect()
}

/// Upstream's `ShouldPodBeInEndpoints`. A pod that has ended never belongs to a Service. A
/// terminating pod belongs only to a Service that publishes addresses that are not ready. Upstream
/// also requires an IP, which [`ip_of`] checks here.
fn belongs(pod: &Pod, publish_not_ready: bool) -> bool {
    let has_ended = matches!(pod.status.phase.as_str(), "Failed" | "Succeeded");
    let is_terminating = pod.metadata.deletion_timestamp.is_some();
    !has_ended && (publish_not_ready || !is_terminating)
}

fn is_ready(pod: &Pod) -> bool {
    let mut conditions = pod.status.conditions.iter();
    conditions
        .find(|condition| condition.r#type == "Ready")
        .is_some_and(|ready| ready.status == "True")
}

/// The pod's first IP of the Service's first family. `None` while the pod has no IP of that family,
/// as while a cluster is changed to dual stack.
fn ip_of(pod: &Pod, service: &Service) -> Option<IpAddr> {
    let wants_ipv6 = match service.spec.ip_families.first() {
        Some(family) => family == "IPv6",
        // The remaining cases are for servers that do not fill in the families. Upstream then uses
        // the family of the cluster IP, and for a headless Service the pod's own first family.
        None if service.has_cluster_ip() => is_ipv6(&service.spec.cluster_ip),
        None => is_ipv6(&pod.status.pod_ip),
    };
    let mut ips = pod
        .status
        .pod_ips
        .iter()
        .filter_map(|pod_ip| parse(&pod_ip.ip));
    ips.find(|ip| ip.is_ipv6() == wants_ipv6)
}

fn is_ipv6(ip: &str) -> bool {
    parse(ip).is_some_and(|ip| ip.is_ipv6())
}

/// Parses an IP as Go does: `010.0.0.1` is `10.0.0.1`, and an IPv4 address written as IPv6
/// (`::ffff:10.0.0.1`) is IPv4. Like upstream, the controller then writes the canonical form,
/// because the API server accepts another form in an old pod but may refuse it in new Endpoints.
fn parse(ip: &str) -> Option<IpAddr> {
    let parsed = ip.parse().ok().or_else(|| with_leading_zeros(ip));
    parsed.map(|ip: IpAddr| ip.to_canonical())
}

fn with_leading_zeros(ip: &str) -> Option<IpAddr> {
    let octet = |text: &str| {
        let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit());
        is_decimal.then(|| text.parse::<u8>().ok()).flatten()
    };
    let octets: Vec<u8> = ip.split('.').map(octet).collect::<Option<_>>()?;
    let octets: [u8; 4] = octets.try_into().ok()?;
    Some(Ipv4Addr::from(octets).into())
}

fn address(pod: &Pod, ip: &IpAddr, service_name: &str) -> Address {
    // In DNS the pod is `<hostname>.<service>` only if its subdomain is this Service.
    let has_dns_name = pod.spec.subdomain == service_name;
    Address {
        ip: ip.to_string(),
        hostname: if has_dns_name {
            pod.spec.hostname.clone()
        } else {
            String::new()
        },
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
