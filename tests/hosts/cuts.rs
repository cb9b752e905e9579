//! The network between hosts and server is cut: in both directions, in one, for one host or for
//! two of three.

use anyhow::{Result, ensure};
use k8s_openapi::jiff::Timestamp;
use pilothouse_tests::proxy::{Proxy, all};

use crate::figures::Figures;
use crate::group::{Group, Times};
use crate::load::{Amount, Load, PLUGINS};

#[derive(Clone, Copy, Debug)]
pub enum Cut {
    /// Nothing passes, and nobody is told.
    Silence,
    /// What the host sends does not arrive.
    Requests,
    /// What the server answers does not arrive; what the host sends does.
    Answers,
    /// Connections break, and no new ones are accepted.
    Refused,
}

pub const CUTS: [Cut; 4] = [Cut::Silence, Cut::Requests, Cut::Answers, Cut::Refused];

pub async fn cut(proxy: &Proxy, how: Cut) {
    match how {
        Cut::Silence => drop(proxy.freeze_everything()),
        Cut::Requests => proxy.cut_requests(),
        Cut::Answers => proxy.cut_answers(),
        Cut::Refused => {
            proxy.refuse().await;
            proxy.reset(all());
        }
    }
}

/// Cuts the leader off in each way, so many times; every second time another host too.
pub async fn run(rounds: usize, times: Times) -> Result<()> {
    let mut group = Group::start(3, times, &PLUGINS).await?;
    let mut load = Load::start(&group, Amount::SMALL, 3).await?;
    let mut figures = Figures::default();
    for round in 0..rounds * CUTS.len() {
        let leader = group.leader().await?;
        let name = group.members[leader].name.clone();
        let how = CUTS[round % CUTS.len()];
        let mut off = vec![leader];
        if round % 2 == 1 {
            off.push((leader + 1) % 3);
        }
        let at = Timestamp::now();
        for number in &off {
            cut(&group.members[*number].proxy, how).await;
        }
        // What had arrived when it was cut off does not count.
        let took = group.next_write(&name, at).await?;
        println!("  {how:?} for {} of 3: {took:.2?}", off.len());
        figures.add(took);
        for number in off {
            group.members[number].proxy.heal().await;
        }
    }
    let judged = group.conclude(&mut load).await?;
    println!(
        "cuts: {figures}; {} writes, {} terms",
        judged.writes, judged.terms
    );
    ensure!(
        judged.terms > rounds * CUTS.len(),
        "each cut ends a term: {judged:?}"
    );
    Ok(())
}
