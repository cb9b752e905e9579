//! StatefulSets from their creation on, with a kubelet beside them: upstream's tests of
//! `stateful_set_control_test.go` that go through many steps.

mod support;

use serde_json::json;
use support::{Cluster, set};

fn names<const N: usize>(numbers: [u32; N]) -> Vec<String> {
    numbers
        .iter()
        .map(|number| format!("web-{number}"))
        .collect()
}

/// `CreatePods`, `ScalesUp`, `ScalesDown`, in order.
#[test]
fn pods_come_one_after_the_other_and_go_in_reverse() {
    let mut cluster = Cluster::new(set(3));
    let steps = cluster.settle();
    assert_eq!(steps, [names([0]), names([0, 1]), names([0, 1, 2])]);
    let status = cluster.status();
    for count in [
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
    ] {
        assert_eq!(status[count], 3, "{count}");
    }
    assert_eq!(status["availableReplicas"], 3);
    assert_eq!(cluster.names("v1/PersistentVolumeClaim").len(), 3);

    cluster.edit("/spec/replicas", json!(4));
    assert_eq!(cluster.settle().last(), Some(&names([0, 1, 2, 3])));

    cluster.edit("/spec/replicas", json!(0));
    let steps = cluster.settle();
    assert_eq!(steps.last(), Some(&names([])));
    assert_eq!(cluster.status()["replicas"], 0);
    assert_eq!(cluster.names("v1/PersistentVolumeClaim").len(), 4);
}
