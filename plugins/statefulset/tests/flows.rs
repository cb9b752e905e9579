//! StatefulSets from their creation on, with a kubelet beside them: upstream's tests of
//! `stateful_set_control_test.go` that go through many steps.

mod support;

use serde_json::{Value, json};
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

fn parallel(mut set: Value) -> Value {
    set["spec"]["podManagementPolicy"] = json!("Parallel");
    set
}

fn image(cluster: &mut Cluster, pod: &str) -> String {
    let pod = cluster.object("v1/Pod", pod).expect("the pod");
    let image = pod["spec"]["containers"][0]["image"].as_str();
    image.unwrap_or_default().to_owned()
}

fn images(cluster: &mut Cluster) -> Vec<String> {
    let pods = cluster.pods();
    pods.iter().map(|pod| image(cluster, pod)).collect()
}

fn set_image(cluster: &mut Cluster, image: &str) {
    cluster.edit("/spec/template/spec/containers/0/image", json!(image));
}

/// `CreatePods`, `ScalesUp`, `ScalesDown`, in parallel.
#[test]
fn in_parallel_all_pods_come_and_go_at_once() {
    let mut cluster = Cluster::new(parallel(set(3)));
    assert_eq!(cluster.settle(), [names([0, 1, 2])]);
    cluster.edit("/spec/replicas", json!(1));
    cluster.run();
    assert_eq!(cluster.pods(), names([0]));
}

/// `TestParallelScale`: far more than fit into one outcome.
#[test]
fn a_thousand_large_pods_come_in_several_outcomes() {
    let mut large = parallel(set(1000));
    let argument = "x".repeat(10_000);
    large["spec"]["template"]["spec"]["containers"][0]["args"] = json!([argument]);
    let mut cluster = Cluster::new(large);
    cluster.run();
    assert_eq!(cluster.pods().len(), 1000);
    assert_eq!(cluster.names("v1/PersistentVolumeClaim").len(), 1000);
    cluster.edit("/spec/replicas", json!(0));
    cluster.run();
    assert_eq!(cluster.pods().len(), 0);
}

/// `ReplacesPods`.
#[test]
fn pods_that_have_gone_come_again_in_order() {
    let mut cluster = Cluster::new(set(5));
    cluster.settle();
    for pod in ["web-0", "web-2", "web-4"] {
        cluster.delete("v1/Pod", pod);
    }
    let steps = cluster.settle();
    assert_eq!(
        steps,
        [
            names([0, 1, 3]),
            names([0, 1, 2, 3]),
            names([0, 1, 2, 3, 4])
        ]
    );
    assert_eq!(cluster.status()["replicas"], 5);
}

/// `RecreatesFailedPod`, `RecreatesSucceededPod`.
#[test]
fn a_pod_that_has_ended_is_replaced() {
    for phase in ["Failed", "Succeeded"] {
        for management in [set, |replicas| parallel(set(replicas))] {
            let mut cluster = Cluster::new(management(3));
            cluster.settle();
            let before = cluster.object("v1/Pod", "web-1").expect("the pod");
            cluster.set_pod("web-1", phase, false);
            cluster.run();
            let after = cluster.object("v1/Pod", "web-1").expect("the pod");
            assert_ne!(before["metadata"]["uid"], after["metadata"]["uid"]);
            assert!(after["status"].is_null(), "it is new");
        }
    }
}

/// `TestStatefulSetControlRollingUpdate`: image update; and with scaling up and down.
#[test]
fn a_rolling_update_replaces_pods_from_the_last_to_the_first() {
    let mut cluster = Cluster::new(set(3));
    cluster.settle();
    set_image(&mut cluster, "foo");
    let mut order = Vec::new();
    for _ in 0..3 {
        let before = images(&mut cluster);
        cluster.run();
        let replaced = cluster.pods();
        let images = images(&mut cluster);
        let new = (0..3)
            .find(|place| images[*place] != before[*place])
            .expect("one is new");
        order.push(replaced[new].clone());
        cluster.run();
        assert_eq!(images, self::images(&mut cluster), "the next waits for it");
        cluster.set_pod(&replaced[new], "Running", true);
    }
    assert_eq!(order, ["web-2", "web-1", "web-0"]);
    cluster.settle();
    let status = cluster.status();
    assert_eq!(status["currentRevision"], status["updateRevision"]);
    assert_eq!(
        (&status["currentReplicas"], &status["updatedReplicas"]),
        (&json!(3), &json!(3))
    );

    for replicas in [5, 2] {
        set_image(&mut cluster, &format!("bar-{replicas}"));
        cluster.edit("/spec/replicas", json!(replicas));
        cluster.settle();
        let wanted = vec![format!("bar-{replicas}"); usize::try_from(replicas).unwrap_or(0)];
        assert_eq!(images(&mut cluster), wanted);
    }
}

/// `TestStatefulSetControlRollingUpdateWithPartition`, and scaling with a partition.
#[test]
fn below_the_partition_pods_stay_at_the_current_revision() {
    let mut cluster = Cluster::new(set(3));
    cluster.edit("/spec/updateStrategy/rollingUpdate/partition", json!(2));
    cluster.settle();
    set_image(&mut cluster, "foo");
    cluster.settle();
    assert_eq!(images(&mut cluster), ["nginx", "nginx", "foo"]);
    let status = cluster.status();
    assert_ne!(status["currentRevision"], status["updateRevision"]);
    assert_eq!(
        (&status["currentReplicas"], &status["updatedReplicas"]),
        (&json!(2), &json!(1))
    );

    // `TestDeletingPodForRollingUpdatePartition`: one that is deleted comes as it was.
    cluster.delete("v1/Pod", "web-0");
    cluster.edit("/spec/replicas", json!(4));
    cluster.settle();
    assert_eq!(images(&mut cluster), ["nginx", "nginx", "foo", "foo"]);
    cluster.edit("/spec/updateStrategy/rollingUpdate/partition", json!(0));
    cluster.settle();
    assert_eq!(images(&mut cluster), ["foo"; 4]);
}

/// `TestStatefulSetControlOnDeleteUpdate`.
#[test]
fn with_on_delete_a_pod_is_updated_when_somebody_deletes_it() {
    let mut on_delete = set(3);
    on_delete["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    let mut cluster = Cluster::new(on_delete);
    cluster.settle();
    set_image(&mut cluster, "foo");
    cluster.settle();
    assert_eq!(images(&mut cluster), ["nginx"; 3]);
    cluster.delete("v1/Pod", "web-1");
    cluster.settle();
    assert_eq!(images(&mut cluster), ["nginx", "foo", "nginx"]);
}

/// `TestStatefulSetControlRollback`.
#[test]
fn going_back_to_a_template_makes_its_revision_the_newest() {
    let mut cluster = Cluster::new(set(3));
    cluster.settle();
    let first = cluster.status()["updateRevision"].clone();
    set_image(&mut cluster, "foo");
    cluster.settle();
    assert_eq!(images(&mut cluster), ["foo"; 3]);
    set_image(&mut cluster, "nginx");
    cluster.settle();
    assert_eq!(images(&mut cluster), ["nginx"; 3]);
    assert_eq!(cluster.status()["updateRevision"], first);
    let name = first.as_str().unwrap_or_default();
    let revision = cluster
        .object("apps/v1/ControllerRevision", name)
        .expect("the revision");
    assert_eq!(revision["revision"], 3);
    assert_eq!(cluster.names("apps/v1/ControllerRevision").len(), 2);
}

/// `TestStatefulSetControlLimitsHistory`: besides those that are live.
#[test]
fn a_history_has_as_many_revisions_as_the_limit_says() {
    for (limit, wanted) in [(0, 1), (5, 6), (-2, 11)] {
        let mut cluster = Cluster::new(set(1));
        cluster.edit("/spec/revisionHistoryLimit", json!(limit));
        cluster.settle();
        for number in 0..10 {
            set_image(&mut cluster, &format!("foo-{number}"));
            cluster.settle();
        }
        assert_eq!(
            cluster.names("apps/v1/ControllerRevision").len(),
            wanted,
            "limit {limit}"
        );
    }
}

/// `TestStatefulSetControlRollingUpdateWithMaxUnavailable`.
#[test]
fn as_many_pods_are_updated_at_once_as_may_be_unavailable() {
    for is_parallel in [false, true] {
        let set = if is_parallel {
            parallel(set(6))
        } else {
            set(6)
        };
        let mut cluster = Cluster::new(set);
        let rolling = json!({"partition": 3, "maxUnavailable": 2});
        cluster.edit("/spec/updateStrategy/rollingUpdate", rolling);
        cluster.settle();
        set_image(&mut cluster, "foo");
        cluster.run();
        let pods = if is_parallel {
            names([0, 1, 2, 3, 4, 5])
        } else {
            names([0, 1, 2, 3, 4])
        };
        assert_eq!(
            cluster.pods(),
            pods,
            "both are deleted, and come again as they may"
        );
        assert_eq!(image(&mut cluster, "web-3"), "nginx");
        cluster.set_pod("web-4", "Running", true);
        cluster.run();
        let wanted = if is_parallel { "foo" } else { "nginx" };
        assert_eq!(image(&mut cluster, "web-3"), wanted);
        cluster.settle();
        let wanted = ["nginx", "nginx", "nginx", "foo", "foo", "foo"];
        assert_eq!(images(&mut cluster), wanted);
    }
}

/// `TestStatefulSetControlWithStartOrdinal`, and moving the start.
#[test]
fn ordinals_begin_at_their_start() {
    let mut started = set(3);
    started["spec"]["ordinals"] = json!({"start": 2});
    let mut cluster = Cluster::new(started);
    let steps = cluster.settle();
    assert_eq!(steps, [names([2]), names([2, 3]), names([2, 3, 4])]);
    cluster.edit("/spec/ordinals/start", json!(0));
    assert_eq!(cluster.settle().last(), Some(&names([0, 1, 2])));
}

/// `TestStatefulSetAvailability`: with `minReadySeconds` the next pod waits until the one before
/// has been ready for so long.
#[test]
fn the_next_pod_comes_when_the_one_before_is_available() {
    let mut slow = set(2);
    slow["spec"]["minReadySeconds"] = json!(30);
    let mut cluster = Cluster::new(slow);
    cluster.run();
    cluster.set_pod("web-0", "Running", true);
    cluster.wait(29);
    cluster.run();
    assert_eq!(cluster.pods(), names([0]));
    let status = cluster.status();
    assert_eq!(
        (&status["readyReplicas"], &status["availableReplicas"]),
        (&json!(1), &json!(0))
    );
    cluster.wait(1);
    cluster.run();
    assert_eq!(cluster.pods(), names([0, 1]));
    assert_eq!(cluster.status()["availableReplicas"], 1);
}

/// Events are lost, and not the outcome, when there are more than the host takes.
#[test]
fn a_change_of_five_hundred_claims_is_one_outcome() {
    let mut cluster = Cluster::new(parallel(set(500)));
    cluster.settle();
    cluster.edit(
        "/spec/persistentVolumeClaimRetentionPolicy/whenDeleted",
        json!("Delete"),
    );
    cluster.run();
    let name = "data-web-499";
    let claim = cluster
        .object("v1/PersistentVolumeClaim", name)
        .expect("the claim");
    assert_eq!(claim["metadata"]["ownerReferences"][0]["name"], "web");
}

/// A set of more pods than there can be is no danger to the others.
#[test]
fn a_set_of_two_billion_pods_gets_its_first_ones() {
    let mut huge = set(2_000_000_000);
    huge["spec"]["volumeClaimTemplates"] = json!([]);
    let mut cluster = Cluster::new(huge);
    cluster.run();
    assert_eq!(cluster.pods(), names([0]));

    let mut huge = parallel(set(2_000_000_000));
    let template = |number| json!({"metadata": {"name": format!("log-{number}")}, "spec": {}});
    let templates: Vec<Value> = (0..4).map(template).collect();
    huge["spec"]["volumeClaimTemplates"] = json!(templates);
    let cluster = Cluster::new(huge);
    let outcome = cluster.after_revision();
    assert!(
        (500..10_000).contains(&outcome.actions().count()),
        "as many as fit"
    );
}

/// `TestGetPodsForStatefulSetAdopt`, `TestGetPodsForStatefulSetRelease`, and an identity that was
/// taken away.
#[test]
fn a_set_takes_its_pods_back_and_gives_others_up() {
    let mut cluster = Cluster::new(parallel(set(3)));
    cluster.settle();
    cluster.change_pod("web-0", "ownerReferences", json!([]));
    cluster.change_pod("web-1", "labels", json!({"app": "other"}));
    let mut labels =
        cluster.object("v1/Pod", "web-2").expect("the pod")["metadata"]["labels"].clone();
    labels["statefulset.kubernetes.io/pod-name"] = json!("web-9");
    cluster.change_pod("web-2", "labels", labels);
    cluster.try_run();
    let metadata = |cluster: &mut Cluster, pod: &str| {
        cluster.object("v1/Pod", pod).expect("the pod")["metadata"].clone()
    };
    assert_eq!(
        metadata(&mut cluster, "web-0")["ownerReferences"][0]["name"],
        "web"
    );
    assert_eq!(
        metadata(&mut cluster, "web-1")["ownerReferences"],
        json!([])
    );
    let label = &metadata(&mut cluster, "web-2")["labels"]["statefulset.kubernetes.io/pod-name"];
    assert_eq!(label, "web-2");
    assert_eq!(
        cluster.status()["replicas"],
        2,
        "the name of the third is taken"
    );
}

/// `TestStatefulSetControllerDeletionTimestampRace`: the server says that the set is being deleted.
#[test]
fn a_set_that_is_being_deleted_on_the_server_adopts_nothing() {
    let mut cluster = Cluster::new(set(1));
    cluster.settle();
    cluster.change_pod("web-0", "ownerReferences", json!([]));
    let mut deleted = cluster
        .object("apps/v1/StatefulSet", "web")
        .expect("the set");
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    deleted["metadata"]["finalizers"] = json!(["orphan"]);
    cluster.put_unseen(deleted);
    cluster.run();
    let pod = cluster.object("v1/Pod", "web-0").expect("the pod");
    assert_eq!(pod["metadata"]["ownerReferences"], json!([]));
}
