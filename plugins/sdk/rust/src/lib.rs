//! Write a Kubernetes controller for Pilothouse in Rust.
//!
//! A controller is a function from a key and a frozen view of the cluster to a list of actions. It sets up no watches and keeps
//! no caches: the host records what a run read, and runs the key again when a change would alter one of the answers.
//!
//! # Example
//!
//! Each ConfigMap labelled `hello: "true"` gets a greeting of its own:
//!
//! ```
//! use std::collections::BTreeMap;
//!
//! use pilothouse_sdk::{Apply, Cluster, Controller, Failure, Kind, Manifest, Outcome, Request, Selection, Verb};
//! use serde::Deserialize;
//! use serde_json::json;
//!
//! /// The part of a ConfigMap that this controller looks at.
//! #[derive(Deserialize)]
//! struct ConfigMap {
//!     #[serde(default)]
//!     data: BTreeMap<String, String>,
//! }
//!
//! struct Hello;
//!
//! impl Controller for Hello {
//!     fn manifest() -> Manifest {
//!         let config_map = Kind::core("v1", "ConfigMap");
//!         Manifest::new("hello", "1.0.0", Selection::of(&config_map).label("hello", "true"))
//!             .reads(&config_map, [".data.who"])
//!             .writes(&config_map, [Verb::Apply])
//!     }
//!
//!     fn reconcile(request: &Request, cluster: &dyn Cluster) -> Result<Outcome, Failure> {
//!         let Some(source) = cluster.get::<ConfigMap>(&Kind::core("v1", "ConfigMap"), &request.key)? else {
//!             return Ok(Outcome::done());
//!         };
//!         let who = source.data.get("who").map_or("world", String::as_str);
//!         let greeting = json!({
//!             "apiVersion": "v1",
//!             "kind": "ConfigMap",
//!             "metadata": {"namespace": request.key.namespace, "name": format!("{}-greeting", request.key.name)},
//!             "data": {"greeting": format!("Hello, {who}!")},
//!         });
//!         Ok(Outcome::done().with(Apply::new(&greeting)?))
//!     }
//! }
//!
//! pilothouse_sdk::register!(Hello);
//!
//! // The same crate builds natively, where a controller is tested against objects held in memory.
//! let cluster = pilothouse_sdk::testing::FakeCluster::new(Hello::manifest()).with(json!({
//!     "apiVersion": "v1", "kind": "ConfigMap",
//!     "metadata": {"namespace": "default", "name": "a", "labels": {"hello": "true"}},
//!     "data": {"who": "moon"},
//! }));
//! let outcome = cluster.reconcile::<Hello>("default", "a")?;
//! assert_eq!(outcome.actions.len(), 1);
//! # Ok::<(), pilothouse_sdk::Failure>(())
//! ```
//!
//! # Logging
//!
//! Standard output and error go nowhere. [`Cluster`] has a method for each level: a constant message,
//! and what varies as fields. With the feature `log`, what libraries say through the `log` crate reaches
//! the host's log too, from `info` up; `log::set_max_level` at the start of `reconcile` asks for more.
//!
//! # Purity
//!
//! The same request on the same snapshot must give the same answer, byte for byte; replay and shadowing rest on it. A guest has no
//! clock but [`Cluster::now`] and no source of randomness. Keep maps in `BTreeMap`, whose order is that of its keys, and not in
//! `HashMap`.

#[allow(
    missing_docs,
    unsafe_code,
    unused_qualifications,
    clippy::all,
    clippy::unwrap_used,
    clippy::allow_attributes_without_reason,
    reason = "generated from wit/, which documents it; crossing the boundary is unsafe"
)]
#[rustfmt::skip]
pub mod bindings;
mod changes;
mod cluster;
#[cfg(any(test, all(feature = "log", target_arch = "wasm32")))]
mod facade;
mod manifest;
mod objects;
mod outcome;
pub mod testing;
mod time;
mod words;

#[cfg(target_arch = "wasm32")]
mod exported;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub use exported::Exported;

pub use bindings::pilothouse::controller::changes::{
    Action, ActionResult, Apply, Children, Create, Delete, Event, EventType, Finalizer, Patch,
    PatchType, Propagation, Update,
};
pub use bindings::pilothouse::controller::cluster::{Filter, IndexValue, ReadError};
pub use bindings::pilothouse::controller::log::Level;
pub use bindings::pilothouse::controller::manifest::{
    Index, Limits, Manifest, Read, Selection, Subject, Verb, Write,
};
pub use bindings::pilothouse::controller::types::{
    Kind, LabelRequirement, LabelSelector, ObjectKey,
};
pub use bindings::{Failure, Outcome, Request};
pub use cluster::Cluster;
pub use objects::{Condition, OwnerReference, set_condition};
pub use time::rfc3339;
pub use words::match_labels;

/// What a plugin is: a declaration and a function.
pub trait Controller {
    /// What this plugin is, reads and writes. Asked once, when the plugin is loaded; the cluster cannot be read from here.
    fn manifest() -> Manifest;

    /// Looks at the snapshot and says what should be done about one key.
    ///
    /// The key's own object may be gone: that, too, is a state to act on. Every call finds a fresh instance, so nothing is
    /// remembered from one call to the next.
    ///
    /// # Errors
    ///
    /// [`Failure::Retry`] runs the key again, later and later. [`Failure::Terminal`] does not, until something the key read
    /// changes; that is what `?` makes of an object that cannot be decoded.
    fn reconcile(request: &Request, cluster: &dyn Cluster) -> Result<Outcome, Failure>;
}

/// Makes a [`Controller`] the plugin of this crate. Once per crate, which must be a `cdylib`.
///
/// It exports something only when built for wasm, so that the same crate can be a library with native tests.
#[macro_export]
macro_rules! register {
    ($controller:ty) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            type Plugin = $crate::Exported<$controller>;
    $crate::bindings::export!(Plugin with_types_in $crate::bindings);
        };
        #[cfg(not(target_arch = "wasm32"))]
        const _: fn() -> $crate::Manifest = <$controller as $crate::Controller>::manifest;
    };
}
