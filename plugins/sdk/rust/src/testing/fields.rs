//! What a plugin sees of an object: the host's rules for field paths, on decoded objects.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Most steps of a path.
const MAX_STEPS: usize = 64;

/// Left out of whole objects, as by the host.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What comes along whatever the manifest's fields are.
const ALWAYS: [&str; 3] = [".metadata.namespace", ".metadata.name", ".metadata.uid"];

/// The wanted parts below one place of an object.
#[derive(Default)]
struct Node {
    /// Take the value whole.
    is_leaf: bool,
    each: Option<Box<Node>>,
    members: BTreeMap<String, Node>,
}

/// The object cut down to these paths; whole, but for bookkeeping, when there are none.
pub(super) fn view(object: &Value, paths: &[String]) -> Value {
    if paths.is_empty() {
        return without_bookkeeping(object.clone());
    }
    let mut root = Node::default();
    for path in paths.iter().map(String::as_str).chain(ALWAYS) {
        root.insert(&steps(path));
    }
    root.cut(object)
}

/// Whether the value at the end of these names is in the view, whole.
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

/// The strings, numbers and booleans at these paths, as text.
pub(super) fn values(object: &Value, paths: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for path in paths {
        collect(&steps(path), object, &mut found);
    }
    found
}

/// Whether an object is selected by a field selector: `spec.nodeName=a,status.phase!=Failed`. A field that is not there is empty.
pub(super) fn matches(object: &Value, selector: &str) -> bool {
    let mut terms = selector.split(',').filter(|term| !term.is_empty());
    terms.all(|term| {
        let (field, value) = term.split_once('=').unwrap_or((term, ""));
        let is_negated = field.ends_with('!');
        let path = format!(".{}", field.trim_end_matches('!').trim());
        let have = values(object, &[path]).into_iter().next();
        let is_equal = have.unwrap_or_default() == value.trim_start_matches('=').trim();
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

/// The steps of a path; `None` is `[*]`.
///
/// # Errors
///
/// What the host would say of it.
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

/// The first step and what comes after it.
fn parse_step(text: &str) -> Result<(Option<&str>, &str), &'static str> {
    if let Some(after) = text.strip_prefix("[*]") {
        return Ok((None, after));
    }
    if let Some(quoted) = text.strip_prefix("['") {
        let (name, after) = quoted.split_once("']").ok_or("no closing '] ")?;
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

/// The steps of a path of a manifest, which was checked when the cluster was made.
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

    fn cut(&self, value: &Value) -> Value {
        match (value, &self.each) {
            _ if self.is_leaf => value.clone(),
            (Value::Object(members), _) => {
                let below = |name: &String| self.members.get(name).or(self.each.as_deref());
                let kept = members
                    .iter()
                    .filter_map(|(name, value)| Some((name.clone(), below(name)?.cut(value))));
                Value::Object(kept.collect::<Map<_, _>>())
            }
            (Value::Array(elements), Some(each)) => {
                elements.iter().map(|element| each.cut(element)).collect()
            }
            _ => Value::Null,
        }
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
}
