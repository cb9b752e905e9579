//! Native code, and the only unsafe call of the project: passing bytes to wasmtime as code.
//!
//! wasmtime checks the bytes only lightly: of single-byte changes to such code, three in four go
//! unnoticed. Safety therefore rests on where the bytes come from.

use wasmtime::Engine;
use wasmtime::component::Component;

/// Compiled code that this host produced. There are three constructors, one for each case in which
/// the host knows who wrote the code.
#[derive(Clone)]
pub(crate) struct NativeCode(Vec<u8>);

impl NativeCode {
    /// Code compiled by this process.
    pub(crate) fn compiled_here(engine: &Engine, component: &[u8]) -> wasmtime::Result<Self> {
        engine.precompile_component(component).map(Self)
    }

    /// The whole output of a process that this one started from its own executable. No other
    /// process could write to that output, and the process ended with success. A guest that could
    /// make the compiler write chosen code there could do the same in this process.
    pub(crate) fn of_own_child(output: Vec<u8>) -> Self {
        Self(output)
    }

    /// Code that this host stored earlier, after its authentication code was verified.
    pub(crate) fn authenticated(code: Vec<u8>) -> Self {
        Self(code)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Makes the code runnable. Code for another version of wasmtime, machine or engine
    /// configuration is an error.
    #[expect(
        unsafe_code,
        reason = "native code cannot be checked, only trusted; its origin is the type's invariant"
    )]
    pub(crate) fn load(&self, engine: &Engine) -> wasmtime::Result<Component> {
        // SAFETY: `deserialize` requires that the bytes are unmodified output of
        // `precompile_component`. The constructors above are the only ones, and each documents why
        // its bytes are that. The bytes are private and never changed; they can only be copied.
        unsafe { Component::deserialize(engine, &self.0) }
    }
}
