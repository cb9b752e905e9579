//! Two small stores for programs that build on this crate. client-go ships the same beside its
//! cache.

mod expiring;
mod undelta;

pub use expiring::Expiring;
pub use undelta::Undelta;
