//! Parses the two forms of discovery documents: aggregated and legacy.
//!
//! Why not kube's types: for the aggregated form they take each list as a plain `Vec` and refuse
//! `null`, which a server written in Go may send for an empty list. The legacy form shares
//! [`RawRoot`] and [`RawKind`] with it.

use pilothouse_core::Kind;
use serde::Deserialize;
use serde_json::Result;

use super::catalog::{Resource, Subresource};

/// The answer to `/api` or `/apis`.
#[derive(Debug)]
pub(super) enum Root {
    /// `APIGroupDiscoveryList`: everything in one document.
    Aggregated {
        resources: Vec<Resource>,
        /// Group versions whose own server could not be reached.
        stale: Vec<String>,
    },
    /// `APIVersions` or `APIGroupList`: each of these group versions has a document of its own.
    Legacy(Vec<String>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawRoot {
    kind: String,
    #[serde(default)]
    items: Option<Vec<RawGroup>>,
    #[serde(default)]
    versions: Option<Vec<String>>,
    #[serde(default)]
    groups: Option<Vec<RawLegacyGroup>>,
}

#[derive(Deserialize)]
struct RawGroup {
    #[serde(default)]
    metadata: RawName,
    #[serde(default)]
    versions: Option<Vec<RawVersion>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawName {
    name: String,
}

#[derive(Deserialize)]
struct RawVersion {
    version: String,
    #[serde(default)]
    resources: Option<Vec<RawResource>>,
    #[serde(default)]
    freshness: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawResource {
    resource: String,
    #[serde(default)]
    response_kind: RawKind,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    verbs: Option<Vec<String>>,
    #[serde(default)]
    subresources: Option<Vec<RawSubresource>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSubresource {
    subresource: String,
    #[serde(default)]
    response_kind: RawKind,
    #[serde(default)]
    verbs: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawKind {
    group: String,
    version: String,
    kind: String,
}

#[derive(Deserialize)]
struct RawLegacyGroup {
    versions: Vec<RawGroupVersion>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawGroupVersion {
    group_version: String,
}

impl RawKind {
    /// If the version is empty, group and version are those of the enclosing document.
    fn or(self, group: &str, version: &str) -> Kind {
        let version = if self.version.is_empty() {
            (group, version)
        } else {
            (&*self.group, &*self.version)
        };
        Kind::new(version.0, version.1, &self.kind)
    }
}

pub(super) fn parse_root(body: &[u8]) -> Result<Root> {
    let root: RawRoot = serde_json::from_slice(body)?;
    if root.kind != "APIGroupDiscoveryList" {
        let groups = root
            .groups
            .unwrap_or_default()
            .into_iter()
            .flat_map(|group| group.versions);
        let versions = root.versions.unwrap_or_default().into_iter();
        return Ok(Root::Legacy(
            versions
                .chain(groups.map(|version| version.group_version))
                .collect(),
        ));
    }
    let (mut resources, mut stale) = (Vec::new(), Vec::new());
    for group in root.items.unwrap_or_default() {
        let name = group.metadata.name;
        for version in group.versions.unwrap_or_default() {
            if version.freshness.as_deref() == Some("Stale") {
                stale.push(Kind::new(&name, &version.version, "").api_version());
            }
            let raw = version.resources.unwrap_or_default().into_iter();
            resources.extend(raw.map(|resource| aggregated(&name, &version.version, resource)));
        }
    }
    Ok(Root::Aggregated { resources, stale })
}

fn aggregated(group: &str, version: &str, raw: RawResource) -> Resource {
    let subresources = raw
        .subresources
        .unwrap_or_default()
        .into_iter()
        .map(|raw| Subresource {
            name: raw.subresource,
            kind: raw.response_kind.or(group, version),
            verbs: raw.verbs.unwrap_or_default(),
        });
    Resource {
        // Group and version are those of the path. The response kind may name others (an old
        // version of `TokenReview`).
        kind: Kind::new(group, version, &raw.response_kind.kind),
        plural: raw.resource,
        is_namespaced: raw.scope == "Namespaced",
        verbs: raw.verbs.unwrap_or_default(),
        subresources: subresources.collect(),
    }
}

#[derive(Deserialize)]
struct RawList {
    resources: Option<Vec<RawLegacyResource>>,
}

#[derive(Deserialize)]
struct RawLegacyResource {
    name: String,
    namespaced: bool,
    #[serde(flatten)]
    kind: RawKind,
    #[serde(default)]
    verbs: Option<Vec<String>>,
}

/// Parses an `APIResourceList`, in which `pods/status` is an entry of its own beside `pods`.
pub(super) fn parse_version(api_version: &str, body: &[u8]) -> Result<Vec<Resource>> {
    let Kind { group, version, .. } = Kind::from_api_version(api_version, "");
    let list: RawList = serde_json::from_slice(body)?;
    let (parts, wholes): (Vec<_>, Vec<_>) = list
        .resources
        .unwrap_or_default()
        .into_iter()
        .partition(|raw| raw.name.contains('/'));
    let mut resources: Vec<Resource> = wholes
        .into_iter()
        .map(|raw| Resource {
            kind: Kind::new(&group, &version, &raw.kind.kind),
            plural: raw.name,
            is_namespaced: raw.namespaced,
            verbs: raw.verbs.unwrap_or_default(),
            subresources: Vec::new(),
        })
        .collect();
    for raw in parts {
        let Some((plural, name)) = raw.name.split_once('/') else {
            continue;
        };
        let Some(resource) = resources
            .iter_mut()
            .find(|resource| resource.plural == plural)
        else {
            continue;
        };
        resource.subresources.push(Subresource {
            name: name.to_owned(),
            kind: raw.kind.or(&group, &version),
            verbs: raw.verbs.unwrap_or_default(),
        });
    }
    Ok(resources)
}
