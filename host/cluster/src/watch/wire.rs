//! What is on the wire: builds the requests of a list-watch and parses their answers. Decides
//! nothing about either.

pub(crate) mod change;
pub(crate) mod event;
pub(crate) mod lines;
pub(crate) mod list;
pub(crate) mod query;
