//! The clock: one time for the whole run. Reading it is recorded like any other read.

use crate::bindings::clock::Host;
use crate::state::State;

impl Host for State {
    fn now(&mut self) -> wasmtime::Result<u64> {
        Ok(self.reader("clock.now")?.now_ms())
    }
}
