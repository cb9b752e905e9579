//! What a cluster does with pods besides its controllers: a scheduler, kubelets, and the deletion
//! of pods that no kubelet deletes.

mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::{Api, Change, Random, What, name_of, now, path_of};
pub use plan::PLAN;
use plan::{Stage, stage_of};

/// How long a step that has led to nothing waits for the next attempt.
const PAUSE: Duration = Duration::from_millis(300);

/// The uids of the objects that a test and its helpers have deleted, or asked to be. Whatever else
/// is deleted, the controllers have deleted.
#[derive(Clone, Default)]
pub struct Doings(Arc<Mutex<BTreeSet<String>>>);

impl Doings {
    /// Call it before the deletion is sent.
    pub fn add(&self, uid: &str) {
        self.0.lock().insert(uid.to_owned());
    }

    pub fn all(&self) -> BTreeSet<String> {
        self.0.lock().clone()
    }
}

/// The kubelets of all nodes, and what is around them. They know the pods and nodes from the
/// changes that they are told of.
///
/// - A pod without a node is bound: to the node that its affinity names, or else to any that takes
///   pods.
/// - A pod on a node starts, turns ready, and ends, as the annotations of the pod say ([`PLAN`]).
/// - A pod that is being deleted has ended after a while, at most its grace period, and is removed.
/// - Pods on nodes that are gone are no longer ready, and then fail and are removed.
/// - Failed pods that nobody looks after are removed: those of ReplicaSets and
///   ReplicationControllers, as kube-controller-manager does when they are too many.
pub struct Kubelets {
    api: Api,
    doings: Doings,
    random: Random,
    nodes: BTreeMap<String, Arc<Value>>,
    pods: BTreeMap<String, Known>,
    /// When which pods are looked at.
    due: BTreeSet<(Instant, String)>,
    /// Each ends with the pod and the stage that it was at.
    steps: JoinSet<(String, Stage)>,
}

/// A pod, by its uid.
struct Known {
    pod: Arc<Value>,
    stage: Stage,
    /// When it is looked at; none while a step is under way.
    due: Option<Instant>,
}

impl Kubelets {
    pub fn new(api: Api, doings: Doings, seed: u64) -> Self {
        Self {
            api,
            doings,
            random: Random(seed),
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            due: BTreeSet::new(),
            steps: JoinSet::new(),
        }
    }

    /// Runs until it is dropped.
    pub async fn run(mut self, mut changes: mpsc::UnboundedReceiver<Change>) -> Infallible {
        loop {
            let next = self.due.first().map(|(due, _)| *due);
            let idle = Instant::now() + Duration::from_secs(3600);
            tokio::select! {
                Some(change) = changes.recv() => self.learn(&change),
                Some(Ok((uid, stage))) = self.steps.join_next() => self.again(&uid, &stage),
                () = sleep_until(next.unwrap_or(idle)), if next.is_some() => self.act(),
            }
        }
    }

    fn learn(&mut self, change: &Change) {
        match change.resource {
            "nodes" => self.learn_node(change),
            "pods" => self.learn_pod(change),
            _ => {}
        }
    }

    fn learn_node(&mut self, change: &Change) {
        let name = name_of(&change.object);
        if change.what == What::Deleted {
            self.nodes.remove(&name);
        } else {
            self.nodes.insert(name, change.object.clone());
        }
        let all: Vec<Arc<Value>> = self.pods.values().map(|known| known.pod.clone()).collect();
        for pod in all {
            self.stand(pod);
        }
    }

    fn learn_pod(&mut self, change: &Change) {
        if change.what == What::Deleted {
            let uid = uid_of(&change.object);
            if let Some(known) = self.pods.remove(&uid) {
                self.forget_due(&uid, known.due);
            }
            return;
        }
        self.stand(change.object.clone());
    }

    /// Notes how a pod stands, and when the next step is due if it has come to another stage.
    fn stand(&mut self, pod: Arc<Value>) {
        let uid = uid_of(&pod);
        let stage = stage_of(&pod, |node| self.nodes.contains_key(node));
        match self.pods.get_mut(&uid) {
            Some(known) if known.stage == stage => known.pod = pod,
            before => {
                let old = before.and_then(|known| known.due);
                let wait = plan::wait(&pod, &stage, &mut self.random);
                self.forget_due(&uid, old);
                let due = None;
                self.pods.insert(uid.clone(), Known { pod, stage, due });
                if let Some(wait) = wait {
                    self.look_at(&uid, wait);
                }
            }
        }
    }

    fn forget_due(&mut self, uid: &str, due: Option<Instant>) {
        if let Some(due) = due {
            self.due.remove(&(due, uid.to_owned()));
        }
    }

    /// Looks at a pod after this time, unless that is intended already.
    fn look_at(&mut self, uid: &str, after: Duration) {
        if let Some(known) = self.pods.get_mut(uid)
            && known.due.is_none()
            && known.stage != Stage::Over
        {
            let due = Instant::now() + after;
            known.due = Some(due);
            self.due.insert((due, uid.to_owned()));
        }
    }

    /// Looks again at a pod of which a step has ended, unless the step, or anything else, has taken
    /// it to another stage: that is told sooner or later.
    fn again(&mut self, uid: &str, stage: &Stage) {
        if self
            .pods
            .get(uid)
            .is_some_and(|known| known.stage == *stage)
        {
            self.look_at(uid, PAUSE);
        }
    }

    /// Begins the steps that are due.
    fn act(&mut self) {
        while let Some((due, uid)) = self.due.first().cloned() {
            if due > Instant::now() {
                return;
            }
            self.due.remove(&(due, uid.clone()));
            let Some(known) = self.pods.get_mut(&uid) else {
                continue;
            };
            known.due = None;
            let (pod, stage) = (known.pod.clone(), known.stage.clone());
            let node = self.node_for(&pod);
            if matches!(stage, Stage::Lost | Stage::Left) {
                self.doings.add(&uid);
            }
            let api = self.api.clone();
            self.steps.spawn(async move {
                // Without an answer, or if somebody was faster, the pod is looked at again.
                drop(step(&api, &pod, &stage, node).await);
                (uid, stage)
            });
        }
    }

    /// The node that its affinity names, or else one of those that take pods.
    fn node_for(&mut self, pod: &Value) -> Option<String> {
        if let Some(pinned) = plan::pinned_to(pod) {
            return self.nodes.contains_key(&pinned).then_some(pinned);
        }
        let takes_pods = |node: &Value| node["spec"]["unschedulable"] != true;
        let open = self.nodes.iter().filter(|(_, node)| takes_pods(node));
        let names: Vec<&String> = open.map(|(name, _)| name).collect();
        self.random.one_of(&names).map(|name| (*name).clone())
    }
}

/// Takes a pod from this stage towards the next.
async fn step(api: &Api, pod: &Value, stage: &Stage, node: Option<String>) -> Result<()> {
    let (name, uid) = (name_of(pod), uid_of(pod));
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
    let path = path_of(namespace, "pods", &name);
    // Of what is known alone: a pod that has ended never runs again.
    let version = &pod["metadata"]["resourceVersion"];
    let say = async |status: Value| {
        let metadata = json!({"uid": uid, "resourceVersion": version});
        let patch = json!({"metadata": metadata, "status": status});
        api.merge(&format!("{path}/status"), &patch).await.map(drop)
    };
    match stage {
        Stage::Unscheduled => {
            let Some(node) = node else { return Ok(()) };
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "uid": uid},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            });
            let bound = api.create(&format!("{path}/binding"), &binding).await;
            bound.map(drop)
        }
        Stage::Starting => say(running(pod, plan::turns_ready(pod))).await,
        Stage::NotReady => say(running(pod, true)).await,
        Stage::Running => say(ended(pod, &plan::end(pod))).await,
        Stage::Stopping => say(ended(pod, "Failed")).await,
        Stage::Unwell => say(running(pod, false)).await,
        Stage::Lost => {
            say(ended(pod, "Failed")).await?;
            api.delete_uid(&path, &uid, true).await
        }
        Stage::Left | Stage::Stopped => api.delete_uid(&path, &uid, true).await,
        Stage::Over => Ok(()),
    }
}

/// The status of a pod whose containers run.
fn running(pod: &Value, is_ready: bool) -> Value {
    let ip = address(pod);
    json!({
        "phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
        "conditions": with_ready(pod, is_ready),
    })
}

/// The address of a pod, from its uid: always the same, and hardly that of another.
fn address(pod: &Value) -> String {
    let uid = uid_of(pod);
    let bits = uid
        .get(..6)
        .and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let [_, a, b, c] = bits.unwrap_or_default().to_be_bytes();
    format!("10.{a}.{b}.{c}")
}

/// The status of a pod whose containers have ended.
fn ended(pod: &Value, phase: &str) -> Value {
    json!({"phase": phase, "conditions": with_ready(pod, false)})
}

/// The conditions of a pod, of which Ready is as given. The time of a condition is that of its
/// last change.
fn with_ready(pod: &Value, is_ready: bool) -> Value {
    let wanted = if is_ready { "True" } else { "False" };
    let all = pod["status"]["conditions"].as_array().into_iter().flatten();
    let (ready, mut others): (Vec<Value>, Vec<Value>) =
        all.cloned().partition(|one| one["type"] == "Ready");
    let kept = ready.into_iter().find(|one| one["status"] == wanted);
    others.push(kept.unwrap_or_else(
        || json!({"type": "Ready", "status": wanted, "lastTransitionTime": now()}),
    ));
    others.into()
}

fn uid_of(object: &Value) -> String {
    let uid = object["metadata"]["uid"].as_str();
    uid.unwrap_or_default().to_owned()
}
