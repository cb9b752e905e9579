//! The values that paths lead to.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::json::{members, scalar};
use super::path::FieldPath;
use super::trie::{Nodes, Trie};

/// Several lists of paths, prepared so that the values of all of them are found in one pass over an
/// object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values {
    /// The lists that have a path which ends at a node.
    root: Trie<Vec<usize>>,
}

impl Values {
    /// Prepares these lists of paths.
    pub fn new<'a>(lists: impl IntoIterator<Item = &'a [FieldPath]>) -> Self {
        let mut root = Trie::<Vec<usize>>::default();
        for (list, paths) in lists.into_iter().enumerate() {
            for path in paths {
                root.end_of(path).push(list);
            }
        }
        Self { root }
    }

    /// The strings, numbers and booleans that were found, as text, each with the number of its
    /// list. Empty if the JSON cannot be parsed. A value is borrowed from the text unless it has
    /// escapes.
    pub fn find<'a>(&self, json: &'a str) -> Vec<(usize, Cow<'a, str>)> {
        let mut found = Vec::new();
        find(&Nodes::One(&self.root), json, &mut found);
        found
    }
}

fn find<'a>(nodes: &Nodes<'_, Vec<usize>>, json: &'a str, found: &mut Vec<(usize, Cow<'a, str>)>) {
    if let Some(value) = scalar(json) {
        let lists = nodes.ends().flatten();
        found.extend(lists.map(|list| (*list, value.clone())));
    } else if json.starts_with('{') {
        for (name, value) in members(json).unwrap_or_default() {
            if let Some(nodes) = nodes.child(&name) {
                find(&nodes, value.get(), found);
            }
        }
    } else if json.starts_with('[')
        && let Some(nodes) = nodes.each()
    {
        let elements: Vec<&RawValue> = serde_json::from_str(json).unwrap_or_default();
        elements
            .iter()
            .for_each(|element| find(&nodes, element.get(), found));
    }
}
