//! All that the server stores.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use pilothouse_tests::Api;
use serde_json::Value;

/// An object of any kind.
pub struct Entry {
    /// The path of its collection, its namespace and its name, for messages.
    pub what: String,
    pub namespace: String,
    /// The uids of its owners.
    pub owners: Vec<String>,
}

/// Every object of every kind that the server serves, by its uid. Events are left out: they come
/// and go by themselves.
pub struct Census(pub BTreeMap<String, Entry>);

impl Census {
    pub async fn take(api: &Api) -> Result<Self> {
        let mut entries = BTreeMap::new();
        for collection in collections(api).await? {
            let list = api.get(&collection).await?;
            let list = list.with_context(|| format!("{collection} is no longer served"))?;
            for item in list["items"].as_array().into_iter().flatten() {
                let (uid, entry) = entry(&collection, item)?;
                entries.insert(uid, entry);
            }
        }
        Ok(Self(entries))
    }

    /// Fails unless all that was there before is there now, but for these, and nothing else is; and
    /// unless nobody names an owner that is gone.
    pub fn is_without(&self, gone: &BTreeSet<String>, before: &Self) -> Result<()> {
        for (uid, entry) in &before.0 {
            let (is_gone, what) = (!self.0.contains_key(uid), &entry.what);
            ensure!(
                !is_gone || gone.contains(uid),
                "{what} is gone, and should not be"
            );
            ensure!(is_gone || !gone.contains(uid), "{what} is still there");
        }
        for (uid, entry) in &self.0 {
            let what = &entry.what;
            ensure!(before.0.contains_key(uid), "{what} was not there before");
            let mut owners = entry.owners.iter();
            let lost = owners.find(|owner| gone.contains(*owner));
            ensure!(
                lost.is_none(),
                "{what} names an owner that is gone: {lost:?}"
            );
        }
        Ok(())
    }
}

/// The paths of all kinds that can be listed, in the version that the server prefers.
async fn collections(api: &Api) -> Result<Vec<String>> {
    let groups = api.get("/apis").await?.context("no API groups")?;
    let groups = groups["groups"].as_array().context("no list of groups")?;
    let versions = groups.iter().map(|group| {
        let version = group["preferredVersion"]["groupVersion"].as_str();
        Ok(format!(
            "/apis/{}",
            version.context("a group without a version")?
        ))
    });
    let mut paths = vec!["/api/v1".to_owned()];
    paths.extend(versions.collect::<Result<Vec<_>>>()?);
    let mut collections = Vec::new();
    for path in paths {
        let served = api.get(&path).await?.context("a version without kinds")?;
        for resource in served["resources"].as_array().into_iter().flatten() {
            let mut verbs = resource["verbs"].as_array().into_iter().flatten();
            let name = resource["name"].as_str().unwrap_or_default();
            if verbs.any(|verb| verb == "list") && name != "events" && !name.contains('/') {
                collections.push(format!("{path}/{name}"));
            }
        }
    }
    Ok(collections)
}

fn entry(collection: &str, item: &Value) -> Result<(String, Entry)> {
    let metadata = &item["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
    let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
    let entry = Entry {
        what: format!("{collection} {namespace}/{name}"),
        owners: owners.map(|owner| text(&owner["uid"])).collect(),
        namespace,
    };
    let uid = metadata["uid"].as_str();
    let uid = uid.with_context(|| format!("{} has no uid", entry.what))?;
    Ok((uid.to_owned(), entry))
}
