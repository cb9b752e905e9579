use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::model::fields::FieldPath;

fn path(text: &str) -> FieldPath {
    FieldPath::parse(text).unwrap()
}

fn subscription(fields: &[&str], indexes: &[&str]) -> Subscription {
    Subscription {
        detail: Detail::Full,
        fields: fields.iter().copied().map(path).collect(),
        indexes: indexes.iter().map(|index| vec![path(index)]).collect(),
        manager: None,
    }
}

fn pods() -> Cache {
    let mut cache = Cache::new(InformerKey::all(Kind::new("", "v1", "Pod")));
    cache.join(&subscription(&[], &[".spec.nodeName"]));
    cache
}

fn pod(cache: &Cache, name: &str, node: &str, version: u64) -> Object {
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
    objects.map(|object| object.key().to_string()).collect()
}

fn get<'a>(cache: &'a Cache, name: &str) -> Option<&'a Arc<Object>> {
    cache.get(ObjectKey::new("default", name).parts())
}

/// The version of an object, if it is in the cache.
fn version(cache: &Cache, name: &str) -> Option<String> {
    get(cache, name).map(|object| object.resource_version().to_string())
}

#[test]
fn it_is_synced_by_the_first_complete_list_even_an_empty_one() {
    let mut cache = pods();
    let early = pod(&cache, "a", "n1", 1);
    cache.apply(Delta::Upsert(early));
    assert!(cache.is_initial());
    cache.apply(replace(vec![], "5"));
    assert!(cache.is_synced(Detail::Full) && cache.is_empty());
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
                change.key().name,
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
    assert_eq!(cache.objects.postings(0), 1, "the old value has no posting");
    let gone = pod(&cache, "a", "n2", 3);
    cache.apply(Delta::delete(&gone));
    assert_eq!(cache.objects.postings(0), 0);
}

#[test]
fn an_index_lists_all_of_many_objects_with_one_value() {
    let mut cache = pods();
    let objects = (0..1000).map(|number| {
        pod(
            &cache,
            &format!("p{number:04}"),
            &format!("n{}", number % 3),
            1,
        )
    });
    let objects = objects.collect();
    cache.apply(replace(objects, "1"));
    let counts = ["n0", "n1", "n2", "n3"].map(|node| cache.list_by_index(0, node).count());
    assert_eq!(counts, [334, 333, 333, 0]);
    let first: Vec<String> = names(cache.list_by_index(0, "n1").take(2));
    assert_eq!(first, ["default/p0001", "default/p0004"]);
}

#[test]
fn an_index_added_later_holds_what_is_already_there() {
    let mut cache = pods();
    let object = pod(&cache, "a", "n1", 1);
    cache.apply(Delta::Upsert(object));
    let subscribed = cache.join(&subscription(&[], &[".metadata.name"]));
    assert_eq!(
        names(cache.list_by_index(subscribed.indexes[0], "a")),
        ["default/a"]
    );
    assert_eq!(
        cache.join(&subscription(&[], &[".metadata.name"])),
        subscribed,
        "shared"
    );
}

#[test]
fn an_object_parsed_for_an_older_schema_is_cut_again() {
    let mut cache = pods();
    let object = pod(&cache, "a", "n1", 1);
    let subscribed = cache.join(&subscription(&[".spec.nodeName"], &[]));
    cache.apply(Delta::Upsert(object));
    assert_eq!(
        get(&cache, "a").unwrap().view(subscribed.view),
        r#"{"metadata":{"namespace":"default","name":"a","uid":"u-a"},"spec":{"nodeName":"n1"}}"#
    );
}

#[test]
fn a_namespace_lists_its_own_objects_in_order() {
    let mut cache = pods();
    for (name, version) in ["b/z", "a/y", "b/x", "bb/w"].into_iter().zip(1..) {
        let object = pod(&cache, name, "n1", version);
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
    assert_eq!(cache.resource_version().to_string(), "1000");
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

#[test]
fn what_is_older_than_the_cache_is_dropped_and_counted() {
    let mut cache = pods();
    let object = pod(&cache, "a", "n1", 30);
    cache.apply(replace(vec![object], "30"));
    let older = pod(&cache, "a", "n0", 5);
    assert!(cache.apply(Delta::Upsert(older)).is_empty());
    let older = pod(&cache, "a", "n0", 29);
    assert!(cache.apply(Delta::delete(&older)).is_empty());
    let older = pod(&cache, "a", "n0", 20);
    assert!(cache.apply(replace(vec![older], "20")).is_empty());
    assert!(cache.apply(replace(vec![], "29")).is_empty());
    assert_eq!(
        (version(&cache, "a").as_deref(), cache.stale()),
        (Some("30"), 4)
    );
}

#[test]
fn a_deleted_object_does_not_rise_again() {
    let mut cache = pods();
    let object = pod(&cache, "a", "n1", 5);
    cache.apply(replace(vec![object], "5"));
    cache.apply(Delta::Delete {
        key: ObjectKey::new("default", "a"),
        resource_version: ResourceVersion::new("9"),
    });
    for replayed in [5, 8, 9] {
        let object = pod(&cache, "a", "n1", replayed);
        cache.apply(Delta::Upsert(object));
        assert!(cache.is_empty(), "at {replayed}");
    }
    let again = pod(&cache, "a", "n1", 10);
    cache.apply(Delta::Upsert(again));
    assert_eq!(version(&cache, "a").as_deref(), Some("10"), "made anew");
}

#[test]
fn a_server_that_was_rolled_back_is_believed() {
    let mut cache = pods();
    let objects = vec![pod(&cache, "a", "n1", 30), pod(&cache, "b", "n1", 31)];
    cache.apply(replace(objects, "31"));
    let objects = vec![pod(&cache, "a", "n1", 12)];
    let changes = cache.apply(Delta::Replace(Listing {
        objects,
        resource_version: ResourceVersion::new("15"),
        is_rollback: true,
        ..Listing::default()
    }));
    assert_eq!(changes.len(), 2);
    assert_eq!(
        changes.iter().filter(|change| change.goes_back()).count(),
        1
    );
    assert_eq!(version(&cache, "a").as_deref(), Some("12"));
    assert!(get(&cache, "b").is_none());
    let next = pod(&cache, "a", "n2", 16);
    cache.apply(Delta::Upsert(next));
    assert_eq!(version(&cache, "a").as_deref(), Some("16"));
}

#[test]
fn after_a_rollback_the_same_version_may_stand_for_another_state() {
    let mut cache = pods();
    let objects = || ["a", "b"].map(|name| (name, "n1"));
    let listing = |cache: &Cache, objects: [(&str, &str); 2]| Listing {
        objects: objects
            .map(|(name, node)| pod(cache, name, node, 30))
            .into(),
        resource_version: ResourceVersion::new("31"),
        is_rollback: true,
        ..Listing::default()
    };
    let first = listing(&cache, objects());
    cache.apply(Delta::Replace(first));
    let second = listing(&cache, [("a", "n1"), ("b", "n2")]);
    let changes = cache.apply(Delta::Replace(second));
    let changed: Vec<_> = changes.iter().map(|change| change.key().name).collect();
    assert_eq!(
        changed,
        ["b"],
        "version 30 of the lost time and of this one"
    );
}

#[test]
fn a_restored_server_whose_versions_go_on_is_believed_object_by_object() {
    let mut cache = pods();
    let object = pod(&cache, "a", "n1", 30);
    cache.apply(replace(vec![object], "30"));
    let restored = pod(&cache, "a", "n0", 12);
    assert_eq!(cache.apply(replace(vec![restored], "1000030")).len(), 1);
    assert_eq!(version(&cache, "a").as_deref(), Some("12"));
}

#[test]
fn an_object_read_ahead_of_the_watch_stays_until_the_watch_is_past_it() {
    let mut cache = pods();
    let object = pod(&cache, "a", "n1", 5);
    cache.apply(replace(vec![object], "5"));
    for name in ["a", "b"] {
        let ahead = pod(&cache, name, "ahead", 9);
        assert!(cache.overlay(ahead).is_some());
    }
    assert_eq!(
        cache.resource_version().to_string(),
        "5",
        "what is between is still to come"
    );
    let between = pod(&cache, "a", "n1", 7);
    assert!(cache.apply(Delta::Upsert(between)).is_empty());
    let listed = pod(&cache, "a", "n1", 7);
    assert!(
        cache.apply(replace(vec![listed], "8")).is_empty(),
        "b is newer than the list"
    );
    assert_eq!(version(&cache, "a").as_deref(), Some("9"));
    cache.apply(replace(vec![], "10"));
    assert!(cache.is_empty());
    let behind = pod(&cache, "a", "n1", 9);
    assert!(cache.overlay(behind).is_none(), "the watch is past it");
}

#[test]
fn an_object_that_cannot_be_read_is_not_served_as_it_was() {
    let mut cache = pods();
    let object = pod(&cache, "a", "n1", 5);
    cache.apply(replace(vec![object], "5"));
    let unreadable = |version: &str| Unreadable {
        key: ObjectKey::new("default", "a"),
        resource_version: ResourceVersion::new(version),
        reason: "broken".into(),
    };
    let changes = cache.apply(Delta::Unreadable(unreadable("6")));
    assert!(changes[0].new.is_none() && get(&cache, "a").is_none());
    assert_eq!(cache.unreadable().len(), 1);
    let readable = pod(&cache, "a", "n1", 7);
    cache.apply(Delta::Upsert(readable));
    assert!(cache.unreadable().is_empty() && get(&cache, "a").is_some());
    cache.apply(Delta::Unreadable(unreadable("8")));
    cache.apply(Delta::Bookmark(ResourceVersion::new("20")));
    let read_later = pod(&cache, "a", "n1", 8);
    assert_eq!(
        cache.apply(Delta::Read(read_later)).len(),
        1,
        "though the cache is past it"
    );
    assert!(cache.unreadable().is_empty());
    cache.apply(Delta::Replace(Listing {
        unreadable: vec![unreadable("21")],
        resource_version: ResourceVersion::new("21"),
        ..Listing::default()
    }));
    assert!(cache.is_empty() && cache.unreadable().len() == 1);
    cache.apply(replace(vec![], "22"));
    assert!(cache.unreadable().is_empty(), "it is gone");
}

#[test]
fn who_turns_unreadable_or_back_is_known() {
    let mut cache = pods();
    let unreadable = |version: &str| Unreadable {
        key: ObjectKey::new("default", "a"),
        resource_version: ResourceVersion::new(version),
        reason: "broken".into(),
    };
    cache.apply(Delta::Unreadable(unreadable("6")));
    assert_eq!(cache.take_turned(), [ObjectKey::new("default", "a")]);
    cache.apply(Delta::Unreadable(unreadable("7")));
    assert!(cache.take_turned().is_empty(), "it still is");
    cache.apply(replace(vec![], "8"));
    assert_eq!(cache.take_turned().len(), 1, "gone");
    cache.apply(Delta::Replace(Listing {
        unreadable: vec![unreadable("9")],
        resource_version: ResourceVersion::new("9"),
        ..Listing::default()
    }));
    assert_eq!(cache.take_turned().len(), 1);
    cache.apply(Delta::Delete {
        key: ObjectKey::new("default", "a"),
        resource_version: ResourceVersion::new("10"),
    });
    assert_eq!(cache.take_turned().len(), 1, "deleted");
}

#[test]
fn a_deletion_at_the_objects_own_version_is_taken_and_one_that_comes_again_is_none() {
    let gone = |version: &str| Delta::Delete {
        key: ObjectKey::new("default", "a"),
        resource_version: ResourceVersion::new(version),
    };
    let mut cache = pods();
    let object = pod(&cache, "a", "n1", 5);
    cache.apply(replace(vec![object], "5"));
    assert_eq!(
        cache.apply(gone("5")).len(),
        1,
        "as aggregated servers say it"
    );
    assert!(
        cache.apply(gone("5")).is_empty(),
        "a watch has brought it once more"
    );
    assert_eq!(cache.stale(), 0, "which is no fault of the server");
    let again = pod(&cache, "a", "n1", 7);
    cache.apply(Delta::Upsert(again));
    assert!(cache.apply(gone("5")).is_empty());
    cache.apply(Delta::Bookmark(ResourceVersion::new("8")));
    assert!(
        cache.apply(gone("8")).is_empty(),
        "another one of this name is older"
    );
    assert_eq!(version(&cache, "a").as_deref(), Some("7"));
}

#[test]
fn opaque_versions_are_taken_as_they_come() {
    let mut cache = pods();
    for version in ["zeta", "alpha"] {
        cache.apply(Delta::Bookmark(ResourceVersion::new(version)));
        assert_eq!(cache.resource_version().to_string(), version);
    }
}

#[test]
fn what_only_one_plugin_needed_goes_with_it() {
    let mut cache = pods();
    let first = cache.join(&subscription(&[".spec.nodeName"], &[".metadata.name"]));
    let second = cache.join(&subscription(&[".spec.nodeName"], &[".metadata.uid"]));
    assert_eq!(first.view, second.view, "shared");
    let object = pod(&cache, "a", "n1", 1);
    cache.apply(Delta::Upsert(object));
    let both = cache.bytes();
    cache.leave(&first);
    cache.trim();
    assert_eq!(cache.objects.postings(first.indexes[0]), 0);
    assert!(!get(&cache, "a").unwrap().view(second.view).is_empty());
    assert_eq!(
        names(cache.list_by_index(second.indexes[0], "u-a")),
        ["default/a"]
    );
    cache.leave(&second);
    assert!(cache.is_loose());
    cache.trim();
    assert!(cache.bytes() < both && !cache.is_loose());
    let third = cache.join(&subscription(&[".metadata.name"], &[]));
    assert_eq!(third.view, first.view, "the place is used again");
}

#[test]
fn it_is_synced_for_a_plugin_once_a_list_has_brought_enough_of_each_object() {
    let mut cache = Cache::new(InformerKey::all(Kind::new("", "v1", "Pod")));
    let metadata = Subscription {
        detail: Detail::Metadata,
        ..subscription(&[".metadata"], &[])
    };
    cache.join(&metadata);
    assert_eq!(cache.schema().detail(), Detail::Metadata);
    let object = pod(&cache, "a", "n1", 5);
    cache.apply(Delta::Replace(Listing {
        objects: vec![object],
        resource_version: ResourceVersion::new("5"),
        extent: Detail::Metadata.into(),
        ..Listing::default()
    }));
    assert!(cache.is_synced(Detail::Metadata) && !cache.is_synced(Detail::Full));
    let full = cache.join(&subscription(&[".spec"], &[]));
    assert_eq!(cache.schema().detail(), Detail::Full);
    let same = pod(&cache, "a", "n1", 5);
    assert_eq!(
        cache.apply(replace(vec![same], "5")).len(),
        1,
        "there is more of it now"
    );
    assert!(cache.is_synced(Detail::Full));
    assert!(get(&cache, "a").unwrap().json().contains("nodeName"));
    cache.leave(&full);
    assert_eq!(cache.schema().detail(), Detail::Metadata);
    let full = cache.join(&subscription(&[".spec"], &[]));
    assert!(
        !cache.is_synced(full.detail),
        "what came meanwhile may have been less"
    );
    let partial = Schema::new(1, Detail::Metadata, vec![None], vec![]);
    let late = Object::parse(
        cache.kind(),
        r#"{"metadata":{"name":"b","resourceVersion":"6"}}"#,
        &partial,
    );
    cache.apply(replace(vec![late.unwrap()], "6"));
    assert!(
        !cache.is_synced(full.detail),
        "the list was on its way before"
    );
}

#[test]
fn the_bytes_are_those_of_the_objects() {
    let mut cache = pods();
    for (name, version) in [("a", 1), ("b", 2), ("a", 3)] {
        let object = pod(&cache, name, "n1", version);
        cache.apply(Delta::Upsert(object));
    }
    let sizes = cache.list(None).map(|object| object.size());
    assert_eq!(cache.bytes(), sizes.sum::<usize>());
    cache.apply(replace(vec![], "4"));
    assert_eq!(cache.bytes(), 0);
}

proptest! {
    /// Compares the cache and its index with a plain map, over any sequence of deltas.
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
            let here: Vec<String> = here.collect();
            prop_assert_eq!(names(cache.list_by_index(0, node)), here.clone());
            for object in cache.list_by_index(0, node) {
                let after = names(cache.list_by_index_after(0, node, Some(object.key())));
                let at = here.iter().position(|name| *name == object.key().to_string());
                prop_assert_eq!(&after, &here[at.unwrap() + 1..]);
            }
        }
        prop_assert_eq!(cache.objects.postings(0), model.len());
    }

    /// Whatever old deltas arrive in between, no object's version ever decreases, and a deleted
    /// object stays deleted.
    #[test]
    fn the_cache_never_goes_back(steps in proptest::collection::vec((0..4u8, 0..3u8, 1..40u64), 0..80)) {
        let mut cache = pods();
        let mut seen: BTreeMap<String, u64> = BTreeMap::new();
        for (name, what, at) in steps {
            let name = name.to_string();
            let object = pod(&cache, &name, "n", at);
            let delta = match what {
                0 => Delta::delete(&object),
                1 => replace(vec![object], &at.to_string()),
                _ => Delta::Upsert(object),
            };
            for change in cache.apply(delta) {
                let known = seen.entry(change.key().name.to_owned()).or_default();
                if let Some(new) = &change.new {
                    let new = new.resource_version().last_digits();
                    prop_assert!(new >= *known, "{new} after {known}");
                }
                *known = at.max(*known);
            }
        }
    }
}

#[test]
fn of_two_objects_of_one_name_that_are_gone_neither_rises_again() {
    let state = |cache: &Cache, uid: &str, version: u64| {
        let json = format!(
            r#"{{"metadata":{{"namespace":"default","name":"a","uid":"{uid}","resourceVersion":"{version}"}}}}"#
        );
        Object::parse(cache.kind(), &json, cache.schema()).unwrap()
    };
    let key = ObjectKey::new("default", "a");
    let mut cache = pods();
    let first = state(&cache, "first", 40);
    cache.apply(replace(vec![first], "50"));
    // The watch is late. On the server the first object was deleted at 60, and the second was
    // created at 70 and deleted at 120.
    cache.overlay_gone(&key, None);
    let second = state(&cache, "second", 70);
    cache.apply(Delta::Read(second));
    cache.overlay_gone(&key, None);
    let late = state(&cache, "first", 55);
    let late = [
        Delta::Upsert(late),
        Delta::Delete {
            key: key.clone(),
            resource_version: ResourceVersion::new("60"),
        },
        Delta::Upsert(state(&cache, "second", 70)),
        Delta::Upsert(state(&cache, "second", 80)),
    ];
    for delta in late {
        let text = format!("{delta:?}");
        assert!(cache.apply(delta).is_empty(), "{text}");
        assert!(cache.is_empty(), "{text}");
    }
    cache.apply(Delta::Delete {
        key,
        resource_version: ResourceVersion::new("120"),
    });
    let third = state(&cache, "third", 130);
    cache.apply(Delta::Upsert(third));
    assert_eq!(version(&cache, "a").as_deref(), Some("130"));
}

#[test]
fn a_list_from_before_an_object_was_made_says_nothing_of_its_end() {
    let mut cache = pods();
    let made = pod(&cache, "a", "n1", 70);
    cache.apply(replace(vec![], "50"));
    cache.apply(Delta::Read(made));
    cache.overlay_gone(&ObjectKey::new("default", "a"), None);
    cache.apply(replace(vec![], "60"));
    let late = pod(&cache, "a", "n1", 70);
    cache.apply(Delta::Upsert(late));
    assert!(cache.is_empty());
    cache.apply(replace(vec![], "130"));
    assert!(cache.gone.is_empty(), "the list is past its end");
}
