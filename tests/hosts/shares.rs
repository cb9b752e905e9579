//! Hosts that share plugins and keys, while they are stopped, killed, told to end and cut off.

use std::num::NonZeroU32;

use anyhow::{Result, ensure};
use pilothouse_core::{DividedBy, Division};
use pilothouse_tests::Random;
use tokio::time::sleep;

use crate::cuts::{CUTS, cut};
use crate::group::{Group, Times};
use crate::load::{Amount, Load, PLUGINS};

/// Four shards.
pub fn in_four(by: DividedBy) -> Division {
    let shards = NonZeroU32::new(4).expect("it is not 0");
    Division { shards, by }
}

/// What happens to a host.
#[derive(Clone, Copy, Debug)]
enum Accident {
    Stopped,
    Killed,
    Ended,
    CutOff,
}

const ACCIDENTS: [Accident; 4] = [
    Accident::Stopped,
    Accident::CutOff,
    Accident::Killed,
    Accident::Ended,
];

/// So many accidents, one after the other, each to any of three hosts, for any time up to twice the
/// lease duration.
pub async fn run(rounds: usize, times: Times, by: DividedBy, seed: u64) -> Result<()> {
    println!("seed {seed}");
    let mut random = Random(seed);
    let mut group = Group::of(3, times, &PLUGINS).await?;
    group.shares = true;
    group.divide_the_ledger(in_four(by)).await?;
    for number in 0..3 {
        group.start_host(number).await?;
    }
    let mut load = Load::start(&group, Amount::SMALL, seed).await?;
    for round in 0..rounds {
        let accident = ACCIDENTS[round % ACCIDENTS.len()];
        let number = [0, 1, 2][round / ACCIDENTS.len() % 3];
        sleep(random.milliseconds(1500)).await;
        let time = random.milliseconds(2 * u64::try_from(times.lease.as_millis())?);
        match accident {
            Accident::Stopped => {
                group.host(number).pause()?;
                sleep(time).await;
                group.host(number).resume()?;
            }
            Accident::CutOff => {
                let how = random.one_of(&CUTS).copied().unwrap_or(CUTS[0]);
                cut(&group.members[number].proxy, how).await;
                sleep(time).await;
                group.members[number].proxy.heal().await;
            }
            Accident::Killed => {
                group.kill(number).await?;
                group.start_host(number).await?;
            }
            Accident::Ended => {
                let mut host = group.ask_to_end(number)?;
                let status = host.end().await?;
                ensure!(status.success(), "it ended with {status}:\n{}", host.log());
                group.start_host(number).await?;
            }
        }
        if round % 20 == 19 {
            group.journal.read(&group.server).await?;
            let stale = group.judge(&load).stale.len();
            println!("  {} accidents, {stale} stale writes", round + 1);
        }
    }
    let judged = group.conclude(&mut load).await?;
    let (writes, terms) = (judged.writes, judged.terms);
    println!("{rounds} accidents: {writes} writes, shards changed owners {terms} times");
    ensure!(
        terms > 5,
        "each of the five shards had an owner: {judged:?}"
    );
    Ok(())
}
