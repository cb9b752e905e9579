//! Upstream: `TestSortingActivePods` and `TestSortingActivePodsWithRanks` of
//! `controller_utils_test.go`.

use pilothouse_sdk::Metadata;

use super::*;
use crate::pod::{PodCondition, PodStatus};

#[derive(Clone, Default)]
struct Pod {
    metadata: Metadata,
    status: PodStatus,
    node: &'static str,
    created: Option<Time>,
    restarts: Restarts,
    cost: Option<&'static str>,
}

impl PodView for Pod {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn status(&self) -> &PodStatus {
        &self.status
    }
}

impl Ranked for Pod {
    fn node_name(&self) -> &str {
        self.node
    }

    fn created(&self) -> Option<Time> {
        self.created
    }

    fn restarts(&self) -> Restarts {
        self.restarts
    }

    fn deletion_cost(&self) -> Option<&str> {
        self.cost
    }
}

const HOUR: u64 = 3_600;
const MONTH: u64 = 30 * 24 * HOUR;
const NOW: Duration = Duration::from_secs(2_000_000_000);

fn ago(seconds: u64) -> Option<Time> {
    Some(Time(NOW - Duration::from_secs(seconds)))
}

fn pod(name: &str, node: &'static str, phase: &str) -> Pod {
    Pod {
        metadata: Metadata {
            name: name.to_owned(),
            uid: name.to_owned(),
            ..Metadata::default()
        },
        status: PodStatus {
            phase: phase.to_owned(),
            conditions: Vec::new(),
        },
        node,
        ..Pod::default()
    }
}

/// A running pod that is ready since then, and was created then.
fn ready(name: &str, since: Option<Time>, created: Option<Time>) -> Pod {
    let mut pod = pod(name, "node", "Running");
    pod.status.conditions.push(PodCondition {
        r#type: "Ready".to_owned(),
        status: "True".to_owned(),
        last_transition_time: since,
    });
    Pod { created, ..pod }
}

fn restarted(pod: Pod, containers: i64, sidecars: i64) -> Pod {
    let restarts = Restarts {
        containers,
        sidecars,
    };
    Pod { restarts, ..pod }
}

fn costing(cost: &'static str, pod: Pod) -> Pod {
    Pod {
        cost: Some(cost),
        ..pod
    }
}

/// Checks that the pods are ordered so, whatever their order was.
fn assert_order(pods: &[Pod], sort: impl Fn(Vec<Pod>) -> Vec<Pod>) {
    let names = |pods: &[Pod]| -> Vec<String> {
        pods.iter().map(|pod| pod.metadata.name.clone()).collect()
    };
    for turned in 0..pods.len() {
        let mut mixed = pods.to_vec();
        mixed.rotate_left(turned);
        assert_eq!(names(&sort(mixed.clone())), names(pods));
        mixed.reverse();
        assert_eq!(names(&sort(mixed)), names(pods));
    }
}

/// Checks that the first is deleted first, with so many pods on the nodes of the two.
fn assert_first((first, on_first): (&Pod, usize), (second, on_second): (&Pod, usize)) {
    // The nodes are told apart, unless there is none.
    let on = |pod: &Pod, node: &'static str| Pod {
        node: if pod.node.is_empty() { "" } else { node },
        ..pod.clone()
    };
    let nodes = [("a".to_owned(), on_first), ("b".to_owned(), on_second)];
    let nodes = PodsOnNodes(nodes.into());
    assert_order(&[on(first, "a"), on(second, "b")], |pods| {
        sort_with_nodes(pods, &nodes, NOW)
    });
}

#[test]
fn pods_are_ordered_by_what_they_have_come_to() {
    let sidecar = restarted(ready("sidecar-restarts", ago(MONTH), ago(0)), 2, 2);
    let pods = [
        pod("unscheduled", "", "Pending"),
        pod("pending", "node", "Pending"),
        pod("unknown-phase", "node", "Unknown"),
        pod("not-ready", "node", "Running"),
        restarted(ready("ready-nobody-knows-since-when", None, None), 3, 0),
        restarted(ready("ready-now", ago(0), None), 3, 0),
        restarted(ready("ready-longer", ago(MONTH), None), 3, 0),
        sidecar,
        restarted(ready("fewer-restarts", ago(MONTH), ago(0)), 2, 0),
        restarted(ready("oldest", ago(MONTH), ago(MONTH)), 2, 0),
    ];
    assert_order(&pods, sort_plainly);
    let nodes = PodsOnNodes::of(&pods);
    assert_order(&pods, |pods| sort_with_nodes(pods, &nodes, NOW));
}

#[test]
fn where_other_pods_are_matters_less_than_the_state_and_more_than_the_age() {
    let unscheduled = pod("unscheduled", "", "Pending");
    let pending = pod("pending", "node", "Pending");
    let unknown = pod("unknown-phase", "node", "Unknown");
    let not_ready = pod("not-ready", "node", "Running");
    let no_time = ready("ready-no-time", None, None);
    let now = ready("ready-now", ago(0), ago(0));
    let then = ready("ready-then", ago(MONTH), ago(MONTH));
    let restarts = restarted(ready("restarts", ago(0), ago(0)), 9001, 0);
    let sidecars = restarted(ready("sidecars", ago(0), ago(0)), 9001, 9001);
    let created_then = ready("created-then", ago(0), ago(MONTH));
    for (first, second) in [
        ((&unscheduled, 1), (&pending, 2)),
        ((&unscheduled, 2), (&pending, 1)),
        ((&pending, 1), (&unknown, 2)),
        ((&unknown, 1), (&not_ready, 2)),
        ((&not_ready, 1), (&no_time, 1)),
        ((&no_time, 1), (&now, 1)),
        ((&now, 2), (&no_time, 1)),
        ((&now, 1), (&then, 1)),
        ((&now, 2), (&then, 1)),
        ((&restarts, 1), (&now, 1)),
        ((&sidecars, 1), (&restarts, 1)),
        ((&now, 2), (&restarts, 1)),
        ((&now, 1), (&created_then, 1)),
        ((&created_then, 2), (&now, 1)),
    ] {
        assert_first(first, second);
    }
}

#[test]
fn what_is_cheaper_to_delete_goes_first() {
    let at = |cost| costing(cost, ready(cost, ago(0), ago(MONTH)));
    assert_first((&at("10"), 1), (&at("100"), 2));
    assert_first((&at("-5"), 1), (&at("0"), 2));
    // What is no number of 32 bits, as Kubernetes writes it, counts as 0.
    for wrong in ["+7", "007", "1.5", "2147483648", "", "x"] {
        assert_first((&at(wrong), 1), (&at("1"), 2));
        assert_first((&at("-1"), 1), (&at(wrong), 2));
    }
    assert_first((&ready("without", ago(0), ago(0)), 1), (&at("1"), 2));
}

#[test]
fn times_of_the_same_magnitude_are_decided_by_uid() {
    let hours = |uid: &str, hours: u64| ready(uid, ago(hours * HOUR), ago(MONTH));
    assert_first((&hours("b", 2), 1), (&hours("a", 5), 1));
    // 5 and 8 hours are between 2^44 and 2^45 nanoseconds.
    assert_first((&hours("a", 5), 1), (&hours("b", 8), 1));
    assert_first((&hours("a", 8), 1), (&hours("b", 5), 1));
    let created = |uid: &str, hours: u64| Pod {
        created: ago(hours * HOUR),
        ..pod(uid, "", "Pending")
    };
    assert_first((&created("a", 8), 1), (&created("b", 5), 1));
    assert_first((&created("b", 2), 1), (&created("a", 5), 1));
}

#[test]
fn pods_in_a_circle_are_sorted_in_some_order() {
    // By uid a comes before c, and c before d; by restarts d before a.
    let mut pods = Vec::new();
    for _ in 0..40 {
        pods.push(restarted(ready("c", ago(5 * HOUR), ago(MONTH)), 9, 0));
        pods.push(restarted(ready("d", ago(6 * HOUR), ago(MONTH)), 5, 0));
        pods.push(restarted(ready("e", ago(5 * HOUR), ago(MONTH)), 1, 0));
        pods.push(restarted(ready("a", ago(6 * HOUR), ago(MONTH)), 1, 0));
    }
    let count = pods.len();
    let sorted = sort_with_nodes(pods, &PodsOnNodes::default(), NOW);
    assert_eq!(sorted.len(), count);
}

#[test]
fn only_active_pods_count_on_a_node() {
    let mut leaving = pod("leaving", "n1", "Running");
    leaving.metadata.deletion_timestamp = ago(0);
    let pods = [
        pod("a", "n1", "Running"),
        pod("b", "n1", "Pending"),
        pod("c", "n1", "Failed"),
        leaving,
        pod("d", "n2", "Running"),
    ];
    let counted = PodsOnNodes::of(&pods);
    let wanted = [("n1".to_owned(), 2), ("n2".to_owned(), 1)];
    assert_eq!(counted.0, BTreeMap::from(wanted));
}

#[test]
fn the_restarts_of_a_pod_are_the_most_of_one_container() {
    let container = |name: &str, policy: Option<&str>| InitContainer {
        name: name.to_owned(),
        restart_policy: policy.map(str::to_owned),
    };
    let status = |name: &str, restart_count| InitContainerStatus {
        name: name.to_owned(),
        restart_count,
    };
    let restarts = Restarts::of(
        &[3, 7, 5].map(|restart_count| ContainerStatus { restart_count }),
        &[container("init", None), container("side", Some("Always"))],
        &[status("init", 9), status("side", 2)],
    );
    let wanted = Restarts {
        containers: 7,
        sidecars: 2,
    };
    assert_eq!(restarts, wanted);
    assert_eq!(Restarts::of(&[], &[], &[]), Restarts::default());
}
