//! A controller's history: the ControllerRevisions that record each template that it has rolled
//! out. The rules are those of Kubernetes' `pkg/controller/history`.
//!
//! A revision's data never changes. To roll back is to give an old revision the highest number.

use std::collections::{BTreeMap, BTreeSet};

use pilothouse_sdk::{
    Create, Delete, Failure, Host, Kind, Metadata, ObjectRef, OwnerReference, Patch, Projection,
    Time, controller_of, fnv32, safe_encode,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::claim::Claimable;
use crate::selector;

/// Label of a ControllerRevision: the hash that is also at the end of its name, unless another
/// revision had that name.
pub const HASH_LABEL: &str = "controller.kubernetes.io/hash";

/// Longest prefix of a revision's name, so that a name has at most 253 bytes.
const MAX_PREFIX: usize = 223;

/// A ControllerRevision.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Projection)]
#[projection(kind = "apps/v1/ControllerRevision")]
#[serde(default)]
pub struct Revision {
    /// Who it is, and whose.
    pub metadata: RevisionMetadata,
    /// What it records: a patch that restores a template.
    pub data: Value,
    /// Its number. The newest revision has the highest.
    pub revision: i64,
}

/// The metadata of a [`Revision`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Projection)]
#[serde(rename_all = "camelCase", default)]
pub struct RevisionMetadata {
    /// Namespace, name, uid and deletionTimestamp.
    #[serde(flatten)]
    pub always: Metadata,
    /// The labels: those of the template, and [`HASH_LABEL`].
    pub labels: BTreeMap<String, String>,
    /// The owners.
    #[projection(whole)]
    pub owner_references: Vec<OwnerReference>,
    /// Breaks ties between revisions of the same number.
    pub creation_timestamp: Option<Time>,
}

impl Revision {
    /// The revision's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.metadata.always.name
    }

    /// The revision as the object of an action.
    #[must_use]
    pub fn object(&self) -> ObjectRef {
        self.metadata.always.of_kind(Self::KIND)
    }

    /// The uid of the controller that owns it. `None`: it is an orphan.
    #[must_use]
    pub fn controller(&self) -> Option<&str> {
        let controller = controller_of(&self.metadata.owner_references);
        controller.map(|owner| owner.uid.as_str())
    }

    /// The template that it records. `None`: its data is no [`template_patch`].
    #[must_use]
    pub fn template(&self) -> Option<Value> {
        let mut template = self.data["spec"]["template"].as_object()?.clone();
        template.remove("$patch");
        Some(Value::Object(template))
    }

    /// True if it records this data up to members that are null. Before 1.34, Kubernetes recorded
    /// `creationTimestamp: null` in every template.
    #[must_use]
    pub fn means(&self, data: &Value) -> bool {
        without_nulls(&self.data) == without_nulls(data)
    }

    /// Deletes it, and no later one of its name.
    #[must_use]
    pub fn delete(&self) -> Delete {
        Delete::new(&self.object()).uid(&self.metadata.always.uid)
    }

    /// Gives it another number.
    ///
    /// # Errors
    ///
    /// Never: the patch has a JSON form.
    pub fn renumber(&self, revision: i64) -> Result<Patch, Failure> {
        let uid = &self.metadata.always.uid;
        let body = json!({"metadata": {"uid": uid}, "revision": revision});
        Ok(Patch::merge(&self.object(), &body)?)
    }
}

impl Claimable for Revision {
    fn metadata(&self) -> &Metadata {
        &self.metadata.always
    }

    fn owners(&self) -> &[OwnerReference] {
        &self.metadata.owner_references
    }
}

/// The revisions that match a LabelSelector and are owned by the controller of this uid, or are
/// orphans, oldest first.
///
/// # Errors
///
/// The manifest does not read ControllerRevisions, or one of them cannot be decoded.
pub fn list(
    host: &dyn Host,
    namespace: &str,
    uid: &str,
    selector: &Value,
) -> Result<Vec<Revision>, Failure> {
    let filter = match selector::filter(selector) {
        Ok(Some(filter)) => filter,
        Ok(None) => return Ok(Vec::new()),
        Err(reason) => return Err(Failure::terminal(format!("spec.selector: {reason}"))),
    };
    let mut revisions: Vec<Revision> = host.list_as(Some(namespace), &filter)?;
    revisions.retain(|revision| revision.controller().is_none_or(|owner| owner == uid));
    sort(&mut revisions);
    Ok(revisions)
}

/// Sorts by number, then by age, then by name.
pub fn sort(revisions: &mut [Revision]) {
    let age = |revision: &Revision| revision.metadata.creation_timestamp.unwrap_or_default();
    revisions.sort_by(|a, b| {
        let (a_key, b_key) = ((a.revision, age(a)), (b.revision, age(b)));
        a_key.cmp(&b_key).then_with(|| a.name().cmp(b.name()))
    });
}

/// The number of the revision after these, which are sorted. The first one is 1.
#[must_use]
pub fn next_number(sorted: &[Revision]) -> i64 {
    sorted.last().map_or(1, |newest| newest.revision + 1)
}

/// The data of a revision: a strategic merge patch that puts this `spec.template` in the place of
/// any other.
#[must_use]
pub fn template_patch(template: &Value) -> Value {
    let mut template = template.as_object().cloned().unwrap_or_default();
    template.insert("$patch".to_owned(), "replace".into());
    json!({"spec": {"template": template}})
}

/// A revision that is to be created, but for its name.
pub struct NewRevision<'a> {
    /// The controller that owns it.
    pub owner: &'a ObjectRef,
    /// The controller's uid.
    pub owner_uid: &'a str,
    /// The labels of its template, by which the controller finds it again.
    pub labels: &'a BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: &'a BTreeMap<String, String>,
    /// What it records.
    pub data: &'a Value,
    /// Its number.
    pub revision: i64,
}

/// Where a [`NewRevision`] goes.
pub struct Placed {
    /// The object to create. `None`: a revision of this name has this data already, and nothing
    /// needs to be done.
    pub create: Option<Create>,
    /// Its name.
    pub name: String,
    /// The owner's collision count, one higher for each name that other data had.
    pub collisions: i32,
}

impl NewRevision<'_> {
    /// Finds a name: that of the owner and a hash of data and collision count. While a revision of
    /// that name has other data, the count goes up.
    ///
    /// # Errors
    ///
    /// The manifest does not read ControllerRevisions, or one of them cannot be decoded.
    pub fn place(&self, host: &dyn Host, mut collisions: i32) -> Result<Placed, Failure> {
        let first = hash(self.data, collisions);
        loop {
            let name = name(&self.owner.name, &hash(self.data, collisions));
            let there: Option<Revision> = host.get_as(&self.owner.namespace, &name)?;
            let Some(there) = there else {
                let create = Some(Create::new(&self.object(&name, &first))?);
                return Ok(Placed {
                    create,
                    name,
                    collisions,
                });
            };
            if there.data == *self.data {
                return Ok(Placed {
                    create: None,
                    name,
                    collisions,
                });
            }
            collisions += 1;
        }
    }

    fn object(&self, name: &str, hash: &str) -> Value {
        let mut labels = self.labels.clone();
        labels.insert(HASH_LABEL.to_owned(), hash.to_owned());
        let mut metadata = json!({
            "namespace": self.owner.namespace,
            "name": name,
            "labels": labels,
            "ownerReferences": [OwnerReference::controller_of(self.owner, self.owner_uid)],
        });
        if !self.annotations.is_empty() {
            metadata["annotations"] = json!(self.annotations);
        }
        json!({
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": metadata,
            "data": self.data,
            "revision": self.revision,
        })
    }
}

/// The name of a revision of this owner.
#[must_use]
pub fn name(owner: &str, hash: &str) -> String {
    let prefix = owner.get(..MAX_PREFIX).unwrap_or(owner);
    format!("{prefix}-{hash}")
}

/// The hash of a revision's data, as Kubernetes computes it, so that a revision has the same name
/// whoever creates it: 32-bit FNV-1 of the data as Go writes it and of the collision count, in
/// letters and digits that make no words.
#[must_use]
pub fn hash(data: &Value, collisions: i32) -> String {
    let text = go_json(data) + &collisions.to_string();
    safe_encode(&fnv32(text.as_bytes()).to_string())
}

/// The surplus of a history, oldest first: of the revisions (sorted) whose names are not among the
/// live ones all but the newest `limit`. A negative limit keeps all.
#[must_use]
pub fn surplus<'a>(sorted: &'a [Revision], live: &BTreeSet<&str>, limit: i64) -> Vec<&'a Revision> {
    let is_history = |revision: &&Revision| !live.contains(revision.name());
    let mut history: Vec<&Revision> = sorted.iter().filter(is_history).collect();
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    history.truncate(history.len().saturating_sub(limit));
    history
}

/// The value as Go's `encoding/json` writes a map: members in order, `<`, `>` and `&` escaped, as
/// are the separators of lines and paragraphs.
fn go_json(value: &Value) -> String {
    let mut text = String::new();
    write_go_json(value, &mut text);
    text
}

fn write_go_json(value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => {
            let members: BTreeMap<&String, &Value> = members.iter().collect();
            text.push('{');
            for (number, (name, member)) in members.into_iter().enumerate() {
                text.push_str(if number > 0 { "," } else { "" });
                write_go_text(name, text);
                text.push(':');
                write_go_json(member, text);
            }
            text.push('}');
        }
        Value::Array(elements) => {
            text.push('[');
            for (number, element) in elements.iter().enumerate() {
                text.push_str(if number > 0 { "," } else { "" });
                write_go_json(element, text);
            }
            text.push(']');
        }
        Value::String(string) => write_go_text(string, text),
        other => text.push_str(&other.to_string()),
    }
}

fn write_go_text(string: &str, text: &mut String) {
    for character in Value::from(string).to_string().chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                text.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            other => text.push(other),
        }
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().filter(|(_, member)| !member.is_null());
            let members = members.map(|(name, member)| (name.clone(), without_nulls(member)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        Value::Array(elements) => elements.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
#[path = "revision_tests.rs"]
mod tests;
