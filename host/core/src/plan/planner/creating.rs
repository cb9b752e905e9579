//! Plans a `create`, and derives its object's name where the plugin leaves that to the host.

use serde_json::Value;

use super::{Draft, Planner, write};
use crate::model::key::{Kind, ObjectKey};
use crate::model::manifest::Verb;
use crate::model::outcome::EffectVerb;
use crate::plan::body::{BodyAddress, decode};
use crate::plan::digest::digest;
use crate::plan::identity::Use;
use crate::plan::write::Operation;
use crate::plan::{ActionError, PlanContext};

impl Planner<'_, '_> {
    pub(super) fn create(
        &mut self,
        text: &str,
        subresource: &Option<String>,
    ) -> Result<Draft, ActionError> {
        let BodyAddress { kind, key, prefix } = BodyAddress::read(text)?;
        let is_named = !key.name.is_empty() || prefix.is_empty();
        // As on the server: at most 63 characters, so that the name fits into a label.
        let prefix: String = prefix.chars().take(63 - 8).collect();
        let name = if is_named { &*key.name } else { &*prefix };
        let mut key = ObjectKey::new(&key.namespace, name);
        self.check(Verb::Create, &kind, &key, subresource)?;
        let mut object = decode(text)?;
        if !is_named {
            key = self.derive_name(text, &object, &kind, &key);
            self.check(Verb::Create, &kind, &key, subresource)?;
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.remove("generateName");
                metadata.insert("name".into(), (*key.name).into());
            }
        }
        // The body of a subresource is about an existing object, and the plugin decides which one.
        if subresource.is_none() {
            self.settle(&mut object, Use::Create, &kind, &key)?;
        }
        let operation = Operation::Create {
            object: object.to_string(),
        };
        let write = write(&kind, &key, subresource, operation);
        Ok(Draft::send(EffectVerb::Create, write))
    }

    /// Derives a name from `generateName`, which is the name of `prefix`. It is the same on every
    /// retry for the same state, so that a create whose answer was lost is not done twice. It
    /// depends on the object and on how many identical ones were requested before it, not on its
    /// position among the actions.
    /// Identical objects that the guest has seen in the snapshot count too: the guest knows about
    /// them and wants another one. So a guest that creates without reading first creates only once.
    fn derive_name(
        &mut self,
        text: &str,
        object: &Value,
        kind: &Kind,
        prefix: &ObjectKey,
    ) -> ObjectKey {
        let body = self.digest(&[&object.to_string()]);
        let mut number = self.created.remove(text).unwrap_or_default();
        let key = loop {
            let digest = self.digest(&[&number.to_string(), &body]);
            let name = format!("{}{}", prefix.name, &digest[..8]);
            let key = ObjectKey::new(&prefix.namespace, &name);
            number += 1;
            if !self.reader.has_seen(kind, &key) {
                break key;
            }
        };
        self.created.insert(text.to_owned(), number);
        key
    }

    /// See [`digest`].
    fn digest(&self, parts: &[&str]) -> String {
        let PlanContext { manifest, key, .. } = self.context;
        digest(&manifest.name, key, parts)
    }
}
