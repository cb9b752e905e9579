//! Decides whether a server-side apply would change nothing, as far as the object itself proves it.
//! The object's `managedFields` list the fields that the manager has applied, in the server's own
//! terms (fieldsV1, structured-merge-diff's path sets).
//!
//! It is proved if the manager has applied exactly the fields that the intent names, and each still
//! has the intent's value. Then the apply gives up no field, takes over no field and sets no field
//! anew. fieldsV1 shows where a value is one piece (a scalar, or an atomic map or list: `{}`) and
//! where other managers may have parts beside it, so no schema is needed. Whatever is not clear
//! counts as not proved.
//!
//! One case is ambiguous in fieldsV1: a member of which other managers have taken over all parts is
//! `{}` too. If those parts have the intent's values again, the apply is skipped and the parts stay
//! with the other managers alone. A real apply would make them shared, and leave the object itself
//! as it is.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// The maximum number of elements of one list. Longer lists are not compared.
const MAX_ELEMENTS: usize = 10_000;

/// The metadata fields that an apply may name without owning them: the object's identity, and the
/// fields that the server maintains.
const IDENTITY: [&str; 9] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "selfLink",
    "clusterName",
    "managedFields",
];

/// True if applying `intent` would leave `current` as it is. `owned` (fieldsV1) is what the manager
/// has applied to it so far.
pub(crate) fn is_as_applied(owned: &Value, intent: &Value, current: &Value) -> bool {
    let parts = (
        owned.as_object(),
        owned_part(intent, current),
        current.as_object(),
    );
    let (Some(owned), Some(intent), Some(current)) = parts else {
        return false;
    };
    is_same_map(owned, &intent, current)
}

/// The part of an intent that its manager owns. `None` if the intent's identity of the object
/// differs from the object's own.
fn owned_part(intent: &Value, current: &Value) -> Option<Map<String, Value>> {
    let mut intent = intent.as_object()?.clone();
    for name in ["apiVersion", "kind"] {
        if intent.remove(name).as_ref() != current.get(name) {
            return None;
        }
    }
    let metadata = intent.get_mut("metadata")?.as_object_mut()?;
    for name in IDENTITY {
        let said = metadata.remove(name).filter(|said| !said.is_null());
        if said.is_some_and(|said| current["metadata"].get(name) != Some(&said)) {
            return None;
        }
    }
    if metadata.is_empty() {
        intent.remove("metadata");
    }
    Some(intent)
}

fn is_same(owned: &Value, intent: &Value, current: &Value) -> bool {
    let Some(owned) = owned.as_object() else {
        return false;
    };
    if owned.is_empty() {
        return intent == current;
    }
    match (intent, current) {
        (Value::Object(intent), Value::Object(current)) => is_same_map(owned, intent, current),
        (Value::Array(intent), Value::Array(current)) => is_same_list(owned, intent, current),
        _ => false,
    }
}

fn is_same_map(
    owned: &Map<String, Value>,
    intent: &Map<String, Value>,
    current: &Map<String, Value>,
) -> bool {
    let mut parts = owned.iter().filter(|(element, _)| *element != ".");
    let count = owned.len() - usize::from(owned.contains_key("."));
    count == intent.len()
        && parts.all(|(element, owned)| {
            let name = element.strip_prefix("f:");
            let of = name.and_then(|name| Some((intent.get(name)?, current.get(name))));
            // The server does not store a null, but records it as owned.
            of.is_some_and(|(intent, current)| {
                is_same(owned, intent, current.unwrap_or(&Value::Null))
            })
        })
}

/// An element of a list that is merged element by element.
enum Element {
    /// An element of a set: this value.
    Value(Value),
    /// An element of a list of maps: the one in which these fields have these values.
    Keys(Map<String, Value>),
}

impl Element {
    fn parse(element: &str) -> Option<Self> {
        if let Some(value) = element.strip_prefix("v:") {
            return serde_json::from_str(value).ok().map(Self::Value);
        }
        let keys = element.strip_prefix("k:")?;
        serde_json::from_str(keys).ok().map(Self::Keys)
    }

    /// True if this may be the element that an item of the intent means. A key that the item leaves
    /// out has a default, which only the server knows.
    fn may_be(&self, item: &Value) -> bool {
        match self {
            Self::Value(value) => value == item,
            Self::Keys(keys) => {
                item.is_object()
                    && keys
                        .iter()
                        .all(|(key, value)| item.get(key).is_none_or(|have| have == value))
            }
        }
    }

    /// A text that distinguishes the element from others with the same fields as keys.
    fn name(&self) -> String {
        match self {
            Self::Value(value) => value.to_string(),
            Self::Keys(keys) => name_of(keys.values()),
        }
    }

    fn key_fields(&self) -> Vec<&String> {
        match self {
            Self::Value(_) => Vec::new(),
            Self::Keys(keys) => keys.keys().collect(),
        }
    }
}

fn name_of<'a>(values: impl Iterator<Item = &'a Value>) -> String {
    values.map(|value| format!("{value}\n")).collect()
}

/// True if the elements of the intent are exactly the owned ones, and `current` has them with the
/// intent's values and in the intent's order. Elements of other managers may be between them.
fn is_same_list(owned: &Map<String, Value>, intent: &[Value], current: &[Value]) -> bool {
    let parts = owned.iter().filter(|(element, _)| *element != ".");
    let elements = parts.map(|(element, owned)| Some((Element::parse(element)?, owned)));
    let Some(elements) = elements.collect::<Option<Vec<_>>>() else {
        return false;
    };
    let Some((first, _)) = elements.first() else {
        return false;
    };
    let fields = first.key_fields();
    let is_alike = |(element, _): &(Element, _)| element.key_fields() == fields;
    if elements.len() != intent.len()
        || intent.len() > MAX_ELEMENTS
        || !elements.iter().all(is_alike)
    {
        return false;
    }
    let Some(places) = places(current, &fields) else {
        return false;
    };
    let by_name: HashMap<String, usize> = elements
        .iter()
        .enumerate()
        .map(|(at, (element, _))| (element.name(), at))
        .collect();
    let mut is_used = vec![false; elements.len()];
    let mut next = 0;
    intent.iter().all(|item| {
        let Some(at) = meant(item, &elements, &fields, &by_name) else {
            return false;
        };
        let (element, owned) = &elements[at];
        let Some(place) = places.get(&element.name()) else {
            return false;
        };
        let is_in_order = *place >= next;
        next = place + 1;
        !std::mem::replace(&mut is_used[at], true)
            && is_in_order
            && is_same_element(element, owned, item, &current[*place])
    })
}

/// The position of the owned element that an item of the intent means. `None` unless exactly one
/// can be meant.
fn meant(
    item: &Value,
    elements: &[(Element, &Value)],
    fields: &[&String],
    by_name: &HashMap<String, usize>,
) -> Option<usize> {
    if let Some(name) = name_in(item, fields) {
        return by_name.get(&name).copied();
    }
    // Only a few lists have keys with defaults (a port's protocol), and those lists are short.
    const MAX_GUESSES: usize = 100;
    let mut possible = elements.iter().enumerate();
    let mut possible = possible
        .by_ref()
        .filter(|(_, (element, _))| element.may_be(item));
    match (possible.next(), possible.next()) {
        (Some((at, _)), None) if elements.len() <= MAX_GUESSES => Some(at),
        _ => None,
    }
}

fn is_same_element(element: &Element, owned: &Value, item: &Value, current: &Value) -> bool {
    match element {
        Element::Value(_) => owned.as_object().is_some_and(Map::is_empty) && item == current,
        Element::Keys(_) => {
            let parts = owned.as_object();
            // The manager must also own the element itself, so that it remains when another manager
            // gives it up. An element that is one piece, such as an owner reference, has no parts
            // that would show this.
            let is_member = parts.is_some_and(|parts| parts.is_empty() || parts.contains_key("."));
            is_member && is_same(owned, item, current)
        }
    }
}

/// The position of each element in a list. `None` if two elements are the same, or one lacks a
/// key field.
fn places(list: &[Value], fields: &[&String]) -> Option<HashMap<String, usize>> {
    let mut places = HashMap::with_capacity(list.len());
    for (place, item) in list.iter().enumerate() {
        let name = name_in(item, fields)?;
        if places.insert(name, place).is_some() {
            return None;
        }
    }
    Some(places)
}

/// A text that distinguishes an item in a list with these fields as keys. In a set, which has no
/// such fields, it is the item itself. `None` if the item lacks one of the fields.
fn name_in(item: &Value, fields: &[&String]) -> Option<String> {
    if fields.is_empty() {
        return Some(item.to_string());
    }
    let values = fields.iter().map(|field| item.get(field.as_str()));
    let values: Option<Vec<&Value>> = values.collect();
    Some(name_of(values?.into_iter()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// An object with this content, of which the manager has applied `owned`.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "the cases read better without references"
    )]
    fn is_proved(owned: Value, intent: Value, current: Value) -> bool {
        let object = |spec: Value| json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "a"}, "spec": spec});
        let mut live = object(current);
        live["metadata"]["uid"] = "u".into();
        live["metadata"]["labels"] = json!({"foreign": "x"});
        is_as_applied(&json!({"f:spec": owned}), &object(intent), &live)
    }

    #[test]
    fn what_is_owned_and_as_wanted_needs_no_apply() {
        assert!(is_proved(
            json!({"f:a": {}}),
            json!({"a": 1}),
            json!({"a": 1})
        ));
        assert!(
            is_proved(json!({"f:a": {}}), json!({"a": 1}), json!({"a": 1, "b": 2})),
            "what others have beside it is theirs"
        );
        assert!(is_proved(
            json!({"f:m": {"f:x": {}, ".": {}}}),
            json!({"m": {"x": "1"}}),
            json!({"m": {"x": "1", "y": "2"}})
        ));
    }

    #[test]
    fn what_is_one_piece_must_be_equal_as_a_whole() {
        let selector = || json!({"f:selector": {}});
        let intent = || json!({"selector": {"app": "web"}});
        assert!(is_proved(selector(), intent(), intent()));
        assert!(!is_proved(
            selector(),
            intent(),
            json!({"selector": {"app": "web", "x": "y"}})
        ));
        assert!(!is_proved(
            json!({"f:rules": {}}),
            json!({"rules": [{"a": 1}]}),
            json!({"rules": [{"a": 1, "b": 1}]})
        ));
        assert!(!is_proved(
            json!({"f:nodeSelector": {}}),
            json!({"nodeSelector": {}}),
            json!({"nodeSelector": {"a": "b"}})
        ));
    }

    #[test]
    fn a_field_that_is_given_up_taken_or_changed_needs_an_apply() {
        let both = || json!({"f:a": {}, "f:b": {}});
        assert!(!is_proved(both(), json!({"a": 1}), json!({"a": 1, "b": 2})));
        assert!(!is_proved(
            json!({"f:a": {}}),
            json!({"a": 1, "b": 2}),
            json!({"a": 1, "b": 2})
        ));
        assert!(!is_proved(
            both(),
            json!({"a": 1, "b": 2}),
            json!({"a": 1, "b": 3})
        ));
        assert!(!is_proved(both(), json!({"a": 1, "b": 2}), json!({"a": 1})));
        assert!(
            !is_proved(json!({"f:a": {}}), json!({"a": 1}), json!({"a": "1"})),
            "the server has normalised it"
        );
    }

    #[test]
    fn list_items_are_matched_by_their_keys() {
        let owned = || json!({r#"k:{"name":"a"}"#: {".": {}, "f:name": {}, "f:image": {}}});
        let intent = || json!([{"name": "a", "image": "x"}]);
        let with = |current: Value| {
            is_proved(
                json!({"f:c": owned()}),
                json!({"c": intent()}),
                json!({"c": current}),
            )
        };
        assert!(with(
            json!([{"name": "b"}, {"name": "a", "image": "x", "pull": "Always"}])
        ));
        assert!(!with(json!([{"name": "a", "image": "y"}])));
        assert!(!with(json!([{"name": "b", "image": "x"}])));
        assert!(!with(
            json!([{"name": "a", "image": "x"}, {"name": "a", "image": "x"}])
        ));
        assert!(!with(json!({"a": 1})));
    }

    #[test]
    fn a_key_with_a_default_is_matched_if_only_one_can_be_meant() {
        let tcp = r#"k:{"port":80,"protocol":"TCP"}"#;
        let udp = r#"k:{"port":80,"protocol":"UDP"}"#;
        let live =
            || json!({"p": [{"port": 80, "protocol": "TCP"}, {"port": 80, "protocol": "UDP"}]});
        assert!(is_proved(
            json!({"f:p": {tcp: {".": {}, "f:port": {}}}}),
            json!({"p": [{"port": 80}]}),
            live()
        ));
        assert!(
            !is_proved(
                json!({"f:p": {tcp: {".": {}, "f:port": {}}, udp: {".": {}, "f:port": {}, "f:protocol": {}}}}),
                json!({"p": [{"port": 80}, {"port": 80, "protocol": "UDP"}]}),
                live()
            ),
            "which of the two the first is cannot be told without the schema"
        );
        assert!(!is_proved(
            json!({"f:p": {udp: {".": {}, "f:port": {}, "f:protocol": {}}}}),
            json!({"p": [{"port": 80}]}),
            live()
        ));
    }

    #[test]
    fn elements_of_sets_and_lists_keep_their_order() {
        let owned = || json!({"f:s": {r#"v:"a""#: {}, r#"v:"b""#: {}}});
        let with = |intent: Value, current: Value| {
            is_proved(owned(), json!({"s": intent}), json!({"s": current}))
        };
        assert!(with(json!(["a", "b"]), json!(["a", "x", "b"])));
        assert!(!with(json!(["b", "a"]), json!(["a", "b"])));
        assert!(!with(json!(["a", "a"]), json!(["a", "b"])));
        assert!(!with(json!(["a"]), json!(["a", "b"])));
        assert!(!with(json!(["a", "b"]), json!(["a"])));
    }

    #[test]
    fn what_cannot_be_read_is_not_proved() {
        for owned in [
            json!({"f:a": {"i:0": {}}}),
            json!({"f:a": {"k:{": {".": {}}}}),
            json!({"f:a": 7}),
            json!({"f:a": {"x": {}}}),
            json!({"f:a": {"v:1": {}, r#"k:{"n":1}"#: {".": {}}}}),
            json!(null),
        ] {
            assert!(!is_proved(owned, json!({"a": [1]}), json!({"a": [1]})));
        }
    }

    #[test]
    fn who_the_object_is_is_not_owned_but_must_be_so() {
        let intent =
            |metadata: Value| json!({"apiVersion": "v1", "kind": "K", "metadata": metadata});
        let mut live = intent(json!({"name": "a", "uid": "u", "resourceVersion": "7"}));
        live["data"] = json!({});
        let owned = json!({});
        for (metadata, is_same) in [
            (json!({"name": "a"}), true),
            (
                json!({"name": "a", "uid": "u", "creationTimestamp": null}),
                true,
            ),
            (json!({"name": "a", "uid": "v"}), false),
            (json!({"name": "a", "resourceVersion": "6"}), false),
        ] {
            assert_eq!(
                is_as_applied(&owned, &intent(metadata.clone()), &live),
                is_same,
                "{metadata}"
            );
        }
    }

    #[test]
    fn what_is_null_is_absent() {
        let with = |current| is_proved(json!({"f:t": {}}), json!({"t": null}), current);
        assert!(
            with(json!({})),
            "Go writes a null creationTimestamp into templates"
        );
        assert!(!with(json!({"t": "now"})));
        assert!(!is_proved(json!({"f:t": {}}), json!({"t": 1}), json!({})));
    }

    #[test]
    fn an_item_that_is_one_piece_must_be_equal_as_a_whole() {
        let owned = || json!({"f:owners": {r#"k:{"uid":"u"}"#: {}}});
        let with = |intent: Value, current: Value| {
            is_proved(
                owned(),
                json!({"owners": intent}),
                json!({"owners": current}),
            )
        };
        let item = || json!({"uid": "u", "name": "a"});
        assert!(with(
            json!([item()]),
            json!([{"uid": "v", "name": "b"}, item()])
        ));
        assert!(!with(
            json!([item()]),
            json!([{"uid": "u", "name": "a", "controller": true}])
        ));
        assert!(!with(json!([item()]), json!([{"uid": "u", "name": "b"}])));
    }
}
