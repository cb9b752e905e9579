//! What the tests need: a real API server, the real host binary, real guests.
//!
//! The Makefile builds all of them and passes their paths. A test that does not find one says
//! which, and how to get it.

use std::path::PathBuf;

mod api;
mod bulk;
mod definition;
mod faults;
mod fickle;
mod follow;
mod garbage;
mod held;
mod host;
mod kubelet;
mod memory;
mod neighbour;
mod process;
pub mod proxy;
mod random;
mod requests;
mod server;
mod workloads;

pub use api::{Api, status_of};
pub use bulk::{all_of, chosen, create_namespace, define};
pub use definition::{DEFINITIONS, defined_version, definition};
pub use faults::{FaultOptions, FaultRig, HEALED};
pub use fickle::{fickle, fickle_with_schema, named_fickle};
pub use follow::{Change, Fan, What, follow};
pub use garbage::collect_garbage;
pub use held::Held;
pub use host::{Host, HostOptions, RUNTIME_DIRECTORY, sum_of};
pub use kubelet::{Doings, Kubelets, PLAN};
pub use memory::{AgainSoon, rehearse, rehearse_serving, run_in_memory, unwritten};
pub use neighbour::Neighbour;
pub use process::{cpu_of, memory_of, peak_memory_of, proportional_memory_of};
pub use random::Random;
pub use requests::{Asked, requests_of};
pub use server::{Server, ServerOptions, ServerWrite, Snapshot};
pub use workloads::{WorkloadRig, containers, name_of, now, path_of};

/// Returns the path of a guest, which `make plugins` or `make guests` has built.
pub fn guest(name: &str) -> PathBuf {
    let directories =
        std::env::var("PILOTHOUSE_GUESTS").expect("PILOTHOUSE_GUESTS is not set; run `make test`");
    let mut candidates = directories
        .split(':')
        .map(|directory| PathBuf::from(directory).join(format!("{name}.wasm")));
    candidates
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("no guest {name}.wasm in {directories}; run `make test`"))
}

/// Returns a plugin directory with these guests.
pub fn plugin_directory(guests: &[&str]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for name in guests {
        std::fs::copy(guest(name), directory.path().join(format!("{name}.wasm")))
            .expect("copying a guest");
    }
    directory
}
