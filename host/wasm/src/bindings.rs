//! What `wit/` says, as Rust: the only `bindgen!` of the host. Nothing outside of `convert` and `imports` looks in here.

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "controller",
    // An import may end the call: from `describe`, or when a cap is reached.
    imports: { default: trappable },
});

pub use pilothouse::controller::{changes, clock, cluster, log, manifest, types};
