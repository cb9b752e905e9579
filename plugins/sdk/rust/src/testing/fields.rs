//! What a plugin sees of an object: the host's rules for field paths, applied to decoded objects.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Most steps of a path.
const MAX_STEPS: usize = 64;

/// The host removes this annotation from whole objects.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The view always contains these fields, whatever the manifest names.
const ALWAYS: [&str; 3] = [".metadata.namespace", ".metadata.name", ".metadata.uid"];

/// A field of a field selector that the server does not simply read from the object: apiVersion,
/// kind, the field's name in the selector, the paths of its value (the first that is present
/// counts), and its value if none is present.
type Typed = (
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static str,
);

/// The same table as the host's.
const TYPED: [Typed; 7] = [
    (
        "v1",
        "Pod",
        "spec.hostNetwork",
        &["spec.hostNetwork"],
        "false",
    ),
    ("v1", "Pod", "spec.host", &["spec.nodeName"], ""),
    (
        "v1",
        "Node",
        "spec.unschedulable",
        &["spec.unschedulable"],
        "false",
    ),
    (
        "v1",
        "ReplicationController",
        "status.replicas",
        &["status.replicas"],
        "0",
    ),
    (
        "apps/v1",
        "ReplicaSet",
        "status.replicas",
        &["status.replicas"],
        "0",
    ),
    (
        "batch/v1",
        "Job",
        "status.successful",
        &["status.succeeded"],
        "0",
    ),
    (
        "v1",
        "Event",
        "source",
        &["source.component", "reportingComponent"],
        "",
    ),
];

/// The parts wanted below one position in an object.
#[derive(Default)]
struct Node {
    /// True if the whole value is wanted.
    is_leaf: bool,
    each: Option<Box<Node>>,
    members: BTreeMap<String, Node>,
}

/// The object reduced to these paths; without paths, the whole object. Bookkeeping
/// (`managedFields` and the last-applied annotation) is left out in any case, as the host keeps
/// none.
pub(super) fn view(object: &Value, paths: &[String]) -> Value {
    if paths.is_empty() {
        return without_bookkeeping(object.clone());
    }
    let mut root = Node::default();
    for path in paths.iter().map(String::as_str).chain(ALWAYS) {
        root.insert(&steps(path));
    }
    cut(&[&root], &without_bookkeeping(object.clone()))
}

/// True if the view contains the whole value at the end of these names.
pub(super) fn keeps(paths: &[String], names: &[&str]) -> bool {
    let mut all = paths.iter().map(String::as_str).chain(ALWAYS);
    let is_on_the_way = |path: &str| {
        let steps = steps(path);
        let fits =
            |(step, name): (&Option<String>, &&str)| step.as_deref().is_none_or(|own| own == *name);
        steps.len() <= names.len() && steps.iter().zip(names).all(fits)
    };
    paths.is_empty() || all.any(is_on_the_way)
}

/// The strings, numbers and booleans at these paths, as text, without bookkeeping.
pub(super) fn values(object: &Value, paths: &[String]) -> Vec<String> {
    let object = without_bookkeeping(object.clone());
    let mut found = Vec::new();
    for path in paths {
        collect(&steps(path), &object, &mut found);
    }
    found
}

/// True if an object matches a field selector such as `spec.nodeName=a,status.phase!=Failed`. An
/// absent field is empty, except for those in [`TYPED`].
pub(super) fn matches(object: &Value, selector: &str) -> bool {
    let mut terms = selector.split(',').filter(|term| !term.is_empty());
    terms.all(|term| {
        let (field, value) = term.split_once('=').unwrap_or((term, ""));
        let is_negated = field.ends_with('!');
        let field = field.trim_end_matches('!').trim();
        let of = (object["apiVersion"].as_str(), object["kind"].as_str());
        let typed = TYPED.iter().find(|(api_version, kind, name, ..)| {
            (of, field) == ((Some(*api_version), Some(*kind)), *name)
        });
        let own = [field];
        let (paths, absent) = match typed {
            Some((.., paths, absent)) => (*paths, *absent),
            None => (&own[..], ""),
        };
        let paths: Vec<String> = paths.iter().map(|path| format!(".{path}")).collect();
        let have = values(object, &paths);
        let have = have.iter().find(|value| !value.is_empty());
        let is_equal = have.map_or(absent, String::as_str) == value.trim_start_matches('=').trim();
        is_equal != is_negated
    })
}

fn without_bookkeeping(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        if let Some(annotations) = metadata
            .get_mut("annotations")
            .and_then(Value::as_object_mut)
        {
            annotations.remove(LAST_APPLIED);
        }
    }
    object
}

/// The steps of a path. `None` stands for `[*]`.
///
/// # Errors
///
/// The host's message for an invalid path.
pub(super) fn parse(path: &str) -> Result<Vec<Option<String>>, String> {
    let refused = |path: &str, reason: &str, at: usize| {
        format!("field path {path:?}: {reason} at byte {at}; write .name, ['name'] or [*]")
    };
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        let at = path.len() - rest.len();
        let (step, after) = parse_step(rest).map_err(|reason| refused(path, reason, at))?;
        steps.push(step.map(str::to_owned));
        rest = after;
        if steps.len() > MAX_STEPS {
            let start: String = path.chars().take(200).collect();
            let at = path.len() - rest.len();
            return Err(refused(&start, "has too many steps", at));
        }
    }
    if steps.is_empty() {
        return Err(refused(path, "is empty", 0));
    }
    Ok(steps)
}

/// The first step, and the rest of the text.
fn parse_step(text: &str) -> Result<(Option<&str>, &str), &'static str> {
    if let Some(after) = text.strip_prefix("[*]") {
        return Ok((None, after));
    }
    if let Some(quoted) = text.strip_prefix("['") {
        let (name, after) = quoted.split_once("']").ok_or("no closing ']")?;
        return Ok((Some(name), after));
    }
    let named = text
        .strip_prefix('.')
        .ok_or("a step must begin with . or [")?;
    let (name, after) = named.split_at(named.find(['.', '[']).unwrap_or(named.len()));
    if name.is_empty() {
        return Err("a name is missing");
    }
    Ok((Some(name), after))
}

/// The steps of a path in the manifest. The manifest has been checked before, so the path is valid.
fn steps(path: &str) -> Vec<Option<String>> {
    parse(path).unwrap_or_default()
}

impl Node {
    fn insert(&mut self, steps: &[Option<String>]) {
        let Some((step, rest)) = steps.split_first() else {
            self.is_leaf = true;
            return;
        };
        let below = match step {
            None => self.each.get_or_insert_default(),
            Some(name) => self.members.entry(name.clone()).or_default(),
        };
        below.insert(rest);
    }
}

/// Reduces a value to the parts that several paths want of it. If some paths name a member and
/// others use `[*]` at the same level, the result has the parts of both.
fn cut(nodes: &[&Node], value: &Value) -> Value {
    if nodes.iter().any(|node| node.is_leaf) {
        return value.clone();
    }
    let each: Vec<&Node> = nodes
        .iter()
        .filter_map(|node| node.each.as_deref())
        .collect();
    match value {
        Value::Object(members) => {
            let below = |name: &String| -> Vec<&Node> {
                let named = nodes.iter().filter_map(|node| node.members.get(name));
                named.chain(each.iter().copied()).collect()
            };
            let kept = members
                .iter()
                .map(|(name, value)| (name, below(name), value));
            let kept = kept.filter(|(_, below, _)| !below.is_empty());
            let kept = kept.map(|(name, below, value)| (name.clone(), cut(&below, value)));
            Value::Object(kept.collect::<Map<_, _>>())
        }
        Value::Array(elements) if !each.is_empty() => {
            elements.iter().map(|element| cut(&each, element)).collect()
        }
        _ => Value::Null,
    }
}

fn collect(steps: &[Option<String>], value: &Value, found: &mut Vec<String>) {
    match (steps.split_first(), value) {
        (None, Value::String(text)) => found.push(text.clone()),
        (None, Value::Number(_) | Value::Bool(_)) => found.push(value.to_string()),
        (Some((Some(name), rest)), Value::Object(members)) => {
            members
                .get(name)
                .into_iter()
                .for_each(|value| collect(rest, value, found));
        }
        (Some((None, rest)), Value::Object(members)) => members
            .values()
            .for_each(|value| collect(rest, value, found)),
        (Some((None, rest)), Value::Array(elements)) => elements
            .iter()
            .for_each(|value| collect(rest, value, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cut(paths: &[&str]) -> Value {
        let object = json!({
            "apiVersion": "v1",
            "metadata": {"namespace": "n", "name": "a", "uid": "u", "labels": {"app.example/name": "web", "tier": "b"}},
            "spec": {"ports": [{"name": "x", "port": 1}, {"port": 2}], "selector": {}},
        });
        let paths: Vec<_> = paths.iter().map(|&path| path.to_owned()).collect();
        let mut view = view(&object, &paths);
        assert_eq!(view["metadata"]["uid"], "u", "the uid always comes along");
        if let Some(metadata) = view["metadata"].as_object_mut() {
            metadata.retain(|name, _| name == "labels");
        }
        view
    }

    #[test]
    fn a_view_keeps_the_shape_of_the_object() {
        let names = json!({"metadata": {}, "spec": {"ports": [{"name": "x"}, {}]}});
        assert_eq!(cut(&[".spec.ports[*].name"]), names);
        let label = json!({"metadata": {"labels": {"app.example/name": "web"}}});
        assert_eq!(cut(&[".metadata.labels['app.example/name']"]), label);
        assert_eq!(
            cut(&[".spec.selector"]),
            json!({"metadata": {}, "spec": {"selector": {}}}),
            "empty is not absent"
        );
        assert_eq!(
            cut(&[".spec.ports.name"]),
            json!({"metadata": {}, "spec": {"ports": null}})
        );
    }

    #[test]
    fn a_view_without_fields_is_the_object_without_bookkeeping() {
        let object = json!({"metadata": {"managedFields": [1], "annotations": {LAST_APPLIED: "{}", "a": "b"}}, "data": {"c": "d"}});
        assert_eq!(
            view(&object, &[]),
            json!({"metadata": {"annotations": {"a": "b"}}, "data": {"c": "d"}})
        );
    }

    #[test]
    fn values_are_found_through_arrays_and_maps() {
        let object =
            json!({"spec": {"ports": [{"name": "x", "port": 1}, {"port": 2}], "is": true}});
        let found = |path: &str| values(&object, &[path.to_owned()]);
        assert_eq!(found(".spec.ports[*].port"), ["1", "2"]);
        assert_eq!(found(".spec.ports[*][*]"), ["x", "1", "2"]);
        assert_eq!(found(".spec.is"), ["true"]);
        assert!(found(".spec").is_empty(), "an object is not a value");
    }

    #[test]
    fn a_name_and_each_at_one_level_are_both_followed() {
        let object = json!({"m": {"a": {"x": 1, "y": 2, "z": 3}, "b": {"x": 4, "y": 5}}});
        let paths = [".m['a'].x", ".m[*].y"].map(str::to_owned);
        let kept = view(&object, &paths);
        assert_eq!(kept["m"], json!({"a": {"x": 1, "y": 2}, "b": {"y": 5}}));
    }

    #[test]
    fn typed_fields_are_selected_as_the_server_does() {
        let is = |api_version: &str, kind: &str, rest: Value, selector: &str| {
            let mut object = json!({"apiVersion": api_version, "kind": kind});
            for (name, value) in rest.as_object().into_iter().flatten() {
                object[name] = value.clone();
            }
            matches(&object, selector)
        };
        assert!(is("v1", "Node", json!({}), "spec.unschedulable=false"));
        let cordoned = || json!({"spec": {"unschedulable": true}});
        assert!(is("v1", "Node", cordoned(), "spec.unschedulable=true"));
        assert!(!is("v1", "Node", cordoned(), "spec.unschedulable=false"));
        assert!(is("batch/v1", "Job", json!({}), "status.successful=0"));
        let component = json!({"source": {}, "reportingComponent": "x"});
        assert!(is("v1", "Event", component, "source=x"));
        assert!(is(
            "example.com/v1",
            "Node",
            json!({}),
            "spec.unschedulable="
        ));
    }
}
