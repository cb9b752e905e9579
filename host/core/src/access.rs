//! What a plugin may read and write: what its manifest asks for, and what the operator grants.

pub mod grants;
pub mod permission;
pub mod scope;
pub mod wants;
