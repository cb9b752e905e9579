//! Each rule of the judge, what it lets pass, and what it sets apart and how far.

mod claims;
mod deletions;
mod finalizers;
mod references;
mod story;
mod thing;
mod touched;
mod ways;
mod writes;

use story::Story;
pub use thing::Thing;

/// An owner that waits for its dependents.
fn waiting() -> Thing {
    Thing::waiting("owner")
}

/// An owner that orphans them.
fn orphaning() -> Thing {
    Thing::orphaning("owner")
}

/// A dependent that blocks the owner that waits.
fn blocker() -> Thing {
    Thing::config("dependent").blocking(&waiting())
}

/// A dependent that does not block.
fn follower() -> Thing {
    Thing::config("dependent").owned_by(&waiting())
}
