//! The JSON body of an action: which object it is about, and the value itself.
//!
//! A decoded value can take a hundred times the memory of its text, and a worker's memory is not
//! the guest's. So the address is read first, without decoding the rest, and only a write that is
//! permitted is decoded.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{ActionError, MAX_BODY};
use crate::model::key::{Kind, ObjectKey};

/// Maximum memory of a decoded body in bytes. A body of 1.5 MiB, the most that etcd stores, stays
/// below it unless nearly all of its members are objects of their own.
const MAX_DECODED: usize = 32 << 20;

/// Memory of a value without its members and text.
const VALUE_BYTES: usize = size_of::<Value>();

/// Memory of a node of a map's tree, and how many members it has room for.
const NODE_BYTES: usize = NODE_MEMBERS * (size_of::<String>() + VALUE_BYTES) + 16;
const NODE_MEMBERS: usize = 11;

/// Members of a node that is half full, as nodes are after members came in order.
const HALF_NODE: usize = NODE_MEMBERS / 2;

/// The text of a map with one member is at least this much longer than that of the member's value:
/// `{"":…}`. Nothing else takes as much memory for its text.
const LEAST_MAP: usize = 5;

/// The object that a body names, in the API server's terms. Missing names are empty.
#[derive(Debug)]
pub(super) struct BodyAddress {
    pub kind: Kind,
    pub key: ObjectKey,
    /// `metadata.generateName`.
    pub prefix: String,
}

impl BodyAddress {
    /// Reads the address from the text of a body. Of duplicate members the last counts, as in the
    /// decoded body.
    pub fn read(text: &str) -> Result<Self, ActionError> {
        check_size(text)?;
        let raw: RawAddress<'_> = read(text)?;
        let metadata = raw.metadata.map_or("", RawValue::get);
        let metadata: RawMetadata<'_> = match metadata.starts_with('{') {
            true => read(metadata)?,
            false => RawMetadata::default(),
        };
        let api_version = string("apiVersion", raw.api_version)?;
        let kind = string("kind", raw.kind)?;
        for (path, value) in [("apiVersion", &api_version), ("kind", &kind)] {
            if value.is_empty() {
                return Err(ActionError::Json(format!("{path} is missing")));
            }
        }
        let namespace = string("metadata/namespace", metadata.namespace)?;
        let name = string("metadata/name", metadata.name)?;
        Ok(Self {
            kind: Kind::from_api_version(&api_version, &kind),
            key: ObjectKey::new(&namespace, &name),
            prefix: string("metadata/generateName", metadata.generate_name)?,
        })
    }
}

/// Decodes a body.
pub(super) fn decode(text: &str) -> Result<Value, ActionError> {
    check_size(text)?;
    if text.len() > MAX_DECODED / (NODE_BYTES + VALUE_BYTES) * LEAST_MAP {
        let Cost(bytes) = serde_json::from_str(text).map_err(|error| invalid(&error))?;
        if bytes > MAX_DECODED {
            return Err(ActionError::TooManyParts);
        }
    }
    serde_json::from_str(text).map_err(|error| invalid(&error))
}

/// Reads the members of an object that `T` knows.
fn read<'a, T: KnownMembers<'a>>(text: &'a str) -> Result<T, ActionError> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let members = deserializer.deserialize_map(MemberVisitor(T::default()));
    let members = members.and_then(|members| deserializer.end().map(|()| members));
    members.map_err(|error| invalid(&error))
}

/// The text of a member that is a string. `null` is as good as no member.
fn string(path: &str, value: Option<&RawValue>) -> Result<String, ActionError> {
    match value.map_or("null", RawValue::get) {
        "null" => Ok(String::new()),
        text if text.starts_with('"') => {
            serde_json::from_str(text).map_err(|error| invalid(&error))
        }
        _ => Err(ActionError::Json(format!("/{path} is not a string"))),
    }
}

fn check_size(text: &str) -> Result<(), ActionError> {
    match text.len() > MAX_BODY {
        true => Err(ActionError::TooLarge(text.len())),
        false => Ok(()),
    }
}

fn invalid(error: &serde_json::Error) -> ActionError {
    ActionError::Json(error.to_string())
}

/// Refuses a patch that names another object than the one it is for.
pub(super) fn check_address(body: &Value, kind: &Kind, key: &ObjectKey) -> Result<(), ActionError> {
    let (api_version, kind_name) = (kind.api_version(), &*kind.kind);
    for (path, wanted) in [
        ("/apiVersion", &*api_version),
        ("/kind", kind_name),
        ("/metadata/name", &*key.name),
        ("/metadata/namespace", &*key.namespace),
    ] {
        if let Some(have) = body
            .pointer(path)
            .filter(|have| have.as_str() != Some(wanted))
        {
            return Err(ActionError::OtherObject {
                body: format!("{} {have}", &path[1..]),
                address: format!("{kind} {key}"),
            });
        }
    }
    Ok(())
}

/// The members of a body that say what it is about. Not derived, because a derived struct can also
/// be read from an array, and such a body would then have an address that its value lacks.
#[derive(Default)]
struct RawAddress<'a> {
    api_version: Option<&'a RawValue>,
    kind: Option<&'a RawValue>,
    metadata: Option<&'a RawValue>,
}

/// The members of `metadata` that say which object it is.
#[derive(Default)]
struct RawMetadata<'a> {
    namespace: Option<&'a RawValue>,
    name: Option<&'a RawValue>,
    generate_name: Option<&'a RawValue>,
}

/// A JSON object of which the known members are kept as text and the others are skipped.
trait KnownMembers<'a>: Default {
    /// The place for the member of this name, if it is known.
    fn member(&mut self, name: &str) -> Option<&mut Option<&'a RawValue>>;
}

impl<'a> KnownMembers<'a> for RawAddress<'a> {
    fn member(&mut self, name: &str) -> Option<&mut Option<&'a RawValue>> {
        match name {
            "apiVersion" => Some(&mut self.api_version),
            "kind" => Some(&mut self.kind),
            "metadata" => Some(&mut self.metadata),
            _ => None,
        }
    }
}

impl<'a> KnownMembers<'a> for RawMetadata<'a> {
    fn member(&mut self, name: &str) -> Option<&mut Option<&'a RawValue>> {
        match name {
            "namespace" => Some(&mut self.namespace),
            "name" => Some(&mut self.name),
            "generateName" => Some(&mut self.generate_name),
            _ => None,
        }
    }
}

/// Reads the members of an object in their order.
struct MemberVisitor<T>(T);

impl<'de, T: KnownMembers<'de>> Visitor<'de> for MemberVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<T, A::Error> {
        while let Some(name) = members.next_key::<Cow<'de, str>>()? {
            match self.0.member(&name) {
                Some(member) => *member = Some(members.next_value()?),
                None => drop(members.next_value::<IgnoredAny>()?),
            }
        }
        Ok(self.0)
    }
}

/// The memory that a JSON value would take as a [`Value`], in bytes, from above.
struct Cost(usize);

impl<'de> Deserialize<'de> for Cost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CostVisitor).map(Self)
    }
}

struct CostVisitor;

impl<'de> Visitor<'de> for CostVisitor {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<usize, E> {
        Ok(VALUE_BYTES)
    }

    fn visit_i64<E>(self, _: i64) -> Result<usize, E> {
        Ok(VALUE_BYTES)
    }

    fn visit_u64<E>(self, _: u64) -> Result<usize, E> {
        Ok(VALUE_BYTES)
    }

    fn visit_f64<E>(self, _: f64) -> Result<usize, E> {
        Ok(VALUE_BYTES)
    }

    fn visit_unit<E>(self) -> Result<usize, E> {
        Ok(VALUE_BYTES)
    }

    fn visit_str<E>(self, text: &str) -> Result<usize, E> {
        Ok(VALUE_BYTES + text.len())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<usize, A::Error> {
        let mut bytes = VALUE_BYTES;
        while let Some(Cost(element)) = elements.next_element()? {
            bytes += element;
        }
        Ok(bytes)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<usize, A::Error> {
        let mut bytes = VALUE_BYTES;
        let mut count = 0;
        while let Some(name) = members.next_key::<Cow<'de, str>>()? {
            // The node has room for the value itself.
            let Cost(value) = members.next_value()?;
            bytes += name.len() + value - VALUE_BYTES;
            count += 1;
        }
        Ok(bytes + NODE_BYTES * usize::div_ceil(count, HALF_NODE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Result<String, String> {
        let address = BodyAddress::read(text).map_err(|error| error.to_string())?;
        Ok(format!("{} {}", address.kind, address.key))
    }

    #[test]
    fn an_address_is_read_without_the_rest() {
        let body = r#"{"spec":[[{"name":"x"}]],"metadata":{"labels":{"name":"y"},"name":"a",
            "namespace":"n"},"kind":"Pod","apiVersion":"v1"}"#;
        assert_eq!(address(body), Ok("v1/Pod n/a".into()));
    }

    #[test]
    fn of_duplicate_members_the_last_counts_as_in_the_decoded_body() {
        let body = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"n"},
            "metadata":{"name":"b","n\u0061me":"c"}}"#;
        assert_eq!(address(body), Ok("v1/Pod c".into()));
        assert_eq!(decode(body).unwrap()["metadata"]["name"], "c");
    }

    #[test]
    fn an_array_is_not_a_body() {
        for body in [r#"["v1","Pod",{"name":"a"}]"#, "7"] {
            let error = address(body).unwrap_err();
            assert!(error.contains("expected an object"), "{error}");
        }
    }

    #[test]
    fn an_array_has_no_names_by_position() {
        let body = r#"{"apiVersion":"v1","kind":"Pod","metadata":["n","a"]}"#;
        assert_eq!(BodyAddress::read(body).unwrap().key, ObjectKey::new("", ""));
    }

    /// `layers` maps of one member each around a number, `count` times.
    fn nested(layers: usize, count: usize) -> String {
        let one = format!("{}0{}", r#"{"":"#.repeat(layers), "}".repeat(layers));
        format!(r#"{{"items":[{}]}}"#, vec![one; count].join(","))
    }

    #[test]
    fn a_body_that_would_take_too_much_memory_is_not_decoded() {
        assert!(decode(&nested(100, 400)).is_ok());
        let error = decode(&nested(100, 1_000)).unwrap_err();
        assert!(matches!(error, ActionError::TooManyParts), "{error}");
        let numbers = format!("[{}0]", "0,".repeat(MAX_BODY / 2 - 2));
        let error = decode(&numbers).unwrap_err();
        assert!(matches!(error, ActionError::TooManyParts), "{error}");
    }

    #[test]
    fn a_large_ordinary_body_is_decoded() {
        let address = r#"{"ip":"10.0.0.1","targetRef":{"kind":"Pod","name":"a-7","uid":"u"}}"#;
        let body = format!(r#"{{"subsets":[{}]}}"#, vec![address; 10_000].join(","));
        assert!(decode(&body).is_ok());
        let text = format!(r#"{{"data":{{"a":"{}"}}}}"#, "x".repeat(MAX_BODY - 100));
        assert!(decode(&text).is_ok());
    }

    #[test]
    fn deep_nesting_is_an_error() {
        let body = format!("{}0{}", "[".repeat(200_000), "]".repeat(200_000));
        assert!(decode(&body).is_err());
        let body =
            format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"a"}},"x":{body}}}"#);
        assert!(decode(&body).is_err());
    }
}
