use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::cache::Delta;
use crate::model::detail::Detail;
use crate::model::informer_key::InformerKey;
use crate::model::key::Kind;
use crate::model::selector::Requirement;

const NAMESPACES: [&str; 3] = ["a", "b", "c"];
const KEYS: [&str; 4] = ["app", "env", "team", "tier"];
const VALUES: [&str; 3] = ["one", "two", ""];

type LabelTexts = BTreeMap<&'static str, &'static str>;

/// The objects as they should be: their labels by namespace and name.
type Model = BTreeMap<(&'static str, String), LabelTexts>;

/// An object with these labels, or one that is gone.
type Step = (&'static str, u8, Option<LabelTexts>);

fn labels() -> impl Strategy<Value = LabelTexts> {
    let label = (prop::sample::select(&KEYS[..]), value());
    prop::collection::btree_map(label.0, label.1, 0..=4)
}

fn value() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&VALUES[..])
}

fn step() -> impl Strategy<Value = Step> {
    let labels = prop::option::weighted(0.8, labels());
    (prop::sample::select(&NAMESPACES[..]), 0..60_u8, labels)
}

fn requirement() -> impl Strategy<Value = Requirement> {
    let key = || prop::sample::select(&KEYS[..]).prop_map(str::to_owned);
    let values = || {
        let value = value().prop_map(str::to_owned);
        prop::collection::vec(value, 1..=12)
    };
    prop_oneof![
        3 => (key(), value()).prop_map(|(key, value)| Requirement::Equals(key, value.to_owned())),
        2 => (key(), values()).prop_map(|(key, values)| Requirement::OneOf(key, values)),
        1 => (key(), values()).prop_map(|(key, values)| Requirement::NoneOf(key, values)),
        1 => key().prop_map(Requirement::Exists),
        1 => key().prop_map(Requirement::Absent),
    ]
}

/// What Kubernetes' documentation says of the operators.
fn holds(requirement: &Requirement, labels: &LabelTexts) -> bool {
    let have = |key: &String| labels.get(key.as_str());
    let is_among = |key, values: &[String]| {
        have(key).is_some_and(|have| values.iter().any(|value| value == have))
    };
    match requirement {
        Requirement::Equals(key, value) => have(key).is_some_and(|have| have == value),
        Requirement::OneOf(key, values) => is_among(key, values),
        Requirement::NoneOf(key, values) => !is_among(key, values),
        Requirement::Exists(key) => have(key).is_some(),
        Requirement::Absent(key) => have(key).is_none(),
    }
}

fn apply(cache: &mut Cache, model: &mut Model, version: usize, step: Step) {
    let (namespace, number, labels) = step;
    let name = format!("pod-{number}");
    let metadata = serde_json::json!({"metadata": {
        "namespace": namespace, "name": name, "uid": name,
        "resourceVersion": (version + 1).to_string(), "labels": labels.clone().unwrap_or_default(),
    }});
    let object = Object::parse(cache.kind(), &metadata.to_string(), cache.schema()).unwrap();
    match labels {
        Some(labels) => {
            cache.apply(Delta::Upsert(object));
            model.insert((namespace, name), labels);
        }
        None => {
            cache.apply(Delta::delete(&object));
            model.remove(&(namespace, name));
        }
    }
}

/// The keys of the objects in a list that come after this one.
fn listed(
    cache: &Cache,
    namespace: Option<&str>,
    filter: &Filter,
    after: Option<KeyRef<'_>>,
) -> Vec<(String, String)> {
    let candidates = candidates(cache, namespace, filter, after).flatten();
    let objects = candidates.filter(|object| filter.selects(object, namespace));
    let keys = objects.map(|object| object.key());
    keys.map(|key| (key.namespace.to_owned(), key.name.to_owned()))
        .collect()
}

proptest! {
    #[test]
    fn a_list_by_labels_has_what_a_look_at_every_object_finds(
        steps in prop::collection::vec(step(), 1..250),
        frozen_at in 0..250_usize,
        requirements in prop::collection::vec(requirement(), 0..4),
        namespace in prop::option::of(prop::sample::select(&NAMESPACES[..])),
        after in prop::option::of((prop::sample::select(&NAMESPACES[..]), 0..60_u8)),
    ) {
        let mut cache = Cache::new(InformerKey::all(Kind::new("", "v1", "Pod")));
        cache.join(&crate::cache::Subscription {
            detail: Detail::Full, fields: Vec::new(), indexes: Vec::new(), manager: None,
        });
        let mut model = Model::new();
        let mut frozen = (cache.clone(), model.clone());
        for (version, step) in steps.into_iter().enumerate() {
            if version == frozen_at {
                frozen = (cache.clone(), model.clone());
            }
            apply(&mut cache, &mut model, version, step);
        }
        let after = after.map(|(namespace, number)| (namespace, format!("pod-{number}")));
        let filter = Filter::Labels(LabelSelector { requirements: requirements.clone() });
        for (cache, model) in [(cache, model), frozen] {
            let is_after = |key: &(&str, String)| {
                let (namespace, name) = key;
                after.as_ref().is_none_or(|after| (*namespace, name) > (after.0, &after.1))
            };
            let found = model.iter().filter(|(key, labels)| {
                namespace.is_none_or(|namespace| namespace == key.0)
                    && is_after(key)
                    && requirements.iter().all(|requirement| holds(requirement, labels))
            });
            let expected: Vec<_> = found.map(|(key, _)| (key.0.to_owned(), key.1.clone())).collect();
            let after = after.as_ref().map(|(namespace, name)| KeyRef { namespace, name });
            prop_assert_eq!(listed(&cache, namespace, &filter, after), expected);
        }
    }
}
