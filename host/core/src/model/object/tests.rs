//! Tests what is parsed from an object, and what is kept of it.

use super::*;
use crate::model::key::ResourceVersion;

const POD: &str = r#"{"metadata":{"name":"a","namespace":"default","uid":"u","resourceVersion":"7","generation":2,
    "labels":{"b":"2","a":"1"},"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}","keep":"yes"},
    "ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"ru","controller":true}],
    "finalizers":["x/y"],"deletionTimestamp":"2026-01-01T00:00:00Z","managedFields":[{"manager":"m"}]},"spec":{"nodeName":"n"}}"#;

fn pod() -> Kind {
    Kind::new("", "v1", "Pod")
}

fn parse(raw: &str) -> Result<Object, ObjectError> {
    Object::parse(&pod(), raw, &Schema::default())
}

#[test]
fn the_header_holds_what_the_host_looks_at() {
    let object = parse(POD).unwrap();
    assert_eq!(object.key().to_string(), "default/a");
    assert_eq!(object.uid(), "u");
    assert_eq!(*object.resource_version(), ResourceVersion::new("7"));
    assert_eq!(object.generation(), Some(2));
    let labels: Vec<_> = object.labels().collect();
    assert_eq!(labels, [("a", "1"), ("b", "2")], "labels are sorted");
    assert_eq!((object.label("b"), object.label("c")), (Some("2"), None));
    let owner = &object.owners()[0];
    assert_eq!(
        (&*owner.api_version, &*owner.kind),
        ("apps/v1", "ReplicaSet")
    );
    assert_eq!((&*owner.name, owner.controller), ("r", Some(true)));
    assert_eq!(object.finalizers(), ["x/y"]);
    assert_eq!(object.deletion_timestamp(), "2026-01-01T00:00:00Z");
}

#[test]
fn one_object_is_one_text_whichever_way_it_arrived() {
    let from_watch = POD.replacen('{', r#"{"kind":"Pod","apiVersion":"v1","#, 1);
    assert_eq!(
        parse(POD).unwrap().json(),
        parse(&from_watch).unwrap().json()
    );
}

#[test]
fn managed_fields_and_the_last_applied_annotation_are_left_out() {
    let json = parse(POD).unwrap().json().to_owned();
    assert!(
        !json.contains("managedFields") && !json.contains("last-applied"),
        "{json}"
    );
    assert!(json.contains(r#""annotations":{"keep":"yes"}"#), "{json}");
    assert!(
        json.starts_with(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"#),
        "{json}"
    );
}

#[test]
fn an_object_of_another_kind_is_refused() {
    let status = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure"}"#;
    assert!(matches!(parse(status), Err(ObjectError::OtherKind { .. })));
}

#[test]
fn an_object_that_cannot_be_read_is_an_error() {
    for broken in [
        "{",
        "[]",
        r#"{"metadata":{}}"#,
        r#"{"metadata":{"name":3}}"#,
        r#"{"metadata":{"name":"a","labels":{"a":1}}}"#,
        r#"{"metadata":{"name":"a","ownerReferences":[{"name":"b"}]}}"#,
        r#"{"metadata":{"name":"a","finalizers":"x/y"}}"#,
        r#"{"metadata":{"name":"a","generation":"2"}}"#,
        r#"{}"#,
    ] {
        assert!(parse(broken).is_err(), "{broken}");
    }
}

#[test]
fn a_view_and_the_indexed_values_are_cut_by_the_schema() {
    let path = |text| FieldPath::parse(text).unwrap();
    let schema = Schema::new(
        1,
        Detail::Full,
        vec![Some(Projection::new(&[path(".spec.nodeName")])), None],
        vec![
            vec![],
            vec![path(".spec.nodeName"), path(".metadata.labels[*]")],
            vec![path(".metadata.name")],
        ],
    );
    let object = Object::parse(&pod(), POD, &schema).unwrap();
    assert_eq!(object.view(Some(0)), r#"{"spec":{"nodeName":"n"}}"#);
    let values: Vec<_> = object.indexed_values().collect();
    assert_eq!(values, [(1, "1"), (1, "2"), (1, "n"), (2, "a")]);
    assert!(object.is_indexed_by(1, "2") && !object.is_indexed_by(2, "2"));
    assert!(!parse(POD).unwrap().is_cut_by(&schema));
    assert_eq!(
        parse(POD).unwrap().recut(&schema).unwrap().view(Some(0)),
        object.view(Some(0))
    );
}

#[test]
fn strings_with_escapes_are_read_unescaped() {
    let raw = r#"{"metadata":{"name":"a\u0062","labels":{"k\u0065y":"v\"","z":"1"}}}"#;
    let object = parse(raw).unwrap();
    assert_eq!(object.key().name, "ab");
    assert_eq!(object.label("key"), Some("v\""));
    assert_eq!(object.label("z"), Some("1"));
    assert!(
        object.json().ends_with(r#""z":"1"}}}"#),
        "the text is as it came"
    );
}

#[test]
fn a_value_with_escapes_takes_its_memory_once_however_many_indexes_have_it() {
    let text = "line\\n".repeat(1_000);
    let raw = format!(
        r#"{{"metadata":{{"name":"a","resourceVersion":"1"}},"data":{{"a":"{text}","b":"{text}"}}}}"#
    );
    let size = |indexes: &[&str]| {
        let path = |text: &&str| vec![FieldPath::parse(text).unwrap()];
        let indexes: Vec<_> = indexes.iter().map(path).collect();
        let count = indexes.len();
        let schema = Schema::new(0, Detail::Full, vec![], indexes);
        let object = Object::parse(&pod(), &raw, &schema).unwrap();
        let value = "line\n".repeat(1_000);
        assert!((0..count).all(|index| object.is_indexed_by(index, &value)));
        object.size()
    };
    let one = size(&[".data.a"]);
    let many = size(&[".data.a", ".data.b", ".data[*]", ".data['a']"]);
    assert!(many < one + 500, "{one} {many}");
}

#[test]
fn null_is_absent() {
    let raw =
        r#"{"metadata":{"name":"a","labels":null,"finalizers":null,"deletionTimestamp":null}}"#;
    let object = parse(raw).unwrap();
    assert_eq!(object.labels().count(), 0);
    assert!(object.finalizers().is_empty() && !object.is_being_deleted());
}

fn parse_as(raw: &str, detail: Detail) -> Object {
    let schema = Schema::new(1, detail, vec![], vec![]);
    Object::parse(&pod(), raw, &schema).unwrap()
}

#[test]
fn of_metadata_nothing_else_is_kept() {
    let object = parse_as(POD, Detail::Metadata);
    assert!(!object.json().contains("spec"), "{}", object.json());
    assert_eq!(object.detail(), Detail::Metadata);
}

#[test]
fn metadata_that_came_alone_are_the_object_without_the_rest() {
    let partial = POD.replacen(
        '{',
        r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","#,
        1,
    );
    let object = parse_as(&partial, Detail::Metadata);
    assert_eq!(object.json(), parse_as(POD, Detail::Metadata).json());
    let object = parse_as(&partial, Detail::Full);
    assert_eq!(object.detail(), Detail::Metadata, "whatever was asked for");
}

#[test]
fn a_secret_without_values_has_its_type_but_no_data() {
    let raw = r#"{"metadata":{"name":"a"},"type":"Opaque","data":{"p":"c2VjcmV0"},"stringData":{"p":"s"}}"#;
    let object = parse_as(raw, Detail::WithoutValues);
    assert!(
        object.json().ends_with(r#""type":"Opaque"}"#),
        "{}",
        object.json()
    );
}

#[test]
fn a_definition_without_values_has_no_schemas() {
    let raw = r#"{"metadata":{"name":"a.b"},"spec":{"versions":[{"name":"v1","schema":{}}]}}"#;
    let parse = |group: &str| {
        let kind = Kind::new(group, "v1", "CustomResourceDefinition");
        let schema = Schema::new(1, Detail::WithoutValues, vec![], vec![]);
        Object::parse(&kind, raw, &schema).unwrap()
    };
    let definition = parse("apiextensions.k8s.io");
    let end = r#""spec":{"versions":[{"name":"v1"}]}}"#;
    assert!(definition.json().ends_with(end), "{}", definition.json());
    let other = parse("example.com");
    assert!(other.json().contains("schema"), "{}", other.json());
}

/// A pod that several managers have changed, with these entries in `managedFields`.
fn managed(entries: &serde_json::Value) -> String {
    serde_json::json!({"metadata": {"name": "a", "managedFields": entries}, "spec": {}}).to_string()
}

fn entry(manager: &str, operation: &str, rest: &serde_json::Value) -> serde_json::Value {
    let mut entry = serde_json::json!({"manager": manager, "operation": operation, "apiVersion": "v1",
        "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:x": {}}}});
    let rest = rest.as_object().unwrap().clone();
    entry.as_object_mut().unwrap().extend(rest);
    entry
}

fn schema_of(managers: &[&str]) -> Schema {
    let managers = managers.iter().map(|name| (*name).to_owned()).collect();
    Schema::new(1, Detail::Full, vec![], vec![]).with_managers(managers)
}

#[test]
fn of_an_object_that_is_not_here_as_a_whole_every_change_may_be_on_either_side() {
    let secret = Kind::new("", "v1", "Secret");
    for detail in [Detail::WithoutValues, Detail::Metadata] {
        let schema = Schema::new(1, detail, vec![], vec![]);
        let state = |version: &str, value: &str| {
            let json = format!(
                r#"{{"metadata":{{"name":"a","uid":"u","resourceVersion":"{version}"}},"data":{{"k":"{value}"}}}}"#
            );
            Object::parse(&secret, &json, &schema).unwrap()
        };
        for side in [Side::Main, Side::Status] {
            assert!(state("1", "a").is_same_on(side, &state("1", "a")));
            assert!(!state("1", "a").is_same_on(side, &state("2", "b")));
        }
    }
}

#[test]
fn a_change_is_on_the_side_of_the_status_or_on_the_other() {
    use serde_json::json;
    let with = |version: &str, change: &dyn Fn(&mut serde_json::Value)| {
        let mut object = json!({"metadata": {"name": "a", "labels": {"a": "1"}, "generation": 1},
            "spec": {"x": 1}, "status": {"y": 1}});
        object["metadata"]["resourceVersion"] = version.into();
        change(&mut object);
        parse(&object.to_string()).unwrap()
    };
    let old = with("7", &|_| {});
    let changed = |change: &dyn Fn(&mut serde_json::Value)| {
        let new = with("8", change);
        [Side::Main, Side::Status].map(|side| !old.is_same_on(side, &new))
    };
    assert_eq!(changed(&|_| {}), [false, false]);
    assert_eq!(
        changed(&|new| new["metadata"]["generation"] = 2.into()),
        [false, false]
    );
    assert_eq!(changed(&|new| new["spec"]["x"] = 2.into()), [true, false]);
    assert_eq!(
        changed(&|new| new["metadata"]["labels"]["a"] = "2".into()),
        [true, false]
    );
    assert_eq!(changed(&|new| new["data"] = json!({})), [true, false]);
    assert_eq!(changed(&|new| new["status"]["y"] = 2.into()), [false, true]);
    assert_eq!(
        changed(&|new| drop(new.as_object_mut().unwrap().remove("status"))),
        [false, true]
    );
}

#[test]
fn what_our_managers_have_applied_is_kept_and_survives_another_cut() {
    use serde_json::json;
    let raw = managed(&json!([
        entry("ours", "Apply", &json!({})),
        entry(
            "ours",
            "Update",
            &json!({"fieldsV1": {"f:spec": {"f:updated": {}}}})
        ),
        entry(
            "ours",
            "Apply",
            &json!({"subresource": "status", "fieldsV1": {"f:status": {"f:y": {}}}})
        ),
        entry("stranger", "Apply", &json!({})),
    ]));
    let object = Object::parse(&pod(), &raw, &schema_of(&["ours", "idle"])).unwrap();
    let again = object.recut(&Schema::default()).unwrap();
    for object in [&object, &again] {
        assert_eq!(
            object.applied("ours", None),
            Some(r#"{"f:spec":{"f:x":{}}}"#)
        );
        assert_eq!(
            object.applied("ours", Some("status")),
            Some(r#"{"f:status":{"f:y":{}}}"#)
        );
        assert_eq!(object.applied("stranger", None), None);
        assert_eq!(object.applied("idle", None), None);
        assert!(
            !object.json().contains("managedFields"),
            "{}",
            object.json()
        );
    }
}

#[test]
fn an_object_that_no_manager_of_ours_applied_takes_no_more_than_one_without_managers() {
    use serde_json::json;
    let raw = managed(&json!([
        entry("stranger", "Apply", &json!({})),
        entry("ours", "Update", &json!({}))
    ]));
    let size = |schema: &Schema| Object::parse(&pod(), &raw, schema).unwrap().size();
    assert_eq!(size(&schema_of(&["ours"])), size(&schema_of(&[])));
    assert_eq!(
        size_of::<Span>(),
        size_of::<usize>(),
        "what says that there are none is as long as a pointer"
    );
}

#[test]
fn fields_in_terms_of_another_version_or_that_cannot_be_read_are_not_known() {
    use serde_json::json;
    for entries in [
        json!([entry("ours", "Apply", &json!({"apiVersion": "v1beta1"}))]),
        json!([
            entry("ours", "Apply", &json!({"apiVersion": "v1beta1"})),
            entry("ours", "Apply", &json!({}))
        ]),
        json!([{"manager": "ours", "operation": "Apply", "apiVersion": "v1"}]),
        json!([{"manager": "ours", "operation": 7}]),
        json!("ours"),
    ] {
        let object = Object::parse(&pod(), &managed(&entries), &schema_of(&["ours"])).unwrap();
        assert_eq!(object.applied("ours", None), None, "{entries}");
    }
}
