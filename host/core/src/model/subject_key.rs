//! The keys that a plugin reconciles. It may reconcile several kinds, so they include the kind.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::model::key::{Kind, ObjectKey};

/// What a plugin's work queue holds: the kind and the key of an object, which may not exist any
/// more; or a singleton's only key, which has neither.
///
/// Ordered by kind, namespace and name. The keys of one plugin share their kinds, so that two kinds
/// are nearly always compared by their addresses alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectKey {
    /// The kind. `None` for a singleton.
    pub kind: Option<Arc<Kind>>,
    /// The key of the object. Empty for a singleton.
    pub object: ObjectKey,
}

impl SubjectKey {
    /// The key of an object of this kind.
    pub fn of(kind: &Arc<Kind>, object: ObjectKey) -> Self {
        Self {
            kind: Some(kind.clone()),
            object,
        }
    }

    /// The only key of a singleton.
    pub fn singleton() -> Self {
        Self {
            kind: None,
            object: ObjectKey::singleton(),
        }
    }
}

/// Only the object is hashed: a plugin reconciles few kinds, so few of its keys have the same
/// namespace and name.
impl Hash for SubjectKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.object.hash(state);
    }
}

impl Ord for SubjectKey {
    fn cmp(&self, other: &Self) -> Ordering {
        // `Arc` compares texts even if both are the same.
        let kinds = match (&self.kind, &other.kind) {
            (Some(own), Some(other)) if Arc::ptr_eq(own, other) => Ordering::Equal,
            (own, other) => own.cmp(other),
        };
        kinds.then_with(|| self.object.cmp(&other.object))
    }
}

impl PartialOrd for SubjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn key(kind: &str, namespace: &str, name: &str) -> SubjectKey {
        let kind = Arc::new(Kind::new("", "v1", kind));
        SubjectKey::of(&kind, ObjectKey::new(namespace, name))
    }

    #[test]
    fn keys_of_one_name_and_several_kinds_are_different() {
        let keys = [
            key("Pod", "a", "x"),
            key("Service", "a", "x"),
            SubjectKey::singleton(),
        ];
        let set: HashSet<SubjectKey> = keys.iter().cloned().collect();
        assert_eq!(set.len(), 3);
        assert!(set.contains(&key("Service", "a", "x")));
        assert!(!set.contains(&key("Secret", "a", "x")));
    }

    #[test]
    fn keys_are_ordered_by_kind_and_then_as_objects_are_listed() {
        let sorted = [
            SubjectKey::singleton(),
            key("Pod", "a", "y"),
            key("Pod", "b", "x"),
            key("Service", "a", "x"),
        ];
        assert!(sorted.is_sorted());
        let kind = Arc::new(Kind::new("", "v1", "Pod"));
        let [one, other] = ["a", "b"].map(|name| SubjectKey::of(&kind, ObjectKey::new("", name)));
        assert!(one < other && one.cmp(&one) == Ordering::Equal);
    }
}
