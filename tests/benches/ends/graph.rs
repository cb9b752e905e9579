//! A graph is collected.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};
use futures::future::try_join_all;
use pilothouse_tests::{
    Change, Fan, Host, Server, What, all_of, create_namespace, define, follow, plugin_directory,
};
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;

use crate::census::Census;
use crate::shape::{KINDS, Member, NAMESPACE, Shape, collection, create};
use crate::usage::{Reading, Usage};
use crate::{PATIENCE, counting_server, until_gone, until_idle};

const PLUGIN: &str = "garbage-collector";
const SETTINGS: &str = r#"
grants.reads = ["*"]
grants.writes = [{ kind = "*", verbs = ["patch", "delete"] }]
grants.events = true
"#;

/// One figure of so many lives on.
const LIVING: usize = 10;

/// The figures of one shape.
struct Figures {
    shape: Shape,
    /// The members of each, the root first.
    doomed: Vec<Vec<Member>>,
}

/// What a measurement goes on in.
struct Rig<'a> {
    server: &'a Server,
    host: &'a Host,
    changes: UnboundedReceiver<Change>,
}

/// Has a graph of so many objects collected, shape by shape, and prints what each takes.
pub async fn measure(objects: usize) -> Result<()> {
    println!(
        "ends: a graph of {objects} objects is collected; one figure of {LIVING} is kept, and the \
         same is there of each shape"
    );
    let server = counting_server().await?;
    define(&server.api, &["Gadget"]).await?;
    create_namespace(&server.api, NAMESPACE).await?;
    let other = create(&server.api, "other", 0, &[]).await?;
    let mut all = Vec::new();
    for shape in Shape::ALL {
        all.push(draw(&server, shape, objects / Shape::ALL.len(), &other).await?);
    }
    let plugins = plugin_directory(&[PLUGIN]);
    std::fs::write(plugins.path().join(format!("{PLUGIN}.toml")), SETTINGS)?;
    let host = Host::ready(plugins.path(), server.kubeconfig()).await?;
    let mut fan = Fan::default();
    let rig = Rig {
        server: &server,
        host: &host,
        changes: fan.receiver(),
    };
    let follows = KINDS.map(|(version, plural, _)| {
        let path = collection(version, plural);
        follow(server.api.clone(), plural, path, fan.clone())
    });
    let done = tokio::select! {
        done = collect_all(rig, &all) => done,
        Err(error) = try_join_all(follows) => Err(error),
    };
    done.with_context(|| host.log())?;
    server.stop().await
}

/// Creates figures of a shape with about so many objects in all, which are at least two figures.
async fn draw(server: &Server, shape: Shape, objects: usize, other: &Member) -> Result<Figures> {
    let size = shape.size().min(objects / 2);
    ensure!(
        size > 1,
        "that is too small a graph: ask for 16 objects or more"
    );
    let names = (0..objects / size).map(|number| format!("{shape:?}-{number}").to_lowercase());
    let names: Vec<String> = names.collect();
    let figures = names
        .iter()
        .map(|name| shape.create(&server.api, name, size, other));
    let mut doomed = all_of(figures).await?;
    // They were created side by side, so any of them are as good as the others.
    doomed.truncate(doomed.len() - doomed.len().div_ceil(LIVING));
    Ok(Figures { shape, doomed })
}

async fn collect_all(mut rig: Rig<'_>, all: &[Figures]) -> Result<()> {
    let began = Reading::of(rig.server, rig.host).await?;
    rig.until_known().await?;
    let before = Census::take(&rig.server.api).await?;
    let known = Reading::of(rig.server, rig.host).await?;
    println!("  start: {}", known.since(&began, before.0.len()));
    let mut gone = BTreeSet::new();
    for figures in all {
        let (usage, floor) = rig.collect(figures).await?;
        let (count, words) = (figures.doomed.len(), figures.shape.words());
        let size = figures.doomed.first().map_or(0, Vec::len);
        println!("  {count} {words}, {size} objects each\n    {usage}");
        println!(
            "    {:.2} times the floor of one request an object",
            usage.requests() as f64 / floor as f64
        );
        let members = figures.doomed.iter().flatten();
        let members = members.filter(|member| !member.is_shared);
        gone.extend(members.map(|member| member.uid.clone()));
    }
    // Whatever should not go has the time to do so.
    rig.until_known().await?;
    let after = Census::take(&rig.server.api).await?;
    after.is_without(&gone, &before)
}

impl Rig<'_> {
    /// Waits until the collector has looked at all objects: of each kind, it has collected one that
    /// is created now, and it has nothing left to look at.
    async fn until_known(&self) -> Result<()> {
        for number in 0..KINDS.len() {
            let lost = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "none",
            });
            let name = format!("lost-{number}");
            let lost = create(&self.server.api, &name, number, &[lost]).await?;
            until_gone(&self.server.api, &lost.path).await?;
        }
        until_idle(self.host, PLUGIN).await
    }

    /// Deletes the roots, and waits until all is gone that they owned. Returns what that took, and
    /// how many objects the collector had to do something about.
    async fn collect(&mut self, figures: &Figures) -> Result<(Usage, usize)> {
        let members = || figures.doomed.iter().flatten();
        let roots = || figures.doomed.iter().filter_map(|members| members.first());
        let shared = members().filter(|member| member.is_shared);
        let shared: BTreeSet<String> = shared.map(|member| member.uid.clone()).collect();
        let mut left: BTreeSet<String> = members().map(|member| member.uid.clone()).collect();
        // A root that is deleted in the background goes without the collector.
        let floor = match figures.shape.propagation() {
            "Background" => left.len() - roots().count(),
            _ => left.len(),
        };
        let began = Reading::of(self.server, self.host).await?;
        let options = json!({"propagationPolicy": figures.shape.propagation()});
        let deletions = async {
            let paths = roots().map(|root| &root.path);
            all_of(paths.map(|path| self.server.api.delete_with(path, &options))).await
        };
        let changes = &mut self.changes;
        tokio::try_join!(deletions, until_done(changes, &shared, &mut left))?;
        let usage = Reading::of(self.server, self.host)
            .await?
            .since(&began, floor);
        Ok((usage, floor))
    }
}

/// Waits until each of these is gone, or has given up one of its two owners if it is shared.
async fn until_done(
    changes: &mut UnboundedReceiver<Change>,
    shared: &BTreeSet<String>,
    left: &mut BTreeSet<String>,
) -> Result<()> {
    while !left.is_empty() {
        let Ok(change) = timeout(PATIENCE, changes.recv()).await else {
            bail!(
                "nothing happens; {} are left: {:?}",
                left.len(),
                left.first()
            );
        };
        let change = change.context("the watches go on")?;
        let metadata = &change.object["metadata"];
        let uid = metadata["uid"].as_str().context("no uid")?;
        let is_done = match shared.contains(uid) {
            true => metadata["ownerReferences"].as_array().map(Vec::len) == Some(1),
            false => change.what == What::Deleted,
        };
        if is_done {
            left.remove(uid);
        }
    }
    Ok(())
}
