//! The contract in `wit/` as Rust types: the only `bindgen!` of the host. Only `convert`,
//! `imports`, `instance` and `load` use it.

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "controller",
    // A trappable import may end the call: when `describe` calls it, or when a limit is reached.
    imports: { default: trappable },
});

/// The version of the contract in `wit/`.
pub const ABI_VERSION: &str = "0.2.0";
/// The beginning of the names of the contract's interfaces.
pub(crate) const PACKAGE: &str = "pilothouse:controller/";
/// The interface that every plugin exports, in some version of the contract.
pub(crate) const PLUGIN: &str = "plugin";

/// True if the import is one of WASI's, so that it is not refused as foreign.
pub(crate) fn is_wasi(import: &str) -> bool {
    import.starts_with("wasi:")
}

pub use exports::pilothouse::controller::plugin;
pub use pilothouse::controller::{changes, log, snapshot, types};
