//! An ordered set that is cheap to clone. Caches and indexes are made of it.
//!
//! It is a persistent B-tree. A clone shares every node. A change copies only those nodes on its
//! path that are shared. All items are in the leaves. The children of a branch are told apart by
//! separate keys and not by items: the inner items of an ordinary B-tree would keep objects in
//! memory that the cache has replaced long ago (RATIONALE.md).
//!
//! Invariant: the items are in strictly ascending order, all leaves are at the same depth, no node
//! but the root is empty, and no item below a child is less than that child's bound, except below
//! the first child of a branch.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// The maximum number of items in a leaf and of children in a branch. A change copies about three
/// nodes and changes the reference count of each item in them, so larger nodes make updates slower
/// and smaller ones make lists slower.
const FULL: usize = 48;

/// A node with fewer items or children is joined with its neighbour if both fit into one.
const SPARSE: usize = FULL / 4;

/// An item of a tree. It is ordered by a part of it, its key.
pub trait Item: Clone + fmt::Debug {
    /// A key on its own, without the item. Cheap to clone.
    type Bound: Clone + fmt::Debug;
    /// A copy of the key.
    fn bound(&self) -> Self::Bound;
    /// Compares a key in the tree with this item's key.
    fn compare(key: Key<'_, Self>, to: &Self) -> Ordering;
}

/// A key in a tree: that of an item, or one that tells children apart.
#[derive(Debug)]
pub enum Key<'a, T: Item> {
    /// The key of this item.
    Item(&'a T),
    /// This key.
    Bound(&'a T::Bound),
}

impl<T: Item> Clone for Key<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Item> Copy for Key<'_, T> {}

/// An ordered set; see the module's documentation.
#[derive(Debug)]
pub struct Tree<T: Item> {
    root: Arc<Node<T>>,
    len: usize,
}

#[derive(Clone, Debug)]
enum Node<T: Item> {
    Leaf(Vec<T>),
    Branch(Vec<Child<T>>),
}

#[derive(Clone, Debug)]
struct Child<T: Item> {
    bound: T::Bound,
    node: Arc<Node<T>>,
}

impl<T: Item> Clone for Tree<T> {
    fn clone(&self) -> Self {
        Self {
            root: self.root.clone(),
            len: self.len,
        }
    }
}

impl<T: Item> Default for Tree<T> {
    fn default() -> Self {
        Self {
            root: Arc::new(Node::Leaf(Vec::new())),
            len: 0,
        }
    }
}

impl<T: Item> Tree<T> {
    /// The number of items.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no items.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The item whose key `order` calls equal. `order` compares a key with the one that is sought.
    pub fn get(&self, order: impl Fn(Key<'_, T>) -> Ordering) -> Option<&T> {
        let mut node = &*self.root;
        loop {
            match node {
                Node::Leaf(items) => return Some(&items[search(items, &order).ok()?]),
                Node::Branch(children) => node = &children[child_of(children, &order)].node,
            }
        }
    }

    /// All items, in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.equal(|_| Ordering::Equal)
    }

    /// The items whose keys `order` calls equal, in order.
    pub fn equal<O: Fn(Key<'_, T>) -> Ordering>(&self, order: O) -> Equal<'_, T, O> {
        let mut branches = Vec::new();
        let mut node = &*self.root;
        loop {
            match node {
                Node::Leaf(items) => {
                    let start =
                        items.partition_point(|item| order(Key::Item(item)) == Ordering::Less);
                    let mut equal = Equal {
                        order,
                        branches,
                        leaf: [].iter(),
                    };
                    equal.enter(&items[start..]);
                    return equal;
                }
                Node::Branch(children) => {
                    // The equal items may begin below the last child whose bound is less.
                    let is_less =
                        |child: &Child<T>| order(Key::Bound(&child.bound)) == Ordering::Less;
                    let at = children.partition_point(is_less).saturating_sub(1);
                    branches.push(children[at + 1..].iter());
                    node = &children[at].node;
                }
            }
        }
    }

    /// Stores an item and returns the one with an equal key that it replaces.
    pub fn insert(&mut self, item: T) -> Option<T> {
        self.insert_over(item, |_| false)
    }

    /// Like [`insert`](Self::insert), for a caller that knows the item to be replaced: `is_old` is
    /// true of that item and of no other. Then no key in its leaf is read. Reading them is most of
    /// the cost of inserting, because each is somewhere else in memory.
    pub fn insert_over(&mut self, item: T, is_old: impl Fn(&T) -> bool) -> Option<T> {
        let (replaced, split) = Arc::make_mut(&mut self.root).insert(item, &is_old);
        if let Some(right) = split {
            let root = std::mem::replace(&mut self.root, Self::default().root);
            let bound = root.first().bound();
            let left = Child { bound, node: root };
            self.root = Arc::new(Node::Branch(vec![left, right]));
        }
        self.len += usize::from(replaced.is_none());
        replaced
    }

    /// Removes the item whose key `order` calls equal.
    pub fn remove(&mut self, order: impl Fn(Key<'_, T>) -> Ordering) -> Option<T> {
        // This check avoids copying the path if there is nothing to remove.
        self.get(&order)?;
        let removed = Arc::make_mut(&mut self.root).remove(&order);
        while let Node::Branch(children) = &*self.root
            && let [only] = children.as_slice()
        {
            self.root = only.node.clone();
        }
        self.len -= usize::from(removed.is_some());
        removed
    }
}

fn search<T: Item>(items: &[T], order: impl Fn(Key<'_, T>) -> Ordering) -> Result<usize, usize> {
    items.binary_search_by(|item| order(Key::Item(item)))
}

/// The position of an item, or the position where it belongs.
fn find<T: Item>(items: &[T], item: &T, is_old: impl Fn(&T) -> bool) -> Result<usize, usize> {
    let old = items.iter().position(is_old);
    old.map_or_else(|| search(items, |key| T::compare(key, item)), Ok)
}

/// The child that contains what is sought, if any does: the last whose bound is not greater.
fn child_of<T: Item>(children: &[Child<T>], order: impl Fn(Key<'_, T>) -> Ordering) -> usize {
    let is_before = |child: &Child<T>| order(Key::Bound(&child.bound)) != Ordering::Greater;
    children.partition_point(is_before).saturating_sub(1)
}

impl<T: Item> Node<T> {
    fn len(&self) -> usize {
        match self {
            Self::Leaf(items) => items.len(),
            Self::Branch(children) => children.len(),
        }
    }

    /// The least item. The node must not be empty.
    fn first(&self) -> &T {
        match self {
            Self::Leaf(items) => &items[0],
            Self::Branch(children) => children[0].node.first(),
        }
    }

    /// Returns the item that was replaced, and the right half of this node if it was split.
    fn insert(&mut self, item: T, is_old: &impl Fn(&T) -> bool) -> (Option<T>, Option<Child<T>>) {
        match self {
            Self::Leaf(items) => match find(items, &item, is_old) {
                Ok(at) => (Some(std::mem::replace(&mut items[at], item)), None),
                Err(at) => {
                    let right = insert_at(items, at, item).map(|right| Child {
                        bound: right[0].bound(),
                        node: Arc::new(Self::Leaf(right)),
                    });
                    (None, right)
                }
            },
            Self::Branch(children) => {
                let at = child_of(children, |key| T::compare(key, &item));
                let (replaced, split) = Arc::make_mut(&mut children[at].node).insert(item, is_old);
                let split = split.and_then(|right| insert_at(children, at + 1, right));
                let split = split.map(|right| Child {
                    bound: right[0].bound.clone(),
                    node: Arc::new(Self::Branch(right)),
                });
                (replaced, split)
            }
        }
    }

    fn remove(&mut self, order: &impl Fn(Key<'_, T>) -> Ordering) -> Option<T> {
        match self {
            Self::Leaf(items) => {
                let at = search(items, order).ok()?;
                Some(items.remove(at))
            }
            Self::Branch(children) => {
                let at = child_of(children, order);
                let removed = Arc::make_mut(&mut children[at].node).remove(order);
                if children[at].node.len() < SPARSE {
                    join(children, at);
                }
                removed
            }
        }
    }

    /// Appends the content of the next node, which is at the same depth.
    fn append(&mut self, right: Self) {
        match (self, right) {
            (Self::Leaf(items), Self::Leaf(more)) => items.extend(more),
            (Self::Branch(children), Self::Branch(more)) => children.extend(more),
            _ => unreachable!("all leaves are at the same depth"),
        }
    }
}

/// Inserts, and splits off the right half if the node would become too large. Items that come in
/// ascending order, as in lists, leave full nodes behind.
fn insert_at<T>(all: &mut Vec<T>, at: usize, item: T) -> Option<Vec<T>> {
    if all.len() < FULL {
        // There are many small trees and many nodes that never grow, so no spare capacity is kept.
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
fn join<T: Item>(children: &mut Vec<Child<T>>, at: usize) {
    if children[at].node.len() == 0 {
        children.remove(at);
        return;
    }
    let left = at.saturating_sub(1);
    let fits = |(a, b): (&Child<T>, &Child<T>)| a.node.len() + b.node.len() <= FULL;
    if children
        .get(left)
        .zip(children.get(left + 1))
        .is_some_and(fits)
    {
        let right = children.remove(left + 1);
        let mut node = Arc::unwrap_or_clone(right.node);
        // The first child of a branch may hold items less than its own bound. Here it stops being
        // the first, so it takes over the bound of its branch.
        if let Node::Branch(children) = &mut node
            && let Some(first) = children.first_mut()
        {
            first.bound = right.bound;
        }
        Arc::make_mut(&mut children[left].node).append(node);
    }
}

/// An iterator over the items whose keys an order calls equal.
#[derive(Debug)]
pub struct Equal<'a, T: Item, O> {
    order: O,
    /// The remaining children of each branch on the way to the leaf. Empty once the last leaf is
    /// reached.
    branches: Vec<std::slice::Iter<'a, Child<T>>>,
    leaf: std::slice::Iter<'a, T>,
}

impl<'a, T: Item, O: Fn(Key<'_, T>) -> Ordering> Equal<'a, T, O> {
    /// Continues with these items of a leaf. None of them is less. The last item shows whether all
    /// are equal: reading the keys of every item would cost more than the rest of a list.
    fn enter(&mut self, items: &'a [T]) {
        let is_equal = |item: &T| (self.order)(Key::Item(item)) == Ordering::Equal;
        let end = match items.last() {
            Some(last) if !is_equal(last) => items.partition_point(is_equal),
            _ => items.len(),
        };
        if end < items.len() {
            self.branches.clear();
        }
        self.leaf = items[..end].iter();
    }
}

impl<'a, T: Item, O: Fn(Key<'_, T>) -> Ordering> Iterator for Equal<'a, T, O> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        loop {
            if let Some(item) = self.leaf.next() {
                return Some(item);
            }
            match self.branches.last_mut()?.next().map(|child| &*child.node) {
                None => drop(self.branches.pop()),
                Some(Node::Leaf(items)) => self.enter(items),
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

    /// A number, and the step in which it was stored.
    #[derive(Clone, Debug)]
    struct Number(u16, Arc<usize>);

    impl Item for Number {
        type Bound = u16;
        fn bound(&self) -> u16 {
            self.0
        }
        fn compare(key: Key<'_, Self>, to: &Self) -> Ordering {
            value(key).cmp(&to.0)
        }
    }

    fn value(key: Key<'_, Number>) -> u16 {
        match key {
            Key::Item(item) => item.0,
            Key::Bound(bound) => *bound,
        }
    }

    fn number(number: u16, step: usize) -> Number {
        Number(number, Arc::new(step))
    }

    fn numbers(tree: &Tree<Number>) -> Vec<u16> {
        tree.iter().map(|item| item.0).collect()
    }

    /// Returns the depth of the leaves below a node. Panics where the invariant does not hold.
    fn depth(node: &Node<Number>, is_root: bool) -> usize {
        assert!(node.len() <= FULL);
        assert!(is_root || node.len() > 0);
        match node {
            Node::Leaf(_) => 0,
            Node::Branch(children) => {
                let mut after_first = children.iter().skip(1);
                assert!(after_first.all(|child| child.node.first().0 >= child.bound));
                let depths: BTreeSet<usize> = children
                    .iter()
                    .map(|child| depth(&child.node, false))
                    .collect();
                assert_eq!(depths.len(), 1, "leaves at different depths");
                depths.first().unwrap() + 1
            }
        }
    }

    #[test]
    fn an_item_with_an_equal_key_is_replaced() {
        let mut tree = Tree::default();
        tree.insert(number(1, 1));
        assert_eq!(*tree.insert(number(1, 2)).unwrap().1, 1);
        assert_eq!(*tree.get(|key| value(key).cmp(&1)).unwrap().1, 2);
        assert_eq!(tree.len(), 1);
    }

    #[test]
    fn nothing_keeps_an_item_that_was_replaced_or_removed() {
        let first: Vec<Number> = (0..1000).map(|at| number(at, 0)).collect();
        let mut tree = Tree::default();
        first
            .iter()
            .for_each(|item| drop(tree.insert(item.clone())));
        (0..500).for_each(|at| drop(tree.insert(number(at, 1))));
        (500..1000).for_each(|at: u16| drop(tree.remove(|key| value(key).cmp(&at))));
        assert!(first.iter().all(|item| Arc::strong_count(&item.1) == 1));
    }

    #[test]
    fn items_that_come_in_order_fill_their_leaves() {
        let mut tree = Tree::default();
        let count = u16::try_from(20 * FULL).unwrap();
        (0..count).for_each(|at| assert!(tree.insert(number(at, 0)).is_none()));
        let Node::Branch(leaves) = &*tree.root else {
            panic!("a single leaf");
        };
        assert_eq!(leaves.len(), 20);
    }

    #[test]
    fn what_came_before_all_others_of_a_branch_is_found_after_the_branch_is_joined() {
        let full = u16::try_from(FULL).unwrap();
        let branch = full * full;
        let mut tree = Tree::default();
        (0..branch * 3).for_each(|at| drop(tree.insert(number(at, 0))));
        let remove = |tree: &mut Tree<Number>, range: std::ops::Range<u16>| {
            range.for_each(|at| drop(tree.remove(|key| value(key).cmp(&at))));
        };
        // Remove the first leaf of the second branch, then insert an item less than all that are
        // left in that branch.
        remove(&mut tree, branch..branch + full);
        tree.insert(number(branch, 0));
        // Then remove so much of both branches that they become one.
        remove(&mut tree, full..branch);
        remove(&mut tree, branch + full * 3..branch * 2);
        depth(&tree.root, true);
        assert!(tree.get(|key| value(key).cmp(&branch)).is_some());
    }

    #[test]
    fn an_item_that_is_known_is_replaced_and_one_that_is_not_is_found() {
        let mut tree = Tree::default();
        (0..1000).for_each(|at| drop(tree.insert(number(at, 0))));
        let is_old = |item: &Number| item.0 == 700;
        assert_eq!(tree.insert_over(number(700, 1), is_old).unwrap().0, 700);
        assert_eq!(tree.insert_over(number(701, 1), |_| false).unwrap().0, 701);
        let changed = tree.iter().filter(|item| *item.1 == 1).map(|item| item.0);
        assert!(changed.eq(700..=701));
        assert_eq!(tree.len(), 1000);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Inserts and removes runs of neighbours, enough of them that branches are joined.
        #[test]
        fn a_tree_of_many_levels_finds_everything_it_holds(
            runs in prop::collection::vec((any::<bool>(), 0u16..20_000, 1u16..400), 0..300),
        ) {
            let mut tree = Tree::default();
            let mut model = BTreeSet::new();
            for (is_removal, from, count) in runs {
                for at in from..from + count {
                    if is_removal {
                        prop_assert_eq!(tree.remove(|key| value(key).cmp(&at)).is_some(), model.remove(&at));
                    } else {
                        prop_assert_eq!(tree.insert(number(at, 0)).is_none(), model.insert(at));
                    }
                }
            }
            prop_assert!(tree.iter().map(|item| item.0).eq(model.iter().copied()));
            for at in &model {
                prop_assert!(tree.get(|key| value(key).cmp(at)).is_some(), "{at}");
            }
            depth(&tree.root, true);
        }
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
            for (step, (is_removal, at)) in steps.into_iter().enumerate() {
                if step == freeze_at {
                    frozen = Some((tree.clone(), model.clone()));
                }
                if is_removal {
                    prop_assert_eq!(tree.remove(|key| value(key).cmp(&at)).is_some(), model.remove(&at));
                } else {
                    prop_assert_eq!(tree.insert(number(at, step)).is_none(), model.insert(at));
                }
            }
            for (tree, model) in frozen.iter().chain([&(tree, model)]) {
                prop_assert_eq!(tree.len(), model.len());
                prop_assert_eq!(numbers(tree), model.iter().copied().collect::<Vec<_>>());
                // The orders call one item equal, some items, or a large part of them.
                for coarse in [1, 7, 300] {
                    let equal = tree.equal(|key| (value(key) / coarse).cmp(&(from / coarse))).map(|item| item.0);
                    let expected = model.iter().copied().filter(|at| at / coarse == from / coarse);
                    prop_assert_eq!(equal.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
                }
                prop_assert_eq!(tree.get(|key| value(key).cmp(&from)).is_some(), model.contains(&from));
                depth(&tree.root, true);
            }
        }
    }
}
