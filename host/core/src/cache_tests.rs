use proptest::prelude::*;
use std::collections::BTreeMap;

use super::*;

fn path(text: &str) -> FieldPath {
    FieldPath::parse(text).unwrap()
}

fn pods() -> KindCache {
    let mut cache = KindCache::new(Kind::new("", "v1", "Pod"));
    cache.add(&[], &[vec![path(".spec.nodeName")]]);
    cache
}

fn pod(cache: &KindCache, name: &str, node: &str, version: u64) -> Object {
    let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
    let json = format!(
        r#"{{"metadata":{{"namespace":"{namespace}","name":"{name}","uid":"u-{name}","resourceVersion":"{version}"}},"spec":{{"nodeName":"{node}"}}}}"#
    );
    Object::parse(cache.kind(), &json, cache.schema()).unwrap()
}

fn replace(objects: Vec<Object>, version: &str) -> Delta {
    Delta::Replace(Listing {
        objects,
        resource_version: ResourceVersion::new(version),
        ..Listing::default()
    })
}

fn names<'a>(objects: impl Iterator<Item = &'a Arc<Object>>) -> Vec<String> {
    objects
        .map(|object| object.header.key.to_string())
        .collect()
}

#[test]
fn it_is_synced_by_the_first_complete_list_even_an_empty_one() {
    let mut cache = pods();
    let early = pod(&cache, "a", "n1", 1);
    cache.apply(Delta::Upsert(early));
    assert!(!cache.is_synced());
    cache.apply(replace(vec![], "5"));
    assert!(cache.is_synced() && cache.is_empty());
}

#[test]
fn a_replacement_first_deletes_what_is_gone_and_then_stores_in_list_order() {
    let mut cache = pods();
    let before = ["a", "b", "c"].map(|name| pod(&cache, name, "n1", 1));
    cache.apply(replace(before.into(), "3"));
    let after = vec![
        pod(&cache, "z", "n1", 5),
        pod(&cache, "b", "n1", 1),
        pod(&cache, "c", "n2", 6),
    ];
    let changes = cache.apply(replace(after, "6"));
    let what: Vec<_> = changes
        .iter()
        .map(|change| {
            (
                &*change.key().name,
                change.old.is_some(),
                change.new.is_some(),
            )
        })
        .collect();
    assert_eq!(
        what,
        [("a", true, false), ("z", false, true), ("c", true, true)],
        "b is as it was: no change"
    );
}

#[test]
fn indexes_follow_the_objects_and_leave_nothing_behind() {
    let mut cache = pods();
    let first = pod(&cache, "a", "n1", 1);
    cache.apply(Delta::Upsert(first));
    let moved = pod(&cache, "a", "n2", 2);
    cache.apply(Delta::Upsert(moved));
    assert_eq!(names(cache.list_by_index(0, "n2")), ["default/a"]);
    assert_eq!(cache.indexes[0].len(), 1, "the old value has no posting");
    let gone = pod(&cache, "a", "n2", 3);
    cache.apply(Delta::delete(&gone));
    assert!(cache.indexes[0].is_empty());
}

#[test]
fn an_index_added_later_holds_what_is_already_there() {
    let mut cache = pods();
    let object = pod(&cache, "a", "n1", 1);
    cache.apply(Delta::Upsert(object));
    let (_, by_name) = cache.add(&[], &[vec![path(".metadata.name")]]);
    assert_eq!(names(cache.list_by_index(by_name[0], "a")), ["default/a"]);
    assert_eq!(
        cache.add(&[], &[vec![path(".metadata.name")]]).1,
        by_name,
        "the same index is shared"
    );
}

#[test]
fn an_object_parsed_for_an_older_schema_is_cut_again() {
    let mut cache = pods();
    let object = pod(&cache, "a", "n1", 1);
    let (view, _) = cache.add(&[path(".spec.nodeName")], &[]);
    cache.apply(Delta::Upsert(object));
    let stored = cache.get(&ObjectKey::new("default", "a")).unwrap();
    assert_eq!(
        stored.view(view),
        r#"{"metadata":{"namespace":"default","name":"a","uid":"u-a"},"spec":{"nodeName":"n1"}}"#
    );
}

#[test]
fn a_namespace_lists_its_own_objects_in_order() {
    let mut cache = pods();
    for name in ["b/z", "a/y", "b/x", "bb/w"] {
        let object = pod(&cache, name, "n1", 1);
        cache.apply(Delta::Upsert(object));
    }
    assert_eq!(names(cache.list(Some("b"))), ["b/x", "b/z"]);
    assert_eq!(names(cache.list(None)), ["a/y", "b/x", "b/z", "bb/w"]);
}

#[test]
fn the_resource_version_advances_with_bookmarks_and_never_goes_back() {
    let mut cache = pods();
    cache.apply(replace(vec![], "100"));
    cache.apply(Delta::Bookmark(ResourceVersion::new("1000")));
    let late = pod(&cache, "a", "n1", 99);
    cache.apply(Delta::Upsert(late));
    assert_eq!(cache.resource_version().as_str(), "1000");
}

#[test]
fn a_clone_is_frozen() {
    let mut cache = pods();
    let object = pod(&cache, "a", "n1", 1);
    cache.apply(Delta::Upsert(object));
    let frozen = cache.clone();
    let gone = pod(&cache, "a", "n1", 2);
    cache.apply(Delta::delete(&gone));
    assert_eq!(
        (cache.len(), names(frozen.list_by_index(0, "n1")).len()),
        (0, 1)
    );
}

proptest! {
    /// The cache and its index against a plain map, over any sequence of deltas.
    #[test]
    fn objects_and_index_agree_with_a_plain_map(steps in proptest::collection::vec((0..5u8, 0..3u8, 0..4u8), 0..60)) {
        let mut cache = pods();
        let mut model: BTreeMap<String, String> = BTreeMap::new();
        for (version, (name, node, what)) in steps.into_iter().enumerate() {
            let (name, node) = (name.to_string(), node.to_string());
            let object = pod(&cache, &name, &node, version as u64 + 1);
            match what {
                0 => {
                    cache.apply(Delta::delete(&object));
                    model.remove(&name);
                }
                1 => {
                    cache.apply(replace(vec![object], &(version + 1).to_string()));
                    model = [(name, node)].into();
                }
                _ => {
                    cache.apply(Delta::Upsert(object));
                    model.insert(name, node);
                }
            }
        }
        let all: Vec<String> = model.keys().map(|name| format!("default/{name}")).collect();
        prop_assert_eq!(names(cache.list(None)), all);
        for node in ["0", "1", "2"] {
            let here = model.iter().filter(|(_, at)| *at == node).map(|(name, _)| format!("default/{name}"));
            prop_assert_eq!(names(cache.list_by_index(0, node)), here.collect::<Vec<_>>());
        }
        prop_assert_eq!(cache.indexes[0].len(), model.len());
    }
}
