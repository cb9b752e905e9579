use super::*;
use pilothouse_core::manifest::{Limits, Selection, Subject};
use pilothouse_core::selector::LabelSelector;

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
        subject: Subject::Each(Selection {
            kind: Kind::new("", "v1", "ConfigMap"),
            labels: LabelSelector::default(),
            fields: None,
            namespaces: vec![],
            companions: vec![],
        }),
        reads,
        indexes: vec![],
        writes,
        limits: Limits::default(),
        config_schema: None,
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

#[test]
fn of_what_is_harmless_nothing_is_said() {
    for write in [
        write("", "ConfigMap", "", &[Verb::Create, Verb::Delete]),
        write("apps", "Deployment", "scale", &[Verb::Patch]),
        write("", "Pod", "status", &[Verb::Apply]),
        write("example.com", "Role", "", &[Verb::Create]),
    ] {
        assert_eq!(of(write), "");
    }
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
