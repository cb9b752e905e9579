//! `make bench`: two hosts that share (`--share`) against one: reconciles a second with sixteen
//! plugins of one shard and with one plugin of eight, how long it takes until a second host has its
//! half, and the memory of each host.
//!
//! What may be gained by a second host is the first one's scarce thing twice. Here that is the
//! thread that runs guests, of which each host has one, and a guest that does nothing but compute:
//! one host can use one core for guests, two hosts two, as two machines would. All else is shared
//! by the hosts and the API server.
//!
//! `PILOTHOUSE_HOSTS_OBJECTS` is another number of objects for the memory.

mod group;
mod objects;
mod usage;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pilothouse_tests::{Server, ServerOptions, chosen, fickle, named_fickle};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use group::Group;
use objects::Objects;
use usage::{Reading, Used};

/// How long a load is measured.
const WINDOW: Duration = Duration::from_secs(20);

/// What a reconcile computes: so many multiplications, each of which waits for the one before.
const ROUNDS: usize = 500_000;

/// Each key runs again a second after its last run: so many keys are more than two hosts can run.
const KEYS: usize = 5120;

const PLUGINS: usize = 16;
const SHARDS: usize = 8;

/// The objects in the caches when memory is measured.
const OBJECTS: usize = 20_000;

fn main() -> Result<()> {
    // `cargo test` also runs the benches, to check that they build.
    if std::env::args().any(|argument| argument == "--test") {
        return Ok(());
    }
    let objects = chosen("PILOTHOUSE_HOSTS_OBJECTS", OBJECTS)?;
    tokio::runtime::Runtime::new()?.block_on(run(objects))
}

async fn run(objects: usize) -> Result<()> {
    let cores = std::thread::available_parallelism()?;
    println!("hosts: two hosts that share, against one; on one machine of {cores} cores");
    println!("  each host has one thread for guests (--workers 1), and guests that only compute:");
    println!("  a second host adds a core for guests, as a second machine would add its cores");
    let server = Server::start_own(Default::default()).await?;
    let mut all = Objects::of(&server.api).await?;
    all.fill(KEYS / PLUGINS).await?;
    let plugins = many_plugins()?;
    measure(&server, &plugins, "sixteen plugins of one shard").await?;
    all.fill(KEYS).await?;
    let plugins = one_plugin("burns", &format!("config.rounds = {ROUNDS}\n"))?;
    measure(&server, &plugins, "one plugin of eight shards").await?;
    all.fill(objects).await?;
    memory(&server, objects, "each host caches all", "").await?;
    let by_namespace = "shard-by = \"namespace\"\n";
    let what = "each caches the namespaces of its shards, the server sends all";
    memory(&server, objects, what, by_namespace).await?;
    server.stop().await?;
    let server = ServerOptions {
        selects_shards: true,
        ..ServerOptions::default()
    };
    let server = Server::start_own(server).await?;
    Objects::of(&server.api).await?.fill(objects).await?;
    let what = "each caches the namespaces of its shards, the server sends these alone";
    memory(&server, objects, what, by_namespace).await?;
    server.stop().await
}

/// A directory with sixteen plugins that compute.
fn many_plugins() -> Result<TempDir> {
    let directory = tempfile::tempdir()?;
    for number in 0..PLUGINS {
        let name = format!("fickle-{number:02}");
        let file = directory.path().join(format!("{name}.wasm"));
        std::fs::write(file, named_fickle(&name, "1.0.0", "burns"))?;
    }
    let shared = format!("config.rounds = {ROUNDS}\n");
    std::fs::write(directory.path().join("pilothouse.toml"), shared)?;
    Ok(directory)
}

/// A directory with one plugin, which does this, of eight shards and with these settings too.
fn one_plugin(does: &str, settings: &str) -> Result<TempDir> {
    let directory = tempfile::tempdir()?;
    std::fs::write(directory.path().join("fickle.wasm"), fickle("1.0.0", does))?;
    let settings = format!("shards = {SHARDS}\n{settings}");
    std::fs::write(directory.path().join("fickle.toml"), settings)?;
    Ok(directory)
}

/// One host, two hosts, and the first one again, while there is more to do than they can.
async fn measure(server: &Server, plugins: &TempDir, what: &str) -> Result<()> {
    println!("  {what}:");
    let mut group = Group::new(server, plugins)?;
    group.start_host().await?;
    group.until_even().await?;
    let alone = steady(&group).await?;
    println!("    one host       {alone}");
    let before = group.shard_changes(0).await?;
    let joining = group.start_host().await?;
    let joined = group.until_even().await?;
    let moved = group.shard_changes(0).await? - before;
    let both = steady(&group).await?;
    println!("    two hosts      {both}");
    println!("      {}", group.division().await?);
    println!(
        "      even {:.2} s after the start of the second process, {:.2} s after it was ready; \
         {moved} shards moved",
        (joined - joining.started).as_secs_f64(),
        (joined - joining.ready).as_secs_f64(),
    );
    let asked = Instant::now();
    let mut second = group.ask_to_end()?;
    let alone_again = group.until_even().await? - asked;
    second.end().await?;
    let again = steady(&group).await?;
    println!("    one host again {again}");
    println!(
        "      it had all {:.2} s after the other's SIGTERM",
        alone_again.as_secs_f64()
    );
    let one = f64::midpoint(alone.per_second(), again.per_second());
    let cpu = f64::midpoint(alone.cpu_of_one(), again.cpu_of_one());
    println!(
        "    two to one: {:.2} times the reconciles a second, {:.2} times the CPU time of one",
        both.per_second() / one,
        both.cpu_of_one() / cpu,
    );
    group.end().await
}

/// What the hosts do in the window, in which there is always more to do.
async fn steady(group: &Group) -> Result<Used> {
    // The runs that only begin a plugin or a shard are over.
    sleep(Duration::from_secs(5)).await;
    let began = Reading::of(group).await?;
    let mut idle = 0;
    let end = Instant::now() + WINDOW;
    while Instant::now() < end {
        idle += usize::from(group.has_nothing_to_do().await?);
        sleep(Duration::from_secs(1)).await;
    }
    let ended = Reading::of(group).await?;
    ensure!(
        idle == 0,
        "a host had nothing to do at {idle} of {} looks: give it more keys",
        WINDOW.as_secs()
    );
    Ok(ended.since(&began))
}

/// The memory of one host and of two, with so many objects of which each has run. `settings` are
/// added to those of the plugin.
async fn memory(server: &Server, objects: usize, what: &str, settings: &str) -> Result<()> {
    println!("  memory with {objects} objects of 1 KB, one plugin of eight shards, {what}:");
    let plugins = one_plugin("reads-own", settings)?;
    let mut group = Group::new(server, &plugins)?;
    group.start_host().await?;
    group.until_even().await?;
    group.until_settled().await?;
    let alone = group.memory(0)?;
    println!("    one host       {alone}");
    group.start_host().await?;
    group.until_even().await?;
    group.until_settled().await?;
    // What was freed is given back by then.
    sleep(Duration::from_secs(8)).await;
    let (first, second) = (group.memory(0)?, group.memory(1)?);
    println!("    two, the first {first}\n         the second {second}");
    println!("      {}", group.division().await?);
    let ratio = second.resident as f64 / alone.resident as f64;
    let (of_first, of_second) = (group.cached(0).await?, group.cached(1).await?);
    println!("    the second host to one alone: {ratio:.2}; objects: {of_first} and {of_second}");
    group.end().await.context("the hosts do not end")
}
