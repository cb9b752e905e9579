//! Reads, writes and declarations whose kind and fields come from a type.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::object_ref::split_kind;
use crate::{
    Apply, Children, Failure, Filter, Host, Kind, Manifest, ObjectRef, OwnerReference, Projection,
    Read, Request,
};

impl Read {
    /// Reads the fields that `T` has, of all objects of its kind.
    #[must_use]
    pub fn of<T: Kind + Projection>() -> Self {
        let fields = T::fields();
        Self::new(T::KIND, fields.iter().map(String::as_str))
    }
}

impl Manifest {
    /// Declares that the plugin reads the fields that `T` has, of all objects of its kind.
    #[must_use]
    pub fn reads_as<T: Kind + Projection>(self) -> Self {
        self.reads_only(Read::of::<T>())
    }

    /// Declares that the plugin reads the fields that `T` has, of those objects of its kind that it
    /// reconciles: the read is narrowed as the [`Selection`](crate::Selection) is, which has been
    /// declared before.
    ///
    /// The host then neither keeps nor watches the others, and for the plugin there are none: a
    /// read of another object finds nothing. So objects of the kind cannot be
    /// [`Children`].
    ///
    /// # Panics
    ///
    /// The plugin does not reconcile the kind, or this is declared before it.
    #[must_use]
    pub fn reads_selected_as<T: Kind + Projection>(self) -> Self {
        let mut selections = self.reconciles.iter();
        let selection = selections.find(|selection| selection.kind == T::KIND);
        let selection = selection.unwrap_or_else(|| {
            panic!("no selection of {} has been declared before", T::KIND);
        });
        let fields = T::fields();
        let read = selection.read(fields.iter().map(String::as_str));
        self.reads_only(read)
    }
}

impl dyn Host + '_ {
    /// Reads the object of `T`'s kind that has this namespace and name. The namespace of a
    /// cluster-scoped object is empty. `None` if there is no such object.
    ///
    /// # Errors
    ///
    /// As for [`get`](trait@Host#method.get).
    pub fn get_as<T: Kind + DeserializeOwned>(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<T>, Failure> {
        self.get(&ObjectRef::new(T::KIND, namespace, name))
    }

    /// Lists the objects of `T`'s kind that match `filter`, ordered by namespace and name. With
    /// `namespace` `None`: those in all namespaces that the manifest reads.
    ///
    /// # Errors
    ///
    /// As for [`list`](trait@Host#method.list).
    pub fn list_as<T: Kind + DeserializeOwned>(
        &self,
        namespace: Option<&str>,
        filter: &Filter,
    ) -> Result<Vec<T>, Failure> {
        self.list(T::KIND, namespace, filter)
    }
}

impl Request {
    /// A reference to the key's own object, for `metadata.ownerReferences` of what is made for it.
    ///
    /// # Errors
    ///
    /// The object is gone: it cannot own anything.
    ///
    /// # Panics
    ///
    /// The plugin is a singleton: its only key has no object.
    pub fn owner_reference(&self) -> Result<OwnerReference, Failure> {
        let key = self.key();
        let gone = || Failure::terminal(format!("{key} is gone and cannot own anything"));
        let owner: Value = self.object()?.ok_or_else(gone)?;
        let uid = owner["metadata"]["uid"].as_str().unwrap_or_default();
        Ok(OwnerReference::new(key, uid))
    }

    /// A reference to the key's own object as the one that manages what is made for it, as
    /// Kubernetes' own controllers write it: [`OwnerReference::controller_of`].
    ///
    /// # Errors
    ///
    /// As for [`owner_reference`](Self::owner_reference).
    ///
    /// # Panics
    ///
    /// As for [`owner_reference`](Self::owner_reference).
    pub fn controller_reference(&self) -> Result<OwnerReference, Failure> {
        Ok(self.owner_reference()?.controller().block_owner_deletion())
    }
}

impl Apply {
    /// Server-side apply of what is set in `object`: `apiVersion` and `kind` are filled in, and
    /// members that are null or as in `T::default()` are left out. So a `Deployment` of k8s-openapi
    /// with `spec.replicas` alone does not also set an empty `selector` and `template`. With
    /// [`Apply::new`] it would, and the API server would refuse it.
    ///
    /// What is to be set to its default must be an `Option` in `T`. Lists are sent as they are.
    ///
    /// # Errors
    ///
    /// The value has no JSON form.
    pub fn partial<T: Kind + Serialize + Default>(object: &T) -> Result<Self, serde_json::Error> {
        let mut set = serde_json::to_value(object)?;
        remove_unset(&mut set, &serde_json::to_value(T::default())?);
        let (api_version, kind) = split_kind(T::KIND);
        set["apiVersion"] = api_version.into();
        set["kind"] = kind.into();
        Self::new(&set)
    }

    /// Server-side apply of an object's `status`, through its subresource. Members that are null
    /// are left out. The manifest must declare it: `.writes_subresource(kind, "status",
    /// [Verb::Apply])`.
    ///
    /// # Errors
    ///
    /// The status has no JSON form.
    pub fn status(object: &ObjectRef, status: &impl Serialize) -> Result<Self, serde_json::Error> {
        let (api_version, kind) = split_kind(&object.kind);
        let mut metadata = json!({"name": object.name});
        if !object.namespace.is_empty() {
            metadata["namespace"] = json!(object.namespace);
        }
        let mut status = serde_json::to_value(status)?;
        remove_unset(&mut status, &Value::Null);
        let body = json!({
            "apiVersion": api_version, "kind": kind, "metadata": metadata, "status": status,
        });
        Ok(Self::new(&body)?.subresource("status"))
    }
}

/// Removes the members that are null, or what they are in `default`, at every depth.
fn remove_unset(value: &mut Value, default: &Value) {
    let Value::Object(members) = value else {
        return;
    };
    members.retain(|name, member| {
        let default = &default[name.as_str()];
        let is_set = !member.is_null() && member != default;
        if is_set {
            remove_unset(member, default);
        }
        is_set
    });
}

impl Children {
    /// No children: those that there are will be deleted.
    #[must_use]
    pub fn none() -> Self {
        Self {
            objects: Vec::new(),
        }
    }

    /// Adds an object, perhaps of another type than the others.
    ///
    /// # Errors
    ///
    /// The object has no JSON form.
    pub fn and(mut self, object: &impl Serialize) -> Result<Self, serde_json::Error> {
        self.objects.push(serde_json::to_string(object)?);
        Ok(self)
    }
}
