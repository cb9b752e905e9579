//! Which objects an informer watches: the identity by which plugins share it.

use std::fmt;
use std::sync::Arc;

use crate::model::key::Kind;
use crate::model::object::Object;
use crate::model::selector::{FieldSelector, LabelSelector};

/// The objects that one list-watch covers. Plugins that ask for the same objects share one
/// informer. Another filter is another informer, as in client-go's filtered factories.
///
/// How much of each object is read is not part of the identity: one text serves every projection
/// (see [`Detail`](crate::Detail)).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InformerKey {
    /// The kind.
    pub kind: Kind,
    /// One namespace. `None` means all.
    pub namespace: Option<Arc<str>>,
    /// Only objects with these labels. The server selects them.
    pub labels: LabelSelector,
    /// Only objects that match this field selector, in the server's syntax. The server selects
    /// them.
    pub fields: Option<Arc<str>>,
}

impl InformerKey {
    /// Every object of a kind.
    pub fn all(kind: Kind) -> Self {
        Self {
            kind,
            namespace: None,
            labels: LabelSelector::default(),
            fields: None,
        }
    }
}

impl InformerKey {
    /// True if an object of the kind is one of these objects. `json` is the whole object, of which
    /// `object` itself may keep less.
    pub fn selects(&self, object: &Object, json: &str) -> bool {
        let fields = self.fields.as_deref();
        let fields = fields.map(|fields| FieldSelector::parse(&self.kind, fields));
        self.labels.matches(object)
            && fields.is_none_or(|fields| fields.is_ok_and(|fields| fields.matches(json)))
    }

    /// True if selectors exclude objects.
    pub fn is_narrowed(&self) -> bool {
        self.labels != LabelSelector::default() || self.fields.is_some()
    }
}

/// `v1/Pod`, or `v1/Pod in default with app=web where spec.nodeName=a`.
impl fmt::Display for InformerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if let Some(namespace) = &self.namespace {
            write!(f, " in {namespace}")?;
        }
        if self.labels != LabelSelector::default() {
            write!(f, " with {}", self.labels)?;
        }
        if let Some(fields) = &self.fields {
            write!(f, " where {fields}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_informer_key_says_which_objects_it_is_of() {
        let mut informer_key = InformerKey::all(Kind::new("", "v1", "Pod"));
        assert_eq!(informer_key.to_string(), "v1/Pod");
        informer_key.namespace = Some("default".into());
        informer_key.fields = Some("spec.nodeName=a".into());
        assert_eq!(
            informer_key.to_string(),
            "v1/Pod in default where spec.nodeName=a"
        );
    }
}
