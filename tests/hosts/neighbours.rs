//! A program that uses client-go competes with hosts for one Lease.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use tokio::process::{Child, Command};

use crate::group::{Group, LEASE, PATIENCE, Times};
use crate::load::{Amount, Load, PLUGINS};

const USER: &str = "client-go";

/// Starts the program. It ends when the value is dropped.
fn program(group: &Group) -> Result<Child> {
    let binary = std::env::var("PILOTHOUSE_TESTSERVER").context("run `make test`")?;
    let mut command = Command::new(binary);
    command
        .arg("elect")
        .arg("--kubeconfig")
        .arg(group.kubeconfig_for(USER)?)
        .args(["--identity", USER, "--config-map", USER])
        .args(group.times.arguments(""))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .process_group(0)
        .kill_on_drop(true);
    Ok(command.spawn()?)
}

/// Waits until the program has the Lease.
async fn has_lease(group: &Group) -> Result<()> {
    let is_held = |found: Option<&serde_json::Value>| {
        found.is_some_and(|lease| lease["spec"]["holderIdentity"] == USER)
    };
    group
        .server
        .api
        .eventually(LEASE, "client-go's", is_held)
        .await?;
    Ok(())
}

/// Whoever leads ends or is stopped, in turns. Whatever is written, the holder has written it.
pub async fn compete(rounds: usize, times: Times) -> Result<()> {
    let mut group = Group::start(2, times, &PLUGINS).await?;
    let subject = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": USER}});
    let collection = "/api/v1/namespaces/default/configmaps";
    group.server.api.create(collection, &subject).await?;
    let mut load = Load::start(&group, Amount::SMALL, 7).await?;
    for round in 0..rounds {
        let mut program = program(&group)?;
        // Both hosts end or are stopped, so that the program gets the Lease.
        let is_stop = round % 2 == 1;
        for number in [0, 1] {
            match is_stop {
                true => group.host(number).pause()?,
                false => drop(group.ask_to_end(number)?.end().await?),
            }
        }
        has_lease(&group).await?;
        for number in [0, 1] {
            match is_stop {
                true => group.host(number).resume()?,
                false => group.start_host(number).await?,
            }
        }
        let at = Timestamp::now();
        if round % 2 == 0 {
            program.kill().await?;
        } else {
            let id = program.id().context("it runs")?.to_string();
            Command::new("kill").args(["-TERM", &id]).status().await?;
            let ended = tokio::time::timeout(PATIENCE, program.wait()).await;
            ended.context("it does not end")??;
        }
        let took = group.next_write(USER, at).await?;
        println!("  from client-go to a host: {took:.2?}");
    }
    let judged = group.conclude(&mut load).await?;
    println!(
        "client-go and hosts: {} writes, {} terms",
        judged.writes, judged.terms
    );
    let others = group.journal.writes_of(USER, Timestamp::UNIX_EPOCH).len();
    ensure!(others > 0, "client-go has led");
    Ok(())
}
