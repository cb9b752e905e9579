//! Records what a manifest asks for, so that the host can tell whether a later version of the
//! plugin asks for more.
//!
//! More means: a further kind to read; a further field of it, or whole objects instead of fields;
//! objects that a namespace or a selector excluded; the values of Secrets; a further kind to write,
//! a subresource of it, or a verb. The fields of an index and of the subject's selector count as
//! read.
//!
//! What no grant covers does not count as more: another version of an API (a [`KindName`] has
//! none), the subject and its companions (which are reads), `children` (which need apply and
//! delete), names of indexes, limits, and the configuration's schema. Events are not in a manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::access::grants::KindName;
use crate::model::fields::FieldPath;
use crate::model::key::Kind;
use crate::model::manifest::{Manifest, ReadDeclaration, Verb, WriteDeclaration};

/// What one or several manifests ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Wants {
    #[serde(default)]
    reads: BTreeSet<ReadWanted>,
    #[serde(default)]
    writes: BTreeSet<WriteWanted>,
    #[serde(default)]
    secret_values: bool,
}

/// Reads of a kind, and how much of each object they cover.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct ReadWanted {
    kind: KindName,
    /// Field paths. Empty means whole objects.
    fields: BTreeSet<String>,
    /// Empty means all.
    namespaces: BTreeSet<String>,
    /// Conditions on labels, all of which must hold.
    labels: BTreeSet<String>,
    /// Conditions on fields, all of which must hold.
    selected: BTreeSet<String>,
    /// Kinds of a pattern that are left out.
    #[serde(default)]
    except: BTreeSet<KindName>,
}

/// Writes of a kind, or of one of its subresources.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct WriteWanted {
    kind: KindName,
    subresource: Option<String>,
    verb: Verb,
}

impl Wants {
    /// What this manifest asks for. The manifest must be valid.
    pub fn of(manifest: &Manifest) -> Self {
        let reads = manifest.reads.iter();
        Self {
            reads: reads.map(|read| ReadWanted::of(manifest, read)).collect(),
            writes: manifest.writes.iter().flat_map(WriteWanted::of).collect(),
            secret_values: reads_secret_values(manifest),
        }
    }

    /// What is asked for here but not in `accepted`, each as a line of text. Empty if nothing is.
    pub fn beyond(&self, accepted: &Self) -> Vec<String> {
        let reads = self.reads.iter();
        let mut more: Vec<String> = reads
            .filter_map(|read| read.beyond(&accepted.reads))
            .collect();
        if self.secret_values && !accepted.secret_values {
            more.push("read the values of Secrets".to_owned());
        }
        let writes = self.writes.difference(&accepted.writes);
        more.extend(writes.map(WriteWanted::to_string));
        more
    }

    /// Adds what another manifest asks for.
    pub fn join(&mut self, other: &Self) {
        self.reads.extend(other.reads.iter().cloned());
        self.writes.extend(other.writes.iter().cloned());
        self.secret_values |= other.secret_values;
    }
}

impl ReadWanted {
    fn of(manifest: &Manifest, read: &ReadDeclaration) -> Self {
        let mut fields: BTreeSet<String> = read.fields.iter().cloned().collect();
        // Whole objects include the indexed fields already.
        if !fields.is_empty() {
            fields.extend(found_by(manifest, &read.kind));
        }
        let labels = read.labels.requirements.iter();
        let selector = read.field_selector.as_deref().unwrap_or_default();
        Self {
            kind: KindName::of(&read.kind),
            fields,
            namespaces: read.namespaces.iter().cloned().collect(),
            labels: labels.map(ToString::to_string).collect(),
            selected: terms(selector).map(str::to_owned).collect(),
            except: read.except.iter().map(KindName::of).collect(),
        }
    }

    /// The part of this read that none of the accepted reads covers. Each field is checked in each
    /// namespace, because one accepted read may cover it here and another there.
    fn beyond(&self, accepted: &BTreeSet<Self>) -> Option<String> {
        let is_wider = |other: &&Self| {
            other.kind == self.kind
                && other.labels.is_subset(&self.labels)
                && other.selected.is_subset(&self.selected)
                && other.except.is_subset(&self.except)
        };
        let wider = accepted.iter().filter(is_wider);
        let wider: Vec<(&Self, Vec<FieldPath>)> =
            wider.map(|other| (other, other.paths())).collect();
        let mut missing: BTreeMap<Option<&str>, BTreeSet<Option<&str>>> = BTreeMap::new();
        for field in each(&self.fields) {
            let path = field.and_then(|field| FieldPath::parse(field).ok());
            let has_field = |(other, paths): &&(&Self, Vec<FieldPath>)| {
                let is_part = |path| paths.iter().any(|held: &FieldPath| held.holds(path));
                other.fields.is_empty() || path.as_ref().is_some_and(is_part)
            };
            let with_field: Vec<_> = wider.iter().filter(has_field).collect();
            for namespace in each(&self.namespaces) {
                let mut with_field = with_field.iter();
                if !with_field.any(|(other, _)| other.has_namespace(namespace)) {
                    missing.entry(field).or_default().insert(namespace);
                }
            }
        }
        if missing.is_empty() {
            return None;
        }
        let fields: Vec<&str> = missing.keys().copied().flatten().collect();
        let fields = match fields.is_empty() {
            true => "whole objects".to_owned(),
            false => fields.join(" "),
        };
        let namespaces: BTreeSet<&str> = missing.values().flatten().copied().flatten().collect();
        let mut text = format!("read {}: {fields}", self.kind);
        if !namespaces.is_empty() {
            let namespaces: Vec<&str> = namespaces.into_iter().collect();
            text += &format!("; in {}", namespaces.join(", "));
        }
        let conditions = self.labels.iter().chain(&self.selected);
        let conditions: Vec<&str> = conditions.map(String::as_str).collect();
        if !conditions.is_empty() {
            text += &format!("; only {}", conditions.join(","));
        }
        if !self.except.is_empty() {
            let except: Vec<String> = self.except.iter().map(KindName::to_string).collect();
            text += &format!("; but {}", except.join(", "));
        }
        Some(text)
    }

    fn paths(&self) -> Vec<FieldPath> {
        let paths = self.fields.iter().map(|field| FieldPath::parse(field));
        paths.filter_map(Result::ok).collect()
    }

    fn has_namespace(&self, wanted: Option<&str>) -> bool {
        self.namespaces.is_empty() || wanted.is_some_and(|wanted| self.namespaces.contains(wanted))
    }
}

/// The members of a set. For an empty set, which means all, a single `None`.
fn each(set: &BTreeSet<String>) -> impl Iterator<Item = Option<&str>> {
    let all = set.is_empty().then_some(None);
    set.iter().map(|one| Some(one.as_str())).chain(all)
}

/// The fields by which objects of a kind can be found. A plugin that may ask for objects by a value
/// learns the value.
fn found_by(manifest: &Manifest, kind: &Kind) -> Vec<String> {
    let indexes = manifest.indexes.iter().filter(|index| index.kind == *kind);
    let mut paths: Vec<String> = indexes.flat_map(|index| index.paths.clone()).collect();
    let selection = manifest.selection_of(kind);
    let selected = selection.and_then(|selection| selection.fields.as_deref());
    paths.extend(selected.into_iter().flat_map(paths_of));
    paths
}

/// The conditions of a field selector.
fn terms(selector: &str) -> impl Iterator<Item = &str> {
    selector.split(',').filter(|term| !term.is_empty())
}

/// The paths of the fields in a field selector. The selector names them without the first dot, and
/// each condition ends with a value.
fn paths_of(selector: &str) -> Vec<String> {
    let names = terms(selector).filter_map(|term| term.split(['=', '!']).next());
    names.map(|name| format!(".{}", name.trim())).collect()
}

/// True if a manifest asks for the values of Secrets, by whatever way: a path to them, a path that
/// may lead anywhere, an index or a selector.
pub fn reads_secret_values(manifest: &Manifest) -> bool {
    let is_value = |path: &String| {
        let path = FieldPath::parse(path).ok();
        let root = path.as_ref().and_then(FieldPath::root);
        root.is_none_or(|root| matches!(root, "data" | "stringData"))
    };
    let mut reads = manifest.reads.iter().filter(|read| read.kind.is_secret());
    reads.any(|read| {
        let selector = read.field_selector.as_deref().unwrap_or_default();
        read.fields.is_empty()
            || read.fields.iter().any(is_value)
            || found_by(manifest, &read.kind).iter().any(is_value)
            || paths_of(selector).iter().any(is_value)
    })
}

impl WriteWanted {
    fn of(write: &WriteDeclaration) -> impl Iterator<Item = Self> {
        write.verbs.iter().map(|verb| Self {
            kind: KindName::of(&write.kind),
            subresource: write.subresource.clone(),
            verb: *verb,
        })
    }
}

impl fmt::Display for WriteWanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb.as_str(), self.kind)?;
        match &self.subresource {
            Some(subresource) => write!(f, "/{subresource}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
