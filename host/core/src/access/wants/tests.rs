use super::*;
use crate::model::manifest::{IndexDeclaration, Limits, Selection};
use crate::model::selector::{LabelSelector, Requirement};

fn pod() -> Kind {
    Kind::new("", "v1", "Pod")
}

fn deployment() -> Kind {
    Kind::new("apps", "v1", "Deployment")
}

fn texts(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn read(kind: Kind, fields: &[&str]) -> ReadDeclaration {
    ReadDeclaration::new(kind, texts(fields))
}

fn write(kind: Kind, subresource: Option<&str>, verbs: &[Verb]) -> WriteDeclaration {
    WriteDeclaration {
        kind,
        subresource: subresource.map(str::to_owned),
        verbs: verbs.into(),
        children: false,
    }
}

/// A manifest that reconciles Deployments, of which it reads `.spec`, with these reads and writes
/// in addition.
fn manifest(reads: Vec<ReadDeclaration>, writes: Vec<WriteDeclaration>) -> Manifest {
    let mut all = vec![read(deployment(), &[".spec"])];
    all.extend(reads);
    Manifest {
        name: "web".into(),
        version: "1.0.0".into(),
        reconciles: vec![Selection {
            kind: deployment(),
            labels: LabelSelector::default(),
            fields: None,
            namespaces: vec![],
            companions: vec![],
        }],
        reads: all,
        indexes: vec![],
        writes,
        limits: Limits::default(),
        config_schema: None,
        optional: BTreeSet::new(),
    }
}

fn beyond(new: &Manifest, accepted: &Manifest) -> Vec<String> {
    Wants::of(new).beyond(&Wants::of(accepted))
}

fn reading(reads: Vec<ReadDeclaration>) -> Manifest {
    manifest(reads, vec![])
}

fn in_namespaces(read: ReadDeclaration, namespaces: &[&str]) -> ReadDeclaration {
    ReadDeclaration {
        namespaces: texts(namespaces),
        ..read
    }
}

fn with_label(read: ReadDeclaration, value: &str) -> ReadDeclaration {
    let requirement = Requirement::Equals("app".into(), value.into());
    let mut read = read;
    read.labels.requirements.push(requirement);
    read
}

fn selecting(read: ReadDeclaration, fields: &str) -> ReadDeclaration {
    ReadDeclaration {
        field_selector: Some(fields.into()),
        ..read
    }
}

#[test]
fn the_same_is_no_more_and_less_is_no_more() {
    let all = manifest(
        vec![read(pod(), &[".spec", ".status"])],
        vec![write(pod(), None, &[Verb::Delete, Verb::Patch])],
    );
    let less = manifest(
        vec![read(pod(), &[".status"])],
        vec![write(pod(), None, &[Verb::Patch])],
    );
    for new in [&all, &less, &reading(vec![])] {
        assert_eq!(beyond(new, &all), Vec::<String>::new());
    }
    assert_eq!(
        beyond(&all, &less),
        ["read Pod: .spec", "delete Pod"],
        "what was left out is more again"
    );
}

#[test]
fn another_kind_is_more_and_another_version_of_one_is_not() {
    let old = reading(vec![]);
    let new = reading(vec![read(pod(), &[])]);
    assert_eq!(beyond(&new, &old), ["read Pod: whole objects"]);
    let mut beta = reading(vec![]);
    beta.reads[0].kind = Kind::new("apps", "v1beta2", "Deployment");
    assert_eq!(beyond(&beta, &old), Vec::<String>::new());
    let mut namesake = reading(vec![]);
    namesake.reads[0].kind = Kind::new("example.com", "v1", "Deployment");
    assert_eq!(
        beyond(&namesake, &old),
        ["read example.com/Deployment: .spec"]
    );
}

#[test]
fn a_field_is_more_unless_it_is_part_of_one_that_is_read() {
    let old = reading(vec![read(pod(), &[".spec.containers[*].image"])]);
    let more = |fields: &[&str]| beyond(&reading(vec![read(pod(), fields)]), &old);
    assert_eq!(more(&[".spec"]), ["read Pod: .spec"]);
    assert_eq!(more(&[".spec.containers"]), ["read Pod: .spec.containers"]);
    assert_eq!(more(&[]), ["read Pod: whole objects"]);
    assert_eq!(
        more(&[".spec.containers[*].image", ".spec.containersX", ".status"]),
        ["read Pod: .spec.containersX .status"]
    );
    for part in [
        ".spec.containers[*].image",
        ".spec.containers[*]['image'].tag",
    ] {
        assert_eq!(more(&[part]), Vec::<String>::new(), "{part}");
    }
    let whole = reading(vec![read(pod(), &[])]);
    let part = reading(vec![read(pod(), &[".spec"])]);
    assert_eq!(beyond(&part, &whole), Vec::<String>::new());
}

#[test]
fn a_namespace_is_more_unless_all_were_read() {
    let some = reading(vec![in_namespaces(read(pod(), &[".spec"]), &["a", "b"])]);
    let all = reading(vec![read(pod(), &[".spec"])]);
    let other = reading(vec![in_namespaces(read(pod(), &[".spec"]), &["b", "c"])]);
    assert_eq!(beyond(&all, &some), ["read Pod: .spec"]);
    assert_eq!(beyond(&other, &some), ["read Pod: .spec; in c"]);
    assert_eq!(beyond(&some, &all), Vec::<String>::new());
}

#[test]
fn objects_that_a_selector_kept_out_are_more() {
    let pods = || read(pod(), &[".spec"]);
    let labelled = reading(vec![with_label(pods(), "web")]);
    let all = reading(vec![pods()]);
    assert_eq!(beyond(&all, &labelled), ["read Pod: .spec"]);
    assert_eq!(beyond(&labelled, &all), Vec::<String>::new());
    let other = reading(vec![with_label(pods(), "shop")]);
    assert_eq!(
        beyond(&other, &labelled),
        ["read Pod: .spec; only app=shop"]
    );
    let narrower = reading(vec![selecting(
        with_label(pods(), "web"),
        "spec.nodeName=a",
    )]);
    assert_eq!(beyond(&narrower, &labelled), Vec::<String>::new());
    assert_eq!(
        beyond(&labelled, &narrower),
        ["read Pod: .spec; only app=web"]
    );
}

/// A label and a field are different conditions, even if their texts are equal.
#[test]
fn a_label_does_not_stand_for_a_field() {
    let by_field = reading(vec![selecting(read(pod(), &[".spec"]), "app=web")]);
    let by_label = reading(vec![with_label(read(pod(), &[".spec"]), "web")]);
    assert_eq!(
        beyond(&by_label, &by_field),
        ["read Pod: .spec; only app=web"]
    );
}

#[test]
fn what_objects_are_found_by_is_read() {
    let old = reading(vec![read(pod(), &[".spec"])]);
    let mut indexed = old.clone();
    indexed.indexes.push(IndexDeclaration {
        name: "ip".into(),
        kind: pod(),
        paths: texts(&[".spec.nodeName", ".status.podIP"]),
    });
    assert_eq!(beyond(&indexed, &old), ["read Pod: .status.podIP"]);
    let mut selecting = old.clone();
    selecting.reconciles[0].fields = Some("metadata.name!=a,status.replicas==1".into());
    assert_eq!(
        beyond(&selecting, &old),
        ["read apps/Deployment: .metadata.name .status.replicas"]
    );
}

#[test]
fn values_of_secrets_are_more_whatever_way_leads_to_them() {
    let secrets = || read(Kind::new("", "v1", "Secret"), &[".metadata"]);
    let old = reading(vec![secrets()]);
    let values = "read the values of Secrets".to_owned();
    let by_path = reading(vec![read(secrets().kind, &[".metadata", ".data.token"])]);
    assert_eq!(
        beyond(&by_path, &old),
        ["read Secret: .data.token", &values]
    );
    let by_selector = reading(vec![selecting(secrets(), "data.token=x")]);
    assert_eq!(beyond(&by_selector, &old), [values]);
    let by_type = reading(vec![selecting(secrets(), "type=Opaque")]);
    assert_eq!(beyond(&by_type, &old), Vec::<String>::new());
}

#[test]
fn a_verb_and_a_subresource_are_more() {
    let old = manifest(vec![], vec![write(pod(), None, &[Verb::Patch])]);
    let new = manifest(
        vec![],
        vec![
            write(pod(), None, &[Verb::Patch, Verb::Delete]),
            write(pod(), Some("status"), &[Verb::Patch]),
            write(deployment(), Some("scale"), &[Verb::Apply]),
        ],
    );
    assert_eq!(
        beyond(&new, &old),
        [
            "delete Pod",
            "patch Pod/status",
            "apply apps/Deployment/scale"
        ]
    );
}

#[test]
fn what_no_grant_is_about_is_no_more() {
    let old = manifest(
        vec![read(pod(), &[".spec"])],
        vec![write(pod(), None, &[Verb::Apply, Verb::Delete])],
    );
    let mut new = old.clone();
    new.version = "2.0.0".into();
    new.writes[0].children = true;
    new.limits.concurrency = Some(64);
    new.config_schema = Some("{}".into());
    new.reconciles = vec![];
    assert_eq!(beyond(&new, &old), Vec::<String>::new());
}

#[test]
fn each_part_may_have_been_accepted_with_another_version() {
    let first = reading(vec![in_namespaces(read(pod(), &[".spec"]), &["a"])]);
    let second = reading(vec![in_namespaces(read(pod(), &[".status"]), &["a", "b"])]);
    let mut accepted = Wants::of(&first);
    accepted.join(&Wants::of(&second));
    let both = in_namespaces(read(pod(), &[".spec", ".status"]), &["a"]);
    assert!(Wants::of(&reading(vec![both])).beyond(&accepted).is_empty());
    let spec = in_namespaces(read(pod(), &[".spec"]), &["b"]);
    let more = Wants::of(&reading(vec![spec])).beyond(&accepted);
    assert_eq!(more, ["read Pod: .spec; in b"], "nobody has accepted that");
}

#[test]
fn what_is_kept_as_text_is_the_same_when_it_is_read_again() {
    let mut wants = Wants::of(&manifest(
        vec![
            with_label(in_namespaces(read(pod(), &[".spec"]), &["a"]), "web"),
            read(Kind::new("", "v1", "Secret"), &[]),
        ],
        vec![write(deployment(), Some("scale"), &[Verb::Apply])],
    ));
    wants.join(&Wants::default());
    let text = serde_json::to_string(&wants).unwrap();
    assert_eq!(serde_json::from_str::<Wants>(&text).unwrap(), wants);
    let nothing: Wants = serde_json::from_str("{}").unwrap();
    assert_eq!(nothing, Wants::default(), "a host may not know of all yet");
}
