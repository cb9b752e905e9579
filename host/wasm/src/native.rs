//! Native code, and the only unsafe call of the project: handing bytes to wasmtime as code. wasmtime looks at them only lightly (of
//! single-byte changes to such code three in four go unnoticed), so where they come from is all the safety there is.

use wasmtime::Engine;
use wasmtime::component::Component;

/// Compiled code of this host's own making. There are three ways to get some, one for each place where the host knows who wrote it.
#[derive(Clone)]
pub(crate) struct NativeCode(Vec<u8>);

impl NativeCode {
    /// Compiled by this process.
    pub(crate) fn compiled_here(engine: &Engine, component: &[u8]) -> wasmtime::Result<Self> {
        engine.precompile_component(component).map(Self)
    }

    /// The whole output of a process that this one started from its own executable, that nobody else could write to, and that ended
    /// saying it had succeeded. A guest that gets the compiler to write what it wants would do so in this process, too.
    pub(crate) fn of_own_child(output: Vec<u8>) -> Self {
        Self(output)
    }

    /// What this host stored earlier, after its authentication code has been found to be right.
    pub(crate) fn authenticated(code: Vec<u8>) -> Self {
        Self(code)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Makes the code runnable. Code of another wasmtime, machine or engine configuration is an error.
    #[expect(
        unsafe_code,
        reason = "native code cannot be checked, only trusted; its origin is the type's invariant"
    )]
    pub(crate) fn load(&self, engine: &Engine) -> wasmtime::Result<Component> {
        // SAFETY: `deserialize` asks that the bytes be unmodified output of `precompile_component`. The constructors above are the
        // only ones, each says why its bytes are, and nothing changes them afterwards: they are private, and copied from here.
        unsafe { Component::deserialize(engine, &self.0) }
    }
}
