//! Builders for actions. An action is only a value: the host checks the whole outcome before it
//! performs any of it.

use std::time::Duration;

use serde::Serialize;

use crate::{
    Action, Apply, Children, Create, Delete, DeleteAll, Event, EventType, Finalizer, ObjectRef,
    Patch, PatchType, Propagation, Update,
};

impl Apply {
    /// Server-side apply of `object`, which may be a whole object or only the fields that this
    /// plugin wants to set. It needs `apiVersion`, `kind`, `metadata.name` and, for a namespaced
    /// kind, `metadata.namespace`.
    ///
    /// # Errors
    ///
    /// The value has no JSON form (for example a map whose keys are not strings).
    pub fn new(object: &impl Serialize) -> Result<Self, serde_json::Error> {
        Ok(Self {
            object: serde_json::to_string(object)?,
            subresource: None,
            force: false,
        })
    }

    /// Takes over fields that another field manager owns. Without this, applying such a field is a
    /// conflict.
    #[must_use]
    pub fn force(mut self) -> Self {
        self.force = true;
        self
    }

    /// Applies to a subresource: `status`, `scale`.
    #[must_use]
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.to_owned());
        self
    }
}

impl Create {
    /// Creates `object`. With `metadata.generateName` the host derives a name. It is the same on
    /// every retry from the same state, and differs from the names of all objects that this
    /// reconcile has read.
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

    /// Creates a subresource of the object that `metadata` names: `eviction`, `binding`. The
    /// manifest must declare the kind of the body for this: `policy/v1/Eviction`, `v1/Binding`.
    #[must_use]
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.to_owned());
        self
    }
}

impl Update {
    /// Replaces an existing object by `object`, at the version that the snapshot shows or that an
    /// earlier action of the outcome has left. If the object has changed since, the update is a
    /// conflict. Finalizers that `object` does not mention stay. For a kind that the plugin does
    /// not read, `object` must contain `metadata.resourceVersion`.
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

    /// Replaces a subresource: `status`, `scale`.
    #[must_use]
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.to_owned());
        self
    }
}

impl Patch {
    /// A merge patch (RFC 7386): the members of `body` replace those of the object, and null
    /// removes a member. A body with a `metadata.resourceVersion`, whatever its value, applies only
    /// to the version that the snapshot shows; otherwise it is a conflict.
    ///
    /// # Errors
    ///
    /// The body has no JSON form.
    pub fn merge(object: &ObjectRef, body: &impl Serialize) -> Result<Self, serde_json::Error> {
        Self::new(object, PatchType::MergePatch, body)
    }

    /// A JSON Patch (RFC 6902): a list of operations. It is a conflict if it does not fit the
    /// object, for example because a test fails.
    ///
    /// # Errors
    ///
    /// The body has no JSON form.
    pub fn json(object: &ObjectRef, body: &impl Serialize) -> Result<Self, serde_json::Error> {
        Self::new(object, PatchType::JsonPatch, body)
    }

    /// A strategic merge patch: Kubernetes' own format, which merges lists by key. The server
    /// accepts it only for built-in kinds.
    ///
    /// # Errors
    ///
    /// The body has no JSON form.
    pub fn strategic(object: &ObjectRef, body: &impl Serialize) -> Result<Self, serde_json::Error> {
        Self::new(object, PatchType::StrategicMergePatch, body)
    }

    /// Patches a subresource: `status`, `scale`.
    #[must_use]
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.to_owned());
        self
    }

    fn new(
        object: &ObjectRef,
        patch_type: PatchType,
        body: &impl Serialize,
    ) -> Result<Self, serde_json::Error> {
        Ok(Self {
            object: object.clone(),
            subresource: None,
            patch_type,
            body: serde_json::to_string(body)?,
        })
    }
}

impl Delete {
    /// Deletes an object. Deleting one that is already gone succeeds. Without preconditions of its
    /// own, this deletes only the object that the snapshot shows, and only if it has not changed
    /// since.
    #[must_use]
    pub fn new(object: &ObjectRef) -> Self {
        Self {
            object: object.clone(),
            uid: None,
            resource_version: None,
            propagation: None,
            grace_period_seconds: None,
        }
    }

    /// Deletes only the object with this uid, not a later one of the same name. Other changes to it
    /// do not matter: without this, a delete is of the version that the snapshot shows.
    #[must_use]
    pub fn uid(mut self, uid: &str) -> Self {
        self.uid = Some(uid.to_owned());
        self
    }

    /// Deletes the object only if it is still at this resourceVersion.
    #[must_use]
    pub fn resource_version(mut self, resource_version: &str) -> Self {
        self.resource_version = Some(resource_version.to_owned());
        self
    }

    /// What happens to the objects that it owns. Without this, the kind's default applies.
    #[must_use]
    pub fn propagation(mut self, propagation: Propagation) -> Self {
        self.propagation = Some(propagation);
        self
    }

    /// How long the object may take to shut down. Kubernetes counts whole seconds: parts of one are
    /// rounded up.
    #[must_use]
    pub fn grace_period(mut self, period: Duration) -> Self {
        let seconds = period.as_secs() + u64::from(period.subsec_nanos() > 0);
        self.grace_period_seconds = Some(u32::try_from(seconds).unwrap_or(u32::MAX));
        self
    }
}

impl DeleteAll {
    /// Deletes all objects of a kind (`v1/ConfigMap`) in a namespace, which is empty for a kind
    /// without namespaces: those that are on the server, whether the snapshot shows them or not.
    ///
    /// The manifest must declare [`Verb::DeleteCollection`](crate::Verb::DeleteCollection). The
    /// operator has to grant it by name; a grant of all that is requested does not include it.
    #[must_use]
    pub fn new(kind: &str, namespace: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            labels: None,
            propagation: None,
        }
    }

    /// Deletes only objects whose labels match this selector, as kubectl writes it:
    /// `app=web,tier in (a,b),!canary`.
    #[must_use]
    pub fn labels(mut self, selector: &str) -> Self {
        self.labels = Some(selector.to_owned());
        self
    }

    /// What happens to the objects that they own. Without this, the kind's default applies.
    #[must_use]
    pub fn propagation(mut self, propagation: Propagation) -> Self {
        self.propagation = Some(propagation);
        self
    }
}

impl Event {
    /// A `Normal` Event: something works as intended.
    ///
    /// `reason` and `action` (what was done or attempted) are CamelCase, for machines, and have at
    /// most 128 bytes. `note` is for people and has at most 1,024 bytes. Longer texts are cut. The
    /// manifest must declare the object's kind in its reads or writes. An Event that is not granted
    /// or cannot be written never fails the reconcile.
    ///
    /// Its effect is `Done` as soon as the host has taken it. The host writes it later, so that the
    /// key need not wait, and may still drop it.
    #[must_use]
    pub fn normal(object: &ObjectRef, reason: &str, action: &str, note: &str) -> Self {
        Self::new(object, EventType::Normal, reason, action, note)
    }

    /// A `Warning` Event: something is wrong. The arguments are those of [`Event::normal`].
    #[must_use]
    pub fn warning(object: &ObjectRef, reason: &str, action: &str, note: &str) -> Self {
        Self::new(object, EventType::Warning, reason, action, note)
    }

    fn new(
        object: &ObjectRef,
        event_type: EventType,
        reason: &str,
        action: &str,
        note: &str,
    ) -> Self {
        Self {
            object: object.clone(),
            event_type,
            reason: reason.to_owned(),
            action: action.to_owned(),
            note: note.to_owned(),
        }
    }
}

impl Finalizer {
    /// Makes sure that the object has this finalizer. It is a conflict if the object has been
    /// replaced or its finalizers have changed since the snapshot. The manifest must read the kind
    /// and declare [`Verb::Patch`](crate::Verb::Patch) for it.
    #[must_use]
    pub fn add(object: &ObjectRef, name: &str) -> Self {
        Self::new(object, name, true)
    }

    /// Makes sure that the object does not have this finalizer. Succeeds if the object is already
    /// gone. Otherwise like [`Finalizer::add`].
    #[must_use]
    pub fn remove(object: &ObjectRef, name: &str) -> Self {
        Self::new(object, name, false)
    }

    fn new(object: &ObjectRef, name: &str, present: bool) -> Self {
        Self {
            object: object.clone(),
            name: name.to_owned(),
            present,
        }
    }
}

impl Children {
    /// All objects that should exist for this key. The host applies each of them and deletes those
    /// that it applied for this key before and that are no longer listed. An outcome has at most
    /// one such action.
    ///
    /// When the key's object is gone, return the empty list to delete its children; an outcome
    /// without this action leaves them. The host sets no owners: add
    /// [`OwnerReference`](crate::OwnerReference) if the garbage collector should delete a child.
    ///
    /// # Errors
    ///
    /// One of the objects has no JSON form.
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
    Apply, Create, Update, Patch, Delete, DeleteAll, Event, Finalizer, Children
);
