//! The resources that a server serves, indexed by kind.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use http::HeaderValue;
use pilothouse_core::{Kind, ServedKind};

use super::error::DiscoveryError;

/// How objects of a kind are addressed, and which verbs they support.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The kind.
    pub kind: Kind,
    /// The kind's name in paths, such as `pods`.
    pub plural: String,
    /// True if its objects live in namespaces.
    pub is_namespaced: bool,
    /// `get`, `list`, `watch`, …
    pub verbs: Vec<String>,
    /// `status`, `scale`, …
    pub subresources: Vec<Subresource>,
}

/// A part of an object with a path of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subresource {
    /// Its name, such as `status`.
    pub name: String,
    /// The kind of the bodies it takes and returns; for `scale` that is `autoscaling/v1/Scale`.
    pub kind: Kind,
    /// `get`, `update`, …
    pub verbs: Vec<String>,
}

impl Resource {
    /// True if the kind can be listed and watched, and so be kept in a cache.
    pub fn is_watchable(&self) -> bool {
        ["list", "watch"]
            .iter()
            .all(|verb| self.verbs.iter().any(|have| have == verb))
    }

    /// The kind, which is served in these versions, as plugins are told of it.
    fn served(&self, versions: Vec<String>) -> ServedKind {
        let sorted = |mut names: Vec<String>| {
            names.sort_unstable();
            names
        };
        let subresources = self.subresources.iter().map(|part| part.name.clone());
        ServedKind {
            kind: self.kind.clone(),
            versions: sorted(versions),
            resource: self.plural.clone(),
            is_namespaced: self.is_namespaced,
            verbs: sorted(self.verbs.clone()),
            subresources: sorted(subresources.collect()),
        }
    }

    /// True if the kind has a subresource of this name.
    pub fn has_subresource(&self, name: &str) -> bool {
        self.subresources.iter().any(|part| part.name == name)
    }

    /// `pods` or `deployments.apps`, as in RBAC rules and kubectl.
    pub fn qualified_name(&self) -> String {
        match &*self.kind.group {
            "" => self.plural.clone(),
            group => format!("{}.{group}", self.plural),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Catalog {
    resources: HashMap<Kind, Arc<Resource>>,
    /// The version of each kind that the server prefers, by group and kind. The server names the
    /// versions of a group in the order of its preference.
    preferred: HashMap<(Arc<str>, Arc<str>), Kind>,
    /// Group versions (or `/api`, `/apis`) that could not be read, each with the cause.
    failures: Vec<(String, String)>,
    /// Kinds that have been removed because their paths no longer exist. The server has not said
    /// that it does not serve them.
    forgotten: BTreeSet<Kind>,
    /// The entity tags of the documents that it is from.
    pub(super) tags: Vec<HeaderValue>,
}

impl Catalog {
    pub(super) fn add(&mut self, resources: Vec<Resource>) {
        for resource in resources {
            // Several paths may return the same kind (`v1 Binding`, `NodeMetrics`). The one that
            // can be watched is the kind's own.
            let name = (resource.kind.group.clone(), resource.kind.kind.clone());
            let preferred = self.preferred.entry(name);
            preferred.or_insert_with(|| resource.kind.clone());
            let known = self.resources.get(&resource.kind);
            if known.is_none_or(|known| !known.is_watchable() && resource.is_watchable()) {
                self.resources
                    .insert(resource.kind.clone(), Arc::new(resource));
            }
        }
    }

    pub(super) fn fail(&mut self, api_version: String, cause: String) {
        self.failures.push((api_version, cause));
    }

    /// Logs the groups that could not be read, but for those that `before` could not read either.
    pub(super) fn report_failures(&self, before: Option<&Self>) {
        let known = before.map_or(&[][..], |before| &before.failures);
        for (group, cause) in &self.failures {
            if !known.iter().any(|(known, _)| known == group) {
                tracing::warn!(group, error = cause, "discovery of a group failed");
            }
        }
    }

    /// The tags of the two documents, if these say all that is known.
    pub(super) fn tags_of_all(&self) -> Option<&[HeaderValue]> {
        let is_all = self.tags.len() == super::asking::ROOTS.len() && self.forgotten.is_empty();
        is_all.then_some(&self.tags[..])
    }

    /// True if all of the server has answered, and nothing of it has turned out to be wrong.
    pub(super) fn is_whole(&self) -> bool {
        self.failures.is_empty() && self.forgotten.is_empty()
    }

    pub(super) fn remove(&mut self, kind: &Kind) {
        self.resources.remove(kind);
        self.forgotten.insert(kind.clone());
    }

    pub(super) fn has_forgotten(&self, kind: &Kind) -> bool {
        self.forgotten.contains(kind)
    }

    pub(super) fn get(&self, kind: &Kind) -> Option<Arc<Resource>> {
        self.resources.get(kind).cloned()
    }

    /// Every kind, in the version that the server prefers.
    pub(super) fn served(&self) -> Vec<ServedKind> {
        let mut versions: HashMap<(&str, &str), Vec<String>> = HashMap::new();
        for kind in self.resources.keys() {
            let of_kind = versions.entry((&kind.group, &kind.kind)).or_default();
            of_kind.push(kind.version.to_string());
        }
        let preferred = self.preferred.values();
        let resources = preferred.filter_map(|kind| self.resources.get(kind));
        let served = resources.map(|resource| {
            let name = (&*resource.kind.group, &*resource.kind.kind);
            resource.served(versions.remove(&name).unwrap_or_default())
        });
        served.collect()
    }

    /// The resource to which `subresource` belongs: the kind's own, or the one whose subresource
    /// takes bodies of this kind.
    pub(super) fn get_owner(
        &self,
        kind: &Kind,
        subresource: &str,
    ) -> Result<Option<Arc<Resource>>, DiscoveryError> {
        let own = self.get(kind);
        if own
            .as_ref()
            .is_some_and(|own| own.has_subresource(subresource))
        {
            return Ok(own);
        }
        let takes = |resource: &&Arc<Resource>| {
            resource
                .subresources
                .iter()
                .any(|part| part.name == subresource && part.kind == *kind)
        };
        let mut owners: Vec<&Arc<Resource>> = self.resources.values().filter(takes).collect();
        match owners.len() {
            0 => Ok(own),
            1 => Ok(owners.pop().cloned()),
            _ => {
                let mut names: Vec<String> =
                    owners.iter().map(|owner| owner.qualified_name()).collect();
                names.sort();
                Err(DiscoveryError::Ambiguous {
                    kind: kind.clone(),
                    subresource: subresource.to_owned(),
                    candidates: names.join(", "),
                })
            }
        }
    }

    /// Takes over from `before` the kinds whose group could not be asked now. A group that is down
    /// for a moment therefore loses no kinds.
    pub(super) fn keep_unanswered(&mut self, before: &Self) {
        for (kind, resource) in &before.resources {
            if self.failure(kind).is_some() && !self.resources.contains_key(kind) {
                self.resources.insert(kind.clone(), resource.clone());
                let name = (kind.group.clone(), kind.kind.clone());
                if before.preferred.get(&name) == Some(kind) {
                    self.preferred.entry(name).or_insert_with(|| kind.clone());
                }
            }
        }
    }

    /// Why the part of the server that would know the kind did not answer, if that is so.
    fn failure(&self, kind: &Kind) -> Option<String> {
        let root = if kind.group.is_empty() {
            "/api"
        } else {
            "/apis"
        };
        let api_version = kind.api_version();
        let failure = self
            .failures
            .iter()
            .find(|(who, _)| *who == root || *who == api_version);
        failure.map(|(who, cause)| format!("{who} could not be asked: {cause}"))
    }

    /// The error for a kind that was not found. It names the served versions of the kind, or else a
    /// kind with a similar name.
    pub(super) fn absence(&self, kind: &Kind) -> DiscoveryError {
        if let Some(cause) = self.failure(kind) {
            return DiscoveryError::Unanswered {
                kind: kind.clone(),
                cause,
            };
        }
        let served = self
            .resources
            .keys()
            .filter(|have| have.group == kind.group && have.kind == kind.kind);
        let mut versions: Vec<String> = served.map(Kind::api_version).collect();
        versions.sort();
        let hint = if !versions.is_empty() {
            format!("; it serves {} as {}", kind.kind, versions.join(", "))
        } else if let Some(close) = self.closest(kind) {
            format!("; did you mean {close}?")
        } else {
            String::new()
        };
        DiscoveryError::UnknownKind {
            kind: kind.clone(),
            hint,
        }
    }

    /// The most similar kind: the same name in another group, a plural given instead of the kind,
    /// another case, or a typing error.
    fn closest(&self, kind: &Kind) -> Option<String> {
        let wanted = kind.kind.to_lowercase();
        let distance = |resource: &Resource| {
            let is_plural = resource.plural == wanted;
            let distance = strsim::damerau_levenshtein(&resource.kind.kind.to_lowercase(), &wanted);
            let elsewhere = usize::from(resource.kind.group != kind.group);
            let limit = (wanted.len() / 4).clamp(1, 3);
            (is_plural || distance <= limit)
                .then_some((if is_plural { 0 } else { distance }, elsewhere))
        };
        let candidates = self
            .resources
            .values()
            .filter_map(|resource| Some((distance(resource)?, resource.kind.to_string())));
        candidates.min().map(|(_, name)| name)
    }
}
