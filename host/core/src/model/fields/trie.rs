//! Many paths as one tree, so that one pass over an object follows all of them.

use std::collections::BTreeMap;

use super::path::{FieldPath, PathStep};

/// The continuations of all paths at one position. `L` says what ends there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Trie<L> {
    pub(super) end: L,
    each: Option<Box<Trie<L>>>,
    children: BTreeMap<String, Trie<L>>,
}

impl<L: Default> Trie<L> {
    /// What ends where this path leads to.
    pub(super) fn end_of(&mut self, path: &FieldPath) -> &mut L {
        let mut node = self;
        for step in &path.steps {
            node = match step {
                PathStep::Each => &mut **node.each.get_or_insert_default(),
                PathStep::Name(name) => node.children.entry(name.clone()).or_default(),
            };
        }
        &mut node.end
    }
}

/// One position in an object. It has several nodes where some paths have a name and others `[*]`.
pub(super) enum Nodes<'a, L> {
    One(&'a Trie<L>),
    Many(Vec<&'a Trie<L>>),
}

impl<'a, L> Nodes<'a, L> {
    fn of(found: impl Iterator<Item = &'a Trie<L>>) -> Option<Self> {
        let mut found = found.peekable();
        let first = found.next()?;
        if found.peek().is_none() {
            return Some(Self::One(first));
        }
        Some(Self::Many(std::iter::once(first).chain(found).collect()))
    }

    fn all(&self) -> &[&'a Trie<L>] {
        match self {
            Self::One(node) => std::slice::from_ref(node),
            Self::Many(nodes) => nodes,
        }
    }

    /// What ends here.
    pub(super) fn ends(&self) -> impl Iterator<Item = &'a L> {
        self.all().iter().map(|node| &node.end)
    }

    /// The position of a member. `None` if no path leads there.
    pub(super) fn child(&self, name: &str) -> Option<Self> {
        let nodes = self.all().iter();
        Self::of(nodes.flat_map(|node| {
            let named = node.children.get(name).into_iter();
            named.chain(node.each.as_deref())
        }))
    }

    /// The position of an array's elements. `None` if no path leads there.
    pub(super) fn each(&self) -> Option<Self> {
        Self::of(self.all().iter().filter_map(|node| node.each.as_deref()))
    }
}
