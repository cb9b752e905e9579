//! Panics when the host asks for its manifest.

use pilothouse_sdk::{Controller, Failure, Host, Manifest, Outcome, Request};

struct Panicking;

impl Controller for Panicking {
    fn manifest() -> Manifest {
        panic!("no manifest\ntoday")
    }

    fn reconcile(_: &Request, _: &dyn Host) -> Result<Outcome, Failure> {
        Ok(Outcome::done())
    }
}

pilothouse_sdk::register!(Panicking);
