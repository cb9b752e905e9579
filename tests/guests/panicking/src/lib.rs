//! Panics when the host asks for its manifest.

use pilothouse_sdk::{Cluster, Controller, Failure, Manifest, Outcome, Request};

struct Panicking;

impl Controller for Panicking {
    fn manifest() -> Manifest {
        panic!("no manifest\ntoday")
    }

    fn reconcile(_: &Request, _: &dyn Cluster) -> Result<Outcome, Failure> {
        Ok(Outcome::done())
    }
}

pilothouse_sdk::register!(Panicking);
