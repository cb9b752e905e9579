use pilothouse_core::{
    Granted, LabelSelector, Limits, ReadDeclaration, Selection, WriteDeclaration,
};

use super::*;

/// A plugin that keeps ConfigMaps for each Service.
fn keeper(children: bool) -> Manifest {
    let service = Kind::new("", "v1", "Service");
    Manifest {
        name: "keeper".into(),
        version: "1.0.0".into(),
        reconciles: vec![Selection {
            kind: service.clone(),
            labels: LabelSelector::default(),
            fields: None,
            namespaces: vec![],
            companions: vec![],
        }],
        reads: vec![ReadDeclaration::new(service, vec![])],
        indexes: vec![],
        writes: vec![WriteDeclaration {
            kind: Kind::new("", "v1", "ConfigMap"),
            subresource: None,
            verbs: vec![Verb::Apply],
            children,
        }],
        limits: Limits::default(),
        config_schema: None,
        optional: BTreeSet::new(),
    }
}

fn guesses(manifest: &Manifest) -> Names {
    targets(manifest)
        .map(|target| (target.clone(), Named::guess(&target)))
        .collect()
}

#[test]
fn who_keeps_children_may_name_their_owner_in_them() {
    let finalizers = |children: bool, what: Granted, namespaces: &[&str]| {
        let manifest = keeper(children);
        let grants = Grants {
            what,
            namespaces: namespaces.iter().map(ToString::to_string).collect(),
            ..Grants::default()
        };
        let Rules(rules) = Rules::of(&manifest, &grants, &guesses(&manifest));
        let all = rules.into_iter().flat_map(|(namespace, verbs)| {
            verbs
                .into_iter()
                .map(move |(target, verbs)| (namespace.clone(), target, verbs))
        });
        let own = all.filter(|(_, target, _)| target.resource == "services/finalizers");
        own.map(|(namespace, _, verbs)| format!("{namespace} {verbs:?}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        finalizers(true, Granted::AsRequested, &[]),
        [r#" {"update"}"#]
    );
    assert_eq!(
        finalizers(true, Granted::AsRequested, &["one"]),
        [r#"one {"update"}"#]
    );
    assert_eq!(finalizers(false, Granted::AsRequested, &[]), [""; 0]);
    assert_eq!(finalizers(true, Granted::OwnKind, &[]), [""; 0]);
}

#[test]
fn kinds_are_guessed_as_upstream_guesses_them() {
    for (kind, plural) in [
        ("Pod", "pods"),
        ("Endpoints", "endpoints"),
        ("Ingress", "ingresses"),
        ("NetworkPolicy", "networkpolicies"),
    ] {
        assert_eq!(guess("", kind, None).1, plural);
    }
}

/// The group and plural that are guessed.
fn guess(group: &str, kind: &str, subresource: Option<&str>) -> (String, String) {
    let target = (
        Kind::new(group, "v1", kind),
        subresource.map(ToOwned::to_owned),
    );
    let named = Named::guess(&target);
    (named.group, named.plural)
}

#[test]
fn a_body_of_its_own_kind_is_guessed_to_be_of_the_object_that_it_is_sent_to() {
    for (group, kind, subresource, wanted) in [
        ("policy", "Eviction", "eviction", ("", "pods")),
        ("", "Binding", "binding", ("", "pods")),
        (
            "authentication.k8s.io",
            "TokenRequest",
            "token",
            ("", "serviceaccounts"),
        ),
        ("apps", "Deployment", "scale", ("apps", "deployments")),
        ("", "Pod", "eviction", ("", "pods")),
    ] {
        let (group, plural) = guess(group, kind, Some(subresource));
        assert_eq!((&*group, &*plural), wanted);
    }
    let itself = guess("", "Binding", None);
    assert_eq!(itself, (String::new(), "bindings".to_owned()));
}

#[test]
fn a_pattern_is_every_resource_of_its_groups_if_it_is_granted() {
    let pattern: Kind = "apps/*".parse().unwrap();
    let mut manifest = keeper(false);
    let metadata = vec![".metadata.labels".to_owned()];
    let read = ReadDeclaration::new(pattern.clone(), metadata);
    manifest.reads.push(read);
    manifest.writes = vec![WriteDeclaration {
        kind: pattern.clone(),
        subresource: None,
        verbs: vec![Verb::Delete],
        children: false,
    }];
    let all = RuleTarget {
        group: "apps".into(),
        resource: "*".into(),
        names: BTreeSet::new(),
    };
    let verbs = |what: Granted| {
        let grants = Grants {
            what,
            ..Grants::default()
        };
        let Rules(rules) = Rules::of(&manifest, &grants, &guesses(&manifest));
        rules.get("").and_then(|verbs| verbs.get(&all)).cloned()
    };
    assert_eq!(verbs(Granted::AsRequested), None);
    let name = pilothouse_core::KindName::of(&pattern);
    let listed = Granted::Listed {
        reads: vec![pilothouse_core::ReadGrant {
            kind: name.clone(),
            namespaces: BTreeSet::new(),
        }],
        writes: vec![pilothouse_core::WriteGrant {
            kind: name,
            subresource: None,
            verbs: BTreeSet::new(),
            namespaces: BTreeSet::new(),
            names: BTreeSet::new(),
            force: false,
        }],
        events: false,
    };
    let wanted = ["delete", "get", "list", "watch"].map(str::to_owned);
    assert_eq!(verbs(listed), Some(wanted.into()));
}

#[test]
fn a_plugins_own_account_may_get_what_it_reads_by_a_pattern_and_nothing_else() {
    let target = |resource: &str| RuleTarget {
        group: "apps".into(),
        resource: resource.into(),
        names: BTreeSet::new(),
    };
    let read = || BTreeSet::from(READ.map(str::to_owned));
    let verbs = Verbs::from([(target("*"), read()), (target("deployments"), read())]);
    let Rules(rules) = Rules([(String::new(), verbs)].into()).of_account();
    assert_eq!(rules[""][&target("*")], read());
    let watched = ["list", "watch"].map(str::to_owned);
    assert_eq!(rules[""][&target("deployments")], watched.into());
}

#[test]
fn an_eviction_is_a_create_of_the_pods_subresource_by_name() {
    let manifest = Manifest {
        writes: vec![WriteDeclaration {
            kind: Kind::new("policy", "v1", "Eviction"),
            subresource: Some("eviction".into()),
            verbs: vec![Verb::Create],
            children: false,
        }],
        ..keeper(false)
    };
    let eviction = |names: &[&str]| RuleTarget {
        group: String::new(),
        resource: "pods/eviction".into(),
        names: names.iter().map(ToString::to_string).collect(),
    };
    let create = || BTreeSet::from(["create".to_owned()]);
    let grants = Grants {
        what: Granted::AsRequested,
        ..Grants::default()
    };
    let names = guesses(&manifest);
    let Rules(rules) = Rules::of(&manifest, &grants, &names);
    assert_eq!(rules[""][&eviction(&[])], create());
    assert!(
        rules[""]
            .keys()
            .all(|target| !target.resource.contains("evictions"))
    );

    let mut rules = Rules::default();
    let place = (&["one".to_owned()][..], &BTreeSet::from(["a".to_owned()]));
    let named = &names[&(manifest.writes[0].kind.clone(), Some("eviction".into()))];
    rules.allow_write(named, Some("eviction"), Verb::Create, place);
    let verbs = Verbs::from([(eviction(&["a"]), create())]);
    assert_eq!(rules, Rules([("one".to_owned(), verbs)].into()));
}

#[test]
fn a_host_may_use_the_leases_of_its_own_namespace_that_it_needs() {
    let of = |leases| {
        let Rules(rules) = Rules::of_host("on", &leases);
        assert!(rules.keys().eq(["on"]), "{rules:?}");
        let is_lease = |target: &&RuleTarget| target.resource == "leases";
        let leases = rules["on"].keys().filter(is_lease);
        let verbs = leases.map(|target| (target.names.clone(), rules["on"][target].clone()));
        verbs.collect::<BTreeMap<_, _>>()
    };
    let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
    let one = BTreeMap::from([
        (texts(&[]), texts(&["create"])),
        (texts(&["main"]), texts(&ELECTION)),
    ]);
    assert_eq!(of(Leases::One("main".into())), one);
    let all = [&SHARING[..], &["create"]].concat();
    assert_eq!(of(Leases::All), BTreeMap::from([(texts(&[]), texts(&all))]));
}

#[test]
fn events_are_allowed_where_the_plugin_may_write_some() {
    let places = |what: Granted, namespaces: &[&str], cluster_scoped: &[Kind]| {
        let grants = Grants {
            what,
            namespaces: namespaces.iter().map(ToString::to_string).collect(),
            cluster_scoped: cluster_scoped.iter().cloned().collect(),
            ..Grants::default()
        };
        let Rules(rules) = Rules::of_events(&grants);
        rules.into_keys().collect::<Vec<_>>()
    };
    let all = || Granted::AsRequested;
    assert!(places(Granted::OwnKind, &[], &[]).is_empty());
    assert_eq!(places(all(), &[], &[]), [""]);
    assert_eq!(places(all(), &["web"], &[]), ["web"]);
    let node = Kind::new("", "v1", "Node");
    assert_eq!(places(all(), &["web"], &[node]), ["default", "web"]);
}
