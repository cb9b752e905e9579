//! What the tests of ReplicaSets and ReplicationControllers have in common: they are the same.

use anyhow::{Context, Result, ensure};
use http::Method;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use pilothouse_tests::{WorkloadRig, name_of};
use serde_json::{Value, json};

/// The labels of all pods.
pub const LABELS: &str = "foo=bar";

/// One of the two kinds, and a rig with its plugin.
pub struct Sets {
    pub rig: WorkloadRig,
    api_version: &'static str,
    kind: &'static str,
    /// The resource.
    pub sets: &'static str,
}

impl Sets {
    /// A rig in which the host runs already.
    pub async fn replicasets() -> Result<Self> {
        let mut sets = Self::replicasets_without_host().await?;
        sets.rig.start_host().await?;
        Ok(sets)
    }

    pub async fn replicasets_without_host() -> Result<Self> {
        Ok(Self {
            rig: WorkloadRig::without_host(&["replicaset"]).await?,
            api_version: "apps/v1",
            kind: "ReplicaSet",
            sets: "replicasets",
        })
    }

    /// A rig in which the host runs already.
    pub async fn replicationcontrollers() -> Result<Self> {
        let mut sets = Self::replicationcontrollers_without_host().await?;
        sets.rig.start_host().await?;
        Ok(sets)
    }

    pub async fn replicationcontrollers_without_host() -> Result<Self> {
        Ok(Self {
            rig: WorkloadRig::without_host(&["replicationcontroller"]).await?,
            api_version: "v1",
            kind: "ReplicationController",
            sets: "replicationcontrollers",
        })
    }

    /// A set of so many pods.
    pub fn set(&self, name: &str, replicas: usize) -> Value {
        let labels = json!({"foo": "bar"});
        let selector = match self.kind {
            "ReplicaSet" => json!({"matchLabels": labels}),
            _ => labels.clone(),
        };
        json!({
            "apiVersion": self.api_version, "kind": self.kind, "metadata": {"name": name},
            "spec": {
                "replicas": replicas, "selector": selector,
                "template": {"metadata": {"labels": labels}, "spec": pod_spec()},
            },
        })
    }

    /// Creates a set of so many pods, and waits until its status says that they are there.
    pub async fn create(&self, name: &str, replicas: usize) -> Result<Value> {
        self.create_object(&self.set(name, replicas)).await
    }

    pub async fn create_object(&self, set: &Value) -> Result<Value> {
        let created = self.rig.create(self.sets, set).await?;
        self.until_stable(&name_of(&created)).await
    }

    /// Waits until the status has the replicas of the spec, of its generation.
    pub async fn until_stable(&self, name: &str) -> Result<Value> {
        let is_stable = |set: &Value| {
            let number = |path: &str| set.pointer(path).and_then(Value::as_i64).unwrap_or(0);
            number("/status/replicas") == number("/spec/replicas")
                && number("/status/observedGeneration") >= number("/metadata/generation")
        };
        let rig = &self.rig;
        rig.eventually(self.sets, name, "stable", is_stable).await
    }

    /// Waits until the status has these members.
    pub async fn until_status(&self, name: &str, wanted: &Value) -> Result<Value> {
        let has_all = |set: &Value| {
            let wanted = wanted.as_object().into_iter().flatten();
            let zero = json!(0);
            wanted
                .clone()
                .all(|(member, value)| set["status"].get(member).unwrap_or(&zero) == value)
        };
        let what = wanted.to_string();
        self.rig.eventually(self.sets, name, &what, has_all).await
    }

    pub async fn scale(&self, name: &str, replicas: usize) -> Result<()> {
        let patch = json!({"spec": {"replicas": replicas}});
        self.rig.merge(self.sets, name, &patch).await?;
        self.until_stable(name).await.map(drop)
    }

    /// A reference to a set as an owner. `controller`: what it says about that.
    pub fn owner(&self, name: &str, uid: &Value, controller: Option<bool>) -> Value {
        let mut owner = json!({
            "apiVersion": self.api_version, "kind": self.kind, "name": name, "uid": uid,
        });
        if let Some(controller) = controller {
            owner["controller"] = controller.into();
        }
        owner
    }

    pub async fn create_pod(&self, name: &str, owners: &Value) -> Result<Value> {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"foo": "bar"}, "ownerReferences": owners},
            "spec": pod_spec(),
        });
        self.rig.create("pods", &pod).await
    }

    /// Replaces a member of the pod's metadata as a whole.
    pub async fn set_metadata(&self, pod: &str, member: &str, value: &Value) -> Result<()> {
        loop {
            let mut pod = self.rig.get("pods", pod).await?;
            pod["metadata"][member] = value.clone();
            let path = self.rig.path("pods", &name_of(&pod));
            match self.rig.api().update(&path, &pod).await {
                Ok(_) => return Ok(()),
                // The controller has changed it meanwhile.
                Err(error) if format!("{error:?}").contains("409") => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Says that a pod runs, and is ready, or not, since so many seconds.
    pub async fn set_ready(&self, pod: &Value, is_ready: bool, seconds_ago: i64) -> Result<()> {
        let since = Timestamp::now() - SignedDuration::from_secs(seconds_ago);
        let since = since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let ready = json!({
            "type": "Ready", "status": if is_ready { "True" } else { "False" },
            "lastTransitionTime": since,
        });
        let status = json!({"phase": "Running", "conditions": [ready]});
        let rig = &self.rig;
        rig.merge_status("pods", &name_of(pod), &status)
            .await
            .map(drop)
    }

    /// Deletes a pod as a user does: its grace period is respected.
    pub async fn ask_to_delete(&self, pod: &Value) -> Result<()> {
        let path = self.rig.path("pods", &name_of(pod));
        self.rig
            .api()
            .request_text(Method::DELETE, &path)
            .await
            .map(drop)
    }
}

pub fn pod_spec() -> Value {
    json!({"containers": [{"name": "fake-name", "image": "fakeimage"}]})
}

/// The controller among an object's owners.
fn controller(object: &Value) -> Option<&Value> {
    let mut owners = object["metadata"]["ownerReferences"].as_array()?.iter();
    owners.find(|owner| owner["controller"] == true)
}

/// `TestAdoption`: what owners a pod has, and which it has in the end.
pub async fn adoption(mut sets: Sets) -> Result<()> {
    let set = sets.rig.create(sets.sets, &sets.set("set", 1)).await?;
    let uid = &set["metadata"]["uid"];
    let own = |is_controller| sets.owner("set", uid, is_controller);
    let mut adopted = own(Some(true));
    adopted["blockOwnerDeletion"] = true.into();
    let other = sets.owner("another", &json!("1"), Some(true));
    let cases = [
        (json!([own(None)]), json!([adopted])),
        (json!([]), json!([adopted])),
        (json!([own(Some(true))]), json!([own(Some(true))])),
        (json!([other, own(None)]), json!([other, own(None)])),
    ];
    // All of them are wanted, so none is deleted.
    let patch = json!({"spec": {"replicas": 3}});
    sets.rig.merge(sets.sets, "set", &patch).await?;
    for (number, (before, _)) in cases.iter().enumerate() {
        sets.create_pod(&format!("pod{number}"), before).await?;
    }
    sets.rig.start_host().await?;
    sets.until_status("set", &json!({"replicas": 3})).await?;
    for (number, (_, wanted)) in cases.iter().enumerate() {
        let pod = sets.rig.get("pods", &format!("pod{number}")).await?;
        assert_eq!(pod["metadata"]["ownerReferences"], *wanted, "pod{number}");
    }
    assert_eq!(sets.rig.list("pods", LABELS).await?.len(), 4);
    Ok(())
}

/// `TestSpecReplicasChange`.
pub async fn scaling(sets: Sets) -> Result<()> {
    sets.create("set", 2).await?;
    for replicas in [3, 0, 2] {
        sets.scale("set", replicas).await?;
        sets.rig.eventually_pods(LABELS, replicas).await?;
    }
    let patch =
        json!({"spec": {"template": {"metadata": {"annotations": {"test": "annotation"}}}}});
    let before = sets.rig.get(sets.sets, "set").await?;
    let after = sets.rig.merge(sets.sets, "set", &patch).await?;
    let generation = |set: &Value| set["metadata"]["generation"].as_i64();
    assert!(generation(&after) > generation(&before));
    let set = sets.until_stable("set").await?;
    assert_eq!(
        set["status"]["observedGeneration"].as_i64(),
        generation(&after)
    );
    Ok(())
}

/// `TestDeletingAndFailedPods`.
pub async fn deleting_and_failed_pods(sets: Sets) -> Result<()> {
    sets.create("set", 2).await?;
    let pods = sets.rig.eventually_pods(LABELS, 2).await?;
    let [deleting, failed] = pods.as_slice() else {
        anyhow::bail!("there are two");
    };
    let finalizer = json!(["fake.example.com/blockDeletion"]);
    sets.set_metadata(&name_of(deleting), "finalizers", &finalizer)
        .await?;
    sets.ask_to_delete(deleting).await?;
    sets.rig.set_pod_phase(&name_of(failed), "Failed").await?;
    let pods = sets.rig.eventually_pods(LABELS, 4).await?;
    for pod in [deleting, failed] {
        let uid = &pod["metadata"]["uid"];
        ensure!(
            pods.iter().any(|have| have["metadata"]["uid"] == *uid),
            "{pod} is gone"
        );
    }
    Ok(())
}

/// `TestOverlappingRSs`, `TestOverlappingRCs`.
pub async fn overlapping_sets(sets: Sets) -> Result<()> {
    for count in [1, 2] {
        sets.create(&format!("set-{count}"), count).await?;
    }
    assert_eq!(sets.rig.list("pods", LABELS).await?.len(), 3);
    for count in [1, 2] {
        let set = sets.rig.get(sets.sets, &format!("set-{count}")).await?;
        assert_eq!(set["status"]["replicas"], count);
    }
    Ok(())
}

/// `TestPodOrphaningAndAdoptionWhenLabelsChange`.
pub async fn labels_that_change(sets: Sets) -> Result<()> {
    let set = sets.create("set", 1).await?;
    let pods = sets.rig.eventually_pods(LABELS, 1).await?;
    let pod = name_of(&pods[0]);
    ensure!(
        controller(&pods[0]).is_some(),
        "the pod has no controller: {}",
        pods[0]
    );
    sets.set_metadata(&pod, "labels", &json!({"new-foo": "new-bar"}))
        .await?;
    let rig = &sets.rig;
    rig.eventually("pods", &pod, "given up", |pod| controller(pod).is_none())
        .await?;
    // Not upstream's: it is replaced, though the name that the host derives is taken.
    sets.rig.eventually_pods(LABELS, 1).await?;
    sets.set_metadata(&pod, "labels", &json!({"foo": "bar"}))
        .await?;
    // There are two now, and one is deleted: this one or the one that has replaced it.
    let is_settled = |pods: &[Value]| {
        let uid = &set["metadata"]["uid"];
        pods.len() == 1 && controller(&pods[0]).is_some_and(|owner| owner["uid"] == *uid)
    };
    let what = "one pod of the set";
    sets.rig
        .eventually_all("pods", LABELS, what, is_settled)
        .await?;
    Ok(())
}

/// `TestGeneralPodAdoption`.
pub async fn wrong_owners_are_patched(sets: Sets) -> Result<()> {
    let set = sets.create("set", 1).await?;
    let uid = &set["metadata"]["uid"];
    let pods = sets.rig.eventually_pods(LABELS, 1).await?;
    let pod = name_of(&pods[0]);
    let foreign = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "set", "controller": false,
        "uid": "0c1ee1f0-6d2c-4b0d-8f0f-2f4f1f0d8a11",
    });
    for (owner, count) in [(foreign, 2), (sets.owner("set", uid, Some(false)), 1)] {
        sets.set_metadata(&pod, "ownerReferences", &json!([owner]))
            .await?;
        let rig = &sets.rig;
        let is_adopted = |pod: &Value| controller(pod).is_some();
        let pod = rig.eventually("pods", &pod, "adopted", is_adopted).await?;
        assert_eq!(controller(&pod).map(|owner| &owner["uid"]), Some(uid));
        let owners = pod["metadata"]["ownerReferences"].as_array();
        assert_eq!(owners.map(Vec::len), Some(count));
    }
    Ok(())
}

/// `TestReadyAndAvailableReplicas`.
pub async fn ready_and_available(sets: Sets) -> Result<()> {
    let mut set = sets.set("set", 3);
    set["spec"]["minReadySeconds"] = 3600.into();
    let set = sets.create_object(&set).await?;
    assert_eq!(set["status"].get("availableReplicas"), None);
    let pods = sets.rig.eventually_pods(LABELS, 3).await?;
    sets.set_ready(&pods[0], false, 0).await?;
    sets.set_ready(&pods[1], true, 0).await?;
    sets.set_ready(&pods[2], true, 2 * 3600).await?;
    let wanted = json!({"replicas": 3, "readyReplicas": 2, "availableReplicas": 1});
    sets.until_status("set", &wanted).await.map(drop)
}

/// Not upstream's: the key runs again by itself when a ready pod becomes available.
pub async fn a_ready_pod_becomes_available(sets: Sets) -> Result<()> {
    let mut set = sets.set("set", 1);
    set["spec"]["minReadySeconds"] = 2.into();
    sets.create_object(&set).await?;
    let pods = sets.rig.eventually_pods(LABELS, 1).await?;
    sets.set_ready(&pods[0], true, 0).await?;
    let wanted = json!({"readyReplicas": 1, "availableReplicas": 0});
    sets.until_status("set", &wanted).await?;
    let wanted = json!({"readyReplicas": 1, "availableReplicas": 1});
    sets.until_status("set", &wanted).await.map(drop)
}

/// `TestRSScaleSubresource`, `TestRCScaleSubresource`.
pub async fn scale_subresource(sets: Sets) -> Result<()> {
    sets.create("set", 1).await?;
    for replicas in [3, 0] {
        let path = format!("{}/scale", sets.rig.path(sets.sets, "set"));
        let set = sets.rig.get(sets.sets, "set").await?;
        let mut scale = sets.rig.api().get(&path).await?.context("a scale")?;
        assert_eq!(scale["spec"]["replicas"], set["spec"]["replicas"]);
        scale["spec"]["replicas"] = replicas.into();
        // The version would be another one after any change of the status.
        scale["metadata"]["resourceVersion"] = Value::Null;
        sets.rig.api().update(&path, &scale).await?;
        let set = sets.rig.get(sets.sets, "set").await?;
        assert_eq!(set["spec"]["replicas"], replicas);
    }
    sets.until_stable("set").await?;
    sets.rig.eventually_pods(LABELS, 0).await.map(drop)
}

/// `TestExtraPodsAdoptionAndDeletion`.
pub async fn extra_pods(mut sets: Sets) -> Result<()> {
    sets.rig.create(sets.sets, &sets.set("set", 2)).await?;
    for number in 1..=3 {
        sets.create_pod(&format!("pod-{number}"), &json!([]))
            .await?;
    }
    sets.rig.start_host().await?;
    sets.until_stable("set").await?;
    sets.rig.eventually_pods(LABELS, 2).await.map(drop)
}

/// `TestFullyLabeledReplicas`.
pub async fn fully_labeled(sets: Sets) -> Result<()> {
    sets.create("set", 2).await?;
    let labels = json!({"foo": "bar", "extraKey": "extraValue"});
    let patch = json!({"spec": {"template": {"metadata": {"labels": labels}}}});
    sets.rig.merge(sets.sets, "set", &patch).await?;
    let pods = sets.rig.eventually_pods(LABELS, 2).await?;
    sets.set_metadata(&name_of(&pods[0]), "labels", &labels)
        .await?;
    let wanted = json!({"replicas": 2, "fullyLabeledReplicas": 1});
    sets.until_status("set", &wanted).await.map(drop)
}
