//! Reading the cluster.

use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::{Failure, Filter, IndexValue, Kind, Level, ObjectKey, ReadError, match_labels};

/// One reconcile's view of the cluster: a frozen snapshot. What was read once reads the same again.
///
/// The methods here move JSON text and are what a host, or a test, implements. Controllers use the typed ones on
/// `dyn Cluster` ([`get`](trait@Cluster#method.get), [`get_part`](trait@Cluster#method.get_part),
/// [`list`](trait@Cluster#method.list), [`info`](trait@Cluster#method.info) and the other levels).
pub trait Cluster {
    /// The object as JSON, cut down to the manifest's fields.
    ///
    /// # Errors
    ///
    /// The manifest does not name this kind. An object that is not there is `None`, not an error.
    fn get_json(&self, kind: &Kind, key: &ObjectKey) -> Result<Option<String>, ReadError>;

    /// One part of the object as JSON, by JSON Pointer.
    ///
    /// # Errors
    ///
    /// The manifest does not name this kind, or this is not a JSON Pointer.
    fn get_part_json(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        pointer: &str,
    ) -> Result<Option<String>, ReadError>;

    /// The objects that match, as one JSON array.
    ///
    /// # Errors
    ///
    /// The manifest does not name this kind, or has no such index.
    fn list_json(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        filter: &Filter,
    ) -> Result<String, ReadError>;

    /// The time since the Unix epoch. It does not pass while a reconcile runs, and it is recorded.
    fn now(&self) -> Duration;

    /// Writes a line to the host's log: a constant message, and what varies as fields.
    fn log(&self, level: Level, message: &str, fields: &[(&str, &str)]);
}

impl dyn Cluster + '_ {
    /// An object, as the type of the caller's choice. Decode what the manifest's fields name and leave the rest out.
    ///
    /// # Errors
    ///
    /// It may not be read, or is not of this type.
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

    /// One part of an object, by JSON Pointer (`/data/ca.crt`), for when most of a large object is not wanted.
    ///
    /// # Errors
    ///
    /// It may not be read, or is not of this type.
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

    /// The objects of a kind that match, ordered by namespace and name. `namespace` none: all namespaces.
    ///
    /// # Errors
    ///
    /// They may not be read, or one is not of this type.
    pub fn list<T: DeserializeOwned>(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        filter: &Filter,
    ) -> Result<Vec<T>, Failure> {
        decode(&self.list_json(kind, namespace, filter)?, kind, "list")
    }

    /// A line for whoever looks for a fault in this plugin: the host's log does not show it unless
    /// asked to.
    pub fn debug(&self, message: &str, fields: &[(&str, &str)]) {
        self.log(Level::Debug, message, fields);
    }

    /// A line for the operator: a constant message, and what varies as fields.
    pub fn info(&self, message: &str, fields: &[(&str, &str)]) {
        self.log(Level::Info, message, fields);
    }

    /// A line about something that is amiss, and that this plugin can go on with.
    pub fn warn(&self, message: &str, fields: &[(&str, &str)]) {
        self.log(Level::Warn, message, fields);
    }

    /// A line about something that keeps this plugin from its work. What is returned as a
    /// [`Failure`] is in the log already.
    pub fn error(&self, message: &str, fields: &[(&str, &str)]) {
        self.log(Level::Error, message, fields);
    }
}

fn decode<T: DeserializeOwned>(json: &str, kind: &Kind, what: &str) -> Result<T, Failure> {
    serde_json::from_str(json).map_err(|error| Failure::terminal(format!("{kind} {what}: {error}")))
}

impl Filter {
    /// The objects with all of these labels.
    pub fn match_labels<K, V>(labels: impl IntoIterator<Item = (K, V)>) -> Self
    where
        K: Into<String>,
        V: Into<String>,
    {
        Self::Labels(match_labels(labels))
    }

    /// The objects with this value in an index of the manifest.
    #[must_use]
    pub fn index(name: &str, value: &str) -> Self {
        Self::Index(IndexValue {
            name: name.to_owned(),
            value: value.to_owned(),
        })
    }
}
