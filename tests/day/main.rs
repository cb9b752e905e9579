//! A whole cluster's day: all workload controllers in one host, side by side, with users, kubelets
//! and machines that do what they do; and the same day while host, API server and watches fail.
//!
//! Everything that happens is held against what the controllers promise (`audit`), and the end
//! against what Kubernetes documents (`ending`). `PILOTHOUSE_DAY_SEED` repeats the choices of a
//! day, as far as timing allows; `PILOTHOUSE_DAY_SECONDS` says how long the long ones last.
#![allow(
    clippy::unwrap_used,
    reason = "clippy knows the tests of an integration test, but not its helpers"
)]

mod audit;
mod cast;
mod ending;
mod facts;
mod faults;
mod rig;
mod story;
mod world;

use std::time::Duration;

use anyhow::Result;

use crate::faults::Plan;
use crate::rig::a_day;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_day_on_which_host_server_and_watches_fail_goes_well() -> Result<()> {
    let plan = Plan {
        host_kills: 4,
        server_kills: 1,
        stalls: 1,
    };
    a_day(1, Duration::from_secs(20), plan).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes; make soak"]
async fn a_day_of_five_minutes_goes_well() -> Result<()> {
    a_day(3, Duration::from_secs(300), Plan::default()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes; make soak"]
async fn a_day_of_a_hundred_and_forty_failures_goes_well() -> Result<()> {
    let plan = Plan {
        host_kills: 100,
        server_kills: 20,
        stalls: 20,
    };
    a_day(4, Duration::from_secs(300), plan).await
}
