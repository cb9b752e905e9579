//! What a file is, judged by its bytes. Nothing is compiled and nothing is run here.

pub(crate) mod error;
pub(crate) mod scan;
pub(crate) mod world;
