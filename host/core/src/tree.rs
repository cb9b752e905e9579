//! An ordered set that is cheap to clone: what caches and indexes are made of.
//!
//! A persistent B-tree. A clone shares every node; a change copies the nodes on its path that are shared, and no others. All items
//! are in the leaves, and branches hold nothing but their children: an inner node of an ordinary B-tree repeats items, and a repeated
//! item here would keep an object in memory that the cache has long replaced (RATIONALE.md).
//!
//! Invariant: the items are in strictly ascending order, all leaves are at the same depth, and no node but the root is empty.

use std::cmp::Ordering;
use std::sync::Arc;

/// Most items of a leaf and most children of a branch. A change copies about three nodes, and with each item its reference count,
/// so larger nodes make updates slower and smaller ones make lists slower.
const FULL: usize = 32;

/// A node with fewer is joined with its neighbour if both fit into one.
const SPARSE: usize = FULL / 4;

/// An ordered set; see the module's documentation.
#[derive(Debug)]
pub struct Tree<T> {
    root: Arc<Node<T>>,
    len: usize,
}

#[derive(Clone, Debug)]
enum Node<T> {
    Leaf(Vec<T>),
    Branch(Vec<Arc<Node<T>>>),
}

impl<T> Clone for Tree<T> {
    fn clone(&self) -> Self {
        Self {
            root: self.root.clone(),
            len: self.len,
        }
    }
}

impl<T> Default for Tree<T> {
    fn default() -> Self {
        Self {
            root: Arc::new(Node::Leaf(Vec::new())),
            len: 0,
        }
    }
}

impl<T> Tree<T> {
    /// How many items there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The item that `order` calls equal. `order` says how an item compares with what is sought.
    pub fn get(&self, order: impl Fn(&T) -> Ordering) -> Option<&T> {
        let mut node = &*self.root;
        loop {
            match node {
                Node::Leaf(items) => return Some(&items[items.binary_search_by(&order).ok()?]),
                Node::Branch(children) => node = &children[child_of(children, &order)],
            }
        }
    }

    /// All items, in order.
    pub fn iter(&self) -> Iter<'_, T> {
        self.range(|_| Ordering::Greater)
    }

    /// The items in order, beginning with the first that `order` does not call less.
    pub fn range(&self, order: impl Fn(&T) -> Ordering) -> Iter<'_, T> {
        let mut iter = Iter {
            branches: Vec::new(),
            leaf: [].iter(),
        };
        let mut node = &*self.root;
        loop {
            match node {
                Node::Leaf(items) => {
                    let start = items.partition_point(|item| order(item) == Ordering::Less);
                    iter.leaf = items[start..].iter();
                    return iter;
                }
                Node::Branch(children) => {
                    let at = child_of(children, &order);
                    iter.branches.push(children[at + 1..].iter());
                    node = &children[at];
                }
            }
        }
    }
}

impl<T: Ord + Clone> Tree<T> {
    /// Stores an item and returns the equal one that it replaces.
    pub fn insert(&mut self, item: T) -> Option<T> {
        let (replaced, split) = Arc::make_mut(&mut self.root).insert(item);
        if let Some(right) = split {
            let left = std::mem::replace(&mut self.root, Arc::new(Node::Branch(Vec::new())));
            self.root = Arc::new(Node::Branch(vec![left, right]));
        }
        self.len += usize::from(replaced.is_none());
        replaced
    }

    /// Removes the item that `order` calls equal.
    pub fn remove(&mut self, order: impl Fn(&T) -> Ordering) -> Option<T> {
        // Looking first saves copying the path for nothing.
        self.get(&order)?;
        let removed = Arc::make_mut(&mut self.root).remove(&order);
        while let Node::Branch(children) = &*self.root
            && let [only] = children.as_slice()
        {
            self.root = only.clone();
        }
        self.len -= usize::from(removed.is_some());
        removed
    }
}

impl<T> Node<T> {
    /// The least item. A child of a branch is never empty.
    fn first(&self) -> &T {
        let mut node = self;
        loop {
            match node {
                Self::Leaf(items) => return &items[0],
                Self::Branch(children) => node = &children[0],
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Leaf(items) => items.len(),
            Self::Branch(children) => children.len(),
        }
    }
}

/// The child in which what is sought is, if it is anywhere: the last that does not begin after it.
fn child_of<T>(children: &[Arc<Node<T>>], order: impl Fn(&T) -> Ordering) -> usize {
    let after = children.partition_point(|child| order(child.first()) != Ordering::Greater);
    after.saturating_sub(1)
}

impl<T: Ord + Clone> Node<T> {
    /// Says what was replaced, and the right half of this node if it has been split.
    fn insert(&mut self, item: T) -> (Option<T>, Option<Arc<Self>>) {
        match self {
            Self::Leaf(items) => match items.binary_search(&item) {
                Ok(at) => (Some(std::mem::replace(&mut items[at], item)), None),
                Err(at) => (
                    None,
                    insert_at(items, at, item).map(|right| Arc::new(Self::Leaf(right))),
                ),
            },
            Self::Branch(children) => {
                let at = child_of(children, |have| have.cmp(&item));
                let (replaced, split) = Arc::make_mut(&mut children[at]).insert(item);
                let split = split.and_then(|right| insert_at(children, at + 1, right));
                (replaced, split.map(|right| Arc::new(Self::Branch(right))))
            }
        }
    }

    fn remove(&mut self, order: &impl Fn(&T) -> Ordering) -> Option<T> {
        match self {
            Self::Leaf(items) => {
                let at = items.binary_search_by(order).ok()?;
                Some(items.remove(at))
            }
            Self::Branch(children) => {
                let at = child_of(children, order);
                let removed = Arc::make_mut(&mut children[at]).remove(order);
                if children[at].len() < SPARSE {
                    join(children, at);
                }
                removed
            }
        }
    }

    /// Takes over what is in the node after this one, which is at the same depth.
    fn append(&mut self, right: Self) {
        match (self, right) {
            (Self::Leaf(items), Self::Leaf(more)) => items.extend(more),
            (Self::Branch(children), Self::Branch(more)) => children.extend(more),
            _ => unreachable!("all leaves are at the same depth"),
        }
    }
}

/// Inserts, and splits off the right half of what is too much then. Items that come in ascending order, as lists do, leave full nodes
/// behind.
fn insert_at<T>(all: &mut Vec<T>, at: usize, item: T) -> Option<Vec<T>> {
    if all.len() < FULL {
        // Many trees are small and many nodes never grow: no room to spare.
        all.reserve_exact(1);
        all.insert(at, item);
        return None;
    }
    if at == all.len() {
        return Some(vec![item]);
    }
    let mut right = all.split_off(FULL / 2);
    if at <= all.len() {
        all.insert(at, item);
    } else {
        right.insert(at - all.len(), item);
    }
    all.shrink_to_fit();
    Some(right)
}

/// Joins a sparse child with a neighbour, or drops it if it is empty.
fn join<T: Ord + Clone>(children: &mut Vec<Arc<Node<T>>>, at: usize) {
    if children[at].len() == 0 {
        children.remove(at);
        return;
    }
    let left = at.saturating_sub(1);
    if left + 1 < children.len() && children[left].len() + children[left + 1].len() <= FULL {
        let right = children.remove(left + 1);
        Arc::make_mut(&mut children[left]).append(Arc::unwrap_or_clone(right));
    }
}

/// Items in order.
#[derive(Debug)]
pub struct Iter<'a, T> {
    /// What is left of each branch on the way to the leaf.
    branches: Vec<std::slice::Iter<'a, Arc<Node<T>>>>,
    leaf: std::slice::Iter<'a, T>,
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        loop {
            if let Some(item) = self.leaf.next() {
                return Some(item);
            }
            match self.branches.last_mut()?.next().map(|node| &**node) {
                None => drop(self.branches.pop()),
                Some(Node::Leaf(items)) => self.leaf = items.iter(),
                Some(Node::Branch(children)) => self.branches.push(children.iter()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Ordered by its first number alone.
    #[derive(Clone, Debug)]
    struct Item(u16, usize);

    impl Ord for Item {
        fn cmp(&self, other: &Self) -> Ordering {
            self.0.cmp(&other.0)
        }
    }

    impl PartialOrd for Item {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl PartialEq for Item {
        fn eq(&self, other: &Self) -> bool {
            self.0 == other.0
        }
    }

    impl Eq for Item {}

    fn numbers(tree: &Tree<Item>) -> Vec<u16> {
        tree.iter().map(|item| item.0).collect()
    }

    /// The depth of the leaves below a node; panics where the invariant does not hold.
    fn depth(node: &Node<Item>, is_root: bool) -> usize {
        assert!(node.len() <= FULL);
        assert!(is_root || node.len() > 0);
        match node {
            Node::Leaf(_) => 0,
            Node::Branch(children) => {
                let depths: BTreeSet<usize> =
                    children.iter().map(|child| depth(child, false)).collect();
                assert_eq!(depths.len(), 1, "leaves at different depths");
                depths.first().unwrap() + 1
            }
        }
    }

    #[test]
    fn an_equal_item_is_replaced() {
        let mut tree = Tree::default();
        tree.insert(Item(1, 1));
        assert_eq!(tree.insert(Item(1, 2)).unwrap().1, 1);
        assert_eq!(tree.get(|item| item.0.cmp(&1)).unwrap().1, 2);
        assert_eq!(tree.len(), 1);
    }

    #[test]
    fn nothing_keeps_an_item_that_was_replaced_or_removed() {
        let first: Vec<Arc<u32>> = (0..1000).map(Arc::new).collect();
        let mut tree = Tree::default();
        first
            .iter()
            .for_each(|item| drop(tree.insert(item.clone())));
        (0..500).for_each(|number| drop(tree.insert(Arc::new(number))));
        (500..1000).for_each(|number| drop(tree.remove(|item| (**item).cmp(&number))));
        assert!(first.iter().all(|item| Arc::strong_count(item) == 1));
    }

    #[test]
    fn items_that_come_in_order_fill_their_leaves() {
        let mut tree = Tree::default();
        (0..1024).for_each(|number| assert!(tree.insert(number).is_none()));
        let Node::Branch(leaves) = &*tree.root else {
            panic!("a single leaf");
        };
        assert_eq!(leaves.len(), 1024 / FULL);
    }

    proptest! {
        #[test]
        fn a_tree_is_an_ordered_set_and_a_clone_is_frozen(
            steps in prop::collection::vec((any::<bool>(), 0u16..600), 0..3000),
            freeze_at in 0usize..3000,
            from in 0u16..600,
        ) {
            let mut tree = Tree::default();
            let mut model = BTreeSet::new();
            let mut frozen = None;
            for (step, (is_removal, number)) in steps.into_iter().enumerate() {
                if step == freeze_at {
                    frozen = Some((tree.clone(), model.clone()));
                }
                if is_removal {
                    let removed = tree.remove(|item: &Item| item.0.cmp(&number));
                    prop_assert_eq!(removed.is_some(), model.remove(&number));
                } else {
                    prop_assert_eq!(tree.insert(Item(number, step)).is_none(), model.insert(number));
                }
            }
            for (tree, model) in frozen.iter().chain([&(tree, model)]) {
                prop_assert_eq!(tree.len(), model.len());
                prop_assert_eq!(numbers(tree), model.iter().copied().collect::<Vec<_>>());
                let range = tree.range(|item| item.0.cmp(&from)).map(|item| item.0);
                prop_assert_eq!(range.collect::<Vec<_>>(), model.range(from..).copied().collect::<Vec<_>>());
                prop_assert_eq!(tree.get(|item| item.0.cmp(&from)).is_some(), model.contains(&from));
                depth(&tree.root, true);
            }
        }
    }
}
