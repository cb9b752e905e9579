//! Checks the kinds that a plugin names against the kinds that a cluster serves.

use std::collections::BTreeSet;
use std::time::Duration;

use pilothouse_cluster::connect::{Connection, Environment, Options};
use pilothouse_cluster::discovery::Discovery;
use pilothouse_core::{Kind, Manifest};

/// How long a command waits for the server's first answer.
const FIRST_ANSWER: Duration = Duration::from_secs(15);

/// The kinds of the cluster that a command is pointed at. Fails with the reason if the cluster does
/// not answer.
pub async fn of(cluster: &Options) -> anyhow::Result<Discovery> {
    let connection = Connection::open(cluster, &Environment::of_process()).await?;
    connection.check(FIRST_ANSWER).await?;
    Ok(Discovery::new(connection.client))
}

/// The optional kinds of a manifest that this cluster does not serve. Fails with the reason if that
/// is not known.
pub async fn absent(discovery: &Discovery, manifest: &Manifest) -> Result<BTreeSet<Kind>, String> {
    let mut absent = BTreeSet::new();
    for kind in &manifest.optional {
        let subresource = only_subresource(manifest, kind);
        let is_served = discovery.serves(kind, subresource).await;
        if !is_served.map_err(|error| error.to_string())? {
            absent.insert(kind.clone());
        }
    }
    Ok(absent)
}

/// The subresource that a manifest writes of a kind which it does not name otherwise, such as
/// `policy/v1/Eviction`: the server need not serve such a kind by itself.
fn only_subresource<'a>(manifest: &'a Manifest, kind: &Kind) -> Option<&'a str> {
    let writes = manifest.writes.iter().filter(|write| write.kind == *kind);
    let subresources: Option<Vec<&str>> =
        writes.map(|write| write.subresource.as_deref()).collect();
    let is_read = manifest.reads.iter().any(|read| read.kind == *kind);
    subresources?.first().copied().filter(|_| !is_read)
}

/// The reasons why this cluster cannot provide what a manifest reads and writes.
pub async fn obstacles(discovery: &Discovery, manifest: &Manifest) -> Vec<String> {
    let mut found = Vec::new();
    // What a pattern includes is found out when the plugin runs.
    let reads = manifest.reads.iter();
    for read in reads.filter(|read| !read.kind.is_pattern()) {
        match discovery.look_for(&read.kind, None).await {
            Err(error) if error.is_absence() && manifest.optional.contains(&read.kind) => {}
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
    let writes = manifest.writes.iter();
    for write in writes.filter(|write| !write.kind.is_pattern()) {
        let subresource = write.subresource.as_deref();
        match discovery.look_for(&write.kind, subresource).await {
            Err(error) if error.is_absence() && manifest.optional.contains(&write.kind) => {}
            Err(error) => found.push(error.to_string()),
            Ok(_) => {}
        }
    }
    // A kind that is read is usually also written, and gives the same reason twice.
    let mut said = BTreeSet::new();
    found.retain(|obstacle| said.insert(obstacle.clone()));
    found
}
