//! How the members of a `children` action are marked and found.
//!
//! The idea is KEP-3659's (an ApplySet's label). The names are our own, because kubectl's tooling
//! expects its sets to have a parent object that kubectl has created.

use std::sync::Arc;

use serde_json::{Value, json};

use super::digest::digest;
use crate::access::permission::check_key;
use crate::model::fields::{FieldPath, Values};
use crate::model::key::{Kind, ObjectKey};
use crate::model::object::Object;
use crate::model::selector::Labels;
use crate::model::subject_key::SubjectKey;

/// The label of a member. Its value is a digest of the plugin, the reconciled kind and the key, so
/// that a key's members can be selected.
pub const LABEL: &str = "pilothouse.dev/children-of";

/// The annotation of a member: plugin and key in plain text, so that a member leads back to its key
/// even if nothing else knows the key any more.
pub const ANNOTATION: &str = "pilothouse.dev/children-of-key";

/// Marks an object as a member of a key's children. `None` if its metadata does not have the shape
/// of metadata.
pub fn mark(object: &mut Value, digest: &str, plugin: &str, key: &ObjectKey) -> Option<()> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    for (place, name, value) in [
        ("labels", LABEL, digest.to_owned()),
        ("annotations", ANNOTATION, format!("{plugin} {key}")),
    ] {
        let place = metadata.entry(place).or_insert_with(|| json!({}));
        place.as_object_mut()?.insert(name.to_owned(), value.into());
    }
    Some(())
}

/// The value of the label of a key's members.
pub fn label(plugin: &str, key: &SubjectKey) -> String {
    digest(plugin, key, &["children"])[..32].to_owned()
}

/// Why an object of a child's name is not applied, and what a person can do.
pub fn conflict(kind: &Kind, key: &ObjectKey, label: &str) -> String {
    format!(
        "{kind} {key} exists and is not a child of this key: delete it, give the child another \
         name, or make it a child of this key with the label {LABEL}={label}"
    )
}

/// The key whose member an object is, if it is a member of this plugin's, which reconciles these
/// kinds; none for a singleton. The label tells which of the kinds it is.
pub fn owner_of<'a>(
    plugin: &str,
    kinds: impl Iterator<Item = &'a Arc<Kind>>,
    object: &Object,
) -> Option<SubjectKey> {
    let own = object.label(LABEL)?;
    let key = annotated_key(plugin, object)?;
    let mut keys: Vec<SubjectKey> = kinds
        .map(|kind| SubjectKey::of(kind, key.clone()))
        .collect();
    if keys.is_empty() && key == ObjectKey::singleton() {
        keys.push(SubjectKey::singleton());
    }
    keys.into_iter().find(|key| label(plugin, key) == own)
}

/// The key in the annotation of an object, if it is a member of this plugin's.
pub fn annotated_key(plugin: &str, object: &Object) -> Option<ObjectKey> {
    object.label(LABEL)?;
    let path = FieldPath::parse(&format!(".metadata.annotations['{ANNOTATION}']")).ok()?;
    let found = Values::new([[path].as_slice()]).find(object.json());
    let (_, value) = found.first()?;
    let (whose, key) = value.split_once(' ')?;
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    let key = ObjectKey::new(namespace, name);
    // Anyone who may annotate the object can write this value, and it is queued, logged and passed
    // to a guest.
    let is_key = key == ObjectKey::singleton() || check_key(&key).is_ok();
    (whose == plugin && is_key).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::object::Schema;

    fn member(label: &str, annotation: &str) -> Object {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
            "namespace": "default", "name": "a", "labels": {LABEL: label}, "annotations": {ANNOTATION: annotation}}});
        let kind = Kind::new("", "v1", "ConfigMap");
        Object::parse(&kind, &object.to_string(), &Schema::default()).unwrap()
    }

    fn key_said(annotation: &str) -> Option<ObjectKey> {
        annotated_key("p", &member("x", annotation))
    }

    #[test]
    fn a_member_leads_to_the_key_of_the_kind_that_made_it() {
        let kinds = ["Pod", "Service"].map(|kind| Arc::new(Kind::new("", "v1", kind)));
        let keys = kinds
            .each_ref()
            .map(|kind| SubjectKey::of(kind, ObjectKey::new("shop", "web")));
        let alone = SubjectKey::singleton();
        for (kinds, key, annotation) in [
            (&kinds[..], &keys[0], "p shop/web"),
            (&kinds[..], &keys[1], "p shop/web"),
            (&kinds[1..], &keys[1], "p shop/web"),
            (&[], &alone, "p "),
        ] {
            let member = member(&label("p", key), annotation);
            assert_eq!(owner_of("p", kinds.iter(), &member).as_ref(), Some(key));
        }
        let of_pod = member(&label("p", &keys[0]), "p shop/web");
        assert_eq!(owner_of("p", kinds[1..].iter(), &of_pod), None);
        let renamed = member(&label("p", &keys[0]), "p shop/other");
        assert_eq!(owner_of("p", kinds.iter(), &renamed), None);
    }

    #[test]
    fn an_annotation_leads_to_a_key_that_an_object_could_have() {
        assert_eq!(key_said("p shop/web"), Some(ObjectKey::new("shop", "web")));
        assert_eq!(key_said("p node-1"), Some(ObjectKey::new("", "node-1")));
        assert_eq!(key_said("p "), Some(ObjectKey::singleton()));
        assert_eq!(key_said("q shop/web"), None);
        for key in [
            "shop/..",
            "shop/a/b",
            "Shop/a",
            "shop/a\n",
            "shop/\u{1b}[8m",
            "/a b",
        ] {
            assert_eq!(key_said(&format!("p {key}")), None, "{key:?}");
        }
        assert_eq!(key_said(&format!("p shop/{}", "a".repeat(254))), None);
    }
}
