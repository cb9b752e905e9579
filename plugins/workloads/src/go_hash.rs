//! The hash of a pod template as kube-controller-manager computes it (`controller.ComputeHash` in
//! `pkg/controller`): 32-bit FNV-1a of the text in which go-spew shows the Go value (`%#v`).
//!
//! That text names every field that the Go types have, so it is that of one version of Kubernetes,
//! 1.36. Members that `go_types.txt` does not know are part of the hash, too, but not as another
//! version would write them.

use std::collections::{BTreeMap, BTreeSet};

use pilothouse_sdk::{fnv32a, safe_encode};
use serde_json::Value;

mod quantity;

const TYPES: &str = include_str!("go_types.txt");

const TEMPLATE: &str = "v1.PodTemplateSpec";

/// Stands in `go_types.txt` for the name of an embedded struct, which has none in JSON.
const EMBEDDED: &str = "-";

/// A `metav1.Time` that is not set.
const NO_TIME: &str = "{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}";

/// The hash of this template. With another count of collisions it is another one.
#[must_use]
pub fn compute_hash(template: &Value, collisions: Option<i32>) -> String {
    let mut bytes = dump(template).into_bytes();
    if let Some(collisions) = collisions {
        bytes.extend(u64::from(collisions.cast_unsigned()).to_le_bytes());
    }
    safe_encode(&fnv32a(&bytes).to_string())
}

/// The text that is hashed.
fn dump(template: &Value) -> String {
    let types = types();
    let mut writer = Writer {
        types: &types,
        text: String::new(),
        unknown: String::new(),
    };
    writer.typed(TEMPLATE, template);
    writer.text + &writer.unknown
}

/// What `go_types.txt` says of a type.
enum Type {
    Struct(Vec<Field>),
    /// A name of another type.
    Alias(&'static str),
}

struct Field {
    name: &'static str,
    json: &'static str,
    kind: &'static str,
}

fn types() -> BTreeMap<&'static str, Type> {
    let mut types = BTreeMap::new();
    let mut newest = "";
    for line in TYPES.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match (&*words, types.get_mut(newest)) {
            (&[name], _) => {
                types.insert(name, Type::Struct(Vec::new()));
                newest = name;
            }
            (&[name, "=", kind], _) => {
                types.insert(name, Type::Alias(kind));
            }
            (&[name, json, kind], Some(Type::Struct(fields))) => {
                fields.push(Field { name, json, kind });
            }
            _ => {}
        }
    }
    types
}

struct Writer<'a> {
    types: &'a BTreeMap<&'static str, Type>,
    text: String,
    /// What no field stands for.
    unknown: String,
}

impl Writer<'_> {
    /// A value after its type. What is absent is null.
    fn typed(&mut self, kind: &str, value: &Value) {
        self.text.push_str(&format!("({kind})"));
        self.value(kind, value);
    }

    fn value(&mut self, kind: &str, value: &Value) {
        if let Some(pointed) = kind.strip_prefix('*') {
            match value {
                Value::Null => self.text.push_str("<nil>"),
                value => self.value(pointed, value),
            }
        } else if let Some(element) = kind.strip_prefix("[]") {
            self.list(element, value);
        } else if let Some((_, element)) = kind.split_once(']') {
            self.map(element, value);
        } else {
            self.named(kind, value);
        }
    }

    /// Kubernetes stores an empty list or map as none.
    fn list(&mut self, kind: &str, value: &Value) {
        let Some(items) = value.as_array().filter(|items| !items.is_empty()) else {
            return self.text.push_str("<nil>");
        };
        for (number, item) in items.iter().enumerate() {
            self.text.push(if number == 0 { '[' } else { ' ' });
            self.value(kind, item);
        }
        self.text.push(']');
    }

    fn map(&mut self, kind: &str, value: &Value) {
        let Some(members) = value.as_object().filter(|members| !members.is_empty()) else {
            return self.text.push_str("<nil>");
        };
        self.text.push_str("map");
        let members: BTreeMap<&String, &Value> = members.iter().collect();
        for (number, (name, member)) in members.into_iter().enumerate() {
            self.text.push(if number == 0 { '[' } else { ' ' });
            self.text.push_str(name);
            self.text.push(':');
            self.value(kind, member);
        }
        self.text.push(']');
    }

    fn named(&mut self, kind: &str, value: &Value) {
        let types = self.types;
        match (kind, types.get(kind)) {
            (_, Some(Type::Alias(kind))) => self.value(kind, value),
            (_, Some(Type::Struct(fields))) => self.object(fields, value),
            ("bool", _) => self
                .text
                .push_str(&value.as_bool().unwrap_or(false).to_string()),
            ("int32" | "int64", _) => {
                self.text.push_str(&value.as_i64().unwrap_or(0).to_string());
            }
            ("resource.Quantity", _) => self.text.push_str(&quantity::dump(value)),
            ("intstr.IntOrString", _) => self.int_or_string(value),
            ("v1.Time", _) => self.time(value),
            _ => self.text.push_str(value.as_str().unwrap_or_default()),
        }
    }

    fn object(&mut self, fields: &[Field], value: &Value) {
        let known = self.names(fields);
        for (name, member) in value.as_object().into_iter().flatten() {
            if !known.contains(name.as_str()) {
                self.unknown.push_str(&format!(" {name}:{member}"));
            }
        }
        self.fields(fields, value);
    }

    fn fields(&mut self, fields: &[Field], value: &Value) {
        for (number, Field { name, json, kind }) in fields.iter().enumerate() {
            self.text.push(if number == 0 { '{' } else { ' ' });
            self.text.push_str(&format!("{name}:"));
            match self.types.get(kind) {
                Some(Type::Struct(embedded)) if *json == EMBEDDED => {
                    self.text.push_str(&format!("({kind})"));
                    self.fields(embedded, value);
                }
                _ => self.typed(kind, &value[json]),
            }
        }
        self.text.push('}');
    }

    /// The members that these fields stand for.
    fn names(&self, fields: &[Field]) -> BTreeSet<&'static str> {
        let mut names = BTreeSet::new();
        for field in fields {
            match self.types.get(field.kind) {
                Some(Type::Struct(embedded)) if field.json == EMBEDDED => {
                    names.extend(self.names(embedded));
                }
                _ => {
                    names.insert(field.json);
                }
            }
        }
        names
    }

    fn int_or_string(&mut self, value: &Value) {
        let is_text = u8::from(value.is_string());
        let number = value.as_i64().unwrap_or(0);
        let text = value.as_str().unwrap_or_default();
        self.text.push_str(&format!(
            "{{Type:(intstr.Type){is_text} IntVal:(int32){number} StrVal:(string){text}}}"
        ));
    }

    /// A template has no times, unless somebody writes them there.
    fn time(&mut self, value: &Value) {
        self.text.push_str(NO_TIME);
        if !value.is_null() {
            self.unknown.push_str(&format!(" {value}"));
        }
    }
}

#[cfg(test)]
mod tests;
