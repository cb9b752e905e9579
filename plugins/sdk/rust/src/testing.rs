//! Testing a controller natively: a cluster held in memory that answers as the host does.

mod actions;
mod fields;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::{
    Cluster, Controller, Failure, Filter, Kind, LabelRequirement, Level, Manifest, ObjectKey,
    Outcome, Read, ReadError, Request,
};

pub use actions::to_json;

/// Where an object is held, in the order in which objects are listed.
type Place = (String, String);

/// A cluster in memory, seen through one manifest.
///
/// It cuts objects down to the manifest's fields, denies kinds the manifest does not read, and refuses an outcome with a write
/// the manifest does not declare. So a test notices what is missing from the manifest.
pub struct FakeCluster {
    manifest: Manifest,
    objects: BTreeMap<String, BTreeMap<Place, Value>>,
    now: Duration,
    config: String,
    lines: RefCell<Vec<String>>,
}

impl FakeCluster {
    /// An empty cluster.
    #[must_use]
    pub fn new(manifest: Manifest) -> Self {
        Self {
            manifest,
            objects: BTreeMap::new(),
            now: Duration::ZERO,
            config: "{}".to_owned(),
            lines: RefCell::default(),
        }
    }

    /// With one more object, whole, in place of any of the same kind and key.
    ///
    /// # Panics
    ///
    /// It has no `apiVersion`, `kind` or `metadata.name`.
    #[must_use]
    pub fn with(mut self, object: Value) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let kind = kind_of(&object).expect("a test's object has apiVersion and kind");
        let name = text("/metadata/name")
            .expect("a test's object has a name")
            .to_owned();
        let namespace = text("/metadata/namespace").unwrap_or_default().to_owned();
        self.objects
            .entry(kind.to_string())
            .or_default()
            .insert((namespace, name), object);
        self
    }

    /// At this time since the Unix epoch.
    #[must_use]
    pub fn at(mut self, now: Duration) -> Self {
        self.now = now;
        self
    }

    /// With this configuration of the plugin.
    #[must_use]
    pub fn configured(mut self, config: &Value) -> Self {
        self.config = config.to_string();
        self
    }

    /// A first turn for this key.
    ///
    /// # Errors
    ///
    /// What the controller returns; and [`Failure::Terminal`], as the host would have it, when the outcome holds a write that the
    /// manifest does not declare.
    pub fn reconcile<C: Controller>(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Outcome, Failure> {
        let request = Request {
            key: ObjectKey::new(namespace, name),
            attempt: 1,
            previous: Vec::new(),
            config: self.config.clone(),
        };
        let outcome = C::reconcile(&request, self)?;
        for action in &outcome.actions {
            actions::check(action, &self.manifest).map_err(Failure::Terminal)?;
        }
        Ok(outcome)
    }

    /// The lines logged so far: `INFO message name=value`.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.lines.borrow().clone()
    }

    fn declared(&self, kind: &Kind) -> Result<&Read, ReadError> {
        let declared = self.manifest.reads.iter().find(|read| read.kind == *kind);
        declared
            .ok_or_else(|| ReadError::Denied(format!("{kind} is not among the manifest's reads")))
    }

    /// What is declared of a kind, for reading in this namespace.
    fn declared_in(&self, kind: &Kind, namespace: &str) -> Result<&Read, ReadError> {
        let read = self.declared(kind)?;
        if read.namespaces.is_empty() || read.namespaces.iter().any(|own| own == namespace) {
            return Ok(read);
        }
        Err(ReadError::Denied(format!(
            "the manifest reads {kind} in other namespaces, not in {namespace:?}"
        )))
    }

    fn find(&self, kind: &Kind, key: &ObjectKey) -> Result<Option<Value>, ReadError> {
        let read = self.declared_in(kind, &key.namespace)?;
        let place = (key.namespace.clone(), key.name.clone());
        let found = self
            .objects
            .get(&kind.to_string())
            .and_then(|objects| objects.get(&place))
            .filter(|object| is_selected(read, object));
        Ok(found.map(|object| fields::view(object, &read.fields)))
    }

    /// The paths of the filter's index, for which the manifest must have one.
    fn index_paths(&self, kind: &Kind, filter: &Filter) -> Result<&[String], ReadError> {
        let Filter::Index(wanted) = filter else {
            return Ok(&[]);
        };
        let mut indexes = self.manifest.indexes.iter();
        let index = indexes.find(|index| index.kind == *kind && index.name == wanted.name);
        let index =
            index.ok_or_else(|| ReadError::UnknownIndex(format!("{} of {kind}", wanted.name)))?;
        Ok(&index.paths)
    }
}

impl Cluster for FakeCluster {
    fn get_json(&self, kind: &Kind, key: &ObjectKey) -> Result<Option<String>, ReadError> {
        Ok(self.find(kind, key)?.map(|object| object.to_string()))
    }

    fn get_part_json(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        pointer: &str,
    ) -> Result<Option<String>, ReadError> {
        if !pointer.is_empty() && !pointer.starts_with('/') {
            return Err(ReadError::InvalidPointer(pointer.to_owned()));
        }
        let object = self.find(kind, key)?;
        Ok(object.and_then(|object| object.pointer(pointer).map(Value::to_string)))
    }

    fn list_json(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        filter: &Filter,
    ) -> Result<String, ReadError> {
        let read = match namespace {
            Some(namespace) => self.declared_in(kind, namespace)?,
            None => self.declared(kind)?,
        };
        let paths = self.index_paths(kind, filter)?;
        let is_wanted = |place: &Place, object: &Value| {
            namespace.is_none_or(|namespace| namespace == place.0)
                && (read.namespaces.is_empty() || read.namespaces.contains(&place.0))
                && is_selected(read, object)
                && match filter {
                    Filter::Everything => true,
                    Filter::Labels(selector) => selector
                        .iter()
                        .all(|requirement| is_met(requirement, object)),
                    Filter::Index(index) => fields::values(object, paths).contains(&index.value),
                }
        };
        let objects = self.objects.get(&kind.to_string()).into_iter().flatten();
        let wanted = objects.filter(|(place, object)| is_wanted(place, object));
        let views: Vec<_> = wanted
            .map(|(_, object)| fields::view(object, &read.fields))
            .collect();
        Ok(Value::from(views).to_string())
    }

    fn now(&self) -> Duration {
        self.now
    }

    fn log(&self, level: Level, message: &str, fields: &[(&str, &str)]) {
        let level = match level {
            Level::Debug => "DEBUG",
            Level::Info => "INFO",
            Level::Warn => "WARN",
            Level::Error => "ERROR",
        };
        let fields: String = fields
            .iter()
            .map(|(name, value)| format!(" {name}={value}"))
            .collect();
        self.lines
            .borrow_mut()
            .push(format!("{level} {message}{fields}"));
    }
}

fn kind_of(object: &Value) -> Option<Kind> {
    let text = |name: &str| object.get(name).and_then(Value::as_str);
    let (api_version, kind) = (text("apiVersion")?, text("kind")?);
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    Some(Kind::new(group, version, kind))
}

/// Whether the selectors of a read let an object through.
fn is_selected(read: &Read, object: &Value) -> bool {
    let mut labels = read.labels.iter();
    labels.all(|requirement| is_met(requirement, object))
        && read
            .field_selector
            .as_deref()
            .is_none_or(|selector| fields::matches(object, selector))
}

fn is_met(requirement: &LabelRequirement, object: &Value) -> bool {
    let label = |name: &String| {
        object["metadata"]["labels"]
            .get(name)
            .and_then(Value::as_str)
    };
    match requirement {
        LabelRequirement::Equals((name, wanted)) => label(name) == Some(wanted),
        LabelRequirement::OneOf((name, values)) => {
            label(name).is_some_and(|has| values.iter().any(|value| value == has))
        }
        LabelRequirement::NoneOf((name, values)) => {
            label(name).is_none_or(|has| values.iter().all(|value| value != has))
        }
        LabelRequirement::Exists(name) => label(name).is_some(),
        LabelRequirement::Absent(name) => label(name).is_none(),
    }
}
