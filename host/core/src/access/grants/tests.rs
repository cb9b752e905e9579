use super::*;
use crate::access::permission::Permissions;
use crate::model::manifest::{IndexDeclaration, Limits, Selection};
use crate::model::selector::LabelSelector;

fn kind(name: &str) -> Kind {
    Kind::new("", "v1", name)
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn named(name: &str) -> KindName {
    KindName {
        group: String::new(),
        kind: name.into(),
    }
}

/// A manifest that reconciles Services, also reads Pods and Nodes, indexes Pods, and writes
/// Endpoints as children.
fn manifest() -> Manifest {
    let read = |name| ReadDeclaration::new(kind(name), vec![]);
    Manifest {
        name: "endpoints".into(),
        version: "1.0.0".into(),
        reconciles: vec![Selection {
            kind: kind("Service"),
            labels: LabelSelector::default(),
            fields: None,
            namespaces: vec![],
            companions: vec![kind("Endpoints")],
        }],
        reads: ["Service", "Pod", "Node", "Endpoints"].map(read).into(),
        indexes: vec![IndexDeclaration {
            name: "node".into(),
            kind: kind("Pod"),
            paths: vec![".spec.nodeName".into()],
        }],
        writes: vec![WriteDeclaration {
            kind: kind("Endpoints"),
            subresource: None,
            verbs: vec![Verb::Apply, Verb::Delete],
            children: true,
        }],
        limits: Limits::default(),
        config_schema: None,
        optional: BTreeSet::new(),
    }
}

fn kinds(manifest: &Manifest) -> Vec<&str> {
    manifest.reads.iter().map(|read| &*read.kind.kind).collect()
}

fn write_grant(verbs: &[Verb], namespaces: &[&str], names: &[&str]) -> Granted {
    Granted::Listed {
        events: false,
        reads: vec![],
        writes: vec![WriteGrant {
            kind: named("Endpoints"),
            subresource: None,
            verbs: verbs.iter().copied().collect(),
            namespaces: set(namespaces),
            names: set(names),
            force: true,
        }],
    }
}

/// Grants of all reads of the manifest, by name.
fn all_reads() -> Granted {
    let grant = |name| ReadGrant {
        kind: named(name),
        namespaces: set(&[]),
    };
    Granted::Listed {
        reads: ["Pod", "Node", "Endpoints"].map(grant).into(),
        writes: vec![],
        events: false,
    }
}

fn allows(grants: &Grants, verb: Verb, namespace: &str, name: &str) -> bool {
    grants.allows_write(
        verb,
        &kind("Endpoints"),
        None,
        &ObjectKey::new(namespace, name),
    )
}

#[test]
fn without_a_grant_there_are_reads_of_the_own_kind_and_nothing_that_rests_on_others() {
    let limited = Grants::default().limit(&manifest());
    assert_eq!(kinds(&limited), ["Service"]);
    assert!(limited.indexes.is_empty() && limited.writes.is_empty());
    let [selection] = &*limited.reconciles else {
        panic!("it is for each Service");
    };
    assert!(selection.companions.is_empty());
    assert_eq!(limited.validate(), Ok(()));
    assert!(!allows(&Grants::default(), Verb::Apply, "a", "b"));
}

#[test]
fn an_absent_kind_is_neither_read_nor_written_and_what_is_granted_of_it_is_known() {
    let grants = Grants {
        absent: [kind("Endpoints")].into(),
        ..Grants::as_requested()
    };
    let limited = grants.limit(&manifest());
    assert_eq!(kinds(&limited), ["Service", "Pod", "Node"]);
    assert!(
        limited
            .writes
            .iter()
            .all(|write| write.kind != kind("Endpoints"))
    );
    let reads = grants.reads(&manifest());
    assert!(reads.iter().all(|(read, _)| *read != kind("Endpoints")));
    let absent = grants.absent_reads(&manifest());
    let absent: Vec<&Kind> = absent.iter().map(|read| &read.kind).collect();
    assert_eq!(absent, [&kind("Endpoints")]);
    let ungranted = Grants {
        what: Granted::OwnKind,
        ..grants
    };
    assert!(ungranted.absent_reads(&manifest()).is_empty());
}

#[test]
fn as_requested_is_the_manifest() {
    let limited = Grants::as_requested().limit(&manifest());
    assert_eq!(kinds(&limited), ["Service", "Pod", "Node", "Endpoints"]);
    assert!(limited.writes[0].children);
    assert!(allows(&Grants::as_requested(), Verb::Delete, "a", "b"));
}

#[test]
fn namespaces_narrow_all_but_kinds_without_them_which_are_granted_by_name() {
    let mut grants = Grants {
        namespaces: set(&["blue", "green"]),
        cluster_scoped: [kind("Node")].into(),
        ..Grants::as_requested()
    };
    let mut manifest = manifest();
    manifest.reads[1].namespaces = vec!["green".into(), "red".into()];
    manifest.reads[3].namespaces = vec!["red".into()];
    let limited = grants.limit(&manifest);
    assert_eq!(kinds(&limited), ["Service", "Pod"]);
    assert_eq!(limited.reads[0].namespaces, ["blue", "green"]);
    assert_eq!(limited.reads[1].namespaces, ["green"]);
    assert!(allows(&grants, Verb::Apply, "blue", "a"));
    assert!(!allows(&grants, Verb::Apply, "red", "a"));
    grants.what = all_reads();
    let limited = grants.limit(&manifest);
    assert_eq!(kinds(&limited), ["Service", "Pod", "Node"]);
    assert!(limited.reads[2].namespaces.is_empty());
}

/// `namespaces = ["web"]` is meant as a boundary, and a ClusterRole is outside of it.
#[test]
fn where_namespaces_are_named_as_requested_is_no_write_of_a_kind_without_them() {
    let role = kind("ClusterRole");
    let mut manifest = manifest();
    manifest.writes[0].kind = role.clone();
    manifest.writes[0].children = false;
    let mut grants = Grants {
        namespaces: set(&["blue"]),
        cluster_scoped: [role.clone()].into(),
        ..Grants::as_requested()
    };
    let key = ObjectKey::new("", "admin");
    let may = |grants: &Grants| grants.allows_write(Verb::Apply, &role, None, &key);
    assert!(!may(&grants));
    assert!(grants.limit(&manifest).writes.is_empty());
    assert!(grants.writes(&manifest).is_empty());
    grants.namespaces.clear();
    assert!(may(&grants));
    assert_eq!(grants.writes(&manifest).len(), 1);
}

/// Without the own kind there would be no keys.
#[test]
fn the_own_kind_is_read_though_it_has_no_namespaces_and_some_are_named() {
    let grants = Grants {
        namespaces: set(&["blue"]),
        cluster_scoped: [kind("Service")].into(),
        ..Grants::as_requested()
    };
    assert_eq!(kinds(&grants.limit(&manifest()))[0], "Service");
}

#[test]
fn a_listed_read_is_of_a_kind_in_any_version_and_perhaps_of_some_namespaces() {
    let grants = Grants {
        what: Granted::Listed {
            events: false,
            reads: vec![ReadGrant {
                kind: named("Pod"),
                namespaces: set(&["blue"]),
            }],
            writes: vec![],
        },
        ..Grants::default()
    };
    let limited = grants.limit(&manifest());
    assert_eq!(kinds(&limited), ["Service", "Pod"]);
    assert_eq!(limited.reads[1].namespaces, ["blue"]);
    assert_eq!(limited.indexes.len(), 1);
    let pods = |namespaces: &[&str]| ReadGrant {
        kind: named("Pod"),
        namespaces: set(namespaces),
    };
    let namespaces = |reads: Vec<ReadGrant>| {
        let what = Granted::Listed {
            events: false,
            reads,
            writes: vec![],
        };
        let grants = Grants {
            what,
            ..Grants::default()
        };
        grants.limit(&manifest()).reads[1].namespaces.clone()
    };
    assert_eq!(
        namespaces(vec![pods(&["red"]), pods(&["blue"])]),
        ["blue", "red"]
    );
    assert!(namespaces(vec![pods(&["red"]), pods(&[])]).is_empty());
}

#[test]
fn a_listed_write_is_of_verbs_namespaces_and_names() {
    let grants = |what| Grants {
        what,
        ..Grants::default()
    };
    let apply = grants(write_grant(&[Verb::Apply], &["blue"], &["web"]));
    assert!(allows(&apply, Verb::Apply, "blue", "web"));
    assert!(!allows(&apply, Verb::Delete, "blue", "web"));
    assert!(!allows(&apply, Verb::Apply, "red", "web"));
    assert!(!allows(&apply, Verb::Apply, "blue", "api"));
    let limited = apply.limit(&manifest());
    assert_eq!(limited.writes[0].verbs, [Verb::Apply]);
    assert!(!limited.writes[0].children, "children are pruned, too");
    let all = grants(write_grant(&[], &[], &[]));
    assert!(allows(&all, Verb::Delete, "red", "api"));
    let status = all.allows_write(
        Verb::Apply,
        &kind("Endpoints"),
        Some("status"),
        &ObjectKey::new("red", "api"),
    );
    assert!(!status, "a subresource is granted by its own name");
}

#[test]
fn a_listed_write_may_be_without_force() {
    let mut grants = Grants {
        what: write_grant(&[Verb::Apply], &["blue"], &[]),
        ..Grants::default()
    };
    let may_force = |grants: &Grants, namespace| {
        grants.allows_force(&kind("Endpoints"), None, &ObjectKey::new(namespace, "web"))
    };
    assert!(may_force(&grants, "blue") && !may_force(&grants, "red"));
    if let Granted::Listed { writes, .. } = &mut grants.what {
        writes[0].force = false;
    }
    assert!(!may_force(&grants, "blue"));
    assert!(allows(&grants, Verb::Apply, "blue", "web"));
    assert!(may_force(&Grants::as_requested(), "red"));
}

#[test]
fn granted_writes_are_listed_with_their_objects() {
    let mut grants = Grants {
        what: write_grant(&[Verb::Apply, Verb::Create], &["blue", "red"], &["web"]),
        namespaces: set(&["blue", "green"]),
        ..Grants::default()
    };
    let expected = WriteGranted {
        kind: kind("Endpoints"),
        subresource: None,
        verbs: set_of(&[Verb::Apply]),
        namespaces: vec!["blue".into()],
        names: set(&["web"]),
    };
    assert_eq!(grants.writes(&manifest()), [expected]);
    grants.what = Granted::AsRequested;
    let all = grants.writes(&manifest());
    assert_eq!(all[0].namespaces, ["blue", "green"]);
    assert_eq!(all[0].verbs.len(), 2);
    grants.what = write_grant(&[], &["red"], &[]);
    assert_eq!(grants.writes(&manifest()), [], "nowhere");
}

#[test]
fn what_the_identity_may_not_read_is_not_read_though_it_is_granted() {
    let mut grants = Grants {
        what: all_reads(),
        namespaces: set(&["blue", "green"]),
        cluster_scoped: [kind("Node")].into(),
        ..Grants::default()
    };
    let places = grants.reads(&manifest());
    assert_eq!(places.len(), 3 * 2 + 1);
    assert!(places.contains(&(kind("Node"), String::new())));
    grants.forbidden = [
        (kind("Node"), String::new()),
        (kind("Pod"), "blue".into()),
        (kind("Endpoints"), "blue".into()),
        (kind("Endpoints"), "green".into()),
    ]
    .into();
    let limited = grants.limit(&manifest());
    assert_eq!(kinds(&limited), ["Service", "Pod"]);
    assert_eq!(limited.reads[1].namespaces, ["green"]);
    assert_eq!(grants.reads(&manifest()), places, "it may change again");
}

#[test]
fn a_grant_never_adds_to_a_manifest() {
    let grants = Grants {
        what: Granted::Listed {
            events: false,
            reads: vec![ReadGrant {
                kind: named("Secret"),
                namespaces: set(&[]),
            }],
            writes: vec![WriteGrant {
                kind: named("Secret"),
                subresource: None,
                verbs: set_of(&[Verb::Delete]),
                namespaces: set(&[]),
                names: set(&[]),
                force: true,
            }],
        },
        ..Grants::default()
    };
    let limited = grants.limit(&manifest());
    assert_eq!(kinds(&limited), ["Service"]);
    assert!(limited.writes.is_empty());
}

fn set_of(verbs: &[Verb]) -> BTreeSet<Verb> {
    verbs.iter().copied().collect()
}

#[test]
fn the_deletion_of_collections_is_granted_by_name_only() {
    let mut manifest = manifest();
    manifest.writes[0].verbs.push(Verb::DeleteCollection);
    let all = ObjectKey::new("web", "");
    let endpoints = kind("Endpoints");
    let grants = |what| Grants {
        what,
        ..Grants::default()
    };
    let is_granted = |grants: &Grants| {
        let has = |verbs: Vec<Verb>| verbs.contains(&Verb::DeleteCollection);
        let limited = grants.limit(&manifest).writes.into_iter();
        let writes = grants.writes(&manifest).into_iter();
        let found = [
            grants.allows_write(Verb::DeleteCollection, &endpoints, None, &all),
            limited.map(|write| write.verbs).any(has),
            writes
                .map(|write| write.verbs.into_iter().collect())
                .any(has),
        ];
        assert!(found.iter().all(|is_granted| *is_granted == found[0]));
        found[0]
    };
    assert!(!is_granted(&Grants::as_requested()));
    assert!(!is_granted(&grants(write_grant(&[], &[], &[]))));
    let named = [Verb::DeleteCollection];
    assert!(is_granted(&grants(write_grant(&named, &[], &[]))));
    let of_names = grants(write_grant(&named, &[], &["front"]));
    assert!(
        !of_names.allows_write(Verb::DeleteCollection, &endpoints, None, &all),
        "a collection has no name"
    );
}

/// The manifest, which also reads `*` and deletes objects of it.
fn of_everything() -> Manifest {
    let mut manifest = manifest();
    let any: Kind = "*".parse().unwrap();
    let metadata = vec![".metadata.labels".to_owned()];
    let read = ReadDeclaration::new(any.clone(), metadata);
    manifest.reads.push(read);
    manifest.writes.push(WriteDeclaration {
        kind: any,
        subresource: None,
        verbs: vec![Verb::Delete],
        children: false,
    });
    manifest
}

fn pattern(group: &str) -> KindName {
    KindName {
        group: group.into(),
        kind: "*".into(),
    }
}

#[test]
fn a_pattern_is_granted_literally_for_all_namespaces_and_never_as_requested() {
    let manifest = of_everything();
    let reads = |grants: &Grants| kinds(&grants.limit(&manifest)).contains(&"*");
    let deletes = |grants: &Grants| {
        let granted = grants.limit(&manifest).writes;
        granted.iter().any(|write| write.kind.is_pattern())
    };
    assert!(!reads(&Grants::as_requested()) && !deletes(&Grants::as_requested()));
    let listed = |kind: KindName, namespaces: &[&str]| Grants {
        what: Granted::Listed {
            reads: vec![ReadGrant {
                kind: kind.clone(),
                namespaces: set(namespaces),
            }],
            writes: vec![WriteGrant {
                kind,
                subresource: None,
                verbs: BTreeSet::new(),
                namespaces: BTreeSet::new(),
                names: BTreeSet::new(),
                force: false,
            }],
            events: false,
        },
        ..Grants::default()
    };
    let all = listed(pattern("*"), &[]);
    assert!(reads(&all) && deletes(&all));
    let of_group = listed(pattern("apps"), &[]);
    assert!(!reads(&of_group) && !deletes(&of_group), "it is less");
    assert!(!reads(&listed(pattern("*"), &["a"])), "all or nothing");
    let here = Grants {
        namespaces: set(&["a"]),
        ..listed(pattern("*"), &[])
    };
    assert!(!reads(&here));
    // What the manifest names itself is not granted by a pattern.
    let permissions = Permissions::of(&manifest, &all);
    let may = |kind: &Kind| {
        let key = ObjectKey::new("a", "x");
        permissions.check(Verb::Delete, kind, &key, None).is_ok()
    };
    assert!(may(&kind("ConfigMap")) && !may(&kind("Endpoints")));
    assert!(!may(&"*".parse().unwrap()), "nothing is of this kind");
}

#[test]
fn a_wider_pattern_grants_a_narrower_one() {
    let mut manifest = of_everything();
    for read in manifest
        .reads
        .iter_mut()
        .filter(|read| read.kind.is_pattern())
    {
        read.kind = "apps/*".parse().unwrap();
    }
    let grants = Grants {
        what: Granted::Listed {
            reads: vec![ReadGrant {
                kind: pattern("*"),
                namespaces: BTreeSet::new(),
            }],
            writes: vec![],
            events: false,
        },
        ..Grants::default()
    };
    assert!(kinds(&grants.limit(&manifest)).contains(&"*"));
}
