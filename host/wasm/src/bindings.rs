//! The contract in `wit/` as Rust types: the only `bindgen!` of the host. Only `convert`,
//! `imports`, `instance` and `load` use it.

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "controller",
    // A trappable import may end the call: when `describe` calls it, or when a limit is reached.
    imports: { default: trappable },
});

pub use pilothouse::controller::{changes, cluster, log, manifest, types};
