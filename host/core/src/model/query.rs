//! A question about the objects of a kind, in a plugin's terms.

use crate::model::key::{Kind, ObjectKey};
use crate::model::selector::LabelSelector;

/// Selects the objects that a plugin asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListFilter {
    /// All objects.
    Everything,
    /// Objects whose labels match.
    Labels(LabelSelector),
    /// Objects with this value (second) in the index of this name (first).
    Index(String, String),
}

/// What the API server itself is asked before an outcome is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// One object.
    Object(Kind, ObjectKey),
    /// One object, with all that the plugin sees of it.
    Unchanged(Kind, ObjectKey),
    /// The objects of a kind that match.
    Objects {
        /// The kind, or a pattern: then those kinds of it that are available.
        kind: Kind,
        /// `None`: all namespaces that the plugin reads of the kind.
        namespace: Option<String>,
        /// Which of them.
        filter: ListFilter,
    },
}
