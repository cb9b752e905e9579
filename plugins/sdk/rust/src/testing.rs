//! Native tests of a controller, with a cluster in memory that answers as the host does.

mod actions;
mod documents;
mod fields;
mod manifest;
mod names;
mod outcome;
mod texts;
mod writes;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use crate::{
    Cluster, Controller, Effect, Failure, Filter, Kind, LabelRequirement, Level, Manifest,
    ObjectKey, Outcome, Read, ReadError, Request,
};

pub use actions::to_json;
pub use manifest::check_manifest;
use names::{kind_of, kind_text};

/// The namespace and name of an object, in the order in which objects are listed.
type Place = (String, String);

/// An object: its kind, as the host prints it, and its namespace and name.
type Named = (String, Place);

/// What the last reconcile saw, until its outcome is performed.
#[derive(Default)]
struct Seen {
    is_under_way: bool,
    /// The resourceVersions of all objects when it began.
    versions: BTreeMap<Named, String>,
    /// What told the objects that its snapshot showed from others.
    shown: BTreeMap<Named, Shown>,
    /// The objects it has read.
    read: BTreeSet<Named>,
}

/// An object as a reconcile's snapshot showed it. Empty texts if it had no such field.
struct Shown {
    uid: String,
    version: String,
    finalizers: Vec<Value>,
}

impl Shown {
    fn of(object: &Value) -> Self {
        let metadata = &object["metadata"];
        let text = |name: &str| metadata[name].as_str().unwrap_or_default().to_owned();
        Self {
            uid: text("uid"),
            version: text("resourceVersion"),
            finalizers: writes::finalizers_of(object),
        }
    }
}

/// A cluster in memory, seen through one manifest.
///
/// It refuses a manifest that the host refuses, reduces objects to the manifest's fields, denies
/// reading kinds that the manifest does not declare, and refuses an outcome that the host refuses.
/// A test therefore notices what is missing in the manifest.
///
/// [`reconcile`](Self::reconcile) runs a key without performing its outcome. [`turn`](Self::turn)
/// also performs it, and the next reconcile sees the result.
pub struct FakeCluster {
    manifest: Manifest,
    objects: BTreeMap<String, BTreeMap<Place, Value>>,
    now: Duration,
    config: String,
    lines: RefCell<Vec<String>>,
    /// The `attempt` of a key that has not been run yet.
    attempt: u32,
    previous: Vec<Effect>,
    /// What the next reconcile of each key is given: `attempt` and `previous`.
    turns: BTreeMap<Place, (u32, Vec<Effect>)>,
    /// What the plugin last applied to each object, or to one of its subresources.
    applied: BTreeMap<writes::Target, Value>,
    /// The resourceVersion of the last write.
    version: u64,
    seen: RefCell<Seen>,
    /// The objects that the outcome being performed has written.
    written: BTreeSet<Named>,
}

impl FakeCluster {
    /// An empty cluster, at time 0, with the configuration `{}`.
    ///
    /// # Panics
    ///
    /// The host would refuse the manifest. See [`check_manifest`].
    #[must_use]
    pub fn new(manifest: Manifest) -> Self {
        if let Err(reason) = check_manifest(&manifest) {
            panic!("the host refuses the manifest: {reason}");
        }
        Self {
            manifest,
            objects: BTreeMap::new(),
            now: Duration::ZERO,
            config: "{}".to_owned(),
            lines: RefCell::default(),
            attempt: 1,
            previous: Vec::new(),
            turns: BTreeMap::new(),
            applied: BTreeMap::new(),
            version: 1_000,
            seen: RefCell::default(),
            written: BTreeSet::new(),
        }
    }

    /// Adds a whole object. It replaces an object of the same kind, namespace and name.
    ///
    /// # Panics
    ///
    /// The object has no `apiVersion`, `kind` or `metadata.name`.
    #[must_use]
    pub fn with(mut self, object: Value) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let kind = kind_of(&object).expect("a test's object has apiVersion and kind");
        let name = text("/metadata/name")
            .expect("a test's object has a name")
            .to_owned();
        let namespace = text("/metadata/namespace").unwrap_or_default().to_owned();
        self.objects
            .entry(kind_text(&kind))
            .or_default()
            .insert((namespace, name), object);
        self
    }

    /// Sets the time, since the Unix epoch.
    #[must_use]
    pub fn at(mut self, now: Duration) -> Self {
        self.now = now;
        self
    }

    /// Sets the plugin's configuration.
    #[must_use]
    pub fn configured(mut self, config: &Value) -> Self {
        self.config = config.to_string();
        self
    }

    /// Sets the `attempt` of the next reconcile of each key: 1 for the first, one more after each
    /// failure. Also forgets what earlier reconciles have left for later ones.
    #[must_use]
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self.turns.clear();
        self
    }

    /// Sets the effects that the next reconcile of each key gets as `previous`. Also forgets what
    /// earlier reconciles have left for later ones.
    #[must_use]
    pub fn previous(mut self, effects: impl IntoIterator<Item = Effect>) -> Self {
        self.previous = effects.into_iter().collect();
        self.turns.clear();
        self
    }

    /// Reconciles a key. The outcome is checked but not performed.
    ///
    /// # Errors
    ///
    /// Those that the controller returns. Also [`Failure::Terminal`] with the host's message if the
    /// host would refuse the outcome, for example because of a write that the manifest does not
    /// declare.
    pub fn reconcile<C: Controller>(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Outcome, Failure> {
        let place = (namespace.to_owned(), name.to_owned());
        let told = self.turns.get(&place);
        let request = Request {
            key: ObjectKey::new(namespace, name),
            attempt: self.attempt_of(&place),
            previous: told.map_or_else(|| self.previous.clone(), |(_, effects)| effects.clone()),
            config: self.config.clone(),
        };
        self.seen.replace(self.all_seen());
        let outcome = C::reconcile(&request, self);
        self.seen.borrow_mut().is_under_way = false;
        let outcome = outcome?;
        outcome::check(&outcome.stages, self).map_err(Failure::Terminal)?;
        Ok(outcome)
    }

    /// Reconciles a key and performs its outcome ([`apply`](Self::apply)).
    ///
    /// # Errors
    ///
    /// As for [`reconcile`](Self::reconcile). Nothing is written then, and the key's `attempt` goes
    /// up by one.
    pub fn turn<C: Controller>(&mut self, namespace: &str, name: &str) -> Result<Outcome, Failure> {
        let place = (namespace.to_owned(), name.to_owned());
        match self.reconcile::<C>(namespace, name) {
            Ok(outcome) => {
                self.apply(&ObjectKey::new(namespace, name), &outcome);
                Ok(outcome)
            }
            Err(failure) => {
                let attempt = self.attempt_of(&place) + 1;
                let told = self.turns.remove(&place);
                let previous = told.map_or_else(|| self.previous.clone(), |(_, effects)| effects);
                self.turns.insert(place, (attempt, previous));
                Err(failure)
            }
        }
    }

    /// The whole object, as it is stored. [`Cluster`] returns what the plugin sees of it.
    #[must_use]
    pub fn object(&self, kind: &Kind, key: &ObjectKey) -> Option<&Value> {
        let place = (key.namespace.clone(), key.name.clone());
        self.objects.get(&kind_text(kind))?.get(&place)
    }

    /// The state when a reconcile begins.
    fn all_seen(&self) -> Seen {
        let objects = self.objects.iter();
        let objects = objects.flat_map(|(kind, objects)| {
            objects
                .iter()
                .map(|(place, object)| ((kind.clone(), place.clone()), object))
        });
        let versions = objects
            .clone()
            .filter_map(|(named, object)| Some((named, writes::version_of(object)?)));
        let shown = objects.filter(|((kind, (namespace, _)), object)| {
            let mut reads = self.manifest.reads.iter();
            reads.any(|read| {
                let is_in = read.namespaces.is_empty() || read.namespaces.contains(namespace);
                kind_text(&read.kind) == *kind && is_in && is_selected(read, object)
            })
        });
        let shown = shown.map(|(named, object)| (named, Shown::of(object)));
        Seen {
            is_under_way: true,
            versions: versions.collect(),
            shown: shown.collect(),
            read: BTreeSet::new(),
        }
    }

    fn note_read(&self, kind: &Kind, place: &Place) {
        let mut seen = self.seen.borrow_mut();
        if seen.is_under_way {
            seen.read.insert((kind_text(kind), place.clone()));
        }
    }

    fn attempt_of(&self, place: &Place) -> u32 {
        self.turns
            .get(place)
            .map_or(self.attempt, |(attempt, _)| *attempt)
    }

    /// The lines logged so far, in the form `INFO message name=value`.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.lines.borrow().clone()
    }

    fn declared(&self, kind: &Kind) -> Result<&Read, ReadError> {
        let declared = self.manifest.reads.iter().find(|read| read.kind == *kind);
        declared
            .ok_or_else(|| ReadError::Denied(format!("{kind} is not among the manifest's reads")))
    }

    /// The read that the manifest declares for a kind, if it includes this namespace.
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
        let found = self.object(kind, key);
        let found = found.filter(|object| is_selected(read, object));
        if found.is_some() {
            self.note_read(kind, &(key.namespace.clone(), key.name.clone()));
        }
        Ok(found.map(|object| fields::view(object, &read.fields)))
    }

    /// The paths of the index that the filter uses. Empty for other filters.
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
        let objects = self.objects.get(&kind_text(kind)).into_iter().flatten();
        let wanted = objects.filter(|(place, object)| is_wanted(place, object));
        let views: Vec<_> = wanted
            .inspect(|(place, _)| self.note_read(kind, place))
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

/// True if the object matches the selectors of a read.
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
