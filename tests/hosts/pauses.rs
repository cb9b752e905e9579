//! The leader is stopped, as by SIGSTOP, and goes on when another may lead.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::jiff::Timestamp;
use pilothouse_tests::Random;
use pilothouse_tests::proxy::{gets, writes};
use tokio::time::sleep;

use crate::figures::Figures;
use crate::group::{Group, PATIENCE, Times};
use crate::load::{Amount, Load, PLUGINS};

/// Stops the leader at random moments under load, for random times: mostly until another leads, and
/// sometimes shorter or longer.
pub async fn at_random(rounds: usize, times: Times, seed: u64) -> Result<()> {
    println!("seed {seed}");
    let mut random = Random(seed);
    let mut group = Group::start(2, times, &PLUGINS).await?;
    let amount = Amount {
        pause: Duration::from_millis(5),
        ..Amount::SMALL
    };
    let mut load = Load::start(&group, amount, seed).await?;
    let mut figures = Figures::default();
    for round in 0..rounds {
        let leader = group.leader().await?;
        let name = group.members[leader].name.clone();
        sleep(random.milliseconds(700)).await;
        let at = Timestamp::now();
        group.host(leader).pause()?;
        if random.percent(20) {
            sleep(random.milliseconds(2 * times.lease.as_millis() as u64)).await;
        } else {
            figures.add(group.next_write(&name, at).await?);
            sleep(random.milliseconds(200)).await;
        }
        group.host(leader).resume()?;
        if round % 20 == 19 {
            group.journal.read(&group.server).await?;
            let stale = group.judge(&load).stale.len();
            println!("  {} stops: {figures}, {stale} stale writes", round + 1);
        }
    }
    let judged = group.conclude(&mut load).await?;
    println!(
        "{rounds} stops at random: {figures}; {} writes, {} terms",
        judged.writes, judged.terms
    );
    Ok(())
}

/// What a host says of a write that it has not sent, because it may not write any more.
const REFUSED: &str = "not sent: this host does not have the right to write";

/// Where a host is stopped after it has decided to write, and before it does.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// While the server confirms what the decision rests on.
    Confirming,
    /// Between the first and the second stage of a plan.
    BetweenStages,
}

/// Stops the leader after it has decided to write, and lets it go on once another has written.
pub async fn placed(rounds: usize, times: Times) -> Result<()> {
    let mut group = Group::start(2, times, &["ledger"]).await?;
    let amount = Amount {
        sets: 0,
        entries: 2,
        ..Amount::SMALL
    };
    let mut load = Load::still(&group, amount).await?;
    let mut figures = Figures::default();
    for round in 0..rounds {
        load.settled().await?;
        let place = match round % 2 {
            0 => Place::Confirming,
            _ => Place::BetweenStages,
        };
        let leader = group.leader().await?;
        let (stopped, at) = stop_in(&group, &load, leader, place, round).await?;
        // So that the next leader has something to write, whatever was written already.
        load.wish(1, &format!("{round}")).await?;
        figures.add(group.next_write(&stopped, at).await?);
        group.host(leader).resume()?;
        group.host(leader).wait_until_standing_by().await?;
        if round % 20 == 19 {
            group.journal.read(&group.server).await?;
            let stale = group.judge(&load).stale.len();
            println!(
                "  {} placed stops: {figures}, {stale} stale writes",
                round + 1
            );
        }
    }
    let judged = group.conclude(&mut load).await?;
    let logs = [0, 1].map(|number| group.host(number).log());
    let refused = logs.iter().flat_map(|log| log.lines());
    let refused = refused.filter(|line| line.contains(REFUSED)).count();
    println!(
        "{rounds} placed stops: {figures}; {} writes, {} terms, {refused} plans held back",
        judged.writes, judged.terms
    );
    // Mostly the host halts the plan before, as it finds that it leads no more.
    ensure!(
        refused > 0 || rounds < 20,
        "no host was stopped before a write"
    );
    Ok(())
}

/// Stops the leader when it waits for the answer after which it would write. The answer is there
/// when it goes on.
async fn stop_in(
    group: &Group,
    load: &Load,
    leader: usize,
    place: Place,
    round: usize,
) -> Result<(String, Timestamp)> {
    let member = &group.members[leader];
    let proxy = &member.proxy;
    let which = match place {
        Place::Confirming => gets("configmaps"),
        Place::BetweenStages => writes("configmaps"),
    };
    proxy.forget();
    let held = proxy.on(which.clone()).times(1).hold_answer();
    load.wish(0, &format!("{place:?} {round}")).await?;
    proxy.until_seen(which.clone(), 1, PATIENCE).await?;
    proxy.until_answered(which, 1, PATIENCE).await?;
    member.host().pause()?;
    let at = Timestamp::now();
    held.lift();
    Ok((member.name.clone(), at))
}
