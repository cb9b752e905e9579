//! The collector and the protection of claims while watches are late, stand still and say nonsense,
//! and while the host is killed: nothing goes that the server at that moment says must stay, and in
//! the end nothing is left that must go.
//!
//! One host with the two plugins works through a proxy that fails at random. Many small stories are
//! told side by side, each in a namespace of its own: objects get owners and lose them, are deleted
//! in every way and replaced, pods use claims that go. Every write of the host is judged by what
//! the server had right before it (`judge` says by what rules), whatever the order in which things
//! happened: all versions of all objects are one sequence. `PILOTHOUSE_ENDS_SEED` repeats the
//! choices of a run, as far as timing allows.
#![allow(
    clippy::unwrap_used,
    reason = "clippy knows the tests of an integration test, but not its helpers"
)]

mod actor;
mod claims;
mod ending;
mod facts;
mod faults;
mod graph;
mod history;
mod judge;
mod kinds;
mod owners;
mod run;
mod scenario;
mod witness;
mod world;

use anyhow::Result;

use crate::run::{Plan, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_goes_that_must_stay_while_watches_fail_and_the_host_is_killed() -> Result<()> {
    let plan = Plan {
        stories: 30,
        kills: 2,
    };
    run(1, plan).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes; make soak"]
async fn nothing_goes_that_must_stay_in_a_thousand_stories_while_watches_fail() -> Result<()> {
    let plan = Plan {
        stories: 1000,
        kills: 0,
    };
    run(2, plan).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes; make soak"]
async fn nothing_goes_that_must_stay_while_the_host_is_killed_a_hundred_times() -> Result<()> {
    let plan = Plan {
        stories: 100,
        kills: 100,
    };
    run(3, plan).await
}
