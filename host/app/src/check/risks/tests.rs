use std::collections::BTreeSet;

use super::*;
use pilothouse_core::{IndexDeclaration, LabelSelector, Limits, ReadDeclaration, Selection};

fn write(group: &str, kind: &str, subresource: &str, verbs: &[Verb]) -> WriteDeclaration {
    WriteDeclaration {
        kind: Kind::new(group, "v1", kind),
        subresource: (!subresource.is_empty()).then(|| subresource.to_owned()),
        verbs: verbs.to_vec(),
        children: false,
    }
}

fn manifest(reads: Vec<ReadDeclaration>, writes: Vec<WriteDeclaration>) -> Manifest {
    Manifest {
        name: "stranger".into(),
        version: "1.0.0".into(),
        reconciles: vec![Selection {
            kind: Kind::new("", "v1", "ConfigMap"),
            labels: LabelSelector::default(),
            fields: None,
            namespaces: vec![],
            companions: vec![],
        }],
        reads,
        indexes: vec![],
        writes,
        limits: Limits::default(),
        config_schema: None,
        optional: BTreeSet::new(),
    }
}

fn of(write: WriteDeclaration) -> String {
    risks(&manifest(vec![], vec![write])).join("\n")
}

#[test]
fn what_gives_more_than_it_says_is_named() {
    use Verb::{Apply, Create, Delete, Patch, Update};
    let rbac = "rbac.authorization.k8s.io";
    let admission = "admissionregistration.k8s.io";
    let extensions = "apiextensions.k8s.io";
    for (write, wanted) in [
        (
            write(rbac, "ClusterRoleBinding", "", &[Create]),
            "give rights",
        ),
        (write(rbac, "Role", "", &[Delete]), "give rights"),
        (
            write(admission, "MutatingWebhookConfiguration", "", &[Apply]),
            "what anybody writes",
        ),
        (
            write(extensions, "CustomResourceDefinition", "", &[Update]),
            "what kinds there are",
        ),
        (
            write(extensions, "CustomResourceDefinition", "", &[Delete]),
            "delete every object",
        ),
        (
            write("apiregistration.k8s.io", "APIService", "", &[Patch]),
            "answer for the API server",
        ),
        (
            write(
                "certificates.k8s.io",
                "CertificateSigningRequest",
                "approval",
                &[Update],
            ),
            "certificates",
        ),
        (
            write("authentication.k8s.io", "TokenRequest", "token", &[Create]),
            "become any service account",
        ),
        (
            write("", "ServiceAccount", "token", &[Create]),
            "become any service account",
        ),
        (write("", "Pod", "exec", &[Create]), "inside pods"),
        (write("", "Pod", "attach", &[Create]), "inside pods"),
        (
            write("", "Pod", "portforward", &[Create]),
            "reach what listens",
        ),
        (write("", "Pod", "", &[Create]), "as any service account"),
        (
            write("apps", "Deployment", "", &[Patch]),
            "as any service account",
        ),
        (
            write("batch", "CronJob", "", &[Apply]),
            "as any service account",
        ),
        (write("", "Secret", "", &[Update]), "sign in"),
        (write("", "Namespace", "", &[Delete]), "all that is in one"),
        (write("", "Namespace", "", &[Patch]), "policies"),
        (write("", "Node", "", &[Delete]), "all pods of one"),
        (write("", "Node", "", &[Patch]), "taints"),
        (write("", "PersistentVolume", "", &[Delete]), "data"),
    ] {
        let what = format!("{write:?}");
        let text = of(write);
        assert!(text.contains(wanted), "{what}: {text}");
        assert!(
            text.lines().all(|line| line.starts_with("writes ")),
            "{text}"
        );
    }
}

#[test]
fn what_changes_objects_can_change_whom_they_belong_to() {
    for verb in CHANGE {
        let text = of(write("", "ConfigMap", "", &[*verb]));
        assert!(
            text.contains("finalizers") && text.contains("owner references"),
            "{text}"
        );
        assert!(!text.contains("labels"), "{text}");
    }
    assert!(of(write("", "Pod", "", &[Verb::Patch])).contains("(labels)"));
    let children = WriteDeclaration {
        children: true,
        ..write("", "Endpoints", "", &[Verb::Apply, Verb::Delete])
    };
    assert!(of(children).contains("any such object"));
}

/// What a plugin may create, change and delete without a further risk.
const HARMLESS: [&str; 8] = [
    "/Binding",
    "/Event",
    "authentication.k8s.io/SelfSubjectReview",
    "authentication.k8s.io/TokenReview",
    "authorization.k8s.io/LocalSubjectAccessReview",
    "authorization.k8s.io/SelfSubjectAccessReview",
    "authorization.k8s.io/SelfSubjectRulesReview",
    "authorization.k8s.io/SubjectAccessReview",
];

/// The kinds and subresources that Kubernetes 1.36 accepts writes for, with the kinds of their
/// bodies. What a new version adds must be judged before it is added to the list.
#[test]
fn of_each_kind_of_kubernetes_it_is_said_what_it_could_do() {
    let kinds = include_str!("kinds-1.36.txt");
    let mut harmless: BTreeSet<&str> = HARMLESS.into();
    harmless.insert("events.k8s.io/Event");
    let mut unjudged = Vec::new();
    for line in kinds.lines() {
        let parts: Vec<&str> = line.split('/').collect();
        let subresource = parts.get(2).copied().unwrap_or_default();
        let all = [Verb::Create, Verb::Delete];
        let text = of(write(parts[0], parts[1], subresource, &all));
        if text.is_empty() != harmless.contains(line) {
            unjudged.push(line);
        }
    }
    assert!(unjudged.is_empty(), "{unjudged:?}");
    assert!(kinds.lines().count() > 100);
}

#[test]
fn a_subresource_is_known_by_its_name_whatever_kind_its_body_is_of() {
    for kind in [
        "NodeProxyOptions",
        "PodProxyOptions",
        "ServiceProxyOptions",
        "Pod",
    ] {
        let text = of(write("", kind, "proxy", &[Verb::Create]));
        assert!(text.contains("inside of the cluster"), "{kind}: {text}");
    }
    assert!(of(write("", "Binding", "binding", &[Verb::Create])).contains("which node"));
}

#[test]
fn of_kinds_that_are_not_kubernetes_own_it_is_said_that_nobody_knows() {
    let text = of(write("argoproj.io", "Workflow", "", &[Verb::Create]));
    assert!(text.contains("whatever that does"), "{text}");
    let delete = write("rds.aws.crossplane.io", "Instance", "", &[Verb::Delete]);
    assert!(of(delete).contains("end whatever"));
}

#[test]
fn only_the_values_of_secrets_are_a_risk_to_read() {
    let secret = |fields: &[&str]| {
        let fields = fields.iter().map(|field| (*field).to_owned()).collect();
        ReadDeclaration::new(Kind::new("", "v1", "Secret"), fields)
    };
    for (read, count) in [
        (secret(&[]), 1),
        (secret(&[".data"]), 1),
        (secret(&[".type", ".data['tls.key']"]), 1),
        (secret(&[".metadata.labels", ".type"]), 0),
        (ReadDeclaration::new(Kind::new("", "v1", "Pod"), vec![]), 0),
    ] {
        assert_eq!(risks(&manifest(vec![read], vec![])).len(), count);
    }
}

#[test]
fn of_a_pattern_it_is_said_what_all_of_it_is() {
    let pattern = |text: &str| text.parse::<Kind>().unwrap();
    let read = |text: &str| {
        let read = ReadDeclaration::new(pattern(text), vec![".metadata.labels".into()]);
        risks(&manifest(vec![read], vec![])).join("\n")
    };
    let all = read("*");
    assert!(all.contains("of every object of every kind"), "{all}");
    assert!(all.contains("Secrets included"), "{all}");
    let apps = read("apps/*");
    assert!(apps.contains("every kind of the group apps"), "{apps}");
    assert!(!apps.contains("Secrets"), "{apps}");
    let write = WriteDeclaration {
        kind: pattern("*"),
        subresource: None,
        verbs: vec![Verb::Delete, Verb::Patch],
        children: false,
    };
    let could = of(write);
    assert!(
        could.contains("delete any object, of every kind"),
        "{could}"
    );
    assert!(could.contains("change any object: what runs"), "{could}");
}

#[test]
fn every_way_to_the_values_of_secrets_is_named() {
    let secret = Kind::new("", "v1", "Secret");
    let metadata = || ReadDeclaration::new(secret.clone(), vec![".metadata.labels".into()]);
    let with = |path: &str| ReadDeclaration::new(secret.clone(), vec![path.into()]);
    let selected = ReadDeclaration {
        field_selector: Some("data.x=y".into()),
        ..metadata()
    };
    for read in [
        with("['data']"),
        with("[*]"),
        with("['stringData'].x"),
        selected,
    ] {
        let lines = risks(&manifest(vec![read], vec![]));
        assert_eq!(lines.len(), 1, "{lines:?}");
    }
    let mut indexed = manifest(vec![metadata()], vec![]);
    indexed.indexes.push(IndexDeclaration {
        name: "value".into(),
        kind: secret,
        paths: vec![".data.x".into()],
    });
    assert_eq!(risks(&indexed).len(), 1);
}
