//! What the controllers of the endpoints of Services have in common: which pods stand behind a
//! Service, at which addresses and ports, and the parts of EndpointSlices. Each module is one idea,
//! with the rules of upstream's `pkg/controller/endpoint` and `k8s.io/endpointslice` that belong to
//! it. Nothing here reads or writes.

pub mod changes;
pub mod failures;
pub mod ip;
pub mod pod;
pub mod port;
pub mod service;
pub mod slice;
pub mod subsets;
pub mod trigger;

use serde::{Deserialize, Deserializer};

/// Decodes null as nothing, as Go does: the API server writes a list without elements of some kinds
/// as null.
///
/// # Errors
///
/// The value is neither null nor a `T`.
pub fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
