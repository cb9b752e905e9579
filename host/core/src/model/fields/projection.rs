//! An object cut down to some of its fields.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::json::{Name, push_string};
use super::path::FieldPath;
use super::trie::{Nodes, Trie};

/// A set of field paths, prepared for projecting objects to them. The result has the shape of the
/// whole object: parents stay, array elements keep their positions, and a value that does not have
/// the shape which a path expects is `null`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Projection {
    /// True at a node: the whole value is kept.
    root: Trie<bool>,
}

impl Projection {
    /// Creates a projection to these paths.
    pub fn new(paths: &[FieldPath]) -> Self {
        let mut root = Trie::<bool>::default();
        for path in paths {
            *root.end_of(path) = true;
        }
        Self { root }
    }

    /// True if the value at this path of names is kept whole. A position in an array counts as a
    /// name.
    pub fn keeps(&self, names: &[&str]) -> bool {
        let mut nodes = Nodes::One(&self.root);
        for name in names {
            if is_kept(&nodes) {
                return true;
            }
            let Some(next) = nodes.child(name) else {
                return false;
            };
            nodes = next;
        }
        is_kept(&nodes)
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
    nodes: &'a Nodes<'a, bool>,
    out: &'a mut String,
}

impl<'de> DeserializeSeed<'de> for Cut<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if is_kept(self.nodes) {
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

fn is_kept(nodes: &Nodes<'_, bool>) -> bool {
    nodes.ends().any(|is_kept| *is_kept)
}
