//! Which writes would change nothing and are therefore not sent: an idle cluster costs no writes.
//!
//! The rule for each operation:
//! - **apply**: not sent if the server last accepted the same text from this plugin for the object,
//!   and the object still is as that apply left it. It is if it has the same resourceVersion (then
//!   its fields need not be cached, such as a Secret's values), or if it equals what the server
//!   answered then, apart from what the server and status writers change. It is also not sent if
//!   the object itself proves that it would change nothing; see `owned.rs`. So nothing is sent
//!   again after a restart either, when no apply is remembered. It is not enough to look for the
//!   text's fields in the object: where a value is atomic, an apply removes what others have added
//!   to it.
//! - **update**: not sent if the cached object equals it, apart from what the cache leaves out
//!   (managed fields, the last-applied annotation) and the resourceVersion. An update of `status`
//!   compares only `status`.
//! - all other operations are always sent.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

use crate::model::detail::Detail;
use crate::model::key::{Kind, ObjectKey, ResourceVersion};
use crate::model::object::{Object, find_applied};
use crate::plan::owned::is_as_applied;

/// What an apply is sent to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ApplyTarget {
    /// The object's kind.
    pub kind: Kind,
    /// The object.
    pub key: ObjectKey,
    /// The subresource, if it is not the object itself.
    pub subresource: Option<String>,
}

/// By object, then by subresource.
type Intents = HashMap<(Kind, ObjectKey), BTreeMap<Option<String>, Intent>>;

/// An accepted apply: a hash of its text, and what it left.
#[derive(Debug)]
struct Intent {
    hash: u64,
    left: AppliedState,
}

/// The state in which an apply left its object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppliedState {
    /// The object's resourceVersion.
    resource_version: Option<String>,
    /// A [`digest`] of the object, if the server's answer showed all of it.
    digest: Option<u64>,
}

impl AppliedState {
    /// `shown` is the server's answer (JSON), if it showed the object.
    pub fn new(
        manager: &str,
        subresource: Option<&str>,
        resource_version: Option<String>,
        shown: Option<&str>,
    ) -> Self {
        let object: Option<Value> = shown.and_then(|shown| serde_json::from_str(shown).ok());
        let digest = object.and_then(|object| {
            let entries = object.pointer("/metadata/managedFields");
            let entries = entries.map(Value::to_string).unwrap_or_default();
            let version = object["apiVersion"].as_str().unwrap_or_default();
            let owned = find_applied(&entries, manager, subresource, version);
            digest(&object, subresource, owned)
        });
        Self {
            resource_version,
            digest,
        }
    }
}

/// A plugin's last accepted applies, as hashes. Shared by the plugin's running reconciles.
///
/// Kept only for objects that reach the cache, because without the cached object nothing can be
/// decided. So an object's applies are forgotten when the object goes.
#[derive(Debug, Default)]
pub struct Applied {
    intents: Mutex<Intents>,
}

impl Applied {
    /// The server accepted this apply.
    pub fn remember(&self, target: ApplyTarget, hash: u64, left: AppliedState) {
        let ApplyTarget {
            kind,
            key,
            subresource,
        } = target;
        self.lock()
            .entry((kind, key))
            .or_default()
            .insert(subresource, Intent { hash, left });
    }

    /// The object is gone, or its state can no longer be derived from what was applied.
    pub fn forget(&self, kind: &Kind, key: &ObjectKey) {
        self.lock().remove(&(kind.clone(), key.clone()));
    }

    /// Others may apply from now on as the same field manager.
    pub fn clear(&self) {
        *self.lock() = Intents::new();
    }

    /// The server has gone back in time: it may assign the same resourceVersions again, to other
    /// states of objects of this kind.
    pub fn forget_kind(&self, kind: &Kind) {
        self.lock().retain(|(of, _), _| of != kind);
    }

    /// Whether the last accepted apply of the object, or of one of its subresources, left it at
    /// this version.
    pub fn has_left(&self, kind: &Kind, key: &ObjectKey, version: &ResourceVersion) -> bool {
        let intents = self.lock();
        let of_object = intents.get(&(kind.clone(), key.clone()));
        let mut left = of_object.into_iter().flat_map(BTreeMap::values);
        left.any(|intent| {
            let left = intent.left.resource_version.as_deref();
            left.is_some_and(|left| ResourceVersion::new(left) == *version)
        })
    }

    /// How many objects have remembered applies.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether no apply is remembered.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Intents> {
        self.intents.lock()
    }

    /// Whether applying `intent` as this field manager would change nothing. `current` is the
    /// cached object.
    pub fn is_unchanged(
        &self,
        manager: &str,
        target: &ApplyTarget,
        intent: &Value,
        current: &Object,
    ) -> bool {
        let left = self.left_by(target, hash(intent));
        let version = left.as_ref().and_then(|left| left.resource_version.clone());
        if version.is_some_and(|version| version == current.resource_version().to_string()) {
            return true;
        }
        if current.detail() != Detail::Full {
            return false;
        }
        let subresource = target.subresource.as_deref();
        let owned = current.applied(manager, subresource);
        let shown = left.and_then(|left| left.digest);
        if shown.is_none() && owned.is_none() {
            return false;
        }
        let Ok(object) = serde_json::from_str::<Value>(current.json()) else {
            return false;
        };
        let is_as_left = shown.is_some() && shown == digest(&object, subresource, owned);
        let owned = owned.and_then(|owned| serde_json::from_str::<Value>(owned).ok());
        is_as_left || owned.is_some_and(|owned| is_as_applied(&owned, intent, &object))
    }

    /// What the last accepted apply left, if it had this text.
    fn left_by(&self, target: &ApplyTarget, hash: u64) -> Option<AppliedState> {
        let intents = self.lock();
        let of_object = intents.get(&(target.kind.clone(), target.key.clone()))?;
        let last = of_object.get(&target.subresource)?;
        (last.hash == hash).then(|| last.left.clone())
    }
}

/// A hash of an applied text.
pub fn hash(intent: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    intent.hash(&mut hasher);
    hasher.finish()
}

/// A hash of an object as an apply left it, including the fields that its manager owned then
/// (`owned`, in fieldsV1). It excludes what only the server writes, and `status`, which belongs to
/// another writer. For the `status` subresource it covers only `status`. `None` for any other
/// subresource, because its answers are not the object.
fn digest(object: &Value, subresource: Option<&str>, owned: Option<&str>) -> Option<u64> {
    let owned: Option<Value> = owned.and_then(|owned| serde_json::from_str(owned).ok());
    let mut hasher = DefaultHasher::new();
    owned.hash(&mut hasher);
    match subresource {
        None => {
            let mut object = without_bookkeeping(object);
            if let Some(members) = object.as_object_mut() {
                members.remove("status");
            }
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("generation");
            }
            object.hash(&mut hasher);
        }
        Some("status") => object.get("status").hash(&mut hasher),
        Some(_) => return None,
    }
    Some(hasher.finish())
}

/// Whether replacing `current` (as cached) by `wanted` would change nothing.
pub fn is_same_object(current: &Value, wanted: &Value, subresource: Option<&str>) -> bool {
    match subresource {
        None => is_same_but_for_bookkeeping(current, wanted),
        Some("status") => current.get("status") == wanted.get("status"),
        Some(_) => false,
    }
}

/// Metadata alone is copied to be compared: it is a small part of most objects.
fn is_same_but_for_bookkeeping(one: &Value, other: &Value) -> bool {
    let (Some(members), Some(others)) = (one.as_object(), other.as_object()) else {
        return one == other;
    };
    let is_rest = |(name, _): &(&String, &Value)| *name != "metadata";
    let metadata = |object: &Value| {
        let metadata = object.get("metadata").cloned();
        metadata.map(|metadata| without_bookkeeping(&json!({"metadata": metadata})))
    };
    members
        .iter()
        .filter(is_rest)
        .eq(others.iter().filter(is_rest))
        && metadata(one) == metadata(other)
}

/// The object without what the cache leaves out or only the server writes.
fn without_bookkeeping(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        metadata.remove("resourceVersion");
        if let Some(annotations) = metadata
            .get_mut("annotations")
            .and_then(Value::as_object_mut)
        {
            annotations.remove(crate::model::object::LAST_APPLIED);
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
    }
    object
}

#[cfg(test)]
mod model;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::object::Schema;

    fn target() -> ApplyTarget {
        ApplyTarget {
            kind: Kind::new("", "v1", "ConfigMap"),
            key: ObjectKey::new("default", "a"),
            subresource: None,
        }
    }

    const MANAGER: &str = "p";

    /// A cached object at this version; `applied` is what the manager owns of it.
    fn cached(version: &str, rest: &Value, applied: Option<&Value>) -> Object {
        let mut object =
            json!({"metadata": {"namespace": "default", "name": "a", "resourceVersion": version}});
        if let Some(applied) = applied {
            object["metadata"]["managedFields"] = json!([
                {"manager": MANAGER, "operation": "Apply", "apiVersion": "v1", "fieldsV1": applied}
            ]);
        }
        let rest = rest.as_object().unwrap().clone();
        object.as_object_mut().unwrap().extend(rest);
        let schema = Schema::new(1, Detail::Full, vec![], vec![]);
        let schema = schema.with_managers(vec![MANAGER.into()]);
        Object::parse(&target().kind, &object.to_string(), &schema).unwrap()
    }

    /// The text of an apply of the object.
    fn intent(rest: &Value) -> Value {
        let mut intent = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "a"}});
        let rest = rest.as_object().unwrap().clone();
        intent.as_object_mut().unwrap().extend(rest);
        intent
    }

    /// The memory after this was applied and the server answered with this object at version 7.
    fn after(applied: &Value, answer: &Value) -> Applied {
        let answer = cached("7", answer, None).json().to_owned();
        let left = AppliedState::new(MANAGER, None, Some("7".into()), Some(&answer));
        let memory = Applied::default();
        memory.remember(target(), hash(&intent(applied)), left);
        memory
    }

    fn is_unchanged(memory: &Applied, wanted: &Value, current: &Object) -> bool {
        memory.is_unchanged(MANAGER, &target(), &intent(wanted), current)
    }

    #[test]
    fn an_apply_is_unchanged_while_the_object_is_as_the_same_apply_left_it() {
        let (wanted, left) = (
            json!({"data": {"a": "1"}}),
            json!({"data": {"a": "1", "b": "2"}}),
        );
        let nothing = Applied::default();
        assert!(
            !is_unchanged(&nothing, &wanted, &cached("7", &left, None)),
            "nothing is known of the past"
        );
        let memory = after(&wanted, &left);
        assert!(
            is_unchanged(&memory, &wanted, &cached("7", &json!({}), None)),
            "nobody has touched it since"
        );
        let mut busy = left.clone();
        busy["status"] = json!({"seen": 1});
        assert!(
            is_unchanged(&memory, &wanted, &cached("8", &busy, None)),
            "the status is another writer's"
        );
        assert!(
            !is_unchanged(&memory, &json!({"data": {}}), &cached("8", &left, None)),
            "a field was given up"
        );
        assert!(
            !is_unchanged(
                &memory,
                &wanted,
                &cached("8", &json!({"data": {"a": "3"}}), None)
            ),
            "somebody changed it"
        );
    }

    #[test]
    fn what_others_have_added_to_an_atomic_value_is_drift() {
        for (wanted, now) in [
            (
                json!({"spec": {"selector": {"app": "web"}}}),
                json!({"spec": {"selector": {"app": "web", "x": "y"}}}),
            ),
            (
                json!({"subsets": [{"addresses": [{"ip": "10.1.0.1"}]}]}),
                json!({"subsets": [{"addresses": [{"ip": "10.1.0.1"}], "notReadyAddresses": [{"ip": "10.1.0.9"}]}]}),
            ),
            (
                json!({"subsets": [{"addresses": [{"ip": "10.1.0.1"}]}]}),
                json!({"subsets": [{"addresses": [{"ip": "10.1.0.1", "hostname": "x"}]}]}),
            ),
            (
                json!({"spec": {"nodeSelector": {}}}),
                json!({"spec": {"nodeSelector": {"a": "b"}}}),
            ),
        ] {
            let memory = after(&wanted, &wanted);
            assert!(is_unchanged(&memory, &wanted, &cached("8", &wanted, None)));
            assert!(
                !is_unchanged(&memory, &wanted, &cached("8", &now, None)),
                "{now}"
            );
        }
    }

    #[test]
    fn an_apply_that_the_object_itself_proves_done_is_unchanged_without_a_memory() {
        let wanted = json!({"data": {"a": "1"}});
        let owned = json!({"f:data": {"f:a": {}}});
        let nothing = Applied::default();
        let with = |data: Value| cached("8", &json!({"data": data}), Some(&owned));
        assert!(is_unchanged(
            &nothing,
            &wanted,
            &with(json!({"a": "1", "b": "2"}))
        ));
        assert!(!is_unchanged(&nothing, &wanted, &with(json!({"a": "2"}))));
        assert!(!is_unchanged(
            &nothing,
            &json!({}),
            &with(json!({"a": "1"}))
        ));
    }

    #[test]
    fn an_apply_of_a_field_that_was_lost_and_has_come_back_is_sent_to_own_it_again() {
        let wanted = json!({"data": {"a": "1"}});
        let whole = |owned: Value| cached("8", &wanted, Some(&owned));
        let mut answer: Value = serde_json::from_str(whole(json!({})).json()).unwrap();
        answer["metadata"]["managedFields"] = json!([
            {"manager": MANAGER, "operation": "Apply", "apiVersion": "v1", "fieldsV1": {"f:data": {"f:a": {}}}}
        ]);
        let left = AppliedState::new(MANAGER, None, Some("7".into()), Some(&answer.to_string()));
        let memory = Applied::default();
        memory.remember(target(), hash(&intent(&wanted)), left);
        assert!(is_unchanged(
            &memory,
            &wanted,
            &whole(json!({"f:data": {"f:a": {}}}))
        ));
        assert!(!is_unchanged(
            &memory,
            &wanted,
            &whole(json!({"f:data": {"f:b": {}}}))
        ));
    }

    #[test]
    fn an_apply_of_status_is_compared_with_status_alone() {
        let target = ApplyTarget {
            subresource: Some("status".into()),
            ..target()
        };
        let wanted = intent(&json!({"status": {"ready": true}}));
        let answer = cached("7", &json!({"spec": 1, "status": {"ready": true}}), None);
        let left = AppliedState::new(MANAGER, Some("status"), None, Some(answer.json()));
        let memory = Applied::default();
        memory.remember(target.clone(), hash(&wanted), left);
        let with =
            |now: Value| memory.is_unchanged(MANAGER, &target, &wanted, &cached("8", &now, None));
        assert!(with(json!({"spec": 2, "status": {"ready": true}})));
        assert!(!with(json!({"spec": 1, "status": {"ready": true, "x": 1}})));
    }

    #[test]
    fn of_an_object_that_is_not_cached_as_a_whole_only_the_version_tells() {
        let wanted = json!({"metadata": {"name": "a", "namespace": "default"}});
        let memory = after(&wanted, &json!({}));
        let schema = Schema::new(1, Detail::WithoutValues, vec![], vec![]);
        let at = |version: &str| {
            let json = json!({"metadata": {"namespace": "default", "name": "a", "resourceVersion": version}});
            Object::parse(&target().kind, &json.to_string(), &schema).unwrap()
        };
        assert!(is_unchanged(&memory, &wanted, &at("7")));
        let now = at("8");
        assert_eq!(now.detail(), Detail::WithoutValues);
        assert!(!is_unchanged(&memory, &wanted, &now));
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
