//! The derive: what is declared is what is decoded.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;

use pilothouse_sdk::testing::{FakeCluster, check_manifest};
use pilothouse_sdk::{
    Condition, Controller, Failure, Host, Kind, Manifest, Metadata, Outcome, Projection, Read,
    Request, Selection, Shape, Time,
};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

#[test]
fn a_read_of_what_is_selected_is_narrowed_as_the_selection_is() {
    let selection = Selection::of(Narrowed::KIND)
        .labels("a=b")
        .labels("!c")
        .namespace("default")
        .field_selector("type=Opaque");
    let read = Read {
        fields: vec![".data".to_owned()],
        labels: "a=b,!c".to_owned(),
        namespaces: vec!["default".to_owned()],
        field_selector: Some("type=Opaque".to_owned()),
        ..Read::new(Narrowed::KIND, [])
    };
    let manifest = |selection: Selection| Manifest::new("test", "1.0.0", selection);
    let declared = manifest(selection).reads_selected_as::<Narrowed>();
    assert_eq!(declared.reads, [read]);
    assert_eq!(check_manifest(&declared), Ok(()));

    let optional = manifest(Selection::of("v1/ConfigMap"))
        .reconciles_also(Selection::of(Narrowed::KIND))
        .optional(Narrowed::KIND)
        .reads("v1/ConfigMap", [".data"])
        .reads_selected_as::<Narrowed>();
    assert_eq!(check_manifest(&optional), Ok(()));
}

#[test]
#[should_panic(expected = "no selection of v1/Secret has been declared before")]
fn what_is_not_selected_cannot_be_read_as_selected() {
    let manifest = Manifest::new("test", "1.0.0", Selection::of("v1/ConfigMap"));
    let _ = manifest.reads_selected_as::<Narrowed>();
}

#[derive(Deserialize, Projection)]
#[projection(kind = "v1/Secret")]
struct Narrowed {
    #[serde(rename = "data", default)]
    _data: BTreeMap<String, String>,
}

/// One field of each sort that the derive tells apart.
#[derive(Debug, Deserialize, PartialEq, Projection)]
#[projection(kind = "example.com/v1/Widget")]
struct Widget {
    metadata: WidgetMetadata,
    spec: Spec,
    status: Option<Status>,
}

#[derive(Debug, Deserialize, PartialEq, Projection)]
struct WidgetMetadata {
    #[serde(flatten)]
    always: Metadata,
    labels: BTreeMap<String, String>,
    #[serde(rename = "creationTimestamp")]
    created: Time,
}

#[derive(Debug, Deserialize, PartialEq, Projection)]
#[serde(rename_all = "camelCase")]
struct Spec {
    max_size: Option<u32>,
    r#type: Type,
    #[serde(rename = "podIPs", alias = "ips")]
    pod_ips: Vec<String>,
    items: Vec<Item>,
    by_name: BTreeMap<String, Item>,
    tags: BTreeSet<String>,
    #[serde(deserialize_with = "or_default")]
    by_function: Vec<Item>,
    #[serde(deserialize_with = "or_default")]
    #[projection(as = Vec<Item>)]
    by_known_function: Vec<Item>,
    #[projection(whole)]
    foreign: Foreign,
    #[serde(skip)]
    unread: PhantomData<u8>,
    #[serde(rename = "example.com", alias = "x/y")]
    quoted: Value,
    tree: Box<Tree>,
}

#[derive(Debug, Deserialize, PartialEq, Projection)]
enum Type {
    Large,
    Small,
}

#[derive(Debug, Default, Deserialize, PartialEq, Projection)]
struct Item {
    name: Name,
    port: Option<Box<Port>>,
}

#[derive(Debug, Default, Deserialize, PartialEq, Projection)]
struct Name(String);

#[derive(Debug, Deserialize, PartialEq, Projection)]
struct Port {
    number: u16,
}

/// A type of another crate, of which nothing is known.
#[derive(Debug, Deserialize, PartialEq)]
struct Foreign {
    a: u8,
}

#[derive(Debug, Deserialize, PartialEq, Projection)]
#[projection(whole)]
struct Tree {
    below: Vec<Tree>,
}

#[derive(Debug, Deserialize, PartialEq, Projection)]
struct Status {
    conditions: Vec<Condition>,
    #[serde(rename(serialize = "written", deserialize = "read"))]
    renamed: bool,
}

/// Treats null like an absent field.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn widget() -> Value {
    let item = json!({"name": "a", "port": {"number": 80, "unread": 1}, "unread": 1});
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {
            "namespace": "default", "name": "w", "uid": "u",
            "labels": {"a": "b"}, "annotations": {"unread": "x"},
            "creationTimestamp": "2026-01-02T03:04:05Z",
        },
        "spec": {
            "maxSize": 3, "type": "Large", "podIPs": ["::1"], "tags": ["t"], "unread": 1,
            "items": [item], "byName": {"x": item}, "byFunction": [{"name": "a"}],
            "byKnownFunction": [item], "foreign": {"a": 1}, "example.com": {"any": [1]},
            "tree": {"below": [{"below": []}]},
        },
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}], "read": true, "written": 1,
        },
    })
}

#[test]
fn the_fields_are_those_of_the_struct() {
    assert_eq!(Widget::KIND, "example.com/v1/Widget");
    assert_eq!(
        Widget::fields(),
        [
            ".metadata.labels",
            ".metadata.creationTimestamp",
            ".spec.maxSize",
            ".spec.type",
            ".spec.podIPs",
            ".spec.ips",
            ".spec.items[*].name",
            ".spec.items[*].port.number",
            ".spec.byName[*].name",
            ".spec.byName[*].port.number",
            ".spec.tags",
            ".spec.byFunction",
            ".spec.byKnownFunction[*].name",
            ".spec.byKnownFunction[*].port.number",
            ".spec.foreign",
            ".spec['example.com']",
            ".spec['x/y']",
            ".spec.tree",
            ".status.conditions",
            ".status.read",
        ]
    );
}

struct Widgets;

impl Controller for Widgets {
    fn manifest() -> Manifest {
        Manifest::new("widgets", "1.0.0", Selection::of(Widget::KIND)).reads_as::<Widget>()
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let whole: Widget = serde_json::from_value(widget())?;
        let own = request.object::<Widget>()?;
        let got = host.get_as::<Widget>("default", "w")?;
        let listed = host.list_as::<Widget>(None, &pilothouse_sdk::Filter::Everything)?;
        let seen: Value = request.object()?.unwrap_or_default();
        assert!(!seen.to_string().contains("unread"), "{seen}");
        assert_eq!((own.as_ref(), &got), (Some(&whole), &own));
        assert_eq!(listed, [whole]);
        Ok(Outcome::done())
    }
}

#[test]
fn what_the_host_shows_decodes_as_the_whole_object_does() {
    let cluster = FakeCluster::new(Widgets::manifest()).with(widget());
    let outcome = cluster.reconcile::<Widgets>("default", "w");
    assert_eq!(outcome, Ok(Outcome::done()));
    assert!(cluster.object_as::<Widget>("default", "w").is_some());
    assert!(cluster.object_as::<Widget>("default", "x").is_none());
}

#[derive(Projection)]
#[projection(kind = "v1/Pod")]
struct Named {
    #[allow(dead_code, reason = "only its name matters")]
    metadata: Metadata,
}

#[test]
fn what_is_always_there_is_declared_only_where_an_empty_list_would_mean_everything() {
    assert_eq!(Named::fields(), [".metadata.name"]);
    let read = Read::of::<Named>().namespace("a");
    assert_eq!((read.kind.as_str(), read.namespaces.len()), ("v1/Pod", 1));
}

#[derive(Projection)]
#[projection(kind = "example.com/v1/Open")]
#[allow(dead_code, reason = "only its fields matter")]
struct Open {
    metadata: Metadata,
    spec: OpenSpec,
}

#[derive(Projection)]
#[allow(dead_code, reason = "only its fields matter")]
struct OpenSpec {
    size: u8,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

#[derive(Projection)]
#[allow(dead_code, reason = "only its fields matter")]
struct Everything {
    size: u8,
    #[serde(flatten)]
    rest: Value,
}

#[test]
fn a_map_that_takes_the_rest_reads_the_whole() {
    assert_eq!(Open::fields(), [".spec"]);
    assert!(Everything::fields().is_empty());
    assert!(Value::fields().is_empty());
}

#[derive(Projection)]
#[allow(dead_code, reason = "only its fields matter")]
struct List<T> {
    items: Vec<T>,
}

#[derive(Projection)]
#[serde(try_from = "List<Item>")]
#[allow(dead_code, reason = "only its fields matter")]
struct Checked(u8);

#[derive(Projection)]
#[serde(transparent)]
#[allow(dead_code, reason = "only its fields matter")]
struct Around {
    list: List<u8>,
}

#[test]
fn types_around_others_have_the_fields_of_these() {
    assert_eq!(List::<u8>::fields(), [".items"]);
    assert_eq!(List::<Metadata>::fields().len(), 4);
    assert_eq!(
        Checked::fields(),
        [".items[*].name", ".items[*].port.number"]
    );
    assert_eq!(Around::SHAPE, List::<u8>::SHAPE);
    assert_eq!(Vec::<Vec<u8>>::SHAPE, Shape::Whole);
}

#[test]
fn every_path_that_is_derived_is_one_for_the_host() {
    assert_eq!(check_manifest(&Widgets::manifest()), Ok(()));
    let open = Manifest::singleton("p", "1").reads_as::<Open>();
    assert_eq!(check_manifest(&open.reads_as::<Named>()), Ok(()));
}
