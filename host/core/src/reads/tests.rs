use proptest::prelude::*;

use super::*;
use crate::cache::{Cache, Delta, Subscription};
use crate::model::detail::Detail;
use crate::model::fields::FieldPath;
use crate::model::informer_key::InformerKey;
use crate::model::key::Kind;
use crate::model::object::{Object, ViewId};
use crate::model::selector::{LabelSelector, Requirement};

const PODS: InformerId = InformerId::first_at(0);
const OTHER: InformerId = InformerId::first_at(1);

fn path(text: &str) -> FieldPath {
    FieldPath::parse(text).unwrap()
}

/// Pods seen through `.spec`, with one index: the node on which they run.
fn pods() -> Cache {
    let mut pods = Cache::new(InformerKey::all(Kind::new("", "v1", "Pod")));
    let subscribed = pods.join(&Subscription {
        detail: Detail::Full,
        fields: vec![path(".spec")],
        indexes: vec![vec![path(".spec.nodeName")]],
        manager: None,
    });
    assert_eq!((subscribed.view, subscribed.indexes), (VIEW, vec![0]));
    pods
}

const VIEW: ViewId = Some(0);

/// Where the changes of Pods come from.
fn of_pods() -> Origin<'static> {
    Origin::of(PODS, VIEW)
}

#[derive(Clone, Debug, Default)]
struct Pod {
    namespace: &'static str,
    name: &'static str,
    app: Option<&'static str>,
    node: &'static str,
    phase: &'static str,
}

impl Pod {
    fn object(&self, cache: &Cache, version: u64) -> Object {
        let labels = self
            .app
            .map_or_else(|| "{}".to_owned(), |app| format!(r#"{{"app":"{app}"}}"#));
        let json = format!(
            r#"{{"metadata":{{"namespace":"{}","name":"{}","uid":"u","resourceVersion":"{version}","labels":{labels}}},"spec":{{"nodeName":"{}"}},"status":{{"phase":"{}"}}}}"#,
            self.namespace, self.name, self.node, self.phase
        );
        Object::parse(cache.kind(), &json, cache.schema()).unwrap()
    }
}

fn a_pod() -> Pod {
    Pod {
        namespace: "one",
        name: "a",
        app: Some("web"),
        node: "n1",
        phase: "Pending",
    }
}

fn change(old: Option<&Pod>, new: Option<&Pod>) -> Change {
    let cache = pods();
    let object = |pod: &Pod, version| Arc::new(pod.object(&cache, version));
    Change {
        old: old.map(|pod| object(pod, 1)),
        new: new.map(|pod| object(pod, 2)),
    }
}

fn reader() -> SubjectKey {
    key("reader")
}

fn key(name: &str) -> SubjectKey {
    SubjectKey {
        object: ObjectKey::new("one", name),
        ..SubjectKey::singleton()
    }
}

fn labels(requirement: Requirement) -> Filter {
    Filter::Labels(LabelSelector {
        requirements: vec![requirement],
    })
}

fn app_is(value: &str) -> Filter {
    labels(Requirement::Equals("app".into(), value.into()))
}

fn list(filter: Filter) -> Read {
    Read::list(PODS, Some("one".into()), filter)
}

/// True if the change wakes a key that made this read.
fn wakes(read: Read, change: &Change) -> bool {
    let mut sets = ReadSets::default();
    sets.set(&reader(), [read].into());
    let touched = sets.touched(of_pods(), &change.key().to_key(), change);
    touched.keys.contains(&&reader())
}

#[test]
fn a_get_is_touched_by_its_object_and_no_other() {
    let read = |name| Read::Object(PODS, ObjectKey::new("one", name));
    assert!(
        wakes(read("a"), &change(None, Some(&a_pod()))),
        "also when it found nothing"
    );
    assert!(wakes(read("a"), &change(Some(&a_pod()), None)));
    assert!(!wakes(read("b"), &change(None, Some(&a_pod()))));
}

#[test]
fn a_change_outside_of_the_view_touches_nothing() {
    let running = Pod {
        phase: "Running",
        ..a_pod()
    };
    let moved = Pod {
        node: "n2",
        ..a_pod()
    };
    let read = || Read::Object(PODS, ObjectKey::new("one", "a"));
    assert!(!wakes(read(), &change(Some(&a_pod()), Some(&running))));
    assert!(wakes(read(), &change(Some(&a_pod()), Some(&moved))));
}

#[test]
fn a_list_is_touched_by_its_namespace_only() {
    let elsewhere = Pod {
        namespace: "two",
        ..a_pod()
    };
    assert!(wakes(
        list(Filter::Everything),
        &change(None, Some(&a_pod()))
    ));
    assert!(!wakes(
        list(Filter::Everything),
        &change(None, Some(&elsewhere))
    ));
    assert!(wakes(
        Read::list(PODS, None, Filter::Everything),
        &change(None, Some(&elsewhere))
    ));
}

#[test]
fn a_label_list_is_touched_by_what_enters_and_what_leaves() {
    let other = Pod {
        app: Some("db"),
        ..a_pod()
    };
    assert!(
        wakes(list(app_is("web")), &change(Some(&other), Some(&a_pod()))),
        "enters, though labels are outside of the view"
    );
    assert!(
        wakes(list(app_is("web")), &change(Some(&a_pod()), Some(&other))),
        "leaves"
    );
    assert!(!wakes(
        list(app_is("cache")),
        &change(Some(&a_pod()), Some(&other))
    ));
}

#[test]
fn a_label_list_without_an_equality_is_found_too() {
    let plain = Pod {
        app: None,
        ..a_pod()
    };
    let absent = || labels(Requirement::Absent("app".into()));
    assert!(wakes(list(absent()), &change(Some(&a_pod()), Some(&plain))));
    assert!(!wakes(list(absent()), &change(None, Some(&a_pod()))));
    let one_of = || {
        labels(Requirement::OneOf(
            "app".into(),
            vec!["db".into(), "web".into()],
        ))
    };
    assert!(wakes(list(one_of()), &change(None, Some(&a_pod()))));
}

#[test]
fn an_index_list_is_touched_by_what_enters_and_what_leaves() {
    let moved = Pod {
        node: "n2",
        ..a_pod()
    };
    for node in ["n1", "n2"] {
        assert!(
            wakes(
                list(Filter::Index(0, node.into())),
                &change(Some(&a_pod()), Some(&moved))
            ),
            "{node}"
        );
    }
    assert!(!wakes(
        list(Filter::Index(0, "n3".into())),
        &change(Some(&a_pod()), Some(&moved))
    ));
}

#[test]
fn a_failed_run_adds_to_the_reads_and_a_good_one_replaces_them() {
    let mut sets = ReadSets::default();
    let appears = change(None, Some(&a_pod()));
    sets.set(&reader(), [list(app_is("web"))].into());
    sets.join(&reader(), [list(app_is("db"))].into());
    assert!(
        sets.touched(of_pods(), &appears.key().to_key(), &appears)
            .keys
            .contains(&&reader())
    );
    sets.set(&reader(), [list(app_is("db"))].into());
    assert!(
        sets.touched(of_pods(), &appears.key().to_key(), &appears)
            .keys
            .is_empty()
    );
}

#[test]
fn reads_that_a_failing_key_has_made_before_cost_nothing() {
    let mut sets = ReadSets::default();
    let all = [list(app_is("web")), list(Filter::Index(0, "n1".into()))];
    sets.set(&reader(), all.clone().into());
    let recorded = |sets: &ReadSets| sets.reads_of[&reader()].as_ptr();
    let before = recorded(&sets);
    sets.join(&reader(), all.clone().into());
    sets.join(&reader(), [all[1].clone()].into());
    assert_eq!(recorded(&sets), before, "not recorded anew");
    sets.join(&reader(), [list(Filter::Everything)].into());
    assert_eq!(sets.len(), 3);
    let before = recorded(&sets);
    sets.join(&reader(), [list(app_is("db"))].into());
    assert_eq!(recorded(&sets), before, "all objects include these");
    let applied = Read::Applied(PODS, reader().object, Side::Main);
    sets.join(&reader(), [applied.clone()].into());
    assert!(sets.of(&reader()).any(|read| *read == applied));
}

#[test]
fn cleared_reads_leave_nothing_behind() {
    let mut sets = ReadSets::default();
    let reads = [
        list(app_is("web")),
        list(labels(Requirement::Absent("x".into()))),
        list(Filter::Index(0, "n1".into())),
        list(Filter::Everything),
    ];
    sets.set(&reader(), reads.into());
    sets.clear(&reader());
    assert!(
        sets.readers.is_empty()
            && sets.anchored.is_empty()
            && sets.unanchored.is_empty()
            && sets.indexed.is_empty()
            && sets.is_empty()
    );
}

fn any_pod() -> impl Strategy<Value = Pod> {
    let namespace = prop_oneof![Just("one"), Just("two")];
    let name = prop_oneof![Just("a"), Just("b")];
    let app = prop_oneof![Just(None), Just(Some("web")), Just(Some("db"))];
    let node = prop_oneof![Just("n1"), Just("n2")];
    let phase = prop_oneof![Just("Pending"), Just("Running")];
    (namespace, name, app, node, phase).prop_map(|(namespace, name, app, node, phase)| Pod {
        namespace,
        name,
        app,
        node,
        phase,
    })
}

fn any_read() -> impl Strategy<Value = Read> {
    let object = (
        prop_oneof![Just("one"), Just("two")],
        prop_oneof![Just("a"), Just("b")],
    )
        .prop_map(|(namespace, name)| Read::Object(PODS, ObjectKey::new(namespace, name)));
    let filter = prop_oneof![
        Just(Filter::Everything),
        Just(app_is("web")),
        Just(labels(Requirement::NoneOf(
            "app".into(),
            vec!["web".into()]
        ))),
        Just(labels(Requirement::OneOf(
            "app".into(),
            vec!["web".into(), "db".into()]
        ))),
        Just(labels(Requirement::Exists("app".into()))),
        Just(Filter::Index(0, "n1".into())),
    ];
    let namespace = prop_oneof![Just(None), Just(Some("one"))];
    let list = (namespace, filter)
        .prop_map(|(namespace, filter)| Read::list(PODS, namespace.map(Arc::from), filter));
    prop_oneof![object, list]
}

/// The read's answer, found by examining every object.
fn answer(cache: &Cache, read: &Read) -> Vec<String> {
    let members = cache
        .list(None)
        .filter(|object| read.has(object, of_pods()));
    members.map(|object| object.view(VIEW).to_owned()).collect()
}

proptest! {
    /// A read is touched exactly if repeating it would give another answer.
    #[test]
    fn a_read_is_touched_exactly_when_its_answer_changes(
        pods_before in proptest::collection::vec(any_pod(), 0..4),
        upsert in any_pod(),
        is_delete in any::<bool>(),
        read in any_read(),
    ) {
        let mut cache = pods();
        for (version, pod) in pods_before.iter().enumerate() {
            let object = pod.object(&cache, version as u64 + 1);
            cache.apply(Delta::Upsert(object));
        }
        let before = answer(&cache, &read);
        let object = upsert.object(&cache, 100);
        let delta = if is_delete { Delta::delete(&object) } else { Delta::Upsert(object) };
        let changes = cache.apply(delta);
        let changed = before != answer(&cache, &read);
        let woken = changes.iter().any(|change| wakes(read.clone(), change));
        prop_assert_eq!(changed, woken);
    }
}

#[test]
fn who_applied_an_object_is_told_of_drift_on_that_side_of_it_whatever_it_sees() {
    let mut sets = ReadSets::default();
    let pod = ObjectKey::new("one", "a");
    let applied = |side| BTreeSet::from([Read::Applied(PODS, pod.clone(), side)]);
    let (of_spec, of_status) = (key("x"), key("y"));
    sets.set(&of_spec, applied(Side::Main));
    sets.set(&of_status, applied(Side::Status));
    let drifted = |change: &Change| -> Vec<String> {
        let keys = sets.drifted(PODS, &pod, change).into_iter();
        keys.map(|key| key.object.name.to_string()).collect()
    };
    let moved = Pod {
        node: "n2",
        ..a_pod()
    };
    let ready = Pod {
        phase: "Running",
        ..a_pod()
    };
    assert_eq!(drifted(&change(Some(&a_pod()), Some(&moved))), ["x"]);
    assert_eq!(drifted(&change(Some(&a_pod()), Some(&ready))), ["y"]);
    assert_eq!(drifted(&change(Some(&a_pod()), None)), ["x", "y"]);
    let relabelled = Pod {
        app: None,
        ..a_pod()
    };
    assert_eq!(drifted(&change(Some(&a_pod()), Some(&relabelled))), ["x"]);
    assert!(
        sets.touched(of_pods(), &pod, &change(Some(&a_pod()), Some(&moved)))
            .keys
            .is_empty()
    );
}

/// A change of an object with this many labels: `l0` and so on.
fn labelled(count: usize) -> Change {
    let cache = pods();
    let labels: Vec<String> = (0..count)
        .map(|number| format!(r#""l{number}":"v""#))
        .collect();
    let json = format!(
        r#"{{"metadata":{{"namespace":"one","name":"a","resourceVersion":"1","labels":{{{}}}}}}}"#,
        labels.join(",")
    );
    let object = Object::parse(cache.kind(), &json, cache.schema()).unwrap();
    Change {
        old: None,
        new: Some(Arc::new(object)),
    }
}

#[test]
fn one_change_is_compared_so_often_and_then_touches_what_is_left() {
    let mut sets = ReadSets::default();
    let selected = |number: usize, more: usize| {
        let none = Requirement::NoneOf("l1".into(), vec!["v".into()]);
        let label = Requirement::Equals(format!("l{}", number % 100), "v".into());
        let no = (0..more).map(|more| Requirement::Absent(format!("k{number}-{more}")));
        let requirements = [label].into_iter().chain(no).chain([none]).collect();
        list(Filter::Labels(LabelSelector { requirements }))
    };
    let key = |number: usize| key(&number.to_string());
    for number in 0..100 {
        sets.set(&key(number), [selected(number, 90)].into());
    }
    let change = labelled(100);
    let at = change.key().to_key();
    let few = sets.touched(of_pods(), &at, &change);
    assert!(few.keys.is_empty(), "none is selected");
    assert!(
        (9_000..=COMPARISONS).contains(&few.comparisons),
        "{}",
        few.comparisons
    );
    for number in 100..1_000 {
        sets.set(&key(number), [selected(number, 90)].into());
    }
    let many = sets.touched(of_pods(), &at, &change);
    assert!((COMPARISONS - 100..=COMPARISONS).contains(&many.comparisons));
    let compared = many.comparisons / 93;
    assert_eq!(many.keys.len(), 1_000 - compared);
}

#[test]
fn what_no_label_leads_to_is_bounded_by_its_conditions() {
    let mut sets = ReadSets::default();
    let none_of = |number: usize| {
        let values = (0..1_000).map(|value| format!("{number}-{value}"));
        list(labels(Requirement::NoneOf("app".into(), values.collect())))
    };
    for number in 0..10 {
        let key = key(&number.to_string());
        sets.set(&key, [none_of(number)].into());
    }
    assert_eq!(sets.coarse(), 6);
}

#[test]
fn indexed_values_that_nobody_asks_for_are_not_looked_for() {
    let mut sets = ReadSets::default();
    let appears = change(None, Some(&a_pod()));
    let at = appears.key().to_key();
    let compared = |sets: &ReadSets| sets.touched(of_pods(), &at, &appears).comparisons;
    sets.set(&reader(), [list(app_is("db"))].into());
    let without = compared(&sets);
    let index = list(Filter::Index(0, "n1".into()));
    let everywhere = Read::list(PODS, None, Filter::Index(0, "n1".into()));
    sets.set(&reader(), [index, everywhere].into());
    let touched = sets.touched(of_pods(), &at, &appears);
    assert!(touched.keys.contains(&&reader()));
    assert!(touched.comparisons > without);
}

#[test]
fn what_a_run_has_missed_is_looked_up_and_not_searched() {
    let names =
        (0..10_000).map(|read| Read::Object(PODS, ObjectKey::new("one", &format!("r{read}"))));
    let other = Read::list(OTHER, None, Filter::Everything);
    let mut reads: BTreeSet<Read> = names.chain([other]).collect();
    let appears = change(None, Some(&a_pod()));
    let sight = || Sight::new(&appears, of_pods());
    let mut left = 10;
    assert_eq!(touches_any(&reads, &sight(), &mut left), Some(false));
    assert_eq!(left, 7);
    reads.insert(list(app_is("web")));
    assert_eq!(touches_any(&reads, &sight(), &mut left), Some(true));
    assert_eq!(touches_any(&reads, &sight(), &mut left), None, "too much");
}

#[test]
fn one_label_in_many_namespaces_is_many_labels() {
    let mut sets = ReadSets::default();
    for number in 0..OF_LABEL + 10 {
        let namespace = format!("n{number}");
        let read = Read::list(PODS, Some(namespace.as_str().into()), app_is("web"));
        let key = SubjectKey {
            object: ObjectKey::new(&namespace, "reader"),
            ..SubjectKey::singleton()
        };
        sets.set(&key, [read].into());
    }
    assert_eq!(sets.coarse(), 0);
    let change = change(None, Some(&a_pod()));
    assert!(
        wakes(Read::list(PODS, None, app_is("web")), &change),
        "anywhere"
    );
}

#[test]
fn a_selector_of_very_many_values_has_no_handle_for_each() {
    let values = |count: usize| {
        (0..count)
            .map(|value| value.to_string())
            .chain(["web".into()])
    };
    let one_of = |count| {
        list(labels(Requirement::OneOf(
            "app".into(),
            values(count).collect(),
        )))
    };
    let mut sets = ReadSets::default();
    sets.set(&reader(), [one_of(63), one_of(999)].into());
    assert_eq!(sets.anchored.len(), 64);
    assert!(wakes(one_of(999), &change(None, Some(&a_pod()))));
}

#[test]
fn a_run_that_asks_the_same_again_changes_nothing() {
    let mut sets = ReadSets::default();
    let reads = || BTreeSet::from([list(app_is("web")), list(Filter::Everything)]);
    sets.set(&reader(), reads());
    let first = sets.reads_of[&reader()].as_ptr();
    sets.set(&reader(), reads());
    assert_eq!(sets.reads_of[&reader()].as_ptr(), first);
}
