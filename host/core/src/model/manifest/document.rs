//! A manifest as the JSON document that a guest's `describe` returns. `wit/manifest.schema.json`
//! is its schema for authors and their editors.
//!
//! An unknown member is refused by name, and a missing one has its default. Therefore members can
//! be added to the contract without breaking the plugins that do not know them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, de};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{
    IndexDeclaration, Limits, Manifest, ManifestError, ReadDeclaration, Selection, Verb,
    WriteDeclaration,
};
use crate::model::key::Kind;
use crate::model::selector::LabelSelector;
use crate::model::text::cut;

/// The maximum number of bytes of an error: it may repeat names of the document.
const ERROR_BYTES: usize = 300;

/// Reads the document. What its values mean is checked by [`Manifest::validate`].
pub(super) fn parse(json: &str) -> Result<Manifest, ManifestError> {
    let mut reader = serde_json::Deserializer::from_str(json);
    let document: Document = serde_path_to_error::deserialize(&mut reader)
        .map_err(|error| ManifestError::Document(cut(&shown(&error), ERROR_BYTES)))?;
    reader
        .end()
        .map_err(|error| ManifestError::Document(error.to_string()))?;
    document.manifest()
}

/// The error with the member that it is about, `reads[1].kind: …`. Where in the text that is (`at
/// line 1 column 532`) says something only if the text is no JSON.
fn shown(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    let text = error.inner().to_string();
    let text = match error.inner().is_data() {
        true => text
            .rsplit_once(" at line ")
            .map_or(&*text, |(text, _)| text),
        false => &text,
    };
    match error.path().to_string().as_str() {
        "." => text.to_owned(),
        path => format!("{path}: {text}"),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document<'a> {
    name: String,
    version: String,
    #[serde(default)]
    reconciles: Vec<Reconciled>,
    #[serde(default)]
    singleton: bool,
    #[serde(default)]
    reads: Vec<Reads>,
    #[serde(default)]
    indexes: Vec<Index>,
    #[serde(default)]
    writes: Vec<Writes>,
    #[serde(default)]
    limits: LimitsDocument,
    #[serde(borrow, default)]
    config_schema: Option<&'a RawValue>,
    /// What a `call` action asks. No host offers it yet.
    #[serde(default)]
    sources: Vec<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Reconciled {
    #[serde(deserialize_with = "kind")]
    kind: Kind,
    #[serde(default, deserialize_with = "labels")]
    labels: LabelSelector,
    #[serde(default)]
    field_selector: Option<String>,
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default, deserialize_with = "kinds")]
    also_enqueued_by: Vec<Kind>,
    #[serde(default)]
    optional: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Reads {
    #[serde(deserialize_with = "kind")]
    kind: Kind,
    #[serde(default)]
    fields: Vec<String>,
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default, deserialize_with = "labels")]
    labels: LabelSelector,
    #[serde(default)]
    field_selector: Option<String>,
    #[serde(default, deserialize_with = "kinds")]
    except: Vec<Kind>,
    #[serde(default)]
    optional: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Index {
    name: String,
    #[serde(deserialize_with = "kind")]
    kind: Kind,
    paths: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Writes {
    #[serde(deserialize_with = "kind")]
    kind: Kind,
    #[serde(default)]
    subresource: Option<String>,
    verbs: Vec<Verb>,
    #[serde(default)]
    children: bool,
    #[serde(default)]
    optional: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct LimitsDocument {
    memory_bytes: Option<u64>,
    fuel: Option<u64>,
    timeout_milliseconds: Option<u64>,
    concurrency: Option<u32>,
}

impl Document<'_> {
    fn manifest(self) -> Result<Manifest, ManifestError> {
        if !self.sources.is_empty() {
            return Err(ManifestError::Sources);
        }
        Ok(Manifest {
            optional: self.optional()?,
            reconciles: reconciles(self.reconciles, self.singleton)?,
            name: self.name,
            version: self.version,
            reads: self.reads.into_iter().map(Into::into).collect(),
            indexes: self.indexes.into_iter().map(Into::into).collect(),
            writes: self.writes.into_iter().map(Into::into).collect(),
            limits: self.limits.into(),
            config_schema: self.config_schema.map(|schema| schema.get().to_owned()),
        })
    }
}

impl Document<'_> {
    /// The kinds that are said to be optional, which must be so in all places.
    fn optional(&self) -> Result<BTreeSet<Kind>, ManifestError> {
        let reconciles = self.reconciles.iter();
        let reconciles = reconciles.map(|it| (&it.kind, it.optional));
        let reads = self.reads.iter().map(|it| (&it.kind, it.optional));
        let writes = self.writes.iter().map(|it| (&it.kind, it.optional));
        let all = reconciles.chain(reads).chain(writes);
        let (optional, others): (Vec<_>, Vec<_>) = all.partition(|(_, is_optional)| *is_optional);
        let optional: BTreeSet<Kind> = optional.into_iter().map(|(kind, _)| kind.clone()).collect();
        match others.iter().find(|(kind, _)| optional.contains(*kind)) {
            Some((kind, _)) => Err(ManifestError::OptionalInPart((*kind).clone())),
            None => Ok(optional),
        }
    }
}

/// The keys that the plugin reconciles, which must be said in exactly one way.
fn reconciles(
    reconciles: Vec<Reconciled>,
    singleton: bool,
) -> Result<Vec<Selection>, ManifestError> {
    if reconciles.is_empty() == singleton {
        return Ok(reconciles.into_iter().map(Into::into).collect());
    }
    Err(ManifestError::Reconciles)
}

impl From<Reconciled> for Selection {
    fn from(reconciled: Reconciled) -> Self {
        Self {
            kind: reconciled.kind,
            labels: reconciled.labels,
            fields: reconciled.field_selector,
            namespaces: reconciled.namespaces,
            companions: reconciled.also_enqueued_by,
        }
    }
}

impl From<Reads> for ReadDeclaration {
    fn from(reads: Reads) -> Self {
        Self {
            kind: reads.kind,
            fields: reads.fields,
            namespaces: reads.namespaces,
            labels: reads.labels,
            field_selector: reads.field_selector,
            except: reads.except,
        }
    }
}

impl From<Index> for IndexDeclaration {
    fn from(index: Index) -> Self {
        Self {
            name: index.name,
            kind: index.kind,
            paths: index.paths,
        }
    }
}

impl From<Writes> for WriteDeclaration {
    fn from(writes: Writes) -> Self {
        Self {
            kind: writes.kind,
            subresource: writes.subresource,
            verbs: writes.verbs,
            children: writes.children,
        }
    }
}

impl From<LimitsDocument> for Limits {
    fn from(limits: LimitsDocument) -> Self {
        Self {
            memory_bytes: limits.memory_bytes,
            fuel: limits.fuel,
            timeout: limits.timeout_milliseconds.map(Duration::from_millis),
            concurrency: limits.concurrency,
        }
    }
}

/// A kind as `apps/v1/Deployment`.
fn kind<'de, D: Deserializer<'de>>(document: D) -> Result<Kind, D::Error> {
    Cow::<str>::deserialize(document)?
        .parse()
        .map_err(de::Error::custom)
}

fn kinds<'de, D: Deserializer<'de>>(document: D) -> Result<Vec<Kind>, D::Error> {
    let texts = Vec::<String>::deserialize(document)?.into_iter();
    let kinds = texts.map(|text| text.parse().map_err(de::Error::custom));
    kinds.collect()
}

/// A label selector: a text in kubectl's form, or a LabelSelector.
fn labels<'de, D: Deserializer<'de>>(document: D) -> Result<LabelSelector, D::Error> {
    let selector = match Value::deserialize(document)? {
        Value::String(text) => LabelSelector::parse(&text),
        value => LabelSelector::parse(&value.to_string()),
    };
    selector.map_err(de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"{
        "name": "p", "version": "1.0.0",
        "reconciles": [{
            "kind": "v1/Service", "labels": "app=web,!canary", "fieldSelector": "type=ClusterIP",
            "namespaces": ["default"], "alsoEnqueuedBy": ["v1/Endpoints"]
        }, {"kind": "apps/v1/Deployment"}],
        "reads": [
            {"kind": "v1/Service", "fields": [".spec"]},
            {"kind": "v1/Endpoints"},
            {"kind": "v1/Pod", "namespaces": ["a"], "labels": {"matchLabels": {"app": "web"}},
             "fieldSelector": "spec.nodeName=n"},
            {"kind": "apps/v1/Deployment", "fields": [".spec"]}
        ],
        "indexes": [{"name": "node", "kind": "v1/Pod", "paths": [".spec.nodeName"]}],
        "writes": [
            {"kind": "v1/Endpoints", "verbs": ["apply", "delete"], "children": true},
            {"kind": "apps/v1/Deployment", "subresource": "status", "verbs": ["patch"]}
        ],
        "limits": {"memoryBytes": 1, "fuel": 2, "timeoutMilliseconds": 3, "concurrency": 4},
        "configSchema": {"type": "object"}
    }"#;

    fn error(json: &str) -> String {
        parse(json).unwrap_err().to_string()
    }

    #[test]
    fn every_member_of_the_document_is_read() {
        let manifest = parse(WHOLE).unwrap();
        assert_eq!(manifest.validate(), Ok(()));
        let [selection, other] = &*manifest.reconciles else {
            panic!("{manifest:?}");
        };
        assert_eq!(other.kind, Kind::new("apps", "v1", "Deployment"));
        assert!(other.companions.is_empty());
        assert_eq!(selection.kind, Kind::new("", "v1", "Service"));
        assert_eq!(selection.labels.to_string(), "app=web,!canary");
        assert_eq!(selection.fields.as_deref(), Some("type=ClusterIP"));
        assert_eq!(selection.namespaces, ["default"]);
        assert_eq!(selection.companions, [Kind::new("", "v1", "Endpoints")]);
        assert_eq!(manifest.reads[0].fields, [".spec"]);
        assert_eq!(manifest.reads[2].labels.to_string(), "app=web");
        assert_eq!(
            manifest.reads[2].field_selector.as_deref(),
            Some("spec.nodeName=n")
        );
        assert_eq!(manifest.indexes[0].paths, [".spec.nodeName"]);
        assert_eq!(manifest.writes[0].verbs, [Verb::Apply, Verb::Delete]);
        assert!(manifest.writes[0].children && !manifest.writes[1].children);
        assert_eq!(
            manifest.writes[1].kind,
            Kind::new("apps", "v1", "Deployment")
        );
        assert_eq!(manifest.writes[1].subresource.as_deref(), Some("status"));
        assert_eq!(manifest.limits.memory_bytes, Some(1));
        assert_eq!(manifest.limits.fuel, Some(2));
        assert_eq!(manifest.limits.timeout, Some(Duration::from_millis(3)));
        assert_eq!(manifest.limits.concurrency, Some(4));
        assert_eq!(
            manifest.config_schema.as_deref(),
            Some(r#"{"type": "object"}"#)
        );
    }

    #[test]
    fn missing_members_have_their_defaults() {
        let manifest = parse(r#"{"name": "p", "version": "1", "singleton": true}"#).unwrap();
        assert!(manifest.reconciles.is_empty());
        assert!(manifest.reads.is_empty() && manifest.writes.is_empty());
        assert_eq!(manifest.limits, Limits::default());
        assert_eq!(manifest.config_schema, None);
    }

    #[test]
    fn an_unknown_member_is_refused_by_its_name_and_place() {
        let misspelt = WHOLE.replace("\"fieldSelector\": \"spec", "\"fields-selector\": \"spec");
        let error = error(&misspelt);
        assert!(
            error.starts_with("reads[2].fields-selector: unknown field `fields-selector`"),
            "{error}"
        );
        assert!(error.contains("`fieldSelector`"), "{error}");
    }

    #[test]
    fn a_wrong_value_is_refused_with_its_place() {
        for (from, to, wanted) in [
            (
                "v1/Pod\", \"namespaces",
                "Pod\", \"namespaces",
                "reads[2].kind: \"Pod\" is not a kind",
            ),
            (
                "app=web,",
                "app=web,,",
                "reconciles[0].labels: label selector",
            ),
            (
                "\"patch\"",
                "\"watch\"",
                "writes[1].verbs[0]: unknown variant `watch`",
            ),
            ("\"fuel\": 2", "\"fuel\": -2", "limits.fuel: invalid value"),
            (
                "[\"v1/Endpoints\"]",
                "[\"Endpoints\"]",
                "reconciles[0].alsoEnqueuedBy",
            ),
        ] {
            let error = error(&WHOLE.replacen(from, to, 1));
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn a_kind_is_optional_wherever_it_stands_or_nowhere() {
        let once = WHOLE.replacen(
            "{\"kind\": \"v1/Endpoints\"}",
            "{\"kind\": \"v1/Endpoints\", \"optional\": true}",
            1,
        );
        let text = error(&once);
        assert!(
            text.starts_with("v1/Endpoints is optional in one place"),
            "{text}"
        );
        let everywhere = once.replacen(
            "\"children\": true",
            "\"children\": true, \"optional\": true",
            1,
        );
        let optional = parse(&everywhere).unwrap().optional;
        assert_eq!(optional, [Kind::new("", "v1", "Endpoints")].into());
        assert!(parse(WHOLE).unwrap().optional.is_empty());
    }

    #[test]
    fn a_plugin_reconciles_objects_or_is_a_singleton() {
        let neither = error(r#"{"name": "p", "version": "1"}"#);
        let both = error(&WHOLE.replacen("\"reads\"", "\"singleton\": true, \"reads\"", 1));
        assert_eq!(neither, both);
        assert!(
            neither.contains("either `reconciles` or `\"singleton\": true`"),
            "{neither}"
        );
    }

    #[test]
    fn a_document_that_is_no_json_or_goes_on_is_refused() {
        assert!(error("").contains("EOF"), "{}", error(""));
        assert!(error(&format!("{WHOLE}x")).contains("trailing characters"));
        let nested = format!("{{\"name\": {}1{}}}", "[".repeat(200), "]".repeat(200));
        assert!(error(&nested).len() < 400);
    }
}
