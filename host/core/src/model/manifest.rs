//! What a plugin declares about itself, checked once when it is loaded. The
//! meaning is documented in `wit/manifest.schema.json`.

mod document;
mod patterns;
mod texts;

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::fields::{FieldPath, FieldPathError};
use crate::model::key::Kind;
use crate::model::selector::{FieldSelector, FieldSelectorError, LabelSelector};
use crate::model::text::cut;

/// The reporter of the host's own Events. No plugin may have this name.
pub const HOST: &str = "pilothouse";

/// The maximum number of bytes of a configuration's schema. Schemas of real programs have some ten
/// thousand.
const CONFIG_SCHEMA_BYTES: usize = 256 << 10;

/// A plugin's declaration as the guest gave it.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The plugin's name: unique among the plugins of a host, and the field manager of its writes.
    pub name: String,
    /// The plugin's own version, for people.
    pub version: String,
    /// The objects whose keys it reconciles, each kind once. Empty for a singleton, whose only key
    /// stands for the whole cluster.
    pub reconciles: Vec<Selection>,
    /// The kinds that it may read, including those that it reconciles.
    pub reads: Vec<ReadDeclaration>,
    /// The indexes that the host keeps for it.
    pub indexes: Vec<IndexDeclaration>,
    /// The writes that it may ask for.
    pub writes: Vec<WriteDeclaration>,
    /// Limits that it asks for in place of the host's defaults.
    pub limits: Limits,
    /// A JSON Schema of its configuration.
    pub config_schema: Option<String>,
    /// The kinds that it works without. While the cluster does not serve such a kind, it is absent:
    /// reads of it find nothing, and writes to it fail.
    pub optional: BTreeSet<Kind>,
}

/// The objects of one kind, or of the kinds of a pattern, that a plugin reconciles.
#[derive(Clone, Debug)]
pub struct Selection {
    /// The kind of the objects; or a pattern of the reads, for the kinds that are read by it and
    /// those of it that are read by name and not reconciled so. Then `labels` and `namespaces` are
    /// all that selects.
    pub kind: Kind,
    /// Only objects with these labels.
    pub labels: LabelSelector,
    /// Only objects that match this field selector.
    pub fields: Option<String>,
    /// Only objects in these namespaces. Empty means all.
    pub namespaces: Vec<String>,
    /// Kinds whose objects have the same namespace and name as a subject.
    pub companions: Vec<Kind>,
}

/// A kind that a plugin reads, how much of each object, and which objects.
#[derive(Clone, Debug)]
pub struct ReadDeclaration {
    /// The kind, or a pattern: then `fields` are of metadata and spec, and nothing narrows the
    /// read.
    pub kind: Kind,
    /// Field paths, as text. Empty: the whole object.
    pub fields: Vec<String>,
    /// Only objects in these namespaces. Empty means all.
    pub namespaces: Vec<String>,
    /// Only objects with these labels.
    pub labels: LabelSelector,
    /// Only objects that match this field selector, in the server's syntax.
    pub field_selector: Option<String>,
    /// Kinds of a pattern, in every version, that are not read by it.
    pub except: Vec<Kind>,
}

impl ReadDeclaration {
    /// Reads every object of a kind, projected to these fields.
    pub fn new(kind: Kind, fields: Vec<String>) -> Self {
        Self {
            kind,
            fields,
            namespaces: Vec::new(),
            labels: LabelSelector::default(),
            field_selector: None,
            except: Vec::new(),
        }
    }

    /// True if selectors exclude objects.
    pub fn is_narrowed(&self) -> bool {
        self.labels != LabelSelector::default() || self.field_selector.is_some()
    }
}

/// An index over a kind.
#[derive(Clone, Debug)]
pub struct IndexDeclaration {
    /// Unique among the plugin's indexes of this kind.
    pub name: String,
    /// The indexed kind.
    pub kind: Kind,
    /// Paths to the indexed values, as text.
    pub paths: Vec<String>,
}

/// Writes to one kind, or to one of its subresources.
#[derive(Clone, Debug)]
pub struct WriteDeclaration {
    /// The kind.
    pub kind: Kind,
    /// `status`, `scale`, …; `None` for the object itself.
    pub subresource: Option<String>,
    /// The verbs that are asked for.
    pub verbs: Vec<Verb>,
    /// Whether objects of this kind may be members of a `children` action.
    pub children: bool,
}

/// An operation on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the Kubernetes verbs")]
pub enum Verb {
    Apply,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    /// Every verb.
    pub const ALL: [Self; 6] = [
        Self::Apply,
        Self::Create,
        Self::Update,
        Self::Patch,
        Self::Delete,
        Self::DeleteCollection,
    ];

    /// The verb as it is spelled in manifests and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "apply",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    /// True if only a grant that lists the verb grants it, and not one of all that is requested:
    /// one action with it can delete everything of a kind.
    pub fn is_granted_by_name_only(self) -> bool {
        self == Self::DeleteCollection
    }
}

/// Limits of one plugin. `None` means the host's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of linear memory for one reconcile.
    pub memory_bytes: Option<u64>,
    /// Fuel for one reconcile.
    pub fuel: Option<u64>,
    /// CPU time for one reconcile.
    pub timeout: Option<Duration>,
    /// Reconciles that may run at the same time.
    pub concurrency: Option<u32>,
}

/// An error in a manifest.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ManifestError {
    /// The document is not JSON, or has a member that is unknown or of a wrong type.
    #[error("{0}")]
    Document(String),
    /// It is not clear which keys the plugin reconciles.
    #[error("give either `reconciles` or `\"singleton\": true`, and not both")]
    Reconciles,
    /// A kind is reconciled twice.
    #[error(
        "reconciles: {0} is declared twice, or in two versions; an object has one key, so select all objects of a kind in one entry"
    )]
    ReconcilesTwice(Kind),
    /// The plugin wants to make calls.
    #[error("sources: this host offers no calls; leave it out")]
    Sources,
    /// A kind is optional in one place and not in another.
    #[error(
        "{0} is optional in one place of the manifest and not in another: say `\"optional\": true` wherever it is reconciled, read or written, or nowhere"
    )]
    OptionalInPart(Kind),
    /// The name is not a DNS label.
    #[error(
        "name {0:?} is not a DNS label (a-z, 0-9 and '-', at most 63 characters, starting and ending with a letter or digit)"
    )]
    Name(String),
    /// The name is the host's own.
    #[error("the name {HOST:?} is the host's own; choose another")]
    ReservedName,
    /// A text is too long, or has the wrong syntax.
    #[error("{place}: {text:?} is not {wanted}")]
    Text {
        /// The part of the manifest that contains it.
        place: &'static str,
        /// Its beginning.
        text: String,
        /// The syntax that it should have.
        wanted: &'static str,
    },
    /// The manifest does not read a reconciled kind, a companion, an indexed kind or a `children`
    /// kind.
    #[error("{0} {1} is not among the manifest's reads; add it there")]
    NotRead(&'static str, Kind),
    /// A kind is declared twice in the reads.
    #[error("{0} is declared twice in reads; one declaration lists all its fields")]
    ReadTwice(Kind),
    /// An index is declared twice.
    #[error("index {0:?} of {1} is declared twice")]
    IndexTwice(String, Kind),
    /// An index has no path.
    #[error("index {0:?} of {1} has no path")]
    IndexWithoutPath(String, Kind),
    /// The path of an index would select nearly everything in an object.
    #[error(
        "index {0:?} of {1}: {2:?} has more than {MAX_BRANCHINGS} [*]; each multiplies what is indexed of an object"
    )]
    IndexOfAll(String, Kind, String),
    /// A field path cannot be parsed.
    #[error(transparent)]
    Path(#[from] FieldPathError),
    /// The field selector cannot be parsed.
    #[error("field selector: {0}")]
    FieldSelector(#[from] FieldSelectorError),
    /// A `children` kind lacks a verb.
    #[error(
        "writes: {0} is marked children, which needs the verbs apply and delete on the object itself"
    )]
    ChildrenVerbs(Kind),
    /// The manifest declares more than the host is prepared to maintain.
    #[error("{count} {what}; a manifest has at most {max}")]
    TooMany {
        /// The things that are too many.
        what: &'static str,
        /// Their number.
        count: usize,
        /// The maximum.
        max: usize,
    },
    /// The configuration's schema is not JSON.
    #[error("configSchema is not JSON: {0}")]
    ConfigSchema(String),
    /// The configuration's schema is JSON of another type.
    #[error("configSchema is not a schema: write an object, or a boolean")]
    ConfigSchemaType,
    /// A `children` kind is narrowed by selectors, but children are found by listing all objects
    /// that have their label.
    #[error(
        "reads: {0} has children among the writes, so it cannot be narrowed by labels or fields"
    )]
    NarrowedChildren(Kind),
    /// An update would remove the fields that the plugin's view leaves out.
    #[error(
        "writes: update of {0} replaces the whole object, but the manifest reads only some fields of it: read it whole (no fields), or write it with patch or apply"
    )]
    PartialUpdate(Kind),
    /// A pattern stands where only a kind can.
    #[error("{0} {1}: a pattern cannot stand here; name a kind")]
    Pattern(&'static str, Kind),
    /// A pattern reads more than metadata and spec.
    #[error(
        "reads: {0} reads metadata and spec alone: give it fields below .metadata or .spec, and no namespaces or selectors"
    )]
    PatternOfMore(Kind),
    /// A pattern's keys are selected by more than metadata.
    #[error(
        "reconciles: the keys of {0} are selected by labels and namespaces alone; leave out fieldSelector and alsoEnqueuedBy"
    )]
    PatternSelected(Kind),
    /// A read leaves out what is no kind of its pattern.
    #[error("reads: {0} cannot leave out {1}: name kinds that the pattern includes")]
    NoException(Kind, Kind),
    /// An index over a pattern is of more than metadata.
    #[error("index {0:?} of {1}: a pattern is indexed by paths below .metadata alone")]
    PatternIndex(String, Kind),
    /// One pattern includes the other.
    #[error("reads: {0} includes {1}; declare one of them")]
    PatternTwice(Kind, Kind),
    /// A write that cannot be asked for of a pattern.
    #[error(
        "writes: of {0} only patch, delete and deletecollection of the object itself can be asked for; name the kind for others"
    )]
    PatternWrite(Kind),
    /// A limit is zero.
    #[error("limits: {0} must be more than 0")]
    ZeroLimit(&'static str),
}

/// The maximum number of `[*]` in the path of an index.
const MAX_BRANCHINGS: usize = 2;

/// The maximum length of a label selector as the API server is sent it. It is in the URI of every
/// list and watch, and in the labels of metrics.
const SELECTOR_BYTES: usize = 4 << 10;

/// True if `name` is a DNS label (RFC 1123).
pub fn is_dns_label(name: &str) -> bool {
    texts::is_dns_label(name)
}

/// True if `name` is what the API calls a qualified name, such as the key of a label: letters,
/// digits, `-`, `_` and `.`, at most 63 characters, with a DNS subdomain and `/` before it or
/// without.
pub fn is_qualified_name(name: &str) -> bool {
    texts::is_qualified_name(name)
}

impl Manifest {
    /// Reads the JSON document that a guest's `describe` returns (`wit/manifest.schema.json`). An
    /// unknown member is an error that names it. What the values mean is left to
    /// [`validate`](Self::validate).
    pub fn from_json(json: &str) -> Result<Self, ManifestError> {
        document::parse(json)
    }

    /// Checks everything that can be checked without a cluster.
    pub fn validate(&self) -> Result<(), ManifestError> {
        if !is_dns_label(&self.name) {
            return Err(ManifestError::Name(cut(&self.name, 80)));
        }
        if self.name == HOST {
            return Err(ManifestError::ReservedName);
        }
        self.validate_counts()?;
        texts::Texts::validate(self)?;
        self.validate_reads()?;
        patterns::validate(self)?;
        self.validate_reconciles()?;
        self.validate_indexes()?;
        self.validate_writes()?;
        self.validate_limits()?;
        self.validate_config_schema()
    }

    /// Every kind that the plugin reads or writes.
    pub fn kinds(&self) -> BTreeSet<&Kind> {
        let reads = self.reads.iter().map(|read| &read.kind);
        reads
            .chain(self.writes.iter().map(|write| &write.kind))
            .collect()
    }

    /// The objects of this kind that the plugin reconciles. `None` if it does not reconcile the
    /// kind.
    pub fn selection_of(&self, kind: &Kind) -> Option<&Selection> {
        self.reconciles
            .iter()
            .find(|selection| selection.kind == *kind)
    }

    /// The pattern of the manifest's reads that a kind is read by, if the manifest does not read
    /// the kind, or another version of it, by its name.
    pub fn pattern_of(&self, kind: &Kind) -> Option<&ReadDeclaration> {
        let mut reads = self.reads.iter();
        if reads.any(|read| read.kind.is_version_of(kind)) {
            return None;
        }
        let is_read = |read: &&ReadDeclaration| {
            let mut except = read.except.iter();
            read.kind.includes(kind) && !except.any(|other| other.is_version_of(kind))
        };
        self.reads.iter().find(is_read)
    }

    fn must_read(&self, what: &'static str, kind: &Kind) -> Result<(), ManifestError> {
        if self.reads.iter().any(|read| read.kind == *kind) {
            Ok(())
        } else {
            Err(ManifestError::NotRead(what, kind.clone()))
        }
    }

    /// Limits the size of the declarations. Each view and index costs time and memory for every
    /// object of its kind, and each namespace of a read needs a watch of its own. An operator may
    /// list more namespaces than a manifest may.
    fn validate_counts(&self) -> Result<(), ManifestError> {
        let fields = self.reads.iter().map(|read| read.fields.len()).sum();
        let paths = self.indexes.iter().map(|index| index.paths.len()).sum();
        let of_reads = || self.reads.iter().map(|read| read.namespaces.len());
        let (namespaces, most_namespaces) =
            (of_reads().sum(), of_reads().max().unwrap_or_default());
        let of_selections = |count: fn(&Selection) -> usize| self.reconciles.iter().map(count);
        let companions = of_selections(|selection| selection.companions.len()).sum();
        let selected = of_selections(|selection| selection.namespaces.len()).sum();
        let exceptions = self.reads.iter().map(|read| read.except.len()).sum();
        let verbs = self.writes.iter().map(|write| write.verbs.len()).max();
        let terms = self.field_selectors().map(|text| text.split(',').count());
        let labels = self
            .label_selectors()
            .map(|labels| labels.to_string().len());
        for (what, count, max) in [
            (
                "verbs of a write",
                verbs.unwrap_or_default(),
                Verb::ALL.len(),
            ),
            (
                "conditions in a field selector",
                terms.max().unwrap_or_default(),
                16,
            ),
            (
                "bytes of a label selector",
                labels.max().unwrap_or_default(),
                SELECTOR_BYTES,
            ),
            ("kinds in reconciles", self.reconciles.len(), 16),
            ("kinds in alsoEnqueuedBy", companions, 100),
            ("namespaces in reconciles", selected, 500),
            ("kinds in reads", self.reads.len(), 100),
            ("namespaces in a read", most_namespaces, 20),
            ("namespaces in reads", namespaces, 200),
            ("fields in reads", fields, 1_000),
            ("kinds in except", exceptions, 100),
            ("indexes", self.indexes.len(), 16),
            ("index paths", paths, 64),
            ("writes", self.writes.len(), 500),
        ] {
            if count > max {
                return Err(ManifestError::TooMany { what, count, max });
            }
        }
        Ok(())
    }

    /// The field selectors of what is reconciled and of the reads.
    fn field_selectors(&self) -> impl Iterator<Item = &str> {
        let reads = self.reads.iter();
        let reads = reads.filter_map(|read| read.field_selector.as_deref());
        let selections = self.reconciles.iter();
        reads.chain(selections.filter_map(|selection| selection.fields.as_deref()))
    }

    /// The label selectors of what is reconciled and of the reads.
    fn label_selectors(&self) -> impl Iterator<Item = &LabelSelector> {
        let reads = self.reads.iter().map(|read| &read.labels);
        reads.chain(self.reconciles.iter().map(|selection| &selection.labels))
    }

    fn validate_reads(&self) -> Result<(), ManifestError> {
        let mut seen = BTreeSet::new();
        for read in &self.reads {
            if !seen.insert(&read.kind) {
                return Err(ManifestError::ReadTwice(read.kind.clone()));
            }
            for field in &read.fields {
                FieldPath::parse(field)?;
            }
            if let Some(fields) = &read.field_selector {
                FieldSelector::parse(&read.kind, fields)?;
            }
        }
        Ok(())
    }

    /// Two versions of a kind show the same objects, and a name that the host derives from a key,
    /// or a child's label, leaves the version out.
    fn validate_reconciles(&self) -> Result<(), ManifestError> {
        for (place, selection) in self.reconciles.iter().enumerate() {
            let kind = &selection.kind;
            let mut before = self.reconciles[..place].iter();
            if before.any(|before| before.kind.is_version_of(kind)) {
                return Err(ManifestError::ReconcilesTwice(kind.clone()));
            }
            self.must_read("the reconciled kind", kind)?;
            for companion in &selection.companions {
                self.must_read("the alsoEnqueuedBy kind", companion)?;
            }
            if let Some(fields) = &selection.fields {
                FieldSelector::parse(kind, fields)?;
            }
        }
        Ok(())
    }

    /// Any path may be indexed, annotations included, whether or not the fields of the read show
    /// it. A path to what is normalised away (`managedFields`, the last-applied annotation) is
    /// accepted and finds nothing.
    fn validate_indexes(&self) -> Result<(), ManifestError> {
        let mut seen = BTreeSet::new();
        for index in &self.indexes {
            self.must_read("the indexed kind", &index.kind)?;
            if !seen.insert((&index.kind, &index.name)) {
                return Err(ManifestError::IndexTwice(
                    index.name.clone(),
                    index.kind.clone(),
                ));
            }
            if index.paths.is_empty() {
                return Err(ManifestError::IndexWithoutPath(
                    index.name.clone(),
                    index.kind.clone(),
                ));
            }
            for path in &index.paths {
                if FieldPath::parse(path)?.branchings() > MAX_BRANCHINGS {
                    return Err(ManifestError::IndexOfAll(
                        index.name.clone(),
                        index.kind.clone(),
                        path.clone(),
                    ));
                }
            }
        }
        Ok(())
    }

    fn validate_writes(&self) -> Result<(), ManifestError> {
        for write in &self.writes {
            let reads = self.reads.iter();
            let reads = reads.filter(|read| read.kind.is_version_of(&write.kind));
            // The plugin sees the object in the version that it writes, if it reads that version,
            // and otherwise in another.
            let read = reads.min_by_key(|read| read.kind != write.kind);
            let is_cut = read.is_some_and(|read| !read.fields.is_empty());
            if write.subresource.is_none() && write.verbs.contains(&Verb::Update) && is_cut {
                return Err(ManifestError::PartialUpdate(write.kind.clone()));
            }
            if write.children {
                self.must_read("the children kind", &write.kind)?;
                let mut reads = self.reads.iter();
                if reads.any(|read| read.kind == write.kind && read.is_narrowed()) {
                    return Err(ManifestError::NarrowedChildren(write.kind.clone()));
                }
                let whole = write.subresource.is_none();
                if !(whole
                    && write.verbs.contains(&Verb::Apply)
                    && write.verbs.contains(&Verb::Delete))
                {
                    return Err(ManifestError::ChildrenVerbs(write.kind.clone()));
                }
            }
        }
        Ok(())
    }

    /// Checks the size and the JSON syntax of the schema. Its content is checked elsewhere, in a
    /// process in which an untrusted schema can do no harm.
    fn validate_config_schema(&self) -> Result<(), ManifestError> {
        let Some(schema) = &self.config_schema else {
            return Ok(());
        };
        if schema.len() > CONFIG_SCHEMA_BYTES {
            return Err(ManifestError::TooMany {
                what: "bytes of configSchema",
                count: schema.len(),
                max: CONFIG_SCHEMA_BYTES,
            });
        }
        // The value is built and not only skipped, because serde_json limits the depth only of
        // values that it builds.
        let schema: serde_json::Value = serde_json::from_str(schema)
            .map_err(|error| ManifestError::ConfigSchema(error.to_string()))?;
        if schema.is_object() || schema.is_boolean() {
            Ok(())
        } else {
            Err(ManifestError::ConfigSchemaType)
        }
    }

    fn validate_limits(&self) -> Result<(), ManifestError> {
        let limits = &self.limits;
        for (name, is_zero) in [
            ("memoryBytes", limits.memory_bytes == Some(0)),
            ("fuel", limits.fuel == Some(0)),
            (
                "timeoutMilliseconds",
                limits.timeout == Some(Duration::ZERO),
            ),
            ("concurrency", limits.concurrency == Some(0)),
        ] {
            if is_zero {
                return Err(ManifestError::ZeroLimit(name));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let pod = Kind::new("", "v1", "Pod");
        Manifest {
            name: "labels".into(),
            version: "1.0.0".into(),
            reconciles: vec![Selection {
                kind: pod.clone(),
                labels: LabelSelector::default(),
                fields: None,
                namespaces: vec![],
                companions: vec![],
            }],
            reads: vec![ReadDeclaration::new(pod, vec![".spec.nodeName".into()])],
            indexes: vec![],
            writes: vec![],
            limits: Limits::default(),
            config_schema: None,
            optional: BTreeSet::new(),
        }
    }

    #[test]
    fn a_sound_manifest_is_accepted() {
        assert_eq!(manifest().validate(), Ok(()));
    }

    #[test]
    fn a_name_must_be_a_dns_label() {
        for name in ["", "Upper", "-a", "a-", "a.b", "../a", &"x".repeat(64)] {
            let bad = Manifest {
                name: name.into(),
                ..manifest()
            };
            assert_eq!(bad.validate(), Err(ManifestError::Name(name.into())));
        }
    }

    #[test]
    fn what_a_plugin_relies_on_it_must_read() {
        let mut bad = manifest();
        bad.reads.clear();
        assert!(matches!(
            bad.validate(),
            Err(ManifestError::NotRead("the reconciled kind", _))
        ));
    }

    #[test]
    fn a_manifest_is_of_a_size_that_the_host_can_keep_up() {
        let mut bad = manifest();
        bad.reads[0].fields = vec![".spec.x".into(); 1_001];
        assert!(matches!(
            bad.validate(),
            Err(ManifestError::TooMany {
                what: "fields in reads",
                ..
            })
        ));
    }

    #[test]
    fn a_kind_is_reconciled_once_and_in_one_version() {
        let again = |kind: Kind| {
            let mut manifest = manifest();
            manifest.reads.push(ReadDeclaration::new(
                Kind::new("", "v1beta1", "Pod"),
                vec![],
            ));
            let reads = manifest.reads.iter();
            if !reads.map(|read| &read.kind).any(|read| *read == kind) {
                let read = ReadDeclaration::new(kind.clone(), vec![]);
                manifest.reads.push(read);
            }
            let selection = Selection {
                kind,
                ..manifest.reconciles[0].clone()
            };
            manifest.reconciles.push(selection);
            manifest.validate()
        };
        for version in ["v1", "v1beta1"] {
            let pod = Kind::new("", version, "Pod");
            let twice = Err(ManifestError::ReconcilesTwice(pod.clone()));
            assert_eq!(again(pod), twice);
        }
        assert_eq!(again(Kind::new("apps", "v1", "Pod")), Ok(()));
    }

    #[test]
    fn children_need_apply_and_delete() {
        let mut bad = manifest();
        bad.writes = vec![WriteDeclaration {
            kind: Kind::new("", "v1", "Pod"),
            subresource: None,
            verbs: vec![Verb::Apply],
            children: true,
        }];
        assert!(matches!(
            bad.validate(),
            Err(ManifestError::ChildrenVerbs(_))
        ));
    }

    #[test]
    fn who_sees_only_some_fields_cannot_replace_the_object() {
        let pod = Kind::new("", "v1", "Pod");
        let with = |subresource: Option<&str>, verb, fields: &[&str]| {
            let mut manifest = manifest();
            manifest.reads[0].fields = fields.iter().map(|field| (*field).to_owned()).collect();
            manifest.writes = vec![WriteDeclaration {
                kind: pod.clone(),
                subresource: subresource.map(str::to_owned),
                verbs: vec![verb],
                children: false,
            }];
            manifest.validate()
        };
        assert_eq!(
            with(None, Verb::Update, &[".spec"]),
            Err(ManifestError::PartialUpdate(pod.clone()))
        );
        let mut in_another = Manifest {
            reconciles: vec![],
            indexes: vec![],
            reads: vec![ReadDeclaration::new(
                Kind::new("", "v1beta1", "Pod"),
                vec![".spec".into()],
            )],
            ..manifest()
        };
        in_another.writes = vec![WriteDeclaration {
            kind: pod.clone(),
            subresource: None,
            verbs: vec![Verb::Update],
            children: false,
        }];
        assert_eq!(
            in_another.validate(),
            Err(ManifestError::PartialUpdate(pod.clone()))
        );
        in_another
            .reads
            .push(ReadDeclaration::new(pod.clone(), vec![]));
        assert_eq!(in_another.validate(), Ok(()), "it can be seen as a whole");
        assert_eq!(with(None, Verb::Update, &[]), Ok(()));
        assert_eq!(with(None, Verb::Patch, &[".spec"]), Ok(()));
        assert_eq!(with(Some("status"), Verb::Update, &[".status"]), Ok(()));
    }

    #[test]
    fn a_configs_schema_is_json_of_some_size_and_depth() {
        let with = |schema: String| Manifest {
            config_schema: Some(schema),
            ..manifest()
        };
        assert_eq!(with("{\"type\": \"object\"}".into()).validate(), Ok(()));
        let nested = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        for (schema, wanted) in [
            ("{".to_owned(), "configSchema is not JSON: EOF"),
            (nested, "configSchema is not JSON: recursion limit"),
            ("[]".to_owned(), "configSchema is not a schema"),
            (
                " ".repeat(262_145),
                "262145 bytes of configSchema; a manifest has at most 262144",
            ),
        ] {
            let error = with(schema).validate().unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn a_broken_path_is_named() {
        let mut bad = manifest();
        bad.reads[0].fields = vec!["spec.nodeName".into()];
        assert!(
            bad.validate()
                .unwrap_err()
                .to_string()
                .contains("spec.nodeName")
        );
    }
}
