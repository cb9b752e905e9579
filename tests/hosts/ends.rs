//! The leader ends, by SIGTERM or by `kill -9`, under load.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::jiff::Timestamp;

use crate::figures::Figures;
use crate::group::{Group, Times};
use crate::load::{Amount, Load, PLUGINS};

/// What a busy machine may add to what is promised.
const BUSY: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Terminated,
    Killed,
}

/// Ends the leader of three hosts so many times and starts it again.
pub async fn run(end: End, rounds: usize, times: Times) -> Result<()> {
    let mut group = Group::start(3, times, &PLUGINS).await?;
    let mut load = Load::start(&group, Amount::SMALL, 1).await?;
    let mut figures = Figures::default();
    for round in 0..rounds {
        let leader = group.leader().await?;
        let name = group.members[leader].name.clone();
        let at = Timestamp::now();
        let took = match end {
            End::Terminated => {
                let mut host = group.ask_to_end(leader)?;
                let took = group.next_write(&name, at).await?;
                let status = host.end().await?;
                ensure!(status.success(), "it ended with {status}:\n{}", host.log());
                took
            }
            End::Killed => {
                group.kill(leader).await?;
                group.next_write(&name, at).await?
            }
        };
        figures.add(took);
        group.start_host(leader).await?;
        if round % 20 == 19 {
            println!("  {end:?}: {figures}");
        }
    }
    let judged = group.conclude(&mut load).await?;
    println!(
        "{end:?}: {figures}; {} writes, {} terms",
        judged.writes, judged.terms
    );
    ensure!(
        judged.terms > rounds,
        "each end is followed by another term: {judged:?}"
    );
    let promised = match end {
        End::Terminated => Duration::from_secs(1),
        End::Killed => times.lease + Duration::from_secs(2),
    };
    ensure!(
        figures.worst() <= promised + BUSY,
        "{figures}; promised is {promised:?}"
    );
    Ok(())
}
