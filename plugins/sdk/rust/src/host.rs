//! What the host offers during one reconcile: reads of the snapshot, the time, the log.

use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Failure, Filter, IndexValue, Level, ObjectRef, Query, ReadError, ServedKind};

/// The host during one reconcile. Its reads are answered from one frozen snapshot: reading the same
/// thing twice gives the same answer.
///
/// The methods here return JSON text; the host or a test implements them. Controllers use the typed
/// methods of `dyn Host` instead: [`get`](trait@Host#method.get), [`list`](trait@Host#method.list),
/// [`info`](trait@Host#method.info) and the methods for the other log levels.
pub trait Host {
    /// The object as JSON, reduced to the fields that the manifest names. `None` if there is no
    /// such object. One of a kind of a pattern that cannot be listed and watched is fetched: this
    /// run ends, the key runs again with the answer, and nothing wakes it when that changes.
    ///
    /// # Errors
    ///
    /// The manifest does not declare this kind, or not in this namespace, or the operator has not
    /// granted it. Or the kind is read by a pattern and is unavailable.
    fn get_json(&self, object: &ObjectRef) -> Result<Option<String>, ReadError>;

    /// The matching objects, each reduced to the manifest's fields, as one JSON array ordered by
    /// namespace and name, each on a line of its own.
    ///
    /// A selector that cannot be parsed, and an index that the manifest does not declare, ends the
    /// run.
    ///
    /// # Errors
    ///
    /// As for [`get_json`](Self::get_json).
    fn list_json(&self, query: &Query) -> Result<String, ReadError>;

    /// Those objects of [`list_json`](Self::list_json) that come after this one, at most `limit` of
    /// them. Fewer are the last ones. All pages of a list are one read, that of the whole list.
    ///
    /// # Errors
    ///
    /// As for [`get_json`](Self::get_json).
    fn list_page_json(
        &self,
        query: &Query,
        after: Option<&ObjectRef>,
        limit: u32,
    ) -> Result<String, ReadError>;

    /// The kinds that the cluster serves and that this pattern (`*`, `apps/*`, `v1/*`) includes,
    /// ordered by group and kind; or the one kind of this name, in whatever version. Which they
    /// are, and which of them are unavailable, counts as read.
    ///
    /// # Errors
    ///
    /// The manifest reads no such pattern, or the operator has not granted it.
    fn served_kinds(&self, pattern: &str) -> Result<Vec<ServedKind>, ReadError>;

    /// The time of this reconcile, since the Unix epoch. It does not advance during a reconcile,
    /// and calling this is recorded like a read.
    fn now(&self) -> Duration;

    /// Writes a line to the host's log: a constant message, and the variable parts as fields (name,
    /// value).
    fn log(&self, level: Level, message: &str, fields: &[(&str, &str)]);
}

impl dyn Host + '_ {
    /// Reads an object and decodes it as `T`, which needs only the fields that the controller uses.
    /// `None` if there is no such object.
    ///
    /// # Errors
    ///
    /// The plugin may not read the object, or the object cannot be decoded as `T`.
    pub fn get<T: DeserializeOwned>(&self, object: &ObjectRef) -> Result<Option<T>, Failure> {
        let found = self.get_json(object)?;
        found.map(|json| decode(&json, object)).transpose()
    }

    /// Lists the objects of a kind (`apps/v1/Deployment`) that match `filter`, ordered by namespace
    /// and name. With `namespace` `None`: those in all namespaces that the manifest reads.
    ///
    /// # Errors
    ///
    /// The plugin may not read them, or one of the objects cannot be decoded as `T`.
    pub fn list<T: DeserializeOwned>(
        &self,
        kind: &str,
        namespace: Option<&str>,
        filter: &Filter,
    ) -> Result<Vec<T>, Failure> {
        let list = self.list_json(&query(kind, namespace, filter))?;
        decode_list(kind, &list)
    }

    /// Lists as [`list`](trait@Host#method.list), in pages of at most `size` objects: for a list
    /// that does not fit into the guest's memory at once.
    pub fn pages<'a, T: DeserializeOwned>(
        &'a self,
        kind: &str,
        namespace: Option<&str>,
        filter: &Filter,
        size: NonZeroU32,
    ) -> Pages<'a, T> {
        Pages {
            host: self,
            query: query(kind, namespace, filter),
            size,
            after: Some(None),
            object: PhantomData,
        }
    }

    /// The kinds that the cluster serves and that a pattern includes: see
    /// [`served_kinds`](Host::served_kinds).
    ///
    /// # Errors
    ///
    /// The plugin may not read the pattern.
    pub fn kinds(&self, pattern: &str) -> Result<Vec<ServedKind>, Failure> {
        Ok(self.served_kinds(pattern)?)
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

/// The pages of a list, one after the other: see [`pages`](trait@Host#method.pages).
///
/// After an error there are no more.
pub struct Pages<'a, T> {
    host: &'a dyn Host,
    query: Query,
    size: NonZeroU32,
    /// The last object of the page before, if there was one. The outer `None`: that was the last
    /// page.
    after: Option<Option<ObjectRef>>,
    object: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Iterator for Pages<'_, T> {
    type Item = Result<Vec<T>, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        let after = self.after.take()?;
        let page = self.page(after.as_ref());
        page.map(|page| (!page.is_empty()).then_some(page))
            .transpose()
    }
}

impl<T: DeserializeOwned> Pages<'_, T> {
    fn page(&mut self, after: Option<&ObjectRef>) -> Result<Vec<T>, Failure> {
        let (kind, size) = (&self.query.kind, self.size.get());
        let json = self.host.list_page_json(&self.query, after, size)?;
        let objects = decode_list(kind, &json)?;
        if objects.len() == size as usize {
            let last = json.lines().rev().nth(1).unwrap_or_default();
            let last: Named = serde_json::from_str(last)?;
            // In a list of a pattern, each object says of which kind it is.
            let of_pattern = last.api_version.zip(last.kind);
            let own = of_pattern.map(|(api_version, kind)| format!("{api_version}/{kind}"));
            let kind = own.as_deref().unwrap_or(kind);
            let Name { namespace, name } = last.metadata;
            let key = ObjectRef::new(kind, &namespace, &name);
            self.after = Some(Some(key));
        }
        Ok(objects)
    }
}

/// What every view of an object has, and what it has in a list of a pattern.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    api_version: Option<String>,
    kind: Option<String>,
    metadata: Name,
}

#[derive(Deserialize)]
struct Name {
    #[serde(default)]
    namespace: String,
    name: String,
}

pub(crate) fn query(kind: &str, namespace: Option<&str>, filter: &Filter) -> Query {
    Query {
        kind: kind.to_owned(),
        namespace: namespace.map(str::to_owned),
        filter: filter.clone(),
    }
}

fn decode_list<T: DeserializeOwned>(kind: &str, json: &str) -> Result<Vec<T>, Failure> {
    serde_json::from_str(json)
        .map_err(|error| Failure::terminal(format!("list of {kind}: {error}")))
}

/// Decodes an object. The error names it.
pub(crate) fn decode<T: DeserializeOwned>(json: &str, object: &ObjectRef) -> Result<T, Failure> {
    serde_json::from_str(json).map_err(|error| Failure::terminal(format!("{object}: {error}")))
}

impl Filter {
    /// Selects the objects whose labels match this selector, as kubectl writes it:
    /// `app=web,tier in (a,b),!canary`.
    #[must_use]
    pub fn labels(selector: &str) -> Self {
        Self::Labels(selector.to_owned())
    }

    /// Selects the objects that have all of these labels, as `matchLabels`, or `spec.selector` of a
    /// Service. Without labels it selects everything.
    pub fn match_labels<K, V>(labels: impl IntoIterator<Item = (K, V)>) -> Self
    where
        K: Into<String>,
        V: Into<String>,
    {
        let labels = labels
            .into_iter()
            .map(|(key, value)| (key.into(), value.into().into()));
        let labels: serde_json::Map<String, serde_json::Value> = labels.collect();
        Self::Labels(serde_json::json!({"matchLabels": labels}).to_string())
    }

    /// Selects the objects that a LabelSelector selects, as objects hold it: `spec.selector` of a
    /// Deployment.
    ///
    /// # Errors
    ///
    /// The selector has no JSON form. One that is no LabelSelector ends the run when it is used.
    pub fn label_selector(selector: &impl Serialize) -> Result<Self, serde_json::Error> {
        Ok(Self::Labels(serde_json::to_string(selector)?))
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
