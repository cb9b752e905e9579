//! Tells the kubelets how long they may cache the Secrets and ConfigMaps that their pods read: the
//! longer, the more nodes there are. A kubelet finds the time in an annotation of its Node.
//!
//! The rules are those of kube-controller-manager's TTL controller (`pkg/controller/ttl` in
//! kubernetes/kubernetes). The README lists the differences.

use pilothouse_sdk::{
    Controller, Failure, Filter, Host, Kind, Manifest, ObjectRef, Outcome, Patch, Projection,
    Request, Verb,
};
use serde::Deserialize;
use serde_json::json;

/// The annotation with the time, in seconds.
const ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";

/// Nodes that one run writes. The next run, which these writes bring about, does the others.
const MOST: usize = 1_000;

/// The steps. They overlap, so that a node that comes and goes changes nothing.
const STEPS: [Step; 5] = [
    Step::new(0, 100, 0),
    Step::new(90, 500, 15),
    Step::new(450, 1_000, 30),
    Step::new(900, 2_000, 60),
    Step::new(1_800, usize::MAX, 300),
];

/// The time for clusters with so many nodes.
struct Step {
    least: usize,
    most: usize,
    seconds: i64,
}

impl Step {
    const fn new(least: usize, most: usize, seconds: i64) -> Self {
        Self {
            least,
            most,
            seconds,
        }
    }
}

#[derive(Deserialize, Projection)]
#[projection(kind = "v1/Node")]
struct Node {
    metadata: NodeMetadata,
}

#[derive(Deserialize, Projection)]
struct NodeMetadata {
    name: String,
    #[serde(default)]
    annotations: Annotations,
}

#[derive(Default, Deserialize, Projection)]
struct Annotations {
    #[serde(rename = "node.alpha.kubernetes.io/ttl")]
    ttl: Option<String>,
}

impl Node {
    /// The time that its kubelet is told. `None`: none, or what is there is no number.
    fn seconds(&self) -> Option<i64> {
        self.metadata.annotations.ttl.as_deref()?.parse().ok()
    }
}

/// The TTL controller. Its only key stands for the whole cluster.
pub struct TtlController;

impl Controller for TtlController {
    fn manifest() -> Manifest {
        Manifest::singleton("ttl", env!("CARGO_PKG_VERSION"))
            .reads_as::<Node>()
            .writes(Node::KIND, [Verb::Patch])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let nodes: Vec<Node> = host.list_as(None, &Filter::Everything)?;
        let step = step(request.memo().unwrap_or_default(), nodes.len());
        let seconds = STEPS[step].seconds;
        let others = nodes.iter().filter(|node| node.seconds() != Some(seconds));
        let body = json!({"metadata": {"annotations": {ANNOTATION: seconds.to_string()}}});
        let mut outcome = Outcome::done().remember(&step)?;
        for node in others.take(MOST) {
            let key = ObjectRef::new(Node::KIND, "", &node.metadata.name);
            outcome = outcome.with(Patch::strategic(&key, &body)?);
        }
        Ok(outcome)
    }
}

pilothouse_sdk::register!(TtlController);

/// The place in [`STEPS`] for so many nodes, coming from this one. A place that is none is the
/// first.
fn step(before: usize, nodes: usize) -> usize {
    let mut step = if before < STEPS.len() { before } else { 0 };
    while nodes > STEPS[step].most {
        step += 1;
    }
    while nodes < STEPS[step].least {
        step -= 1;
    }
    step
}
