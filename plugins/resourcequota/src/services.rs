//! Services: how many there are, and how many node ports and load balancers they take.

use pilothouse_sdk::{Failure, Filter, Kind};

use crate::objects::Service;
use crate::resources::Resources;
use crate::usage::{Tally, number};

const COUNT: &str = "count/services";
const SERVICES: &str = "services";
const NODE_PORTS: &str = "services.nodeports";
const LOAD_BALANCERS: &str = "services.loadbalancers";

/// Counts the Services. None has a scope.
pub fn count(tally: &mut Tally) -> Result<(), Failure> {
    let names = [COUNT, SERVICES, NODE_PORTS, LOAD_BALANCERS];
    if !tally.begin(|name| names.contains(&name)) || !tally.scopes.are_none() {
        return Ok(());
    }
    let all: Vec<Service> = tally
        .host
        .list_as(Some(tally.namespace), &Filter::Everything)?;
    tally.objects += all.len();
    for service in all {
        tally.add(Service::KIND, &service.metadata.uid, &usage(&service));
    }
    Ok(())
}

/// The node ports are those that the Service asks for: when it is created, it has none yet.
fn usage(service: &Service) -> Resources {
    let spec = &service.spec;
    let ports = spec.ports.len();
    let (node_ports, load_balancers) = match spec.r#type.as_str() {
        "NodePort" => (ports, 0),
        "LoadBalancer" if spec.allocate_load_balancer_node_ports == Some(false) => {
            let own = spec.ports.iter().filter(|port| port.node_port != 0);
            (own.count(), 1)
        }
        "LoadBalancer" => (ports, 1),
        _ => (0, 0),
    };
    let amounts = [
        (COUNT, 1),
        (SERVICES, 1),
        (NODE_PORTS, node_ports),
        (LOAD_BALANCERS, load_balancers),
    ];
    amounts
        .map(|(name, count)| (name.to_owned(), number(count)))
        .into()
}
