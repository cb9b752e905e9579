//! Which writes would change nothing, and so are not sent: an idle cluster costs no writes.
//!
//! The rule, per operation:
//! - **apply**: this host's last accepted apply of the object by this plugin was the same text, and the cached object still has every
//!   field of it. (The first half catches fields that are no longer applied: the server would remove them.) Or the cached object
//!   is still at the version that apply left: then its fields need not be looked at, and may not be cached (a Secret's values).
//! - **update**: the cached object equals it, apart from what the cache leaves out (managed fields, the last-applied annotation)
//!   and the resourceVersion. An update of `status` compares `status` alone.
//! - everything else is sent.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::key::{Kind, ObjectKey};

/// What an apply is of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// The object's kind.
    pub kind: Kind,
    /// The object.
    pub key: ObjectKey,
    /// Its subresource.
    pub subresource: Option<String>,
}

/// By object, then by subresource.
type Intents = HashMap<(Kind, ObjectKey), BTreeMap<Option<String>, Intent>>;

/// An accepted apply: a hash of its text, and the resourceVersion it left.
#[derive(Debug)]
struct Intent {
    hash: u64,
    resource_version: Option<String>,
}

/// A plugin's last accepted applies, as hashes. Shared by the plugin's running reconciles.
///
/// Only of kinds the plugin reads, for without the cached object nothing can be said; so an object's are forgotten when it goes.
#[derive(Debug, Default)]
pub struct Applied {
    intents: Mutex<Intents>,
}

impl Applied {
    /// The server accepted this apply.
    pub fn remember(&self, target: Target, hash: u64, resource_version: Option<String>) {
        let Target {
            kind,
            key,
            subresource,
        } = target;
        self.lock().entry((kind, key)).or_default().insert(
            subresource,
            Intent {
                hash,
                resource_version,
            },
        );
    }

    /// The object is gone, or its state is no longer known to follow from what was applied.
    pub fn forget(&self, kind: &Kind, key: &ObjectKey) {
        self.lock().remove(&(kind.clone(), key.clone()));
    }

    fn lock(&self) -> MutexGuard<'_, Intents> {
        self.intents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether applying `intent` again would change nothing. `current` is the cached object.
    pub fn is_unchanged(&self, target: &Target, intent: &Value, current: Option<&Value>) -> bool {
        let intents = self.lock();
        let of_object = intents.get(&(target.kind.clone(), target.key.clone()));
        let last = of_object.and_then(|of_object| of_object.get(&target.subresource));
        let (Some(last), Some(current)) = (last, current) else {
            return false;
        };
        let version = current.pointer("/metadata/resourceVersion");
        let is_untouched = last.resource_version.is_some()
            && version.and_then(Value::as_str) == last.resource_version.as_deref();
        last.hash == hash(intent) && (is_untouched || has_fields_of(current, intent))
    }
}

/// A number for an applied text.
pub fn hash(intent: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    intent.to_string().hash(&mut hasher);
    hasher.finish()
}

/// Whether every field of `intent` is in `current` with the same value. Lists must be of the same length, element by element,
/// because what merging a list does depends on the kind; null and empty count as absent.
pub fn has_fields_of(current: &Value, intent: &Value) -> bool {
    match (current, intent) {
        (Value::Object(current), Value::Object(intent)) => {
            intent.iter().all(|(name, wanted)| match current.get(name) {
                Some(have) => has_fields_of(have, wanted),
                None => is_absent(wanted),
            })
        }
        (Value::Array(current), Value::Array(intent)) => {
            current.len() == intent.len()
                && current
                    .iter()
                    .zip(intent)
                    .all(|(have, wanted)| has_fields_of(have, wanted))
        }
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => current == intent,
    }
}

fn is_absent(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        _ => false,
    }
}

/// Whether replacing `current` (as cached) by `wanted` would change nothing.
pub fn is_same_object(current: &Value, wanted: &Value, subresource: Option<&str>) -> bool {
    match subresource {
        None => without_bookkeeping(current) == without_bookkeeping(wanted),
        Some("status") => current.get("status") == wanted.get("status"),
        Some(_) => false,
    }
}

/// The object without what the cache leaves out or the server alone writes.
fn without_bookkeeping(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        metadata.remove("resourceVersion");
        if let Some(annotations) = metadata
            .get_mut("annotations")
            .and_then(Value::as_object_mut)
        {
            annotations.remove(crate::object::LAST_APPLIED);
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn target() -> Target {
        Target {
            kind: Kind::new("", "v1", "ConfigMap"),
            key: ObjectKey::new("default", "a"),
            subresource: None,
        }
    }

    #[test]
    fn an_apply_is_unchanged_only_after_the_same_one_was_accepted() {
        let (intent, current) = (
            json!({"data": {"a": "1"}}),
            json!({"data": {"a": "1", "b": "2"}}),
        );
        let applied = Applied::default();
        assert!(
            !applied.is_unchanged(&target(), &intent, Some(&current)),
            "nothing is known of the past"
        );
        applied.remember(target(), hash(&intent), Some("7".into()));
        assert!(
            applied.is_unchanged(
                &target(),
                &intent,
                Some(&json!({"metadata": {"resourceVersion": "7"}}))
            ),
            "nobody has touched it since"
        );
        assert!(applied.is_unchanged(&target(), &intent, Some(&current)));
        assert!(
            !applied.is_unchanged(&target(), &json!({"data": {}}), Some(&current)),
            "a field was given up"
        );
        assert!(
            !applied.is_unchanged(&target(), &intent, Some(&json!({"data": {"a": "3"}}))),
            "somebody changed it"
        );
        assert!(
            !applied.is_unchanged(&target(), &intent, None),
            "somebody deleted it"
        );
    }

    #[test]
    fn lists_must_match_element_by_element() {
        assert!(has_fields_of(
            &json!([{"port": 80, "protocol": "TCP"}]),
            &json!([{"port": 80}])
        ));
        assert!(!has_fields_of(&json!([1, 2]), &json!([1])));
        assert!(has_fields_of(
            &json!({}),
            &json!({"subsets": [], "x": null})
        ));
        assert!(has_fields_of(&json!(1.0), &json!(1)));
    }

    #[test]
    fn an_update_is_compared_without_bookkeeping() {
        let current =
            json!({"metadata": {"name": "a", "resourceVersion": "7"}, "data": {"a": "1"}});
        let wanted = json!({"metadata": {"name": "a", "managedFields": [],
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "x"}}, "data": {"a": "1"}});
        assert!(is_same_object(&current, &wanted, None));
        assert!(!is_same_object(
            &current,
            &json!({"metadata": {"name": "a"}}),
            None
        ));
        assert!(is_same_object(
            &json!({"status": 1, "spec": 1}),
            &json!({"status": 1, "spec": 2}),
            Some("status")
        ));
        assert!(!is_same_object(&current, &wanted, Some("scale")));
    }
}
