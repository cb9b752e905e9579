//! Plugins that join and leave while others keep running.

use proptest::prelude::*;

use super::*;
use crate::cache::{Cache, Subscribed};
use crate::model::manifest::IndexDeclaration;

/// A manifest that sees only the labels of pods, with an index by label.
fn newcomer() -> Manifest {
    let app = vec![".metadata.labels.app".to_owned()];
    Manifest {
        reads: vec![
            ReadDeclaration::new(service(), vec![]),
            ReadDeclaration::new(pod(), app.clone()),
        ],
        indexes: vec![IndexDeclaration {
            name: "app".into(),
            kind: pod(),
            paths: app,
        }],
        ..manifest("newcomer")
    }
}

fn plugin(manifest: Manifest) -> Arc<dyn Plugin> {
    Arc::new(Fake {
        manifest,
        behaviour: Box::new(nothing),
    })
}

fn prepare(rig: &mut Rig, manifest: Manifest) -> (PluginId, Preparation) {
    let prepared = rig
        .hub
        .prepare(plugin(manifest), &ControllerSettings::default());
    prepared.unwrap_or_else(|error| panic!("{error}"))
}

/// Builds the preparation and tries to exchange it. Returns `None` when it is done.
fn advance(rig: &mut Rig, mut preparation: Preparation) -> Option<Preparation> {
    preparation.build(rig.now);
    match rig.hub.exchange(preparation, rig.now) {
        Exchange::Again(again) => Some(*again),
        Exchange::Done(_) => None,
        Exchange::Refused(error, _) => panic!("{error}"),
    }
}

fn finish(rig: &mut Rig, preparation: Preparation) {
    let mut left = Some(preparation);
    while let Some(preparation) = left {
        left = advance(rig, preparation);
    }
}

/// Everything that a plugin can see in a cache.
fn contents(cache: &Cache, subscribed: &Subscribed) -> Vec<String> {
    let described = |object: &Arc<Object>| {
        let values: Vec<_> = object.indexed_values().collect();
        format!(
            "{} {} {values:?}",
            object.json(),
            object.view(subscribed.view)
        )
    };
    let mut all: Vec<String> = cache.list(None).map(described).collect();
    for value in 0..3 {
        for index in &subscribed.indexes {
            let value = value.to_string();
            all.extend(cache.list_by_index(*index, &value).map(described));
        }
    }
    let version = cache.resource_version().to_string();
    let synced = cache.is_synced(Detail::Full);
    let (bytes, stale, unreadable) = (cache.bytes(), cache.stale(), cache.unreadable());
    all.push(format!("{version} {synced} {bytes} {stale} {unreadable:?}"));
    all
}

fn caches(rig: &Rig, id: PluginId) -> Vec<Vec<String>> {
    let grants = rig.hub.controllers[&id].subscriptions().iter();
    grants
        .map(|(id, subscribed)| contents(&rig.hub.snapshot.informers[*id], subscribed))
        .collect()
}

/// Everything that can run now: plugin and key.
fn all_keys(rig: &mut Rig) -> BTreeSet<(String, SubjectKey)> {
    let reconciles = std::iter::from_fn(|| rig.take());
    reconciles
        .map(|reconcile| {
            (
                reconcile.held.plugin_name().to_owned(),
                reconcile.held.request.key.clone(),
            )
        })
        .collect()
}

#[derive(Clone, Debug)]
enum Step {
    Put(bool, u8, u8),
    Remove(bool, u8),
    Garble(bool, u8),
    Bookmark(bool),
    List(bool, Vec<u8>),
    /// Builds the preparation and tries to exchange it.
    Advance,
}

fn step() -> impl Strategy<Value = Step> {
    let (kind, name, label) = (any::<bool>(), 0u8..6, 0u8..3);
    prop_oneof![
        6 => (kind, name.clone(), label).prop_map(|(kind, name, label)| Step::Put(kind, name, label)),
        2 => (kind, name.clone()).prop_map(|(kind, name)| Step::Remove(kind, name)),
        1 => (kind, name.clone()).prop_map(|(kind, name)| Step::Garble(kind, name)),
        1 => kind.prop_map(Step::Bookmark),
        1 => (kind, prop::collection::vec(name, 0..6)).prop_map(|(kind, names)| Step::List(kind, names)),
        2 => Just(Step::Advance),
    ]
}

fn apply(rig: &mut Rig, step: &Step) {
    let kind = |is_pod: &bool| if *is_pod { pod() } else { service() };
    match step {
        Step::Put(is_pod, name, label) => {
            let label = format!(r#""app":"{label}""#);
            rig.put(&kind(is_pod), &name.to_string(), &label);
        }
        Step::Remove(is_pod, name) => rig.remove(&kind(is_pod), &name.to_string()),
        Step::Garble(is_pod, name) => {
            rig.version += 1;
            let delta = Delta::Unreadable(Unreadable {
                key: ObjectKey::new("default", &name.to_string()),
                resource_version: ResourceVersion::new(&rig.version.to_string()),
                reason: "garbled".into(),
            });
            let id = rig.id(&kind(is_pod));
            rig.hub.apply(id, delta, rig.now);
        }
        Step::Bookmark(is_pod) => {
            rig.version += 1;
            let version = ResourceVersion::new(&rig.version.to_string());
            let id = rig.id(&kind(is_pod));
            rig.hub.apply(id, Delta::Bookmark(version), rig.now);
        }
        Step::List(is_pod, names) => {
            let names: BTreeSet<_> = names.iter().collect();
            let objects = names
                .iter()
                .map(|name| rig.object(&kind(is_pod), &name.to_string(), ""));
            let listing = Listing {
                objects: objects.collect(),
                resource_version: ResourceVersion::new(&rig.version.to_string()),
                ..Listing::default()
            };
            let id = rig.id(&kind(is_pod));
            rig.hub.apply(id, Delta::Replace(listing), rig.now);
        }
        Step::Advance => {}
    }
}

proptest! {
    #[test]
    fn joining_while_everything_goes_on_is_as_joining_at_once(
        before in prop::collection::vec(step(), 0..30),
        meanwhile in prop::collection::vec(step(), 0..40),
        is_synced in any::<bool>(),
        is_replacement in any::<bool>(),
    ) {
        let (mut at_once, mut prepared) = (Rig::default(), Rig::default());
        let mut id = 0;
        let mut preparation = None;
        for (rig, is_prepared) in [(&mut at_once, false), (&mut prepared, true)] {
            let other = rig.join(manifest("other"), nothing);
            if is_synced {
                rig.sync(&service());
                rig.sync(&pod());
            }
            before.iter().for_each(|step| apply(rig, step));
            let settings = ControllerSettings::default();
            match (is_replacement, is_prepared) {
                (false, false) => id = rig.join(newcomer(), nothing),
                (false, true) => preparation = Some(prepare(rig, newcomer()).1),
                (true, false) => {
                    id = other;
                    rig.hub.replace(id, plugin(newcomer()), &settings, rig.now).unwrap();
                }
                (true, true) => {
                    let begun = rig.hub.prepare_replacement(other, plugin(newcomer()), &settings);
                    preparation = begun.ok();
                }
            }
        }
        for step in &meanwhile {
            apply(&mut at_once, step);
            apply(&mut prepared, step);
            if matches!(step, Step::Advance) {
                preparation = preparation.and_then(|preparation| advance(&mut prepared, preparation));
            }
        }
        if let Some(preparation) = preparation {
            finish(&mut prepared, preparation);
        }
        prop_assert_eq!(caches(&prepared, id), caches(&at_once, id));
        let (now, all) = (all_keys(&mut prepared), all_keys(&mut at_once));
        prop_assert!(now.is_subset(&all));
        // The exception: objects that were unreadable before and still are.
        let services = &prepared.hub.snapshot.informers[prepared.id(&service())];
        for (_, key) in all.difference(&now) {
            prop_assert!(services.get(key.object.parts()).is_none(), "{key:?}");
        }
    }
}

#[test]
fn a_plugin_that_joins_first_has_the_other_prepared_again() {
    let mut rig = Rig::with(manifest("p"), nothing);
    rig.put(&pod(), "a", r#""app":"0""#);
    let (id, preparation) = prepare(&mut rig, newcomer());
    let first = rig.join(
        Manifest {
            name: "first".into(),
            ..newcomer()
        },
        nothing,
    );
    let again =
        advance(&mut rig, preparation).expect("caches that have been cut otherwise meanwhile");
    finish(&mut rig, again);
    assert_eq!(caches(&rig, id), caches(&rig, first));
}

#[test]
fn of_two_plugins_of_one_name_the_one_that_is_ready_first_joins() {
    let mut rig = Rig::with(manifest("p"), nothing);
    let (_, mut preparation) = prepare(&mut rig, newcomer());
    rig.join(newcomer(), nothing);
    preparation.build(rig.now);
    let refused = rig.hub.exchange(preparation, rig.now);
    assert!(matches!(
        refused,
        Exchange::Refused(JoinError::DuplicateName(_), _)
    ));
}

#[test]
fn another_version_of_a_plugin_that_has_left_meanwhile_goes_with_it() {
    let mut rig = Rig::with(manifest("p"), nothing);
    let id = rig.join(newcomer(), nothing);
    let version = plugin(newcomer());
    let begun = rig
        .hub
        .prepare_replacement(id, version, &ControllerSettings::default());
    drop(rig.hub.leave(id));
    finish(&mut rig, begun.unwrap_or_else(|error| panic!("{error}")));
    let users = rig
        .hub
        .informers()
        .into_iter()
        .map(|informer| informer.users);
    assert!(users.eq([["p"], ["p"]]));
    assert_eq!(rig.hub.changelog.len(), 0);
}

#[test]
fn a_preparation_that_was_not_built_is_not_exchanged() {
    let mut rig = Rig::with(manifest("p"), nothing);
    let (id, preparation) = prepare(&mut rig, newcomer());
    let Exchange::Again(preparation) = rig.hub.exchange(preparation, rig.now) else {
        panic!("exchanged");
    };
    finish(&mut rig, *preparation);
    assert!(rig.hub.controllers.contains_key(&id));
}

#[test]
fn nothing_is_remembered_for_a_plugin_that_has_joined_or_was_refused() {
    let mut rig = Rig::with(manifest("p"), nothing);
    for is_draining in [false, true] {
        let name = format!("draining: {is_draining}");
        let (_, mut preparation) = prepare(&mut rig, Manifest { name, ..newcomer() });
        rig.put(&pod(), "a", "");
        rig.hub.is_draining = is_draining;
        preparation.build(rig.now);
        let exchange = rig.hub.exchange(preparation, rig.now);
        assert_eq!(matches!(exchange, Exchange::Refused(..)), is_draining);
        assert_eq!(rig.hub.changelog.len(), 0);
    }
}

#[test]
fn what_a_plugin_leaves_behind_is_cut_off_while_everything_goes_on() {
    let mut rig = Rig::with(manifest("p"), nothing);
    let pods = rig.id(&pod());
    rig.put(&pod(), "a", r#""app":"0""#);
    let bytes = |rig: &Rig| rig.hub.snapshot.informers[pods].bytes();
    let id = rig.join(newcomer(), nothing);
    let with_both = bytes(&rig);
    drop(rig.hub.leave(id));
    let preparation = rig
        .hub
        .prepare_trim()
        .expect("there is something to cut off");
    rig.put(&pod(), "b", r#""app":"0""#);
    finish(&mut rig, preparation);
    let values = |pod: &Arc<Object>| pod.indexed_values().count();
    let all = rig.hub.snapshot.informers[pods].list(None);
    assert_eq!(all.map(values).sum::<usize>(), 0);
    rig.remove(&pod(), "b");
    assert!(bytes(&rig) < with_both);
    assert!(rig.hub.prepare_trim().is_none());
}
