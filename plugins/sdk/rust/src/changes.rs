//! Building actions. Each is a value until the host has checked the whole outcome.

use serde::Serialize;

use crate::{
    Action, Apply, Children, Create, Delete, Event, EventType, Finalizer, Kind, ObjectKey, Patch,
    PatchType, Propagation, Update,
};

impl Apply {
    /// Server-side apply of this object, or of the part of it that is to be so.
    ///
    /// # Errors
    ///
    /// The value has no JSON form (a map whose keys are not strings).
    pub fn new(object: &impl Serialize) -> Result<Self, serde_json::Error> {
        Ok(Self {
            object: serde_json::to_string(object)?,
            subresource: None,
            force: false,
        })
    }

    /// Take fields that another manager owns.
    #[must_use]
    pub fn force(mut self) -> Self {
        self.force = true;
        self
    }

    /// Apply to a subresource: `status`, `scale`.
    #[must_use]
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.to_owned());
        self
    }
}

impl Create {
    /// Creation of this object.
    ///
    /// # Errors
    ///
    /// The value has no JSON form.
    pub fn new(object: &impl Serialize) -> Result<Self, serde_json::Error> {
        Ok(Self {
            object: serde_json::to_string(object)?,
            subresource: None,
        })
    }

    /// Create a subresource of the object that `metadata` names: `eviction`, `binding`.
    #[must_use]
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.to_owned());
        self
    }
}

impl Update {
    /// Replacement by this object.
    ///
    /// # Errors
    ///
    /// The value has no JSON form.
    pub fn new(object: &impl Serialize) -> Result<Self, serde_json::Error> {
        Ok(Self {
            object: serde_json::to_string(object)?,
            subresource: None,
        })
    }

    /// Replace a subresource: `status`, `scale`.
    #[must_use]
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.to_owned());
        self
    }
}

impl Patch {
    /// RFC 7386: the body's members replace the object's, and null removes one.
    ///
    /// # Errors
    ///
    /// The body has no JSON form.
    pub fn merge(
        kind: &Kind,
        key: &ObjectKey,
        body: &impl Serialize,
    ) -> Result<Self, serde_json::Error> {
        Self::new(kind, key, PatchType::MergePatch, body)
    }

    /// RFC 6902: a list of operations.
    ///
    /// # Errors
    ///
    /// The body has no JSON form.
    pub fn json(
        kind: &Kind,
        key: &ObjectKey,
        body: &impl Serialize,
    ) -> Result<Self, serde_json::Error> {
        Self::new(kind, key, PatchType::JsonPatch, body)
    }

    /// Kubernetes' own, which merges lists by key; built-in kinds only.
    ///
    /// # Errors
    ///
    /// The body has no JSON form.
    pub fn strategic(
        kind: &Kind,
        key: &ObjectKey,
        body: &impl Serialize,
    ) -> Result<Self, serde_json::Error> {
        Self::new(kind, key, PatchType::StrategicMergePatch, body)
    }

    /// Patch a subresource: `status`, `scale`.
    #[must_use]
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.to_owned());
        self
    }

    fn new(
        kind: &Kind,
        key: &ObjectKey,
        patch_type: PatchType,
        body: &impl Serialize,
    ) -> Result<Self, serde_json::Error> {
        Ok(Self {
            kind: kind.clone(),
            key: key.clone(),
            subresource: None,
            patch_type,
            body: serde_json::to_string(body)?,
        })
    }
}

impl Delete {
    /// Deletion of this object.
    #[must_use]
    pub fn new(kind: &Kind, key: &ObjectKey) -> Self {
        Self {
            kind: kind.clone(),
            key: key.clone(),
            uid: None,
            resource_version: None,
            propagation: None,
            grace_period_seconds: None,
        }
    }

    /// Only the object with this uid, not a later one of the same name.
    #[must_use]
    pub fn uid(mut self, uid: &str) -> Self {
        self.uid = Some(uid.to_owned());
        self
    }

    /// Only while the object is at this resourceVersion.
    #[must_use]
    pub fn resource_version(mut self, resource_version: &str) -> Self {
        self.resource_version = Some(resource_version.to_owned());
        self
    }

    /// What becomes of the objects it owns.
    #[must_use]
    pub fn propagation(mut self, propagation: Propagation) -> Self {
        self.propagation = Some(propagation);
        self
    }

    /// How long the object may take to end.
    #[must_use]
    pub fn grace_period_seconds(mut self, seconds: u32) -> Self {
        self.grace_period_seconds = Some(seconds);
        self
    }
}

impl Event {
    /// An Event that tells of normal working.
    #[must_use]
    pub fn normal(kind: &Kind, key: &ObjectKey, reason: &str, action: &str, note: &str) -> Self {
        Self::new(kind, key, EventType::Normal, reason, action, note)
    }

    /// An Event that tells of something amiss.
    #[must_use]
    pub fn warning(kind: &Kind, key: &ObjectKey, reason: &str, action: &str, note: &str) -> Self {
        Self::new(kind, key, EventType::Warning, reason, action, note)
    }

    fn new(
        kind: &Kind,
        key: &ObjectKey,
        event_type: EventType,
        reason: &str,
        action: &str,
        note: &str,
    ) -> Self {
        Self {
            kind: kind.clone(),
            key: key.clone(),
            event_type,
            reason: reason.to_owned(),
            action: action.to_owned(),
            note: note.to_owned(),
        }
    }
}

impl Finalizer {
    /// The object has this finalizer.
    #[must_use]
    pub fn add(kind: &Kind, key: &ObjectKey, name: &str) -> Self {
        Self::new(kind, key, name, true)
    }

    /// The object no longer has this finalizer.
    #[must_use]
    pub fn remove(kind: &Kind, key: &ObjectKey, name: &str) -> Self {
        Self::new(kind, key, name, false)
    }

    fn new(kind: &Kind, key: &ObjectKey, name: &str, present: bool) -> Self {
        Self {
            kind: kind.clone(),
            key: key.clone(),
            name: name.to_owned(),
            present,
        }
    }
}

impl Children {
    /// These are all the objects that should exist for this key.
    ///
    /// # Errors
    ///
    /// One of them has no JSON form.
    pub fn new<T: Serialize>(
        objects: impl IntoIterator<Item = T>,
    ) -> Result<Self, serde_json::Error> {
        let objects = objects
            .into_iter()
            .map(|object| serde_json::to_string(&object));
        Ok(Self {
            objects: objects.collect::<Result<_, _>>()?,
        })
    }
}

macro_rules! action_from {
    ($($record:ident),*) => {
        $(impl From<$record> for Action {
            fn from(record: $record) -> Self {
                Self::$record(record)
            }
        })*
    };
}

action_from!(
    Apply, Create, Update, Patch, Delete, Event, Finalizer, Children
);
