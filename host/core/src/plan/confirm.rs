//! What the API server itself must answer as the snapshot does before the first write is sent.
//!
//! A snapshot may be older than the cluster. Mostly that does no harm: a precondition of the write
//! fails. Some decisions rest on other objects, or on their absence: "no pod uses this claim".
//! These an outcome has confirmed. The questions are those that a plugin can ask of the snapshot,
//! so they are recorded as its reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::{MAX_CONFIRMED, PlanError};
use crate::cache::snapshot::InformerId;
use crate::model::informer_key::InformerKey;
use crate::model::key::{Kind, ObjectKey};
use crate::model::object::{Object, Schema, ViewId};
use crate::model::query::Confirmation;
use crate::model::selector::LabelSelector;
use crate::reads::read::{Filter, matching};
use crate::reads::reader::{Listed, Located, Reader};

/// The questions of one outcome, with the snapshot's answers.
#[derive(Debug, Default)]
pub struct Confirmed {
    /// Single objects.
    pub objects: Vec<ConfirmedObject>,
    /// Lists.
    pub lists: Vec<ConfirmedList>,
}

/// By what an object counts as the same. Changes of its content do not matter, unless that is asked
/// for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectIdentity {
    uid: Box<str>,
    is_being_deleted: bool,
    /// What the plugin sees of it. A server need not name the fields of an object in the same order
    /// in each answer, so it is no text.
    content: Option<Value>,
}

impl ObjectIdentity {
    /// That of this object.
    pub(crate) fn of(object: &Object) -> Self {
        Self {
            uid: object.uid().into(),
            is_being_deleted: object.is_being_deleted(),
            content: None,
        }
    }

    /// That of this object with what a plugin sees of it.
    fn with_content(object: &Object, view: ViewId) -> Self {
        Self {
            content: serde_json::from_str(object.view(view)).ok(),
            ..Self::of(object)
        }
    }
}

/// An object, and what the snapshot shows of it.
#[derive(Debug)]
pub struct ConfirmedObject {
    /// The informer that brings it.
    pub(crate) informer: InformerId,
    /// Of which objects it is one, if there is one.
    among: InformerKey,
    schema: Arc<Schema>,
    /// What the plugin sees of it, if that is to be confirmed.
    content: Option<ViewId>,
    /// Its key.
    pub key: ObjectKey,
    /// `None`: there is none.
    pub(crate) shown: Option<ObjectIdentity>,
}

/// A list, and what the snapshot shows of it.
#[derive(Debug)]
pub struct ConfirmedList {
    /// The informer that brings its objects.
    pub(crate) informer: InformerId,
    /// What is to be listed: the informer's objects, as far as the server can select them.
    pub target: InformerKey,
    filter: Filter,
    schema: Arc<Schema>,
    pub(crate) shown: BTreeMap<ObjectKey, ObjectIdentity>,
}

impl Confirmed {
    /// Whether nothing is to be confirmed.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.lists.is_empty()
    }

    pub(super) fn plan(questions: &[Confirmation], reader: &mut Reader) -> Result<Self, PlanError> {
        let mut confirmed = Self::default();
        let mut objects = 0;
        for (index, question) in questions.iter().enumerate() {
            let refused = |reason| PlanError::Confirmation {
                number: index + 1,
                reason,
            };
            match question {
                Confirmation::Object(kind, key) | Confirmation::Unchanged(kind, key) => {
                    let with_content = matches!(question, Confirmation::Unchanged(..));
                    let located = reader.locate(kind, key).map_err(refused)?;
                    let object = |located| ConfirmedObject::new(located, key, with_content);
                    confirmed.objects.extend(located.map(object));
                    objects += 1;
                }
                Confirmation::Objects {
                    kind,
                    namespace,
                    filter,
                } => {
                    let namespace = namespace.as_deref();
                    let listed = reader.listed(kind, namespace, filter).map_err(refused)?;
                    for listed in listed {
                        let list = ConfirmedList::new(listed, namespace);
                        objects += list.shown.len();
                        confirmed.lists.push(list);
                    }
                }
            }
        }
        if objects > MAX_CONFIRMED {
            return Err(PlanError::TooManyConfirmed(objects));
        }
        Ok(confirmed)
    }
}

impl ConfirmedObject {
    fn new(located: Located, key: &ObjectKey, with_content: bool) -> Self {
        let Located {
            informer,
            cache,
            view,
        } = located;
        let asked = Self {
            informer,
            among: cache.informer_key().clone(),
            schema: cache.schema().clone(),
            content: with_content.then_some(view),
            key: key.clone(),
            shown: None,
        };
        let shown = cache.get(key.parts());
        Self {
            shown: shown.map(|object| asked.identity(object)),
            ..asked
        }
    }

    fn identity(&self, object: &Object) -> ObjectIdentity {
        match self.content {
            Some(view) => ObjectIdentity::with_content(object, view),
            None => ObjectIdentity::of(object),
        }
    }

    /// Its kind.
    pub fn kind(&self) -> &Kind {
        &self.among.kind
    }

    /// What the server has of it, as far as the informer selects it. `found`: its JSON, or `None`
    /// if there is no such object. The error says why that cannot be told.
    pub fn examine(&self, found: Option<&str>) -> Result<Option<ObjectIdentity>, String> {
        let Some(json) = found else {
            return Ok(None);
        };
        let object = Object::parse(self.kind(), json, &self.schema);
        let object = object.map_err(|error| error.to_string())?;
        let is_selected = self.among.selects(&object, json);
        Ok(is_selected.then(|| self.identity(&object)))
    }
}

impl ConfirmedList {
    fn new(listed: Listed, namespace: Option<&str>) -> Self {
        let Listed {
            informer,
            cache,
            filter,
        } = listed;
        let key = cache.informer_key();
        let mut requirements = key.labels.requirements.clone();
        if let Filter::Labels(labels) = &filter {
            requirements.extend(labels.requirements.iter().cloned());
        }
        let shown = matching(&cache, namespace, &filter);
        let shown = shown.map(|object| (object.key().to_key(), ObjectIdentity::of(object)));
        Self {
            informer,
            target: InformerKey {
                kind: key.kind.clone(),
                namespace: namespace.map(Into::into).or_else(|| key.namespace.clone()),
                labels: LabelSelector { requirements },
                fields: key.fields.clone(),
            },
            schema: cache.schema().clone(),
            shown: shown.collect(),
            filter,
        }
    }

    /// Whether it takes whole objects to see which of them are in the list: the server has no
    /// indexes. Otherwise their metadata is enough.
    pub fn takes_whole_objects(&self) -> bool {
        matches!(self.filter, Filter::Index(..))
    }

    /// An object of [`target`](Self::target), as JSON, that the server has listed. `None` if it is
    /// not in the list. The error says why that cannot be told.
    pub fn examine(&self, json: &str) -> Result<Option<(ObjectKey, ObjectIdentity)>, String> {
        let object = Object::parse(&self.target.kind, json, &self.schema);
        let object = object.map_err(|error| error.to_string())?;
        let is_in = match &self.filter {
            Filter::Index(index, value) => object.is_indexed_by(*index, value),
            Filter::Everything | Filter::Labels(_) => true,
        };
        Ok(is_in.then(|| (object.key().to_key(), ObjectIdentity::of(&object))))
    }
}
