use super::path::MAX_STEPS;
use super::*;

impl FieldPath {
    fn values(&self, json: &str) -> Vec<String> {
        let found = Values::new([std::slice::from_ref(self)]).find(json);
        found.into_iter().map(|(_, value)| value.into()).collect()
    }
}

const POD: &str = r#"{"apiVersion":"v1","metadata":{"name":"a","labels":{"app.kubernetes.io/name":"web","tier":"b"}},
    "spec":{"containers":[{"name":"c","image":"i","ports":[{"containerPort":80},{"containerPort":81}]},{"name":"d"}],"nodeName":"n"},
    "status":{"ready":true,"phase":"Running"}}"#;

fn path(text: &str) -> FieldPath {
    FieldPath::parse(text).unwrap()
}

fn apply(projection: &Projection, json: &str) -> String {
    let mut out = String::new();
    projection.cut(json, &mut out).unwrap();
    out
}

fn cut(paths: &[&str]) -> String {
    let paths: Vec<_> = paths.iter().map(|text| path(text)).collect();
    apply(&Projection::new(&paths), POD)
}

#[test]
fn a_path_reads_back_as_it_was_written() {
    for text in [
        ".spec.nodeName",
        ".spec.ports[*].name",
        ".metadata.labels['app.kubernetes.io/name']",
    ] {
        assert_eq!(path(text).to_string(), text);
    }
}

#[test]
fn a_path_that_cannot_be_read_says_where() {
    for (text, at) in [
        ("", 0),
        ("spec", 0),
        (".spec..a", 5),
        (".a['b", 2),
        (".a[0]", 2),
    ] {
        assert_eq!(FieldPath::parse(text).unwrap_err().at, at, "{text}");
    }
}

#[test]
fn a_path_without_end_is_refused() {
    let error = FieldPath::parse(&".a".repeat(200_000)).unwrap_err();
    assert!(error.to_string().len() < 400, "{error}");
    assert!(FieldPath::parse(&".a".repeat(MAX_STEPS)).is_ok());
}

#[test]
fn values_are_found_through_arrays_and_maps() {
    assert_eq!(
        path(".spec.containers[*].ports[*].containerPort").values(POD),
        ["80", "81"]
    );
    assert_eq!(
        path(".metadata.labels['app.kubernetes.io/name']").values(POD),
        ["web"]
    );
    assert_eq!(path(".metadata.labels[*]").values(POD), ["web", "b"]);
    assert_eq!(path(".status.ready").values(POD), ["true"]);
    assert!(path(".spec.missing").values(POD).is_empty());
    assert!(
        path(".spec").values(POD).is_empty(),
        "an object is not a value"
    );
    assert!(
        path(".spec").values("{").is_empty(),
        "broken JSON has no values"
    );
}

#[test]
fn the_values_of_several_lists_are_found_in_one_pass() {
    let node = [path(".spec.nodeName"), path(".status.phase")];
    let all = [path(".metadata.labels[*]"), path(".metadata.labels.tier")];
    let found = Values::new([node.as_slice(), &all]).find(POD);
    let of = |list| {
        let found = found.iter().filter(move |(at, _)| *at == list);
        found.map(|(_, value)| value.as_ref()).collect::<Vec<_>>()
    };
    assert_eq!(of(0), ["n", "Running"]);
    assert_eq!(of(1), ["web", "b", "b"], "by either path");
}

#[test]
fn values_with_escapes_are_unescaped() {
    assert_eq!(path(".a").values(r#"{"a":"q\"\u0061"}"#), ["q\"a"]);
}

#[test]
fn a_projection_keeps_the_shape() {
    assert_eq!(
        cut(&[".spec.nodeName", ".status.phase"]),
        r#"{"spec":{"nodeName":"n"},"status":{"phase":"Running"}}"#
    );
    assert_eq!(
        cut(&[".spec.containers[*].name"]),
        r#"{"spec":{"containers":[{"name":"c"},{"name":"d"}]}}"#
    );
    assert_eq!(
        cut(&[".status"]),
        r#"{"status":{"ready":true,"phase":"Running"}}"#
    );
}

#[test]
fn what_is_wanted_of_a_member_by_name_and_of_each_is_all_kept() {
    let cut = |paths: &[&str]| {
        let paths: Vec<_> = paths.iter().map(|text| path(text)).collect();
        let json = r#"{"m":{"a":{"x":1,"y":{"p":2,"q":3}},"b":{"x":4,"y":{"p":5,"q":6}}}}"#;
        apply(&Projection::new(&paths), json)
    };
    assert_eq!(
        cut(&[".m['a'].x", ".m[*].y"]),
        r#"{"m":{"a":{"x":1,"y":{"p":2,"q":3}},"b":{"y":{"p":5,"q":6}}}}"#
    );
    assert_eq!(
        cut(&[".m.a.y.q", ".m[*][*].p", ".m[*].x"]),
        r#"{"m":{"a":{"x":1,"y":{"p":2,"q":3}},"b":{"x":4,"y":{"p":5}}}}"#
    );
    assert_eq!(
        cut(&[".m.a.x", ".m[*]"]),
        r#"{"m":{"a":{"x":1,"y":{"p":2,"q":3}},"b":{"x":4,"y":{"p":5,"q":6}}}}"#
    );
}

#[test]
fn a_projection_of_another_shape_is_null() {
    assert_eq!(
        cut(&[".spec.nodeName.x", ".spec.containers.y"]),
        r#"{"spec":{"containers":null,"nodeName":null}}"#
    );
}

#[test]
fn nested_arrays_keep_their_elements_apart() {
    let cut = apply(
        &Projection::new(&[path(".a[*][*]")]),
        r#"{"a":[[1,2],[],[3]]}"#,
    );
    assert_eq!(cut, r#"{"a":[[1,2],[],[3]]}"#);
}

#[test]
fn names_with_escapes_survive() {
    let cut = apply(
        &Projection::new(&[path(".a")]),
        r#"{"a":{"q\"\\":1},"\u0061b":2}"#,
    );
    assert_eq!(cut, r#"{"a":{"q\"\\":1}}"#);
}
