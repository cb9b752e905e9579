//! What one informer is of: the identity by which plugins share it.

use std::fmt;
use std::sync::Arc;

use crate::key::Kind;
use crate::object::Object;
use crate::selector::{FieldSelector, LabelSelector};

/// The objects one list-watch is of. Plugins that ask for the same share one informer; another filter is another informer, as in
/// client-go's filtered factories.
///
/// What is read of each object is not part of it: one text serves every projection (see [`Payload`]).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source {
    /// The kind.
    pub kind: Kind,
    /// One namespace; none means all.
    pub namespace: Option<Arc<str>>,
    /// Only objects with these labels, selected by the server.
    pub labels: LabelSelector,
    /// Only objects matching this field selector, selected by the server, in its own syntax.
    pub fields: Option<Arc<str>>,
}

impl Source {
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

impl Source {
    /// Whether an object of the kind is one of them. `json` is the whole of it, which the object itself may not have.
    pub fn selects(&self, object: &Object, json: &str) -> bool {
        let fields = self.fields.as_deref();
        let fields = fields.map(|fields| FieldSelector::parse(&self.kind, fields));
        self.labels.matches(object)
            && fields.is_none_or(|fields| fields.is_ok_and(|fields| fields.matches(json)))
    }

    /// Whether selectors keep objects out.
    pub fn is_narrowed(&self) -> bool {
        self.labels != LabelSelector::default() || self.fields.is_some()
    }
}

/// `v1/Pod`, `v1/Pod in default with app=web where spec.nodeName=a`.
impl fmt::Display for Source {
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

/// How much of each object is fetched and kept: the most that any plugin on the informer reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Payload {
    /// `apiVersion`, `kind` and `metadata`: the server is asked for PartialObjectMetadata.
    Metadata,
    /// All but `data` and `stringData`: a Secret without its values.
    WithoutValues,
    /// Everything.
    #[default]
    Full,
}

impl Payload {
    /// Whether it has the value at the end of these names, if the object does.
    pub fn has(self, names: &[&str]) -> bool {
        let first = names.first().copied();
        match self {
            Self::Full => true,
            Self::WithoutValues => !matches!(first, None | Some("data" | "stringData")),
            Self::Metadata => matches!(first, Some("apiVersion" | "kind" | "metadata")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_says_what_it_is_of() {
        let mut source = Source::all(Kind::new("", "v1", "Pod"));
        assert_eq!(source.to_string(), "v1/Pod");
        source.namespace = Some("default".into());
        source.fields = Some("spec.nodeName=a".into());
        assert_eq!(
            source.to_string(),
            "v1/Pod in default where spec.nodeName=a"
        );
    }

    #[test]
    fn more_is_more() {
        assert!(Payload::Metadata < Payload::WithoutValues);
        assert!(Payload::WithoutValues < Payload::Full);
    }
}
