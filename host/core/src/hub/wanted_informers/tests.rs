use std::collections::BTreeSet;

use super::*;
use crate::model::manifest::{IndexDeclaration, Limits, Selection, WriteDeclaration};
use crate::model::selector::LabelSelector;

fn manifest(kind: &Kind, fields: &[&str]) -> Manifest {
    let fields = fields.iter().map(|field| (*field).to_owned()).collect();
    Manifest {
        name: "p".into(),
        version: "1".into(),
        reconciles: vec![],
        reads: vec![ReadDeclaration::new(kind.clone(), fields)],
        indexes: vec![],
        writes: vec![],
        limits: Limits::default(),
        config_schema: None,
        optional: BTreeSet::new(),
    }
}

fn needs(manifest: &Manifest) -> Detail {
    detail(manifest, &manifest.reads[0])
}

fn pod() -> Kind {
    Kind::new("", "v1", "Pod")
}

fn secret() -> Kind {
    Kind::new("", "v1", "Secret")
}

fn writes(kind: Kind, verb: Verb) -> WriteDeclaration {
    WriteDeclaration {
        kind,
        subresource: None,
        verbs: vec![verb],
        children: false,
    }
}

#[test]
fn metadata_are_enough_for_a_plugin_that_reads_no_more() {
    let mut plugin = manifest(&pod(), &[".metadata.labels", ".metadata.ownerReferences"]);
    assert_eq!(needs(&plugin), Detail::Metadata);
    plugin.writes = vec![writes(pod(), Verb::Delete)];
    assert_eq!(needs(&plugin), Detail::Metadata, "deleting needs no more");
    plugin.writes = vec![writes(pod(), Verb::Apply)];
    assert_eq!(
        needs(&plugin),
        Detail::Full,
        "what applying changes is seen in the whole object"
    );
    assert_eq!(needs(&manifest(&pod(), &[])), Detail::Full);
    assert_eq!(needs(&manifest(&pod(), &[".spec.nodeName"])), Detail::Full);
    assert_eq!(needs(&manifest(&pod(), &[".metadataSource"])), Detail::Full);
}

#[test]
fn an_index_or_a_field_selector_may_need_more_than_the_plugin_sees() {
    let mut plugin = manifest(&pod(), &[".metadata.name"]);
    plugin.indexes = vec![IndexDeclaration {
        name: "node".into(),
        kind: pod(),
        paths: vec![".spec.nodeName".into()],
    }];
    assert_eq!(needs(&plugin), Detail::Full);
    let mut plugin = manifest(&pod(), &[".metadata.name"]);
    plugin.reconciles = vec![Selection {
        kind: pod(),
        labels: LabelSelector::default(),
        fields: Some("metadata.name=a,spec.nodeName=n".into()),
        namespaces: vec![],
        companions: vec![],
    }];
    assert_eq!(needs(&plugin), Detail::Full);
}

#[test]
fn the_values_of_a_secret_are_needed_only_by_who_names_them() {
    assert_eq!(
        needs(&manifest(&secret(), &[".metadata", ".type"])),
        Detail::WithoutValues
    );
    assert_eq!(
        needs(&manifest(&secret(), &[".data['tls.crt']"])),
        Detail::Full
    );
    assert_eq!(needs(&manifest(&secret(), &["[*]"])), Detail::Full);
    assert_eq!(needs(&manifest(&secret(), &["['data']"])), Detail::Full);
    assert_eq!(needs(&manifest(&secret(), &[])), Detail::Full);
    let mut plugin = manifest(&secret(), &[".metadata"]);
    plugin.writes = vec![writes(secret(), Verb::Apply)];
    assert_eq!(
        needs(&plugin),
        Detail::Metadata,
        "writing them is not reading them"
    );
}

#[test]
fn of_a_pattern_the_spec_is_read_without_the_values_of_secrets() {
    let every = Kind::new("*", "*", "*");
    let metadata = manifest(&every, &[".metadata.labels"]);
    assert_eq!(needs(&metadata), Detail::Metadata);
    let spec = manifest(&every, &[".metadata.labels", ".spec.replicas"]);
    assert_eq!(needs(&spec), Detail::WithoutValues);
}

#[test]
fn each_namespace_is_a_source_of_its_own_once_and_in_order() {
    let mut read = ReadDeclaration::new(pod(), vec![]);
    assert_eq!(informer_keys(&read), [InformerKey::all(pod())]);
    read.namespaces = ["b", "a", "b"].map(String::from).into();
    read.field_selector = Some("spec.nodeName=n".into());
    let names: Vec<String> = informer_keys(&read)
        .iter()
        .map(InformerKey::to_string)
        .collect();
    assert_eq!(
        names,
        [
            "v1/Pod in a where spec.nodeName=n",
            "v1/Pod in b where spec.nodeName=n"
        ]
    );
}
