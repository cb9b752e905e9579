//! Reading the cluster, and the reconcile's clock and log.

use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::{Failure, Filter, IndexValue, Kind, Level, ObjectKey, ReadError, match_labels};

/// One reconcile's view of the cluster: a frozen snapshot. Reading the same thing twice gives the
/// same answer.
///
/// The methods here return JSON text; the host or a test implements them. Controllers use the typed
/// methods of `dyn Cluster` instead: [`get`](trait@Cluster#method.get),
/// [`get_part`](trait@Cluster#method.get_part), [`list`](trait@Cluster#method.list),
/// [`info`](trait@Cluster#method.info) and the methods for the other log levels.
pub trait Cluster {
    /// The object as JSON, reduced to the fields that the manifest names. `None` if there is no
    /// such object.
    ///
    /// # Errors
    ///
    /// The manifest does not declare this kind, or not in this namespace, or the operator has not
    /// granted it.
    fn get_json(&self, kind: &Kind, key: &ObjectKey) -> Result<Option<String>, ReadError>;

    /// One part of the object as JSON, by JSON Pointer (RFC 6901). `None` if the object or the part
    /// does not exist.
    ///
    /// # Errors
    ///
    /// As for [`get_json`](Self::get_json), or `pointer` is not a JSON Pointer.
    fn get_part_json(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        pointer: &str,
    ) -> Result<Option<String>, ReadError>;

    /// The matching objects, each reduced to the manifest's fields, as one JSON array ordered by
    /// namespace and name. With `namespace` `None`: those in all namespaces that the manifest
    /// reads.
    ///
    /// # Errors
    ///
    /// As for [`get_json`](Self::get_json), or the manifest has no such index.
    fn list_json(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        filter: &Filter,
    ) -> Result<String, ReadError>;

    /// The time of this reconcile, since the Unix epoch. It does not advance during a reconcile,
    /// and calling this is recorded like a read.
    fn now(&self) -> Duration;

    /// Writes a line to the host's log: a constant message, and the variable parts as fields (name,
    /// value).
    fn log(&self, level: Level, message: &str, fields: &[(&str, &str)]);
}

impl dyn Cluster + '_ {
    /// Reads an object and decodes it as `T`, which needs only the fields that the controller uses.
    /// `None` if there is no such object.
    ///
    /// # Errors
    ///
    /// The plugin may not read the object, or the object cannot be decoded as `T`.
    pub fn get<T: DeserializeOwned>(
        &self,
        kind: &Kind,
        key: &ObjectKey,
    ) -> Result<Option<T>, Failure> {
        let found = self.get_json(kind, key)?;
        found
            .map(|json| decode(&json, kind, &key.to_string()))
            .transpose()
    }

    /// Reads one part of an object, by JSON Pointer (`/data/ca.crt`). Useful when most of a large
    /// object is not needed. `None` if the object or the part does not exist.
    ///
    /// The host searches the whole object on every call. To read several parts, get the object.
    ///
    /// # Errors
    ///
    /// The plugin may not read the object, `pointer` is not a JSON Pointer, or the part cannot be
    /// decoded as `T`.
    pub fn get_part<T: DeserializeOwned>(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        pointer: &str,
    ) -> Result<Option<T>, Failure> {
        let found = self.get_part_json(kind, key, pointer)?;
        found
            .map(|json| decode(&json, kind, &key.to_string()))
            .transpose()
    }

    /// Lists the objects of a kind that match `filter`, ordered by namespace and name. With
    /// `namespace` `None`: those in all namespaces that the manifest reads.
    ///
    /// # Errors
    ///
    /// The plugin may not read them, the manifest has no such index, or one of the objects cannot
    /// be decoded as `T`.
    pub fn list<T: DeserializeOwned>(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        filter: &Filter,
    ) -> Result<Vec<T>, Failure> {
        decode(&self.list_json(kind, namespace, filter)?, kind, "list")
    }

    /// Logs a line for debugging this plugin. The host hides such lines by default.
    pub fn debug(&self, message: &str, fields: &[(&str, &str)]) {
        self.log(Level::Debug, message, fields);
    }

    /// Logs a line for the operator: a constant message, and the variable parts as fields.
    pub fn info(&self, message: &str, fields: &[(&str, &str)]) {
        self.log(Level::Info, message, fields);
    }

    /// Logs a line about a problem that does not stop this plugin from working.
    pub fn warn(&self, message: &str, fields: &[(&str, &str)]) {
        self.log(Level::Warn, message, fields);
    }

    /// Logs a line about a problem that stops this plugin from working. There is no need to log a
    /// [`Failure`] that is returned: the host does that.
    pub fn error(&self, message: &str, fields: &[(&str, &str)]) {
        self.log(Level::Error, message, fields);
    }
}

fn decode<T: DeserializeOwned>(json: &str, kind: &Kind, what: &str) -> Result<T, Failure> {
    serde_json::from_str(json).map_err(|error| Failure::terminal(format!("{kind} {what}: {error}")))
}

impl Filter {
    /// Selects the objects that have all of these labels.
    pub fn match_labels<K, V>(labels: impl IntoIterator<Item = (K, V)>) -> Self
    where
        K: Into<String>,
        V: Into<String>,
    {
        Self::Labels(match_labels(labels))
    }

    /// Selects the objects that have this value in an index of the manifest.
    #[must_use]
    pub fn index(name: &str, value: &str) -> Self {
        Self::Index(IndexValue {
            name: name.to_owned(),
            value: value.to_owned(),
        })
    }
}
