//! Reading JSON text in parts, without decoding what is not wanted.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The text of a string, number or boolean. `None` for other values.
pub(super) fn scalar(json: &str) -> Option<Cow<'_, str>> {
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
