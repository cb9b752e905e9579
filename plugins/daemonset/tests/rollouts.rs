//! Whole rollouts with a kubelet that makes one pod ready at a time: at every step the limits hold,
//! and in the end every node has a pod of the new template.

use std::collections::BTreeMap;
use std::time::Duration;

use daemonset::DaemonSetController;
use pilothouse_sdk::testing::FakeCluster;
use pilothouse_sdk::{Controller, Filter, Host, ObjectRef};
use serde_json::{Value, json};

const NODES: usize = 7;

fn daemon_set(image: &str, strategy: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"namespace": "default", "name": "foo", "uid": "uid-foo"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": strategy},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": image}]},
            },
        },
    })
}

struct Rig(FakeCluster);

impl Rig {
    /// A cluster in which all nodes have a ready pod of the first template.
    fn settled(strategy: &Value) -> Self {
        let cluster =
            FakeCluster::new(DaemonSetController::manifest()).with(daemon_set("one", strategy));
        let node = |number: usize| {
            let metadata = json!({"name": format!("n{number}")});
            json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        };
        let mut rig = Self((0..NODES).map(node).fold(cluster, FakeCluster::with));
        rig.run();
        while rig.make_one_ready() {
            rig.run();
        }
        assert_eq!(
            rig.ready_by_image(),
            BTreeMap::from([("one".to_owned(), NODES)])
        );
        rig
    }

    fn run(&mut self) {
        let runs = self.0.run_due::<DaemonSetController>();
        let failed: Vec<_> = runs.iter().filter(|run| run.error.is_some()).collect();
        assert!(failed.is_empty(), "{failed:?}");
    }

    fn pods(&self) -> Vec<Value> {
        let host: &dyn Host = &self.0;
        let seen: Vec<Value> = host
            .list("v1/Pod", Some("default"), &Filter::Everything)
            .expect("pods are read");
        let whole = seen.iter().map(|pod| {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            let pod = ObjectRef::new("v1/Pod", "default", name);
            self.0.object(&pod).cloned().unwrap_or_default()
        });
        whole.collect()
    }

    /// Does to the first pod that is not ready what scheduler and kubelet do.
    fn make_one_ready(&mut self) -> bool {
        let waiting = self.pods().into_iter().find(|pod| !is_ready(pod));
        let Some(mut pod) = waiting else {
            return false;
        };
        pod["spec"]["nodeName"] = node_of(&pod).into();
        pod["status"] = json!({
            "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
        });
        let cluster = std::mem::replace(
            &mut self.0,
            FakeCluster::new(DaemonSetController::manifest()),
        );
        self.0 = cluster.with(pod);
        true
    }

    fn ready_by_image(&self) -> BTreeMap<String, usize> {
        let mut images = BTreeMap::new();
        for pod in self.pods().iter().filter(|pod| is_ready(pod)) {
            let image = pod["spec"]["containers"][0]["image"].as_str();
            *images
                .entry(image.unwrap_or_default().to_owned())
                .or_default() += 1;
        }
        images
    }

    fn pods_by_node(&self) -> BTreeMap<String, usize> {
        let mut nodes = BTreeMap::new();
        for pod in self.pods() {
            *nodes.entry(node_of(&pod)).or_default() += 1;
        }
        nodes
    }

    /// Changes the template, and follows the rollout to its end: `check` holds after every run.
    fn roll_out(mut self, strategy: &Value, check: impl Fn(&Self)) -> Self {
        let set = daemon_set("two", strategy);
        let key = ObjectRef::new("apps/v1/DaemonSet", "default", "foo");
        let mut changed = self.0.object(&key).cloned().unwrap_or_default();
        changed["spec"] = set["spec"].clone();
        self = Self(self.0.with(changed));
        self.run();
        check(&self);
        let mut steps = 0;
        while self.make_one_ready() {
            self.run();
            check(&self);
            steps += 1;
            assert!(steps < 10 * NODES, "the rollout does not end");
        }
        assert_eq!(
            self.ready_by_image(),
            BTreeMap::from([("two".to_owned(), NODES)])
        );
        let status = self.0.object(&key).cloned().unwrap_or_default()["status"].clone();
        assert_eq!(status["updatedNumberScheduled"], NODES);
        assert_eq!(status["numberAvailable"], NODES);
        assert_eq!(status["numberUnavailable"], 0);
        self
    }
}

fn is_ready(pod: &Value) -> bool {
    pod["status"]["conditions"][0]["status"] == "True"
}

fn node_of(pod: &Value) -> String {
    let required = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let name = format!("{required}/nodeSelectorTerms/0/matchFields/0/values/0");
    let name = pod.pointer(&name).and_then(Value::as_str);
    name.unwrap_or_default().to_owned()
}

#[test]
fn no_more_pods_are_missing_than_may_be_unavailable() {
    for (max, limit) in [
        (json!(1), 1),
        (json!(3), 3),
        (json!("40%"), 3),
        (json!(0), 1),
    ] {
        let strategy = json!({"maxUnavailable": max});
        let rig = Rig::settled(&strategy);
        rig.roll_out(&strategy, |rig| {
            let ready: usize = rig.ready_by_image().values().sum();
            assert!(ready >= NODES - limit, "{ready} of {NODES} with {strategy}");
            assert!(rig.pods_by_node().values().all(|pods| *pods <= 1));
        });
    }
}

#[test]
fn no_more_pods_surge_than_may_and_none_is_missing() {
    for (max, limit) in [(json!(1), 1), (json!(3), 3), (json!("20%"), 2)] {
        let strategy = json!({"maxSurge": max, "maxUnavailable": 0});
        let rig = Rig::settled(&strategy);
        rig.roll_out(&strategy, |rig| {
            let ready: usize = rig.ready_by_image().values().sum();
            assert!(ready >= NODES, "{ready} of {NODES} with {strategy}");
            let pods = rig.pods().len();
            assert!(pods <= NODES + limit, "{pods} with {strategy}");
        });
    }
}

#[test]
fn a_template_that_comes_back_takes_its_old_revision_up_again() {
    let strategy = json!({"maxUnavailable": NODES});
    let rig = Rig::settled(&strategy).roll_out(&strategy, |_| {});
    let host: &dyn Host = &rig.0;
    let numbers = |host: &dyn Host| {
        let revisions: Vec<Value> = host
            .list("apps/v1/ControllerRevision", None, &Filter::Everything)
            .expect("revisions are read");
        let numbers = revisions
            .iter()
            .map(|revision| revision["revision"].clone());
        let mut numbers: Vec<i64> = numbers.filter_map(|number| number.as_i64()).collect();
        numbers.sort_unstable();
        numbers
    };
    assert_eq!(numbers(host), [1, 2]);
    let key = ObjectRef::new("apps/v1/DaemonSet", "default", "foo");
    let mut changed = rig.0.object(&key).cloned().unwrap_or_default();
    changed["spec"] = daemon_set("one", &strategy)["spec"].clone();
    let mut rig = Rig(rig.0.with(changed));
    rig.run();
    assert_eq!(numbers(&rig.0), [2, 3]);
}

/// A kubelet that refuses every pod: deletions become rarer and rarer, and when the host forgets
/// the memo, only the next one comes sooner.
#[test]
fn a_node_that_refuses_every_pod_is_asked_less_and_less_often() {
    let key = ObjectRef::new("apps/v1/DaemonSet", "default", "foo");
    let mut cluster = FakeCluster::new(DaemonSetController::manifest())
        .with(daemon_set("one", &json!({"maxUnavailable": 1})))
        .with(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0"}}));
    let mut deleted_at = Vec::new();
    for second in 0..40 {
        cluster = cluster.at(Duration::from_secs(second));
        cluster.run_due::<DaemonSetController>();
        let rig = Rig(cluster);
        let pod = rig.pods().pop();
        cluster = rig.0;
        let mut pod = pod.expect("the node has a pod");
        if pod["status"]["phase"] != "Failed" {
            deleted_at.push(second);
            pod["status"] = json!({"phase": "Failed"});
            cluster = cluster.with(pod);
        }
    }
    assert!(cluster.object(&key).is_some());
    // The first fails at 0 and is deleted at 1; then the waits are 1, 2, 4, 8 and 16 seconds.
    assert_eq!(deleted_at, [0, 1, 2, 4, 8, 16, 32]);
}
