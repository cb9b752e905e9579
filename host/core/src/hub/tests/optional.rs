//! Optional kinds that the cluster does not serve.

use super::*;
use crate::access::grants::Grants;
use crate::model::manifest::IndexDeclaration;
use crate::reads::error::ReadError;

/// Services, and pods if the cluster serves them.
fn optional_pods() -> Manifest {
    let mut manifest = manifest("p");
    manifest.optional = [pod()].into();
    manifest.indexes = vec![IndexDeclaration {
        name: "node".into(),
        kind: pod(),
        paths: vec![".spec.nodeName".into()],
    }];
    manifest
}

/// Settings under which these kinds are absent.
fn without(absent: &[Kind]) -> ControllerSettings {
    ControllerSettings {
        grants: Grants {
            absent: absent.iter().cloned().collect(),
            ..Grants::as_requested()
        },
        ..ControllerSettings::default()
    }
}

fn fake(manifest: Manifest, behaviour: Box<Behaviour>) -> Arc<dyn Plugin> {
    Arc::new(Fake {
        manifest,
        behaviour,
    })
}

/// Reads pods in each way, and notes how many there are.
fn counting(counts: &Arc<Mutex<Vec<usize>>>) -> Box<Behaviour> {
    let counts = counts.clone();
    Box::new(move |request, reader| {
        let key = ObjectKey::new("default", &request.key.object.name);
        let found = reader.get(&pod(), &key).unwrap().is_some();
        let all = reader.list(&pod(), None, &ListFilter::Everything).unwrap();
        let by_node = ListFilter::Index("node".into(), "n".into());
        assert_eq!(
            reader.list(&pod(), Some("default"), &by_node).unwrap(),
            "[]"
        );
        let page = reader.list_page(&pod(), None, &ListFilter::Everything, None, 1);
        assert_eq!(page.unwrap(), all);
        counts.lock().unwrap().push(usize::from(found));
        Ok(Outcome::default())
    })
}

#[test]
fn reads_of_an_absent_kind_find_nothing_until_it_is_served() {
    let mut rig = Rig::default();
    let counts = Arc::default();
    let plugin = fake(optional_pods(), counting(&counts));
    let id = rig.hub.join(plugin.clone(), &without(&[pod()]), rig.now);
    let id = id.unwrap();
    assert_eq!(rig.hub.watched(), 1, "no list-watch of pods");
    rig.sync(&service());
    rig.put(&service(), "a", "");
    assert_eq!(rig.run(), ["a"]);
    let served = ControllerSettings::default();
    rig.hub
        .replace(id, plugin.clone(), &served, rig.now)
        .unwrap();
    assert_eq!(rig.run(), NONE, "it has not been listed yet");
    rig.sync_with(&pod(), "a");
    assert_eq!(rig.run(), ["a"]);
    rig.hub
        .replace(id, plugin, &without(&[pod()]), rig.now)
        .unwrap();
    assert_eq!(rig.hub.watched(), 1);
    assert_eq!(rig.run(), ["a"]);
    assert_eq!(*counts.lock().unwrap(), [0, 1, 0]);
}

#[test]
fn what_would_fail_if_the_kind_were_served_fails_though_it_is_absent() {
    let mut narrowed = optional_pods();
    narrowed.reads[1].namespaces = vec!["default".into()];
    let mut rig = Rig::default();
    let behaviour = |_: &Request, reader: &mut Reader| {
        let elsewhere = ObjectKey::new("elsewhere", "a");
        let denied = reader.get(&pod(), &elsewhere);
        assert!(
            matches!(denied, Err(ReadError::OtherNamespace { .. })),
            "{denied:?}"
        );
        let unknown = ListFilter::Index("other".into(), "n".into());
        let unknown = reader.list(&pod(), None, &unknown);
        assert!(
            matches!(unknown, Err(ReadError::UnknownIndex { .. })),
            "{unknown:?}"
        );
        let ungranted = reader.list(&Kind::new("", "v1", "Node"), None, &ListFilter::Everything);
        assert!(
            matches!(ungranted, Err(ReadError::Denied(_))),
            "{ungranted:?}"
        );
        Ok(Outcome::default())
    };
    let plugin = fake(narrowed, Box::new(behaviour));
    rig.hub.join(plugin, &without(&[pod()]), rig.now).unwrap();
    rig.sync(&service());
    rig.put(&service(), "a", "");
    assert_eq!(rig.run(), ["a"]);
    assert_eq!(rig.hub.status(rig.now)[0].reconciles.success, 1);
}

#[test]
fn an_absent_kind_that_is_reconciled_has_no_keys_and_makes_no_singleton() {
    let mut rig = Rig::default();
    let mut manifest = optional_pods();
    manifest.reconciles = vec![Selection {
        kind: pod(),
        ..selection()
    }];
    let fails = |_: &Request, _: &mut Reader| Err(Failure::Retry("no".into()).into());
    let plugin = fake(manifest, Box::new(fails));
    let id = rig.hub.join(plugin.clone(), &without(&[pod()]), rig.now);
    let id = id.unwrap();
    rig.sync(&service());
    rig.put(&service(), "a", "");
    assert_eq!(rig.run(), NONE);
    let served = ControllerSettings::default();
    rig.hub
        .replace(id, plugin.clone(), &served, rig.now)
        .unwrap();
    rig.sync_with(&pod(), "b");
    assert_eq!(rig.run(), ["b"]);
    let failing = |rig: &Rig| rig.hub.status(rig.now)[0].keys.failing;
    assert_eq!(failing(&rig), 1);
    rig.hub
        .replace(id, plugin, &without(&[pod()]), rig.now)
        .unwrap();
    assert_eq!(failing(&rig), 0, "its keys have gone with it");
    assert_eq!(rig.run(), NONE);
    assert!(rig.hub.is_plugin_drained(id, rig.now));
}
