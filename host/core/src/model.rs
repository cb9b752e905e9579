//! What everything else is made of: values that are parsed, compared and shown. Nothing here
//! decides anything or remembers anything.

pub mod detail;
pub mod division;
pub mod extent;
pub mod fields;
pub mod hash;
pub mod informer_key;
pub mod jitter;
pub mod key;
pub mod label_bits;
pub mod manifest;
pub mod namespaces;
pub mod object;
pub mod outcome;
pub mod query;
pub mod selector;
pub mod served_kind;
pub mod subject_key;
pub mod text;
