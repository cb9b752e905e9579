//! Checks the kinds that a plugin names against the kinds that a cluster serves.

use std::collections::BTreeSet;
use std::time::Duration;

use pilothouse_cluster::connect::{Connection, Environment, Options};
use pilothouse_cluster::discovery::Discovery;
use pilothouse_core::Manifest;

/// How long a command waits for the server's first answer.
const FIRST_ANSWER: Duration = Duration::from_secs(15);

/// The kinds of the cluster that a command is pointed at. Fails with the reason if the cluster does
/// not answer.
pub async fn of(cluster: &Options) -> anyhow::Result<Discovery> {
    let connection = Connection::open(cluster, &Environment::of_process()).await?;
    connection.check(FIRST_ANSWER).await?;
    Ok(Discovery::new(connection.client))
}

/// The reasons why this cluster cannot provide what a manifest reads and writes.
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
    // A kind that is read is usually also written, and gives the same reason twice.
    let mut said = BTreeSet::new();
    found.retain(|obstacle| said.insert(obstacle.clone()));
    found
}
