//! The objects that the controllers read, as text, with indexes by label and by owner.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{DynamicObject, Selector, SelectorExt};
use pilothouse_sdk::{Filter, Host, Level, ObjectRef, Query, ReadError, ServedKind};

/// Namespace and name.
type Name = (String, String);

#[derive(Default)]
pub struct Caches(HashMap<&'static str, Cache>);

#[derive(Default)]
struct Cache {
    objects: BTreeMap<Name, Cached>,
    by_label: HashMap<(String, String), BTreeSet<Name>>,
    by_owner: HashMap<String, BTreeSet<Name>>,
}

struct Cached {
    text: Box<str>,
    version: String,
    labels: BTreeMap<String, String>,
    owners: Vec<String>,
}

impl Caches {
    pub fn change(
        &mut self,
        kind: &'static str,
        object: DynamicObject,
        is_gone: bool,
    ) -> Result<()> {
        let cache = self.0.entry(kind).or_default();
        let metadata = &object.metadata;
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let name = (namespace, metadata.name.clone().unwrap_or_default());
        cache.remove(&name);
        if !is_gone {
            cache.insert(name, object)?;
        }
        Ok(())
    }

    pub fn get(&self, object: &ObjectRef) -> Option<&str> {
        self.find(object).map(|cached| cached.text.as_ref())
    }

    pub fn version(&self, object: &ObjectRef) -> Option<&str> {
        self.find(object).map(|cached| cached.version.as_str())
    }

    fn find(&self, object: &ObjectRef) -> Option<&Cached> {
        let name = (object.namespace.clone(), object.name.clone());
        self.0.get(object.kind.as_str())?.objects.get(&name)
    }
}

impl Cache {
    fn insert(&mut self, name: Name, mut object: DynamicObject) -> Result<()> {
        object.metadata.managed_fields = None;
        let text = serde_json::to_string(&object)?.into_boxed_str();
        let labels = object.metadata.labels.unwrap_or_default();
        for (label, value) in &labels {
            let names = self.by_label.entry((label.clone(), value.clone()));
            names.or_default().insert(name.clone());
        }
        let owners = object.metadata.owner_references.unwrap_or_default();
        let owners: Vec<String> = owners.into_iter().map(|owner| owner.uid).collect();
        for owner in &owners {
            let names = self.by_owner.entry(owner.clone());
            names.or_default().insert(name.clone());
        }
        let version = object.metadata.resource_version.unwrap_or_default();
        let cached = Cached {
            text,
            version,
            labels,
            owners,
        };
        self.objects.insert(name, cached);
        Ok(())
    }

    fn remove(&mut self, name: &Name) {
        let Some(cached) = self.objects.remove(name) else {
            return;
        };
        for label in cached.labels {
            take(&mut self.by_label, &label, name);
        }
        for owner in cached.owners {
            take(&mut self.by_owner, &owner, name);
        }
    }

    /// The texts of the objects that match.
    fn list(&self, namespace: Option<&str>, filter: &Filter) -> Vec<&str> {
        let is_in = |name: &Name| namespace.is_none_or(|namespace| name.0 == namespace);
        let found: Vec<&Cached> = match filter {
            Filter::Everything => {
                let all = self.objects.iter();
                all.filter(|(name, _)| is_in(name))
                    .map(|(_, cached)| cached)
                    .collect()
            }
            Filter::Index(index) => self.named(self.by_owner.get(&index.value), is_in).collect(),
            Filter::Labels(selector) => {
                let selector: LabelSelector =
                    serde_json::from_str(selector).expect("the plugins ask by LabelSelectors");
                let labels = selector.match_labels.as_ref();
                let one = labels.and_then(BTreeMap::first_key_value);
                let (label, value) = one.expect("the benchmark's selectors name a label");
                let names = self.by_label.get(&(label.clone(), value.clone()));
                let selector = Selector::try_from(selector).expect("it is a selector");
                let found = self.named(names, is_in);
                found
                    .filter(|cached| selector.matches(&cached.labels))
                    .collect()
            }
        };
        found
            .into_iter()
            .map(|cached| cached.text.as_ref())
            .collect()
    }

    fn named<'a>(
        &'a self,
        names: Option<&'a BTreeSet<Name>>,
        is_in: impl Fn(&Name) -> bool,
    ) -> impl Iterator<Item = &'a Cached> {
        let names = names.into_iter().flatten().filter(move |name| is_in(name));
        names.filter_map(|name| self.objects.get(name))
    }
}

fn take<K: Eq + std::hash::Hash>(index: &mut HashMap<K, BTreeSet<Name>>, key: &K, name: &Name) {
    if let Some(names) = index.get_mut(key) {
        names.remove(name);
        if names.is_empty() {
            index.remove(key);
        }
    }
}

/// The caches during one reconcile.
pub struct View<'a> {
    pub caches: &'a Caches,
    pub now: Duration,
}

impl Host for View<'_> {
    fn get_json(&self, object: &ObjectRef) -> Result<Option<String>, ReadError> {
        Ok(self.caches.get(object).map(str::to_owned))
    }

    fn list_json(&self, query: &Query) -> Result<String, ReadError> {
        let cache = self.caches.0.get(query.kind.as_str());
        let found = cache.map(|cache| cache.list(query.namespace.as_deref(), &query.filter));
        Ok(format!("[{}]", found.unwrap_or_default().join(",\n")))
    }

    fn list_page_json(
        &self,
        _: &Query,
        _: Option<&ObjectRef>,
        _: u32,
    ) -> Result<String, ReadError> {
        unreachable!("neither controller reads in pages")
    }

    fn served_kinds(&self, _: &str) -> Result<Vec<ServedKind>, ReadError> {
        unreachable!("neither controller asks for kinds")
    }

    fn now(&self) -> Duration {
        self.now
    }

    fn log(&self, _: Level, _: &str, _: &[(&str, &str)]) {}
}
