//! `make run`: an API server, the host with some of the shipped plugins, and a Deployment behind a
//! Service that is created, scaled and rolled out. It ends with status 0 only if every step was
//! seen.

mod story;
mod world;

use std::cell::Cell;

use anyhow::{Context, Result, bail, ensure};
use pilothouse_tests::{Host, HostOptions, Server};
use serde_json::Value;

use story::Story;
use world::World;

/// The controllers that take part. Others that are shipped would only need settings.
const CONTROLLERS: &str = "deployment,endpoints,replicaset";

#[tokio::main]
async fn main() -> Result<()> {
    println!("==> starting an API server");
    let server = Server::start().await?;
    println!("==> starting pilothouse");
    let plugins = std::env::var("PILOTHOUSE_GUESTS")
        .context("PILOTHOUSE_GUESTS is not set; run `make run`")?;
    let mut host = Host::start(&HostOptions {
        plugins: plugins.into(),
        kubeconfig: server.kubeconfig().into(),
        arguments: vec![format!("--controllers={CONTROLLERS}")],
        ..HostOptions::default()
    })
    .await?;
    host.wait_until_ready().await?;
    let is_told = Cell::new(false);
    let shown = tokio::select! {
        shown = show(&server, &host, &is_told) => shown,
        interrupted = tokio::signal::ctrl_c() => interrupted.map_err(anyhow::Error::from),
    };
    println!("\nstopping");
    let (status, _) = host.terminate().await?;
    server.stop().await?;
    shown?;
    ensure!(is_told.get(), "interrupted before every step was seen");
    ensure!(status.success(), "pilothouse ended with {status}");
    Ok(())
}

/// Runs until something fails. `is_told` becomes true when every step was seen.
async fn show(server: &Server, host: &Host, is_told: &Cell<bool>) -> Result<()> {
    print_plugins(host).await?;
    let (world, keepers) = World::of(&server.api);
    let tell = async {
        println!(
            "==> The scheduler and the kubelet are played by this program; all else that happens \
             is done by the plugins:\n"
        );
        let mut story = Story::new(&server.api, world);
        story.tell().await?;
        is_told.set(true);
        print_hints(server, host);
        story.go_on().await
    };
    tokio::select! {
        ended = tell => ended,
        error = keepers => Err(error),
    }
}

async fn print_plugins(host: &Host) -> Result<()> {
    let (_, plugins) = host.get("/plugins").await?;
    for plugin in serde_json::from_str::<Vec<Value>>(&plugins)? {
        let [name, version, state] =
            ["name", "version", "state"].map(|field| plugin[field].as_str().unwrap_or("?"));
        if state == "off" {
            continue;
        }
        println!("    plugin {name} {version} is {state}");
        if state != "running" {
            bail!("{name} does not run: {plugin}");
        }
    }
    Ok(())
}

fn print_hints(server: &Server, host: &Host) {
    let kubectl = format!("kubectl --kubeconfig {}", server.kubeconfig().display());
    println!("\nEverything keeps running. Try, from another terminal:\n");
    println!("  {kubectl} get deployments,replicasets,pods,endpoints");
    println!("  {kubectl} scale deployment web --replicas=8");
    println!("  {kubectl} set image deployment web web=example.dev/web:3");
    println!("  {kubectl} delete pod --all");
    println!("  curl http://{}/plugins", host.address());
    println!("\nCtrl-C ends it.");
}
