//! Informers, which plugins share and the hub counts.

use super::*;
use crate::reads::error::ReadError;

/// A manifest that reads these fields of pods in these namespaces.
fn reads_pods(name: &str, fields: &[&str], namespaces: &[&str]) -> Manifest {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let mut manifest = manifest(name);
    manifest.reconciles = vec![];
    manifest.writes = vec![];
    manifest.reads = vec![ReadDeclaration {
        namespaces: texts(namespaces),
        ..ReadDeclaration::new(pod(), texts(fields))
    }];
    manifest
}

fn wanted(rig: &Rig) -> Vec<(String, Detail)> {
    let wanted = rig.hub.wanted().into_values();
    wanted
        .map(|(informer_key, extent)| (informer_key.to_string(), extent.detail))
        .collect()
}

fn id_of(rig: &Rig, informer_key: &str) -> InformerId {
    let wanted = rig.hub.wanted().into_iter();
    let mut ids = wanted.filter(|(_, (of, _))| of.to_string() == informer_key);
    ids.next().expect("such an informer").0
}

fn pod_in(rig: &mut Rig, informer: InformerId, namespace: &str, name: &str) {
    rig.version += 1;
    let json = format!(
        r#"{{"metadata":{{"namespace":"{namespace}","name":"{name}","resourceVersion":"{}"}}}}"#,
        rig.version
    );
    let object = Object::parse(&pod(), &json, &rig.hub.schema(informer)).unwrap();
    rig.hub.apply(informer, Delta::Upsert(object), rig.now);
}

fn sync(rig: &mut Rig, informer: InformerId, detail: Detail) {
    let listing = Listing {
        resource_version: ResourceVersion::new(&rig.version.to_string()),
        extent: detail.into(),
        ..Listing::default()
    };
    rig.hub.apply(informer, Delta::Replace(listing), rig.now);
}

#[test]
fn plugins_that_ask_for_the_same_share_an_informer() {
    let mut rig = Rig::default();
    rig.join(reads_pods("a", &[".metadata.name"], &[]), nothing);
    rig.join(reads_pods("b", &[".metadata.labels"], &[]), nothing);
    rig.join(reads_pods("c", &[".metadata.labels"], &["one"]), nothing);
    assert_eq!(
        wanted(&rig),
        [
            ("v1/Pod".to_owned(), Detail::Metadata),
            ("v1/Pod in one".to_owned(), Detail::Metadata),
        ]
    );
    let informers = rig.hub.informers();
    assert_eq!(informers[0].users, ["a", "b"]);
    assert_eq!(informers[1].users, ["c"]);
}

#[test]
fn an_informer_ends_with_the_last_plugin_that_uses_it() {
    let mut rig = Rig::default();
    let first = rig.join(reads_pods("a", &[".metadata.name"], &[]), nothing);
    let second = rig.join(reads_pods("b", &[".metadata.name"], &[]), nothing);
    let id = id_of(&rig, "v1/Pod");
    sync(&mut rig, id, Detail::Metadata);
    pod_in(&mut rig, id, "one", "x");
    drop(rig.hub.leave(first));
    assert_eq!(rig.hub.informers()[0].objects, 1);
    drop(rig.hub.leave(second));
    assert!(rig.hub.wanted().is_empty());
    pod_in(&mut rig, id, "one", "late");
    assert!(
        rig.hub.snapshot().informers[id].is_empty(),
        "what comes late is ignored"
    );
    rig.join(reads_pods("a", &[".metadata.name"], &[]), nothing);
    assert_ne!(id_of(&rig, "v1/Pod"), id, "it begins anew");
    assert_eq!(rig.run(), NONE, "and nothing runs before it is synced");
}

#[test]
fn what_a_plugin_still_runs_when_it_leaves_means_nothing_any_more() {
    let mut rig = Rig::default();
    let plugin = rig.join(manifest("p"), lists_pods);
    rig.sync(&service());
    rig.sync(&pod());
    rig.put(&service(), "web", "");
    let reconcile = rig.take().unwrap();
    drop(rig.hub.leave(plugin));
    rig.finish(reconcile.run());
    assert!(rig.hub.is_drained(rig.now) && rig.hub.status(rig.now).is_empty());
}

#[test]
fn a_plugin_that_reads_more_has_to_wait_for_it_and_the_others_do_not() {
    let mut rig = Rig::default();
    rig.join(reads_pods("light", &[".metadata.name"], &[]), nothing);
    let id = id_of(&rig, "v1/Pod");
    sync(&mut rig, id, Detail::Metadata);
    let heavy = rig.join(reads_pods("heavy", &[".spec"], &[]), nothing);
    assert_eq!(wanted(&rig)[0].1, Detail::Full);
    let runs = |rig: &mut Rig| {
        let reconcile = rig.take();
        reconcile.map(|reconcile| reconcile.held.plugin_name().to_owned())
    };
    assert_eq!(runs(&mut rig).as_deref(), Some("light"));
    assert_eq!(runs(&mut rig), None);
    sync(&mut rig, id, Detail::Full);
    assert_eq!(runs(&mut rig).as_deref(), Some("heavy"));
    drop(rig.hub.leave(heavy));
    assert_eq!(wanted(&rig)[0].1, Detail::Metadata, "less is enough again");
}

#[test]
fn a_plugin_with_namespaces_sees_these_in_order_and_no_others() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let mut rig = Rig::default();
    rig.join(
        reads_pods("p", &[".metadata.name"], &["two", "one"]),
        move |_, reader| {
            let list = |reader: &mut Reader, namespace| {
                reader.list(&pod(), namespace, &ListFilter::Everything)
            };
            let all = list(reader, None).unwrap();
            let other = list(reader, Some("three")).unwrap_err();
            let get = reader
                .get(&pod(), &ObjectKey::new("three", "x"))
                .unwrap_err();
            assert!(matches!(get, ReadError::OtherNamespace { .. }));
            log.lock().unwrap().push((all, other));
            Ok(Outcome::default())
        },
    );
    for namespace in ["one", "two"] {
        let id = id_of(&rig, &format!("v1/Pod in {namespace}"));
        sync(&mut rig, id, Detail::Metadata);
        pod_in(&mut rig, id, namespace, "x");
    }
    assert_eq!(rig.run().len(), 1);
    let (all, other) = seen.lock().unwrap().pop().unwrap();
    assert_eq!(
        all,
        "[\n{\"metadata\":{\"namespace\":\"one\",\"name\":\"x\"}},\n{\"metadata\":{\"namespace\":\"two\",\"name\":\"x\"}}\n]"
    );
    assert!(matches!(other, ReadError::OtherNamespace { .. }));
    let id = id_of(&rig, "v1/Pod in two");
    pod_in(&mut rig, id, "two", "y");
    assert_eq!(
        rig.run().len(),
        1,
        "a list over all of them is woken by each"
    );
}

#[test]
fn the_values_of_secrets_are_the_operators_to_allow() {
    let secrets = |fields: &[&str]| {
        let mut manifest = reads_pods("p", fields, &[]);
        manifest.reads[0].kind = Kind::new("", "v1", "Secret");
        Arc::new(Fake {
            manifest,
            behaviour: Box::new(nothing),
        })
    };
    let mut rig = Rig::default();
    let error = rig
        .hub
        .join(secrets(&[".data"]), &ControllerSettings::default(), rig.now);
    assert_eq!(error, Err(JoinError::SecretValues("p".into())));
    assert!(
        rig.hub.wanted().is_empty(),
        "nothing is left of the attempt"
    );
    let plugin = rig
        .hub
        .join(secrets(&[".type"]), &ControllerSettings::default(), rig.now);
    assert_eq!(wanted(&rig)[0].1, Detail::WithoutValues);
    drop(rig.hub.leave(plugin.unwrap()));
    let allowed = ControllerSettings {
        secret_values: true,
        ..ControllerSettings::default()
    };
    rig.hub
        .join(secrets(&[".data"]), &allowed, rig.now)
        .unwrap();
    assert_eq!(wanted(&rig)[0].1, Detail::Full);
}

#[test]
fn an_object_that_cannot_be_read_stops_who_reads_it_and_nobody_else() {
    let reads = |request: &Request, reader: &mut Reader| {
        let key = ObjectKey::new("default", &request.key.object.name);
        let found = reader.get(&pod(), &key).map(|found| found.is_some());
        found
            .map(|_| Outcome::default())
            .map_err(|error| RunError::Trap(error.to_string()))
    };
    let mut rig = Rig::with(manifest("p"), reads);
    rig.put(&service(), "bad", "");
    rig.put(&service(), "good", "");
    rig.put(&pod(), "bad", "");
    rig.run();
    let id = rig.id(&pod());
    rig.version += 1;
    let unreadable = Unreadable {
        key: ObjectKey::new("default", "bad"),
        resource_version: ResourceVersion::new(&rig.version.to_string()),
        reason: "labels is not an object".into(),
    };
    rig.hub.apply(id, Delta::Unreadable(unreadable), rig.now);
    assert_eq!(rig.run(), ["bad"]);
    let status = rig.hub.status(rig.now).remove(0);
    let error = status.last_error.unwrap().message;
    assert!(
        error.contains("v1/Pod default/bad cannot be read: labels is not an object"),
        "{error}"
    );
    assert_eq!(rig.informer(id).unreadable.len(), 1);
    rig.put(&pod(), "bad", "");
    rig.now += Duration::from_secs(1);
    assert_eq!(rig.run(), ["bad"]);
    assert_eq!(rig.hub.status(rig.now)[0].keys.failing, 0);
}

#[test]
fn memory_is_accounted_to_those_who_asked() {
    let mut rig = Rig::default();
    rig.join(reads_pods("a", &[".metadata.name"], &[]), nothing);
    rig.join(reads_pods("b", &[".metadata.name"], &[]), nothing);
    let id = id_of(&rig, "v1/Pod");
    sync(&mut rig, id, Detail::Metadata);
    pod_in(&mut rig, id, "one", "x");
    let bytes = rig.hub.informers()[0].bytes;
    assert!(bytes > 0);
    let shares = rig.hub.status(rig.now);
    assert!(shares.iter().all(|plugin| plugin.cached_bytes == bytes / 2));
}

#[test]
fn who_could_not_read_an_object_is_woken_when_it_goes() {
    let lists = |_: &Request, reader: &mut Reader| {
        let found = reader.list(&pod(), None, &ListFilter::Everything);
        found.map_or_else(
            |error| Err(Failure::Terminal(error.to_string()).into()),
            |_| Ok(Outcome::default()),
        )
    };
    let mut rig = Rig::with(manifest("p"), lists);
    rig.put(&service(), "a", "");
    rig.run();
    let id = rig.id(&pod());
    rig.version += 1;
    let unreadable = Unreadable {
        key: ObjectKey::new("default", "bad"),
        resource_version: ResourceVersion::new(&rig.version.to_string()),
        reason: "labels is not an object".into(),
    };
    rig.hub.apply(id, Delta::Unreadable(unreadable), rig.now);
    assert_eq!(rig.run(), ["a"], "its list has no answer any more");
    assert_eq!(rig.hub.status(rig.now)[0].reconciles.terminal, 1);
    rig.remove(&pod(), "bad");
    assert_eq!(rig.run(), ["a"]);
    assert_eq!(rig.hub.status(rig.now)[0].keys.failing, 0);
}

#[test]
fn a_plugin_that_comes_back_waits_for_all_of_each_object_again() {
    let mut rig = Rig::default();
    rig.join(reads_pods("light", &[".metadata.name"], &[]), nothing);
    let heavy = rig.join(reads_pods("heavy", &[".spec"], &[]), nothing);
    let id = id_of(&rig, "v1/Pod");
    sync(&mut rig, id, Detail::Full);
    rig.run();
    drop(rig.hub.leave(heavy));
    pod_in(&mut rig, id, "one", "x");
    rig.run();
    rig.join(reads_pods("heavy", &[".spec"], &[]), nothing);
    assert_eq!(rig.run(), NONE, "what came meanwhile has no spec");
    sync(&mut rig, id, Detail::Full);
    assert_eq!(rig.run().len(), 1);
}

#[test]
fn an_object_deeper_than_can_be_cut_is_unreadable_to_those_who_come_and_the_host_lives() {
    let mut rig = Rig::default();
    rig.join(manifest("p"), nothing);
    rig.sync(&service());
    rig.sync(&pod());
    let id = id_of(&rig, "v1/Pod");
    let nested = format!("{}1{}", r#"{"a":"#.repeat(300), "}".repeat(300));
    let json = format!(r#"{{"metadata":{{"name":"x","resourceVersion":"100"}},"spec":{nested}}}"#);
    let object = Object::parse(&pod(), &json, &rig.hub.schema(id)).unwrap();
    rig.hub.apply(id, Delta::Upsert(object), rig.now);
    let deep = format!(".spec{}", ".a".repeat(62));
    rig.join(reads_pods("deep", &[&deep], &[]), nothing);
    let informer = &rig.informer(id);
    assert_eq!(informer.objects + informer.unreadable.len(), 1);
}
