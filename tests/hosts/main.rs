//! Several hosts compete for one Lease while they are stopped, killed, cut off and updated. Every
//! write that the server carries out is judged by who had the Lease then (`journal`), and in the
//! end everything is as it should be.
//!
//! Each host is a real process with a user of its own, behind a proxy of its own. The server writes
//! down who has changed what, and which version the change has made; so its order is known, and
//! nothing depends on when somebody saw something.
#![allow(
    clippy::unwrap_used,
    reason = "clippy knows the tests of an integration test, but not its helpers"
)]

mod clocks;
mod cuts;
mod ends;
mod figures;
mod followed;
mod group;
mod journal;
mod load;
mod namespaces;
mod neighbours;
mod pauses;
mod shares;
mod storm;
mod updates;
mod window;

use std::time::Duration;

use anyhow::Result;
use pilothouse_core::DividedBy;
use pilothouse_tests::chosen;

use crate::ends::End;
use crate::group::Times;
use crate::load::Amount;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_told_to_end_hands_over_at_once() -> Result<()> {
    ends::run(End::Terminated, 3, Times::USUAL).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_leader_is_killed_another_host_takes_over() -> Result<()> {
    ends::run(End::Killed, 2, Times::SHORT).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_was_stopped_at_any_moment_writes_nothing_stale() -> Result<()> {
    pauses::at_random(4, Times::SHORT, 1).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_was_stopped_between_decision_and_write_does_not_write() -> Result<()> {
    pauses::placed(4, Times::SHORT).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_the_network_keeps_for_longer_than_the_lease_arrives_stale() -> Result<()> {
    window::held_by_the_network(Times::SHORT).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_that_are_cut_off_from_the_server_in_any_way_write_nothing_stale() -> Result<()> {
    cuts::run(1, Times::SHORT).await
}

#[tokio::test]
async fn a_lease_whose_times_are_an_hour_ahead_is_taken_when_it_expires() -> Result<()> {
    clocks::an_hour_ahead().await
}

#[tokio::test]
async fn a_lease_whose_times_are_an_hour_behind_is_not_taken_before_it_expires() -> Result<()> {
    clocks::an_hour_behind().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_whose_clocks_are_hours_apart_hand_over_to_each_other() -> Result<()> {
    clocks::since_boot().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_of_client_go_and_hosts_never_lead_at_the_same_time() -> Result<()> {
    neighbours::compete(2, Times::SHORT).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_leader_that_finds_everything_done_writes_nothing() -> Result<()> {
    let amount = Amount {
        sets: 50,
        entries: 50,
        pause: Duration::ZERO,
    };
    storm::first_runs(amount, Times::USUAL).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_update_of_three_hosts_loses_nothing() -> Result<()> {
    updates::of_hosts(1, Times::USUAL).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_new_version_of_a_plugin_has_written_the_old_one_does_not_write_again() -> Result<()>
{
    updates::of_a_plugin(2, Times::USUAL).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_key_is_run_by_two_of_the_hosts_that_share_whatever_happens_to_them() -> Result<()> {
    shares::run(6, Times::SHORT, DividedBy::Name, 13).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_that_cache_only_their_own_namespaces_run_no_key_twice_either() -> Result<()> {
    shares::run(6, Times::SHORT, DividedBy::Namespace, 15).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_host_caches_the_namespaces_of_its_shards_which_the_server_selects() -> Result<()> {
    namespaces::each_caches_its_own(true, Times::SHORT).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_host_caches_the_namespaces_of_its_shards_whatever_the_server_sends() -> Result<()> {
    namespaces::each_caches_its_own(false, Times::SHORT).await
}

/// How often a long test does what it does. `PILOTHOUSE_HOSTS_ROUNDS` says another number.
fn rounds(usual: usize) -> Result<usize> {
    chosen("PILOTHOUSE_HOSTS_ROUNDS", usual)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes; make soak"]
async fn two_hundred_leaders_that_are_told_to_end_hand_over_at_once() -> Result<()> {
    ends::run(End::Terminated, rounds(200)?, Times::USUAL).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes half an hour; make soak"]
async fn when_two_hundred_leaders_are_killed_others_take_over() -> Result<()> {
    ends::run(End::Killed, rounds(200)?, Times::SHORT).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes an hour; make soak"]
async fn leaders_that_were_stopped_a_thousand_times_write_nothing_stale() -> Result<()> {
    pauses::at_random(rounds(1000)?, Times::SHORT, 2).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes an hour; make soak"]
async fn leaders_that_were_stopped_a_thousand_times_before_a_write_do_not_write() -> Result<()> {
    pauses::placed(rounds(1000)?, Times::SHORT).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes; make soak"]
async fn hosts_that_are_cut_off_a_hundred_times_write_nothing_stale() -> Result<()> {
    cuts::run(rounds(25)?, Times::SHORT).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes half an hour; make soak"]
async fn no_key_is_run_by_two_of_the_hosts_that_share_in_hundreds_of_accidents() -> Result<()> {
    shares::run(rounds(300)?, Times::SHORT, DividedBy::Name, 14).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes half an hour; make soak"]
async fn hosts_that_cache_only_their_own_namespaces_survive_hundreds_of_accidents() -> Result<()> {
    shares::run(rounds(300)?, Times::SHORT, DividedBy::Namespace, 16).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes; make soak"]
async fn a_new_leader_that_finds_five_thousand_objects_done_writes_nothing() -> Result<()> {
    let half = rounds(5000)? / 2;
    let amount = Amount {
        sets: half,
        entries: half,
        pause: Duration::ZERO,
    };
    storm::first_runs(amount, Times::USUAL).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes five to ten minutes; make soak"]
async fn a_new_leader_that_finds_a_hundred_thousand_objects_done_writes_nothing() -> Result<()> {
    storm::first_runs_of_many(rounds(100_000)?, Times::USUAL).await
}
