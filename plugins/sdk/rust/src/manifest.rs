//! A plugin's [`Manifest`]: what it reconciles, reads and writes. The host gets it as JSON; each
//! member is documented in `wit/manifest.schema.json`.

mod selection;

use std::time::Duration;

use serde::{Serialize, Serializer};

/// What a plugin declares about itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// A DNS label, unique among the plugins of a host.
    pub name: String,
    /// The plugin's own version, for people.
    pub version: String,
    /// The objects whose keys it reconciles, each kind once. Empty for a singleton.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reconciles: Vec<Selection>,
    /// True: its only key stands for the whole cluster.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub singleton: bool,
    /// The kinds that it may read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<Read>,
    /// The indexes that the host keeps for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<Index>,
    /// The writes that it may ask for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<Write>,
    /// What it asks for beyond the host's defaults.
    #[serde(skip_serializing_if = "Limits::is_default")]
    pub limits: Limits,
    /// The JSON Schema of its configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_schema: Option<serde_json::Value>,
}

/// The objects of one kind, or of every kind of a pattern, that a plugin reconciles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Selection {
    /// The kind, as `apps/v1/Deployment`, or a pattern that the plugin reads, as `*`. Of a pattern,
    /// labels and namespaces are all that selects.
    pub kind: String,
    /// The plugin works without this kind.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// Only objects with these labels: a selector as kubectl writes it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub labels: String,
    /// Only objects that match this field selector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<String>,
    /// Only objects in these namespaces. Empty: all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Kinds whose objects have the namespace and name of a reconciled object.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also_enqueued_by: Vec<String>,
}

/// A kind that a plugin reads, how much of each object, and which objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Read {
    /// The kind, as `apps/v1/Deployment`.
    pub kind: String,
    /// The plugin works without this kind.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// The fields that the plugin sees. Empty: the whole object.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// Only objects in these namespaces. Empty: all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Only objects with these labels: a selector as kubectl writes it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub labels: String,
    /// Only objects that match this field selector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<String>,
    /// Kinds of a pattern that are not read by it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<String>,
}

/// A question that the host can answer without looking at every object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Index {
    /// Unique among the plugin's indexes of this kind.
    pub name: String,
    /// The kind, as `apps/v1/Deployment`.
    pub kind: String,
    /// Where the indexed values lie.
    pub paths: Vec<String>,
}

/// Writes to one kind, or to one of its subresources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Write {
    /// The kind, as `apps/v1/Deployment`.
    pub kind: String,
    /// The plugin works without this kind.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// `status`, `scale`, `eviction`, `binding`, …. `None`: the object itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subresource: Option<String>,
    /// The verbs that are asked for.
    pub verbs: Vec<Verb>,
    /// Objects of this kind can be members of a [`Children`](crate::Children) action.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub children: bool,
}

/// An operation on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the Kubernetes verbs")]
pub enum Verb {
    Apply,
    Create,
    Update,
    Patch,
    Delete,
    /// For [`DeleteAll`](crate::DeleteAll). The operator grants it by name only.
    DeleteCollection,
}

/// What a plugin asks for beyond the host's defaults. `None`: the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Bytes of linear memory for one reconcile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Fuel for one reconcile: about one for each wasm instruction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// CPU time for one reconcile.
    #[serde(
        rename = "timeoutMilliseconds",
        skip_serializing_if = "Option::is_none",
        serialize_with = "whole_milliseconds"
    )]
    pub timeout: Option<Duration>,
    /// Reconciles (of different keys) that may run at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
}

impl Limits {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

fn whole_milliseconds<S: Serializer>(
    timeout: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    timeout
        .map(crate::outcome::milliseconds)
        .serialize(serializer)
}

impl Manifest {
    /// A plugin with this name and version that reconciles these objects. It reads and writes
    /// nothing yet.
    ///
    /// The name is a DNS label, unique among the plugins of a host. After `pilothouse.dev/` it is
    /// also the field manager of the plugin's writes. The operator can change both. The version is
    /// for people: at most 64 printable ASCII characters.
    pub fn new(name: &str, version: &str, reconciles: Selection) -> Self {
        Self {
            reconciles: vec![reconciles],
            singleton: false,
            ..Self::singleton(name, version)
        }
    }

    /// A plugin with a single key, without an object, that stands for the whole cluster. Name and
    /// version are as in [`new`](Self::new).
    pub fn singleton(name: &str, version: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            reconciles: Vec::new(),
            singleton: true,
            reads: Vec::new(),
            indexes: Vec::new(),
            writes: Vec::new(),
            limits: Limits::default(),
            config_schema: None,
        }
    }

    /// Reconciles these objects, too, which are of another kind. The [`Request`](crate::Request)'s
    /// key says of which kind it is. Each kind is selected once.
    #[must_use]
    pub fn reconciles_also(mut self, selection: Selection) -> Self {
        self.reconciles.push(selection);
        self
    }

    /// Declares that the plugin reads these fields of this kind. List only those that it uses,
    /// because a change to another field then does not run a key. The namespace, name, uid and
    /// deletionTimestamp of an object are always visible, as far as it has them.
    #[must_use]
    pub fn reads<'a>(self, kind: &str, fields: impl IntoIterator<Item = &'a str>) -> Self {
        self.reads_only(Read::new(kind, fields))
    }

    /// Declares a [`Read`], which may be narrowed to namespaces or by selectors.
    #[must_use]
    pub fn reads_only(mut self, read: Read) -> Self {
        self.reads.push(read);
        self
    }

    /// Declares that the plugin reads whole objects of this kind.
    #[must_use]
    pub fn reads_whole(self, kind: &str) -> Self {
        self.reads(kind, [])
    }

    /// Declares an index of this kind by the values at these paths, for use with
    /// [`Filter::index`](crate::Filter::index). The plugin must read the kind.
    #[must_use]
    pub fn indexes<'a>(
        mut self,
        name: &str,
        kind: &str,
        paths: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        self.indexes.push(Index {
            name: name.to_owned(),
            kind: kind.to_owned(),
            paths: paths.into_iter().map(str::to_owned).collect(),
        });
        self
    }

    /// Declares that the plugin writes objects of this kind. [`Verb::Update`] replaces the whole
    /// object, so the plugin must then read the kind whole, or not at all.
    #[must_use]
    pub fn writes(self, kind: &str, verbs: impl IntoIterator<Item = Verb>) -> Self {
        self.declare_write(kind, None, verbs, false)
    }

    /// Declares that the plugin writes a subresource: `status`, `scale`, `eviction`, `binding`, ….
    #[must_use]
    pub fn writes_subresource(
        self,
        kind: &str,
        subresource: &str,
        verbs: impl IntoIterator<Item = Verb>,
    ) -> Self {
        self.declare_write(kind, Some(subresource), verbs, false)
    }

    /// Declares that objects of this kind may be members of a [`Children`](crate::Children) action.
    /// The host deletes those that are no longer members. The plugin must read the kind, without
    /// selectors.
    #[must_use]
    pub fn keeps_children(self, kind: &str) -> Self {
        self.declare_write(kind, None, [Verb::Apply, Verb::Delete], true)
    }

    /// Declares that the plugin works without this kind, of which it has declared before what it
    /// reconciles, reads and writes. While the cluster does not serve the kind, reads of it find
    /// nothing, and writes to it fail. When it comes or goes, every key runs again.
    ///
    /// # Panics
    ///
    /// Nothing has been declared of the kind.
    #[must_use]
    pub fn optional(mut self, kind: &str) -> Self {
        let selections = self.reconciles.iter_mut();
        let selections = selections.map(|one| (&*one.kind, &mut one.optional));
        let reads = self.reads.iter_mut();
        let reads = reads.map(|one| (&*one.kind, &mut one.optional));
        let writes = self.writes.iter_mut();
        let writes = writes.map(|one| (&*one.kind, &mut one.optional));
        let all = selections.chain(reads).chain(writes);
        let mut is_known = false;
        for (_, optional) in all.filter(|(declared, _)| *declared == kind) {
            *optional = true;
            is_known = true;
        }
        assert!(is_known, "{kind} is neither reconciled, read nor written");
        self
    }

    /// Asks for other limits than the host's defaults.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Limits the CPU time of one reconcile. Fuel is usually used up first; on the wall clock a
    /// reconcile may take ten times as long. The host's own maximum still applies.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.limits.timeout = Some(timeout);
        self
    }

    /// The JSON Schema of the plugin's configuration. The host passes only configurations that
    /// match it. Without a schema the plugin declares that it takes no configuration; if the
    /// operator has set one, it is passed unchecked.
    ///
    /// The schema is of draft 2020-12 unless `$schema` names another. It has at most 256 KiB, no
    /// references to other documents, and no patterns with look-around or back references.
    #[must_use]
    pub fn config_schema(mut self, schema: &serde_json::Value) -> Self {
        self.config_schema = Some(schema.clone());
        self
    }

    /// The document that the host is given.
    ///
    /// # Panics
    ///
    /// Never: all of a manifest has a JSON form.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a manifest has a JSON form")
    }

    fn declare_write(
        mut self,
        kind: &str,
        subresource: Option<&str>,
        verbs: impl IntoIterator<Item = Verb>,
        children: bool,
    ) -> Self {
        self.writes.push(Write {
            kind: kind.to_owned(),
            optional: false,
            subresource: subresource.map(str::to_owned),
            verbs: verbs.into_iter().collect(),
            children,
        });
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_document_has_what_was_declared_and_nothing_else() {
        let services = Selection::of("v1/Service")
            .labels("app=web")
            .labels("!canary")
            .also_enqueued_by("v1/Endpoints");
        let manifest = Manifest::new("p", "1.0.0", services)
            .reconciles_also(Selection::of("v1/Pod"))
            .reads("v1/Service", [".spec"])
            .reads_only(Read::new("v1/Pod", []).field_selector("spec.nodeName=a"))
            .indexes("node", "v1/Pod", [".spec.nodeName"])
            .keeps_children("v1/Endpoints")
            .writes_subresource("apps/v1/Deployment", "status", [Verb::Patch])
            .optional("v1/Pod")
            .timeout(Duration::from_secs(2));
        let document: serde_json::Value =
            serde_json::from_str(&manifest.to_json()).unwrap_or_default();
        assert_eq!(
            document,
            json!({
                "name": "p", "version": "1.0.0",
                "reconciles": [{
                    "kind": "v1/Service", "labels": "app=web,!canary",
                    "alsoEnqueuedBy": ["v1/Endpoints"],
                }, {"kind": "v1/Pod", "optional": true}],
                "reads": [
                    {"kind": "v1/Service", "fields": [".spec"]},
                    {"kind": "v1/Pod", "optional": true, "fieldSelector": "spec.nodeName=a"},
                ],
                "indexes": [{"name": "node", "kind": "v1/Pod", "paths": [".spec.nodeName"]}],
                "writes": [
                    {"kind": "v1/Endpoints", "verbs": ["apply", "delete"], "children": true},
                    {"kind": "apps/v1/Deployment", "subresource": "status", "verbs": ["patch"]},
                ],
                "limits": {"timeoutMilliseconds": 2_000},
            })
        );
    }

    #[test]
    fn a_singleton_says_so() {
        let document = Manifest::singleton("p", "1").to_json();
        assert_eq!(document, r#"{"name":"p","version":"1","singleton":true}"#);
    }
}
