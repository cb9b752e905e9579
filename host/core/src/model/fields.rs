//! Paths to values inside an object, and projections of an object to some of its fields.
//!
//! Objects stay JSON text, because a decoded Pod takes ten times the size of its text
//! (RATIONALE.md). A projection is therefore one pass over the text. It copies the wanted parts and
//! skips the rest without building a tree.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// A path to values inside an object: a subset of kubectl's JSONPath.
///
/// A step is `.name`, `['name']` or `[*]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldPath {
    steps: Vec<PathStep>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum PathStep {
    Name(String),
    /// Every element of an array, or every value of a map.
    Each,
}

/// Why a path cannot be parsed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("field path {path:?}: {reason} at byte {at}; write .name, ['name'] or [*]")]
pub struct FieldPathError {
    path: String,
    reason: &'static str,
    at: usize,
}

/// The maximum number of steps in a path. This is deeper than any path that people write, yet
/// following it needs little stack.
const MAX_STEPS: usize = 64;

impl FieldPath {
    /// The first name of the path. `None` if it begins with `[*]`.
    pub fn root(&self) -> Option<&str> {
        match self.steps.first()? {
            PathStep::Name(name) => Some(name),
            PathStep::Each => None,
        }
    }

    /// True if everything that the other path leads to is part of what this one leads to. Steps are
    /// compared literally: `[*]` is not taken to include a name.
    pub fn holds(&self, other: &Self) -> bool {
        other.steps.starts_with(&self.steps)
    }

    /// The number of `[*]` steps.
    pub fn branchings(&self) -> usize {
        let steps = self.steps.iter();
        steps.filter(|step| matches!(step, PathStep::Each)).count()
    }

    /// Parses a path such as `.spec.ports[*].name` or `.metadata.labels['app.kubernetes.io/name']`.
    pub fn parse(path: &str) -> Result<Self, FieldPathError> {
        let mut steps = Vec::new();
        let mut rest = path;
        while !rest.is_empty() {
            let (step, after) = parse_step(rest).map_err(|reason| FieldPathError {
                path: path.to_owned(),
                reason,
                at: path.len() - rest.len(),
            })?;
            steps.push(step);
            rest = after;
            if steps.len() > MAX_STEPS {
                return Err(FieldPathError {
                    path: path.chars().take(200).collect(),
                    reason: "has too many steps",
                    at: path.len() - rest.len(),
                });
            }
        }
        if steps.is_empty() {
            return Err(FieldPathError {
                path: path.to_owned(),
                reason: "is empty",
                at: 0,
            });
        }
        Ok(Self { steps })
    }

    /// The strings, numbers and booleans at this path, as text. Empty if the JSON cannot be parsed.
    pub fn values(&self, json: &str) -> Vec<String> {
        let found = Values::new([std::slice::from_ref(self)]).find(json);
        found.into_iter().map(|(_, value)| value.into()).collect()
    }
}

fn parse_step(text: &str) -> Result<(PathStep, &str), &'static str> {
    if let Some(after) = text.strip_prefix("[*]") {
        return Ok((PathStep::Each, after));
    }
    if let Some(quoted) = text.strip_prefix("['") {
        let (name, after) = quoted.split_once("']").ok_or("no closing ']")?;
        return Ok((PathStep::Name(name.to_owned()), after));
    }
    let named = text
        .strip_prefix('.')
        .ok_or("a step must begin with . or [")?;
    let end = named.find(['.', '[']).unwrap_or(named.len());
    if end == 0 {
        return Err("a name is missing");
    }
    Ok((PathStep::Name(named[..end].to_owned()), &named[end..]))
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            match step {
                PathStep::Each => f.write_str("[*]")?,
                PathStep::Name(name) if name.contains(['.', '[', '/']) => write!(f, "['{name}']")?,
                PathStep::Name(name) => write!(f, ".{name}")?,
            }
        }
        Ok(())
    }
}

/// Several lists of paths, prepared so that the values of all of them are found in one pass over an
/// object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values {
    root: ValueNode,
}

/// The continuations of all paths at one position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ValueNode {
    /// The lists that have a path which ends here.
    ends: Vec<usize>,
    each: Option<Box<ValueNode>>,
    children: BTreeMap<String, ValueNode>,
}

impl ValueNode {
    fn insert(&mut self, steps: &[PathStep], list: usize) {
        match steps.split_first() {
            None => self.ends.push(list),
            Some((PathStep::Each, rest)) => self.each.get_or_insert_default().insert(rest, list),
            Some((PathStep::Name(name), rest)) => {
                self.children
                    .entry(name.clone())
                    .or_default()
                    .insert(rest, list);
            }
        }
    }
}

impl Values {
    /// Prepares these lists of paths.
    pub fn new<'a>(lists: impl IntoIterator<Item = &'a [FieldPath]>) -> Self {
        let mut root = ValueNode::default();
        for (list, paths) in lists.into_iter().enumerate() {
            for path in paths {
                root.insert(&path.steps, list);
            }
        }
        Self { root }
    }

    /// The strings, numbers and booleans that were found, as text, each with the number of its
    /// list. Empty if the JSON cannot be parsed. A value is borrowed from the text unless it has
    /// escapes.
    pub fn find<'a>(&self, json: &'a str) -> Vec<(usize, Cow<'a, str>)> {
        let mut found = Vec::new();
        find(&[&self.root], json, &mut found);
        found
    }
}

fn find<'a>(places: &[&ValueNode], json: &'a str, found: &mut Vec<(usize, Cow<'a, str>)>) {
    if let Some(value) = scalar(json) {
        let ends = places.iter().flat_map(|place| &place.ends);
        found.extend(ends.map(|list| (*list, value.clone())));
    } else if json.starts_with('{') {
        for (name, value) in members(json).unwrap_or_default() {
            let named = places.iter().filter_map(|place| place.children.get(&*name));
            let each = places.iter().filter_map(|place| place.each.as_deref());
            let next: Vec<&ValueNode> = named.chain(each).collect();
            if !next.is_empty() {
                find(&next, value.get(), found);
            }
        }
    } else if json.starts_with('[') {
        let each = places.iter().filter_map(|place| place.each.as_deref());
        let next: Vec<&ValueNode> = each.collect();
        if !next.is_empty() {
            let elements: Vec<&RawValue> = serde_json::from_str(json).unwrap_or_default();
            elements
                .iter()
                .for_each(|element| find(&next, element.get(), found));
        }
    }
}

/// The text of a string, number or boolean. `None` for other values.
fn scalar(json: &str) -> Option<Cow<'_, str>> {
    match json.as_bytes().first()? {
        b'{' | b'[' | b'n' => None,
        b'"' => string(json).ok(),
        _ => Some(Cow::Borrowed(json)),
    }
}

/// Parses a JSON string. The result is borrowed unless the string has escapes.
pub(crate) fn string(json: &str) -> Result<Cow<'_, str>, serde_json::Error> {
    Name.deserialize(&mut serde_json::Deserializer::from_str(json))
}

/// The members of a JSON object in their order in the text. The values are not parsed.
pub(crate) fn members(json: &str) -> Result<Vec<(Cow<'_, str>, &RawValue)>, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let members = Members.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(members)
}

/// The text of the value at a JSON Pointer (RFC 6901), at any depth. If several members have the
/// same name, the last counts.
pub(crate) fn part<'a>(json: &'a str, pointer: &str) -> Option<&'a str> {
    let mut names = pointer.split('/').skip(1);
    names.try_fold(json.trim_ascii(), |json, name| {
        let name = name.replace("~1", "/").replace("~0", "~");
        if json.starts_with('{') {
            let mut members = members(json).ok()?.into_iter().rev();
            return members
                .find(|(have, _)| *have == name)
                .map(|(_, value)| value.get());
        }
        let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
        let is_plain = is_number && (name == "0" || !name.starts_with('0'));
        let elements: Vec<&RawValue> = serde_json::from_str(json).ok()?;
        let at: usize = name.parse().ok().filter(|_| is_plain)?;
        elements.get(at).map(|element| element.get())
    })
}

struct Members;

impl<'de> DeserializeSeed<'de> for Members {
    type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::with_capacity(8);
        while let Some(name) = map.next_key_seed(Name)? {
            members.push((name, map.next_value()?));
        }
        Ok(members)
    }
}

/// A set of field paths, prepared for projecting objects to them. The result has the shape of the
/// whole object: parents stay, array elements keep their positions, and a value that does not have
/// the shape which a path expects is `null`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Projection {
    root: ProjectionNode,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ProjectionNode {
    /// Take the whole value.
    is_leaf: bool,
    each: Option<Box<ProjectionNode>>,
    children: BTreeMap<String, ProjectionNode>,
}

impl ProjectionNode {
    fn insert(&mut self, steps: &[PathStep]) {
        let Some((step, rest)) = steps.split_first() else {
            self.is_leaf = true;
            return;
        };
        let child = match step {
            PathStep::Each => self.each.get_or_insert_default(),
            PathStep::Name(name) => self.children.entry(name.clone()).or_default(),
        };
        child.insert(rest);
    }
}

/// The continuations of the paths at one position. There are several where some paths have a name
/// and others `[*]`.
enum Nodes<'a> {
    One(&'a ProjectionNode),
    Many(Vec<&'a ProjectionNode>),
}

impl<'a> Nodes<'a> {
    fn of(found: impl Iterator<Item = &'a ProjectionNode>) -> Option<Self> {
        let mut found = found.peekable();
        let first = found.next()?;
        if found.peek().is_none() {
            return Some(Self::One(first));
        }
        Some(Self::Many(std::iter::once(first).chain(found).collect()))
    }

    fn all(&self) -> &[&'a ProjectionNode] {
        match self {
            Self::One(node) => std::slice::from_ref(node),
            Self::Many(nodes) => nodes,
        }
    }

    fn is_leaf(&self) -> bool {
        self.all().iter().any(|node| node.is_leaf)
    }

    fn child(&self, name: &str) -> Option<Self> {
        let nodes = self.all().iter();
        Self::of(nodes.flat_map(|node| {
            node.children
                .get(name)
                .into_iter()
                .chain(node.each.as_deref())
        }))
    }

    fn each(&self) -> Option<Self> {
        Self::of(self.all().iter().filter_map(|node| node.each.as_deref()))
    }
}

impl Projection {
    /// Creates a projection to these paths.
    pub fn new(paths: &[FieldPath]) -> Self {
        let mut root = ProjectionNode::default();
        for path in paths {
            root.insert(&path.steps);
        }
        Self { root }
    }

    /// True if the value at this path of names is kept whole. A position in an array counts as a
    /// name.
    pub fn keeps(&self, names: &[&str]) -> bool {
        let mut nodes = Nodes::One(&self.root);
        for name in names {
            if nodes.is_leaf() {
                return true;
            }
            let Some(next) = nodes.child(name) else {
                return false;
            };
            nodes = next;
        }
        nodes.is_leaf()
    }

    /// Projects a JSON text, and appends the result to `out`. An error means that the text is not
    /// JSON.
    pub fn cut(&self, json: &str, out: &mut String) -> Result<(), serde_json::Error> {
        let mut deserializer = serde_json::Deserializer::from_str(json);
        Cut {
            nodes: &Nodes::One(&self.root),
            out,
        }
        .deserialize(&mut deserializer)
    }
}

/// Copies the wanted parts of the value that it is given to `out`.
struct Cut<'a> {
    nodes: &'a Nodes<'a>,
    out: &'a mut String,
}

impl<'de> DeserializeSeed<'de> for Cut<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.nodes.is_leaf() {
            let raw = <&RawValue as serde::Deserialize>::deserialize(deserializer)?;
            self.out.push_str(raw.get());
            return Ok(());
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Cut<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.out.push('{');
        let mut is_first = true;
        while let Some(name) = map.next_key_seed(Name)? {
            let Some(nodes) = self.nodes.child(&name) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if !std::mem::take(&mut is_first) {
                self.out.push(',');
            }
            push_string(self.out, &name);
            self.out.push(':');
            map.next_value_seed(Cut {
                nodes: &nodes,
                out: self.out,
            })?;
        }
        self.out.push('}');
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Some(nodes) = self.nodes.each() else {
            // No path expects an array here.
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            self.out.push_str("null");
            return Ok(());
        };
        self.out.push('[');
        loop {
            let before = self.out.len();
            if before > 0 && !self.out.ends_with('[') {
                self.out.push(',');
            }
            if seq
                .next_element_seed(Cut {
                    nodes: &nodes,
                    out: self.out,
                })?
                .is_none()
            {
                self.out.truncate(before);
                break;
            }
        }
        self.out.push(']');
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        self.null()
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        self.null()
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        self.null()
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        self.null()
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        self.null()
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.null()
    }
}

impl Cut<'_> {
    fn null<E>(self) -> Result<(), E> {
        self.out.push_str("null");
        Ok(())
    }
}

/// Reads a member's name. It is borrowed from the text unless it has escapes.
pub(crate) struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Name {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member's name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(name.to_owned()))
    }
}

/// Appends `text` as a JSON string.
pub(crate) fn push_string(out: &mut String, text: &str) {
    let needs_escape = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    if text.bytes().any(needs_escape) {
        out.push_str(&serde_json::Value::from(text).to_string());
    } else {
        out.push('"');
        out.push_str(text);
        out.push('"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_part_is_what_stands_at_the_pointer() {
        let json = r#"{"a":{"b/c":[1, {"~":"x"}], "":2},"n":null}"#;
        for (pointer, wanted) in [
            ("", Some(json)),
            ("/a/b~1c/0", Some("1")),
            ("/a/b~1c/1/~0", Some(r#""x""#)),
            ("/a/b~1c/1", Some(r#"{"~":"x"}"#)),
            ("/a/", Some("2")),
            ("/n", Some("null")),
            ("/n/x", None),
            ("/a/b~1c/2", None),
            ("/a/b~1c/01", None),
            ("/a/b~1c/+1", None),
            ("/a/b~1c/-", None),
            ("/missing", None),
        ] {
            assert_eq!(part(json, pointer), wanted, "{pointer}");
            let value: serde_json::Value = serde_json::from_str(json).unwrap();
            let decoded = wanted.map(|text| serde_json::from_str(text).unwrap());
            assert_eq!(value.pointer(pointer).cloned(), decoded, "{pointer}");
        }
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
}
