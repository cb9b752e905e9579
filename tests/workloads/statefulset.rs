//! `test/integration/statefulset`, and what a user sees of a set from its creation on.

use anyhow::{Context, Result};
use http::Method;
use pilothouse_tests::proxy::{Answer, writes};
use pilothouse_tests::{WorkloadRig, name_of, now};
use serde_json::{Value, json};

/// The labels of the pods, as a selector.
const LABELS: &str = "foo=bar";
const BLOCKED: &str = "fake.example.com/blockDeletion";
const NAME: &str = "sts";

/// Upstream's `newSTS`.
fn set(replicas: usize) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": NAME},
        "spec": {
            "podManagementPolicy": "Parallel",
            "replicas": replicas,
            "selector": {"matchLabels": {"foo": "bar"}},
            "serviceName": "fake-service-name",
            "updateStrategy": {"type": "RollingUpdate"},
            "template": {
                "metadata": {"labels": {"foo": "bar"}},
                "spec": {
                    "containers": [{
                        "name": "fake-name", "image": "fakeimage", "volumeMounts": [
                            {"name": "datadir", "mountPath": "/data/"},
                            {"name": "home", "mountPath": "/home"},
                        ],
                    }],
                    "volumes": [
                        {"name": "datadir",
                            "persistentVolumeClaim": {"claimName": "fake-pvc-name"}},
                        {"name": "home", "hostPath": {"path": "/tmp/home"}},
                    ],
                },
            },
            "volumeClaimTemplates": [{
                "metadata": {"name": "fake-pvc-name"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1"}},
                },
            }],
        },
    })
}

/// A set with a change.
fn set_with(replicas: usize, spec: &Value) -> Value {
    let mut set = set(replicas);
    for (name, value) in spec.as_object().into_iter().flatten() {
        set["spec"][name] = value.clone();
    }
    set
}

struct Sets(WorkloadRig);

impl Sets {
    async fn start() -> Result<Self> {
        Ok(Self(WorkloadRig::start(&["statefulset"]).await?))
    }

    async fn create(&self, set: &Value) -> Result<()> {
        self.0.create("statefulsets", set).await?;
        self.until_stable().await
    }

    /// Waits until the status has as many replicas as the spec, of its generation.
    async fn until_stable(&self) -> Result<()> {
        let is_stable = |set: &Value| {
            let (generation, status) = (&set["metadata"]["generation"], &set["status"]);
            status["replicas"] == set["spec"]["replicas"]
                && status["observedGeneration"] == *generation
        };
        self.until("stable", is_stable).await.map(drop)
    }

    async fn until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Result<Value> {
        self.0.eventually("statefulsets", NAME, what, is_so).await
    }

    async fn edit(&self, spec: &Value) -> Result<Value> {
        self.0
            .merge("statefulsets", NAME, &json!({"spec": spec}))
            .await
    }

    async fn scale(&self, replicas: usize) -> Result<()> {
        self.edit(&json!({"replicas": replicas})).await?;
        self.until_stable().await
    }

    async fn set_image(&self, image: &str) -> Result<()> {
        let mut containers = set(1)["spec"]["template"]["spec"]["containers"].clone();
        containers[0]["image"] = image.into();
        let template = json!({"spec": {"containers": containers}});
        self.edit(&json!({"template": template})).await.map(drop)
    }

    async fn pods(&self) -> Result<Vec<Value>> {
        self.0.list("pods", LABELS).await
    }

    /// Waits until the pods are as wanted.
    async fn until_pods(
        &self,
        what: &str,
        are_wanted: impl Fn(&[Value]) -> bool,
    ) -> Result<Vec<Value>> {
        self.0
            .eventually_all("pods", LABELS, what, are_wanted)
            .await
    }

    /// Says of a pod that it runs and since when it is ready, or that it is not.
    async fn set_ready(&self, pod: &str, is_ready: bool, since: &str) -> Result<()> {
        let condition = json!({
            "type": "Ready", "status": if is_ready { "True" } else { "False" },
            "lastTransitionTime": since,
        });
        let status = json!({"phase": "Running", "conditions": [condition]});
        self.0.merge_status("pods", pod, &status).await.map(drop)
    }

    /// Makes every pod ready that is pending.
    async fn run_pending(&self) -> Result<()> {
        for pod in self.pods().await? {
            if pod["status"]["phase"] == "Pending" {
                self.set_ready(&name_of(&pod), true, &now()).await?;
            }
        }
        Ok(())
    }

    /// Keeps a pod from going when it is deleted, or lets it go.
    async fn block(&self, pod: &str, is_blocked: bool) -> Result<()> {
        let finalizers = if is_blocked {
            json!([BLOCKED])
        } else {
            json!([])
        };
        let patch = json!({"metadata": {"finalizers": finalizers}});
        self.0.merge("pods", pod, &patch).await.map(drop)
    }
}

fn uid(object: &Value) -> &Value {
    &object["metadata"]["uid"]
}

fn has(pods: &[Value], wanted: &Value) -> bool {
    pods.iter().any(|pod| uid(pod) == wanted)
}

fn image(pod: &Value) -> &Value {
    &pod["spec"]["containers"][0]["image"]
}

fn has_owner(object: &Value, kind: &str) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners
        .into_iter()
        .flatten()
        .any(|owner| owner["kind"] == kind)
}

/// `TestSpecReplicasChange`.
#[tokio::test]
async fn the_status_follows_the_spec() -> Result<()> {
    let sets = Sets::start().await?;
    sets.create(&set(2)).await?;
    for replicas in [3, 0, 2] {
        sets.scale(replicas).await?;
    }
    let annotations = json!({"template": {"metadata": {"annotations": {"test": "annotation"}}}});
    let edited = sets.edit(&annotations).await?;
    let generation = edited["metadata"]["generation"]
        .as_i64()
        .context("a generation")?;
    assert_eq!(generation, 5);
    sets.until("observed", |set| {
        set["status"]["observedGeneration"] == generation
    })
    .await?;
    Ok(())
}

/// `TestDeletingAndTerminatingPods`.
#[tokio::test]
async fn pods_that_have_ended_are_replaced_and_one_being_deleted_is_waited_for() -> Result<()> {
    let sets = Sets::start().await?;
    sets.create(&set(3)).await?;
    let before = sets.until_pods("three", |pods| pods.len() == 3).await?;
    sets.block("sts-0", true).await?;
    sets.0.delete("pods", "sts-0").await?;
    sets.0.set_pod_phase("sts-1", "Failed").await?;
    sets.0.set_pod_phase("sts-2", "Succeeded").await?;
    let is_replaced = |pods: &[Value]| {
        pods.len() == 3
            && has(pods, uid(&before[0]))
            && !has(pods, uid(&before[1]))
            && !has(pods, uid(&before[2]))
            && pods.iter().all(|pod| pod["status"]["phase"] == "Pending")
    };
    sets.until_pods("replaced", is_replaced).await?;
    sets.block("sts-0", false).await?;
    let is_back = |pods: &[Value]| pods.len() == 3 && !has(pods, uid(&before[0]));
    sets.until_pods("all new", is_back).await?;
    Ok(())
}

/// `TestStatefulSetAvailable`.
#[tokio::test]
async fn ready_and_available_pods_are_counted() -> Result<()> {
    let sets = Sets::start().await?;
    sets.create(&set_with(4, &json!({"minReadySeconds": 3600})))
        .await?;
    sets.until_pods("four", |pods| pods.len() == 4).await?;
    sets.set_ready("sts-0", false, &now()).await?;
    sets.set_ready("sts-1", true, &now()).await?;
    for pod in ["sts-2", "sts-3"] {
        sets.set_ready(pod, true, "2026-01-01T00:00:00Z").await?;
    }
    let are_counted = |set: &Value| {
        let status = &set["status"];
        let counts = ["replicas", "readyReplicas", "availableReplicas"].map(|name| &status[name]);
        counts == [4, 3, 2]
    };
    sets.until("counted", are_counted).await?;
    Ok(())
}

/// `TestStatefulSetStatusWithPodFail`: the API server takes two pods and no more.
#[tokio::test]
async fn the_status_is_written_though_pods_cannot_be_created() -> Result<()> {
    let sets = Sets::start().await?;
    let creations = writes("pods").method(Method::POST);
    sets.0
        .proxy
        .on(creations)
        .after(2)
        .answer(Answer::status(403));
    sets.0.create("statefulsets", &set(4)).await?;
    sets.until("of two pods", |set| set["status"]["replicas"] == 2)
        .await?;
    Ok(())
}

/// `TestAutodeleteOwnerRefs`.
#[tokio::test]
async fn claims_have_the_owners_that_the_retention_policy_wants() -> Result<()> {
    for (scaled, deleted) in [
        ("Retain", "Retain"),
        ("Delete", "Retain"),
        ("Retain", "Delete"),
        ("Delete", "Delete"),
    ] {
        let sets = Sets::start().await?;
        let policy = json!({"whenScaled": scaled, "whenDeleted": deleted});
        let policy = json!({"persistentVolumeClaimRetentionPolicy": policy});
        sets.create(&set_with(3, &policy)).await?;
        let of_set = deleted == "Delete";
        let owners = |claim: &Value| (has_owner(claim, "StatefulSet"), has_owner(claim, "Pod"));
        let are_owned = |claims: &[Value], wanted: [(bool, bool); 3]| {
            claims.len() == 3 && claims.iter().map(owners).eq(wanted)
        };
        let what = format!("owned as whenScaled {scaled}, whenDeleted {deleted} wants");
        let all = [(of_set, false); 3];
        let rig = &sets.0;
        rig.eventually_all("persistentvolumeclaims", LABELS, &what, |claims| {
            are_owned(claims, all)
        })
        .await?;

        sets.scale(1).await?;
        let scaled_down = if scaled == "Delete" {
            (false, true)
        } else {
            (of_set, false)
        };
        let wanted = [(of_set, false), scaled_down, scaled_down];
        rig.eventually_all("persistentvolumeclaims", LABELS, &what, |claims| {
            are_owned(claims, wanted)
        })
        .await?;
    }
    Ok(())
}

/// `TestDeletingPodForRollingUpdatePartition`.
#[tokio::test]
async fn a_pod_below_the_partition_comes_again_as_it_was() -> Result<()> {
    let sets = Sets::start().await?;
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}});
    sets.create(&set_with(2, &json!({"updateStrategy": strategy})))
        .await?;
    sets.until_pods("two", |pods| pods.len() == 2).await?;
    for pod in ["sts-0", "sts-1"] {
        sets.set_ready(pod, true, &now()).await?;
    }
    sets.until("ready", |set| set["status"]["readyReplicas"] == 2)
        .await?;
    sets.block("sts-0", true).await?;
    sets.set_image("new-image").await?;
    let is_replaced = |pods: &[Value]| pods.len() == 2 && image(&pods[1]) == "new-image";
    sets.until_pods("of which the second is new", is_replaced)
        .await?;
    sets.run_pending().await?;
    let is_updated = |set: &Value| {
        let status = &set["status"];
        status["updatedReplicas"] == 1 && status["readyReplicas"] == 2
    };
    sets.until("updated", is_updated).await?;

    let first = sets.0.get("pods", "sts-0").await?;
    sets.0.set_pod_phase("sts-0", "Failed").await?;
    sets.0.delete("pods", "sts-0").await?;
    sets.until("not ready", |set| set["status"]["readyReplicas"] == 1)
        .await?;
    sets.block("sts-0", false).await?;
    let is_back = |pods: &[Value]| pods.len() == 2 && !has(pods, uid(&first));
    sets.until_pods("two again", is_back).await?;
    sets.run_pending().await?;
    sets.until("ready", |set| set["status"]["readyReplicas"] == 2)
        .await?;
    let pods = sets.pods().await?;
    let images: Vec<&Value> = pods.iter().map(image).collect();
    assert_eq!(images, ["fakeimage", "new-image"]);
    Ok(())
}

/// `TestStatefulSetStartOrdinal`.
#[tokio::test]
async fn ordinals_begin_where_the_spec_says() -> Result<()> {
    let sets = Sets::start().await?;
    for (ordinals, wanted) in [
        (json!(null), 0..3),
        (json!({}), 0..3),
        (json!({"start": 4}), 4..8),
        (json!({"start": 2}), 2..9),
    ] {
        sets.create(&set_with(wanted.len(), &json!({"ordinals": ordinals})))
            .await?;
        let pods = sets.pods().await?;
        let names: Vec<String> = pods.iter().map(name_of).collect();
        let expected: Vec<String> = wanted
            .clone()
            .map(|ordinal| format!("sts-{ordinal}"))
            .collect();
        assert_eq!(names, expected);
        let index = |pod: &Value| pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"].clone();
        let expected: Vec<Value> = wanted
            .clone()
            .map(|ordinal| ordinal.to_string().into())
            .collect();
        assert_eq!(pods.iter().map(index).collect::<Vec<_>>(), expected);

        sets.scale(1).await?;
        let left = sets.until_pods("one", |pods| pods.len() == 1).await?;
        assert_eq!(name_of(&left[0]), format!("sts-{}", wanted.start));
        sets.0.delete("statefulsets", NAME).await?;
        sets.0.delete("pods", &name_of(&left[0])).await?;
    }
    Ok(())
}

/// `TestStatefulSetPodSubdomain`.
#[tokio::test]
async fn pods_have_the_service_as_their_subdomain() -> Result<()> {
    let sets = Sets::start().await?;
    sets.create(&set_with(3, &json!({"serviceName": "test-service"})))
        .await?;
    let pods = sets.pods().await?;
    assert_eq!(pods.len(), 3);
    assert!(
        pods.iter()
            .all(|pod| pod["spec"]["subdomain"] == "test-service")
    );
    Ok(())
}

/// No test of upstream's: in order pods come and are updated one at a time, an identity that was
/// taken away is given back, an orphan is adopted, and Events tell it.
#[tokio::test]
async fn a_set_in_order_from_its_creation_to_its_next_revision() -> Result<()> {
    let sets = Sets::start().await?;
    let ordered = json!({"podManagementPolicy": "OrderedReady"});
    sets.0
        .create("statefulsets", &set_with(2, &ordered))
        .await?;
    for count in 1..=2 {
        sets.until_pods("as many as are ready and one", |pods| pods.len() == count)
            .await?;
        sets.run_pending().await?;
    }
    sets.until("ready", |set| set["status"]["readyReplicas"] == 2)
        .await?;

    let label = json!({"statefulset.kubernetes.io/pod-name": "other"});
    sets.0
        .merge("pods", "sts-0", &json!({"metadata": {"labels": label}}))
        .await?;
    let orphan = json!({"metadata": {"ownerReferences": []}});
    sets.0.merge("pods", "sts-1", &orphan).await?;
    let is_repaired = |pods: &[Value]| {
        pods[0]["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "sts-0"
            && has_owner(&pods[1], "StatefulSet")
    };
    sets.until_pods("repaired", is_repaired).await?;

    sets.set_image("new-image").await?;
    let is_first = |pods: &[Value]| pods.len() == 2 && image(&pods[1]) == "new-image";
    let pods = sets
        .until_pods("of which the last is new", is_first)
        .await?;
    assert_eq!(image(&pods[0]), "fakeimage");
    sets.run_pending().await?;
    let are_all = |pods: &[Value]| pods.len() == 2 && image(&pods[0]) == "new-image";
    sets.until_pods("new", are_all).await?;
    sets.run_pending().await?;
    let is_complete = |set: &Value| {
        let status = &set["status"];
        status["currentRevision"] == status["updateRevision"] && status["currentReplicas"] == 2
    };
    sets.until("updated", is_complete).await?;

    let wanted = [
        "Create Claim fake-pvc-name-sts-0 Pod sts-0 in StatefulSet sts success",
        "Create Pod sts-0 in StatefulSet sts successful",
        "Create Pod sts-1 in StatefulSet sts successful",
        "Delete Pod sts-1 in StatefulSet sts successful",
        "Update Pod sts-0 in StatefulSet sts successful",
    ];
    let are_told = |events: &[Value]| {
        wanted
            .iter()
            .all(|note| events.iter().any(|event| event["note"] == *note))
    };
    sets.0
        .eventually_all("events", "", "told", are_told)
        .await?;
    Ok(())
}
