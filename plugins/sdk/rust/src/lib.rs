//! Write a Kubernetes controller for Pilothouse in Rust.
//!
//! A controller is a function from a key and a frozen snapshot of the cluster to a list of actions.
//! It needs no watches and no caches. The host records what a reconcile has read, and reconciles
//! the key again when a change would alter one of the answers.
//!
//! # Example
//!
//! For each ConfigMap with the label `hello: "true"`, this controller writes another one with a
//! greeting:
//!
//! ```
//! use pilothouse_sdk::{
//!     Apply, Controller, Failure, Host, Kind, Manifest, Outcome, Projection, Request, Selection,
//!     Verb,
//! };
//! use serde::Deserialize;
//! use serde_json::json;
//!
//! /// The part of a ConfigMap that this controller looks at.
//! #[derive(Deserialize, Projection)]
//! #[projection(kind = "v1/ConfigMap")]
//! struct ConfigMap {
//!     #[serde(default)]
//!     data: Data,
//! }
//!
//! #[derive(Default, Deserialize, Projection)]
//! struct Data {
//!     who: Option<String>,
//! }
//!
//! struct Hello;
//!
//! impl Controller for Hello {
//!     fn manifest() -> Manifest {
//!         Manifest::new("hello", "1.0.0", Selection::of(ConfigMap::KIND).labels("hello=true"))
//!             .reads_as::<ConfigMap>()
//!             .writes(ConfigMap::KIND, [Verb::Apply])
//!     }
//!
//!     fn reconcile(request: &Request, _host: &dyn Host) -> Result<Outcome, Failure> {
//!         let Some(source) = request.object::<ConfigMap>()? else {
//!             return Ok(Outcome::done());
//!         };
//!         let key = request.key();
//!         let who = source.data.who.as_deref().unwrap_or("world");
//!         let greeting = json!({
//!             "apiVersion": "v1",
//!             "kind": "ConfigMap",
//!             "metadata": {"namespace": key.namespace, "name": format!("{}-greeting", key.name)},
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
//! assert_eq!(outcome.actions().count(), 1);
//! # Ok::<(), pilothouse_sdk::Failure>(())
//! ```
//!
//! # Logging
//!
//! Standard output and standard error are discarded. [`Host`] has a method for each log level,
//! which takes a constant message, and the variable parts as fields. With the feature `log`, lines
//! that libraries write through the `log` crate appear in the host's log, too, from level `info`
//! up. Call `log::set_max_level` at the start of `reconcile` to get more.
//!
//! # Purity
//!
//! The same request on the same snapshot must give the same answer, byte for byte. The host can
//! check this (the setting `verify`): it then repeats runs and compares the answers, as
//! `testing::FakeCluster` always does. A guest has no clock but [`Host::now`] and no source of
//! randomness. Use `BTreeMap`, which is ordered by key, and not `HashMap`.

// For the derive, whose code names this crate.
extern crate self as pilothouse_sdk;

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
mod conditions;
#[cfg(any(test, all(feature = "log", target_arch = "wasm32")))]
mod facade;
mod hash;
mod host;
mod int_or_string;
#[cfg(feature = "k8s-openapi")]
mod k8s;
mod label_selector;
mod manifest;
mod metadata;
mod object_ref;
mod outcome;
mod owners;
mod projection;
mod quantity;
#[cfg(not(target_family = "wasm"))]
pub mod testing;
mod time;
mod typed;

#[cfg(target_arch = "wasm32")]
mod exported;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub use exported::Exported;

pub use bindings::exports::pilothouse::controller::plugin::{Failure, Next, Outcome, Request};
pub use bindings::pilothouse::controller::changes::{
    Action, ActionResult, Apply, Children, Create, Delete, DeleteAll, Effect, Event, EventType,
    Finalizer, Patch, PatchType, Propagation, Stage, Update, Verb as EffectVerb,
};
pub use bindings::pilothouse::controller::log::Level;
pub use bindings::pilothouse::controller::snapshot::{
    Filter, IndexValue, Query, Question, ReadError, ServedKind,
};
pub use bindings::pilothouse::controller::types::ObjectRef;
pub use conditions::{
    Condition, find_condition, is_condition_true, remove_condition, set_condition,
};
pub use hash::{fnv32, fnv32a, safe_encode, stable_hash};
pub use host::{Host, Pages};
pub use int_or_string::{IntOrString, InvalidPercentage};
pub use label_selector::{InvalidLabelSelector, LabelExpression, LabelSelector};
pub use manifest::{Index, Limits, Manifest, Read, Selection, Verb, Write};
pub use metadata::Metadata;
pub use owners::{OwnerReference, controller_of, is_controlled_by};
pub use pilothouse_sdk_derive::Projection;
pub use projection::{Kind, Member, Projection, Shape};
pub use quantity::{InvalidQuantity, Quantity};
pub use time::{InvalidTime, MicroTime, Time, rfc3339, rfc3339_micro};

/// A plugin: a manifest, and a function that reconciles one key.
pub trait Controller {
    /// Declares what this plugin is called, reads and writes. The host calls it once, when it loads
    /// the plugin. The cluster cannot be read here.
    fn manifest() -> Manifest;

    /// Decides, from the snapshot, what should be done about one key.
    ///
    /// The key's own object may be gone, which may also require actions. Every call runs in a fresh
    /// instance, unless the operator has chosen to reuse instances. Therefore keep nothing from one
    /// call to the next.
    ///
    /// # Errors
    ///
    /// After a failure nothing is written: [`Outcome::retry`] writes first. After
    /// [`Failure::Retry`] the host runs the key again, with a delay that doubles from 5 ms up
    /// to 1,000 s. After [`Failure::Terminal`] it does not, until something the key has read
    /// changes. Using `?` on a read that is denied or on an object that cannot be decoded returns
    /// the latter.
    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure>;
}

/// Exports a [`Controller`] as the plugin of this crate. Use it once per crate; the crate type must
/// be `cdylib`.
///
/// It exports something only when it is built for wasm. Natively the same crate can be a library
/// with tests.
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

/// The guide's code is compiled and run as this crate's tests of documentation.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/plugins.md")]
struct Guide;
