//! A file that somebody drops into the directory, without settings, can hurt nobody. The guest
//! `stranger` does all the harm it can for twenty seconds, beside a neighbour that works.

use std::time::Duration;

use anyhow::{Context, Result};
use pilothouse_tests::{Host, HostOptions, Neighbour, Server, guest, plugin_directory, sum_of};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

/// The guest's deeds, each done by several keys. Fewer keys fail than do not: otherwise the version
/// would be quarantined and do nothing.
const HARMLESS_LOOKING: &[&str] = &[
    "events", "labels", "names", "selector", "denied", "log", "escapes",
];
const FAILING: &[&str] = &["refused", "forged", "loop", "memory", "bomb", "doubt"];

/// How long the stranger may try.
const TIME: Duration = Duration::from_secs(20);

/// The neighbour must follow a change of a pod within this time, on any machine.
const ANSWERED: Duration = Duration::from_secs(30);

/// What one file may cost the host in addition: bytes of memory, bytes of log, open files.
const MEMORY: u64 = 128 << 20;
const LOG: usize = 4 << 20;
const DESCRIPTORS: f64 = 32.0;
/// Twenty lists, and as many watches, each of which is reopened after nine seconds of quiet.
const REQUESTS: u64 = 200;

#[derive(Debug)]
struct Figures {
    memory: u64,
    log: usize,
    descriptors: f64,
    /// Lists and watches of the stranger's kind.
    reads: u64,
    /// Requests that create Events.
    events: u64,
    /// How often the hub's lock was held for a second or longer, for any reason.
    long_holds: f64,
}

impl Figures {
    async fn of(host: &Host, server: &Server) -> Result<Self> {
        let held = "pilothouse_hub_held_seconds";
        let (_, metrics) = host.get("/metrics").await?;
        let all = sum_of(&metrics, &format!("{held}_count"), "");
        let short = sum_of(&metrics, &format!("{held}_bucket"), r#"le="1.0""#);
        let mut reads = 0;
        for verb in ["list", "watch"] {
            reads += server.requests(verb, "configmaps").await?;
        }
        Ok(Self {
            memory: host.memory()?,
            log: host.log().len(),
            descriptors: sum_of(&metrics, "process_open_fds", ""),
            reads,
            events: server.requests("create", "events").await?,
            long_holds: all - short,
        })
    }
}

#[tokio::test]
async fn a_stranger_that_is_granted_nothing_harms_neither_host_nor_neighbour() -> Result<()> {
    let server = Server::start().await?;
    let plugins = plugin_directory(&["endpoints"]);
    let settings = "grants = \"as-requested\"\n";
    std::fs::write(plugins.path().join("endpoints.toml"), settings)?;
    let mut host = Host::start(&HostOptions {
        command: "run",
        plugins: plugins.path().into(),
        kubeconfig: server.kubeconfig().into(),
        arguments: vec![],
        ..HostOptions::default()
    })
    .await?;
    host.wait_until_ready().await?;
    let mut neighbour = Neighbour::new(&server.api).await?;
    let many = HARMLESS_LOOKING.iter().map(|deed| (*deed, 6));
    let few = FAILING.iter().map(|deed| (*deed, 2));
    for (deed, keys) in many.chain(few) {
        for number in 0..keys {
            let name = format!("{deed}-{number}");
            let object =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
            let path = "/api/v1/namespaces/default/configmaps";
            server.api.create(path, &object).await?;
        }
    }
    let before = Figures::of(&host, &server).await?;
    std::fs::copy(guest("stranger"), plugins.path().join(".new"))?;
    let file = plugins.path().join("stranger.wasm");
    std::fs::rename(plugins.path().join(".new"), file)?;
    let is_known = async {
        while host.plugin("stranger.wasm").await.is_err() {
            sleep(Duration::from_millis(25)).await;
        }
    };
    timeout(ANSWERED, is_known).await?;
    let is_at_work = |plugin: &serde_json::Value| plugin["reconciles"]["requeueAfter"] != 0;
    host.eventually("stranger.wasm", "at work", is_at_work)
        .await?;
    let (begun, mut slowest) = (Instant::now(), Duration::ZERO);
    while begun.elapsed() < TIME {
        let taken = timeout(ANSWERED, neighbour.toggle()).await;
        let taken = taken.with_context(|| format!("the neighbour waits\n{}", host.log()))??;
        slowest = slowest.max(taken);
    }
    let after = Figures::of(&host, &server).await?;
    println!("before {before:?}\nafter {after:?}\nthe neighbour's slowest answer: {slowest:?}");
    let plugin = host.plugin("stranger.wasm").await?;
    println!("{plugin:#}");
    assert_eq!(plugin["state"], "running", "it was not stopped: {plugin:#}");
    assert!(after.memory < before.memory + MEMORY, "memory");
    assert!(after.log < before.log + LOG, "bytes logged");
    assert!(
        after.descriptors < before.descriptors + DESCRIPTORS,
        "descriptors"
    );
    assert!(after.reads < before.reads + REQUESTS, "lists and watches");
    assert_eq!(after.events, before.events, "Events");
    assert!(
        after.long_holds == before.long_holds,
        "the hub was held for a second"
    );
    Ok(())
}
