//! The kinds that a plugin names, held against those that a cluster serves.

use std::collections::BTreeSet;
use std::time::Duration;

use pilothouse_cluster::connect::{Connection, Environment, Options};
use pilothouse_cluster::discovery::Discovery;
use pilothouse_core::manifest::Manifest;

/// How long a command waits for the server's first answer.
const FIRST_ANSWER: Duration = Duration::from_secs(15);

/// The kinds of a cluster that a command names. It answers: otherwise the error says why not.
pub async fn of(cluster: &Options) -> anyhow::Result<Discovery> {
    let connection = Connection::open(cluster, &Environment::of_process()).await?;
    connection.check(FIRST_ANSWER).await?;
    Ok(Discovery::new(connection.client))
}

/// Why what a manifest reads and writes cannot be had from this cluster.
pub async fn obstacles(discovery: &Discovery, manifest: &Manifest) -> Vec<String> {
    let mut found = Vec::new();
    for read in &manifest.reads {
        match discovery.resolve(&read.kind).await {
            Err(error) => found.push(error.to_string()),
            Ok(resource) if !resource.is_namespaced && !read.namespaces.is_empty() => {
                let kind = &read.kind;
                found.push(format!(
                    "{kind} has no namespaces, and the manifest's reads narrow it to some"
                ));
            }
            Ok(_) => {}
        }
    }
    for write in &manifest.writes {
        let subresource = write.subresource.as_deref();
        if let Err(error) = discovery.resolve_write(&write.kind, subresource).await {
            found.push(error.to_string());
        }
    }
    // A kind that is read is mostly written, too.
    let mut said = BTreeSet::new();
    found.retain(|obstacle| said.insert(obstacle.clone()));
    found
}
