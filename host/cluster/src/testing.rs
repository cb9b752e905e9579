//! What the tests of this crate share. Nothing here is compiled into the host.

mod play;
mod scenario;
mod simulated_server;

pub(crate) use play::*;
pub(crate) use scenario::*;
pub(crate) use simulated_server::Model;
