//! The writes that allow more than their names suggest.

use pilothouse_core::Verb;

/// A write to objects themselves.
pub struct OfObject {
    pub group: &'static str,
    /// Empty: all kinds of the group.
    pub kinds: &'static [&'static str],
    pub verbs: &'static [Verb],
    pub could: &'static str,
}

/// A write to a subresource, whatever the kind of its body is. That of `pods/proxy` is
/// PodProxyOptions.
pub struct OfPart {
    pub names: &'static [&'static str],
    pub could: &'static str,
}

pub const MAKE: &[Verb] = &[Verb::Apply, Verb::Create, Verb::Update, Verb::Patch];
pub const CHANGE: &[Verb] = &[Verb::Apply, Verb::Update, Verb::Patch];
pub const DELETE: &[Verb] = &[Verb::Delete, Verb::DeleteCollection];
const ANY: &[Verb] = &[
    Verb::Apply,
    Verb::Create,
    Verb::Update,
    Verb::Patch,
    Verb::Delete,
    Verb::DeleteCollection,
];

const RUN: &str = "run what it likes, as any service account of the namespace and with all Secrets there; on the node itself, unless Pod Security forbids it";

pub const OBJECTS: &[OfObject] = &[
    OfObject {
        group: "rbac.authorization.k8s.io",
        kinds: &[],
        verbs: ANY,
        could: "give rights to anybody, or take them",
    },
    OfObject {
        group: "admissionregistration.k8s.io",
        kinds: &[],
        verbs: ANY,
        could: "see, change or refuse what anybody writes to the cluster, or switch off who does",
    },
    OfObject {
        group: "apiextensions.k8s.io",
        kinds: &["CustomResourceDefinition"],
        verbs: MAKE,
        could: "change what kinds there are",
    },
    OfObject {
        group: "apiextensions.k8s.io",
        kinds: &["CustomResourceDefinition"],
        verbs: DELETE,
        could: "delete every object of a kind with it",
    },
    OfObject {
        group: "apiregistration.k8s.io",
        kinds: &["APIService"],
        verbs: ANY,
        could: "have others answer for the API server",
    },
    OfObject {
        group: "certificates.k8s.io",
        kinds: &[],
        verbs: ANY,
        could: "get certificates that are approved without a person, as those of kubelets are, and choose whom others trust",
    },
    OfObject {
        group: "flowcontrol.apiserver.k8s.io",
        kinds: &[],
        verbs: ANY,
        could: "have the API server serve some and starve others",
    },
    OfObject {
        group: "",
        kinds: &["Pod", "PodTemplate", "ReplicationController"],
        verbs: MAKE,
        could: RUN,
    },
    OfObject {
        group: "apps",
        kinds: &[
            "ControllerRevision",
            "DaemonSet",
            "Deployment",
            "ReplicaSet",
            "StatefulSet",
        ],
        verbs: MAKE,
        could: RUN,
    },
    OfObject {
        group: "batch",
        kinds: &["CronJob", "Job"],
        verbs: MAKE,
        could: RUN,
    },
    OfObject {
        group: "",
        kinds: &["Secret"],
        verbs: MAKE,
        could: "replace what others sign in with, and have tokens of service accounts made",
    },
    OfObject {
        group: "",
        kinds: &["Secret"],
        verbs: DELETE,
        could: "lock out who signs in with one",
    },
    OfObject {
        group: "",
        kinds: &["ServiceAccount"],
        verbs: MAKE,
        could: "take a role in the cloud by annotation, and choose where images are pulled from",
    },
    OfObject {
        group: "",
        kinds: &["ConfigMap"],
        verbs: MAKE,
        could: "change how others work: in kube-system some say who may sign in (aws-auth) and how names are resolved",
    },
    OfObject {
        group: "",
        kinds: &["Service"],
        verbs: MAKE,
        could: "take others' traffic (selector, externalIPs)",
    },
    OfObject {
        group: "",
        kinds: &["Endpoints"],
        verbs: MAKE,
        could: "send others' traffic elsewhere, past network policies",
    },
    OfObject {
        group: "discovery.k8s.io",
        kinds: &["EndpointSlice"],
        verbs: MAKE,
        could: "send others' traffic elsewhere, past network policies",
    },
    OfObject {
        group: "networking.k8s.io",
        kinds: &["Ingress", "IngressClass"],
        verbs: MAKE,
        could: "take traffic from outside, and the certificates it comes with",
    },
    OfObject {
        group: "networking.k8s.io",
        kinds: &["NetworkPolicy"],
        verbs: ANY,
        could: "open what is closed, or close what is open",
    },
    OfObject {
        group: "networking.k8s.io",
        kinds: &["IPAddress", "ServiceCIDR"],
        verbs: ANY,
        could: "choose which addresses Services get",
    },
    OfObject {
        group: "gateway.networking.k8s.io",
        kinds: &[],
        verbs: ANY,
        could: "take traffic from outside, and send it elsewhere",
    },
    OfObject {
        group: "coordination.k8s.io",
        kinds: &["Lease"],
        verbs: ANY,
        could: "stop leaders by taking their leases, and nodes by leaving theirs to run out",
    },
    OfObject {
        group: "",
        kinds: &["Namespace"],
        verbs: DELETE,
        could: "delete all that is in one",
    },
    OfObject {
        group: "",
        kinds: &["Namespace"],
        verbs: CHANGE,
        could: "by labels, choose which policies hold in one",
    },
    OfObject {
        group: "",
        kinds: &["Node"],
        verbs: DELETE,
        could: "have all pods of one removed",
    },
    OfObject {
        group: "",
        kinds: &["Node"],
        verbs: MAKE,
        could: "by taints and labels, choose which pods run there",
    },
    OfObject {
        group: "",
        kinds: &["PersistentVolume"],
        verbs: MAKE,
        could: "reach the disks of nodes, and others' data",
    },
    OfObject {
        group: "",
        kinds: &["PersistentVolume", "PersistentVolumeClaim"],
        verbs: DELETE,
        could: "have the data of one lost",
    },
    OfObject {
        group: "storage.k8s.io",
        kinds: &[],
        verbs: ANY,
        could: "choose what provides volumes, and where they are attached",
    },
    OfObject {
        group: "",
        kinds: &["ResourceQuota", "LimitRange"],
        verbs: ANY,
        could: "stop others from making objects, or let them take all there is",
    },
    OfObject {
        group: "scheduling.k8s.io",
        kinds: &["PriorityClass"],
        verbs: ANY,
        could: "have pods pushed off their nodes",
    },
    OfObject {
        group: "policy",
        kinds: &["PodDisruptionBudget"],
        verbs: ANY,
        could: "keep nodes from being drained, or let all pods of something be evicted",
    },
    OfObject {
        group: "autoscaling",
        kinds: &["HorizontalPodAutoscaler"],
        verbs: ANY,
        could: "scale what it likes to nothing, or to all there is",
    },
    OfObject {
        group: "node.k8s.io",
        kinds: &["RuntimeClass"],
        verbs: ANY,
        could: "choose how pods are kept apart from their node",
    },
    OfObject {
        group: "resource.k8s.io",
        kinds: &[],
        verbs: ANY,
        could: "choose which devices pods get, and configure drivers that run as root",
    },
];

pub const PARTS: &[OfPart] = &[
    OfPart {
        names: &["approval"],
        could: "approve what others only ask for: certificates, in anybody's name",
    },
    OfPart {
        names: &["token"],
        could: "become any service account",
    },
    OfPart {
        names: &["exec", "attach", "ephemeralcontainers"],
        could: "run what it likes inside pods that are there",
    },
    OfPart {
        names: &["portforward", "proxy"],
        could: "reach what listens inside of the cluster, and the kubelets",
    },
    OfPart {
        names: &["binding"],
        could: "choose on which node a pod runs",
    },
    OfPart {
        names: &["eviction"],
        could: "end pods",
    },
    OfPart {
        names: &["scale"],
        could: "scale what it likes to nothing, or to all there is",
    },
    OfPart {
        names: &["resize"],
        could: "take what other pods of a node need",
    },
    OfPart {
        names: &["finalize"],
        could: "end a namespace before what is in it is gone",
    },
    OfPart {
        names: &["status"],
        could: "say what others act on, as that a pod is ready or which address a Service has",
    },
];

/// The API groups of Kubernetes itself. What the controllers of any other group do is not known.
pub const GROUPS: &[&str] = &[
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
];
