//! A model of a group of hosts, checked over random schedules.
//!
//! **The invariant.** Each host has a clock of its own, which only goes on, and at its own speed. A
//! host *runs* a shard from the effect `Gained` until the event `Released`. It *may write* while
//! its machine states a right, and its clock has not reached the right's end; being stopped, cut
//! off or slow changes neither. Two shards *overlap* if they are the same, or of one plugin under
//! different numbers. Then, at no instant of the server's time, do two hosts run overlapping shards
//! and both may write. And no host gains a shard while another runs an overlapping one and the
//! Lease by which that one has gained it is there: it has given its assent (`Released`), or its
//! Lease is deleted. Requests are done at once, late, long after their sender has given up, or
//! never; answers come late or never; hosts pause, die, are born again, come and go; people delete
//! members' Leases.
//!
//! The machine was broken in these ways, and random schedules found two hosts that both may write,
//! or a shard that was gained without assent: the right counted from the answer; the deletion of a
//! Lease, or the update of the assignment, without resourceVersion as precondition; a shard given
//! away before it was released; shards of a member taken when its Lease has expired and is not
//! deleted, or is absent without proof; expiry by a clock that is an hour off, or after 9 s;
//! nothing remembered of an update of unknown outcome; a right while something is being halted;
//! numbers of shards that ignore owners; nothing stopped when the Lease is gone; the watch taken
//! for a read; the same name after joining again.
//! An update that voids and changes nothing, and gaining after a lapse without a read, they did not
//! find; `rules` has a test for each. The second alone endangers nobody, since a renewal that
//! succeeds shows that the Lease was there all the time.

use std::sync::atomic::{AtomicU64, Ordering};

mod balances;
mod counts;
mod group;
mod host;
mod leases;
mod rng;
mod rules;
mod schedules;
mod server;
mod world;

use counts::Counts;
use schedules::run;

/// Runs the schedules of so many seeds, on all processors, one in `recovering` to its recovery.
fn run_all(seeds: std::ops::Range<u64>, recovering: u64) -> Counts {
    let next = AtomicU64::new(seeds.start);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let run_some = || {
        let mut counts = Counts::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return counts;
            }
            match run(seed, seed.is_multiple_of(recovering)) {
                Ok(more) => counts.add(&more),
                Err(violation) => panic!("{violation}"),
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run_some)).collect();
        let mut counts = Counts::default();
        for thread in threads {
            match thread.join() {
                Ok(more) => counts.add(&more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        counts
    })
}

#[test]
fn no_key_is_run_by_two_hosts_whatever_happens() {
    let counts = run_all(0..2_000, 5);
    assert!(counts.lapsed > 100 && counts.taken_over > 100 && counts.late_changes > 100);
}

#[test]
#[ignore = "takes minutes: `make soak` runs it"]
fn no_key_is_run_by_two_hosts_in_a_million_schedules() {
    let seeds = std::env::var("SCHEDULES").map_or(1_000_000, |text| {
        text.parse().expect("SCHEDULES is a number")
    });
    println!("{:#?}", run_all(10_000_000..10_000_000 + seeds, 20));
}
