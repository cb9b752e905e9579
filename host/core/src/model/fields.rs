//! Paths to values inside an object, and projections of an object to some of its fields.
//!
//! Objects stay JSON text, because a decoded Pod takes ten times the size of its text
//! (RATIONALE.md). A projection is therefore one pass over the text. It copies the wanted parts and
//! skips the rest without building a tree.

mod json;
mod path;
mod projection;
#[cfg(test)]
mod tests;
mod trie;
mod values;

pub(crate) use json::{members, push_string, string};
pub use path::{FieldPath, FieldPathError};
pub use projection::Projection;
pub use values::Values;
