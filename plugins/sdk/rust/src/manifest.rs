//! Building a [`Manifest`]: what a plugin reconciles, reads and writes.

use std::time::Duration;

use crate::{
    Index, Kind, LabelRequirement, Limits, Manifest, Read, Selection, Subject, Verb, Write,
};

impl Read {
    /// Reads these fields of all objects of a kind. Without fields: the whole objects.
    pub fn new<'a>(kind: &Kind, fields: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            kind: kind.clone(),
            fields: fields.into_iter().map(str::to_owned).collect(),
            namespaces: Vec::new(),
            labels: Vec::new(),
            field_selector: None,
        }
    }

    /// Reads only objects in this namespace. May be called several times, for several namespaces.
    #[must_use]
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.namespaces.push(namespace.to_owned());
        self
    }

    /// Reads only objects with this label.
    #[must_use]
    pub fn label(self, name: &str, value: &str) -> Self {
        self.require(LabelRequirement::Equals((
            name.to_owned(),
            value.to_owned(),
        )))
    }

    /// Reads only objects whose labels meet this requirement. May be called several times; the
    /// labels must then meet all requirements.
    #[must_use]
    pub fn require(mut self, requirement: LabelRequirement) -> Self {
        self.labels.push(requirement);
        self
    }

    /// Reads only objects that match this field selector, in the API server's syntax:
    /// `spec.nodeName=a`.
    #[must_use]
    pub fn matching(mut self, field_selector: &str) -> Self {
        self.field_selector = Some(field_selector.to_owned());
        self
    }
}

impl Manifest {
    /// A plugin with this name, version and subject. It reads and writes nothing yet.
    ///
    /// The name is a DNS label, unique among the plugins of a host. After `pilothouse.dev/` it is
    /// also the field manager of the plugin's writes. The operator can change both. The version is
    /// for people: at most 64 printable ASCII characters. The subject is a [`Selection`] or
    /// [`Subject::Singleton`].
    pub fn new(name: &str, version: &str, subject: impl Into<Subject>) -> Self {
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            subject: subject.into(),
            reads: Vec::new(),
            indexes: Vec::new(),
            writes: Vec::new(),
            limits: Limits {
                memory_bytes: None,
                fuel: None,
                timeout: None,
                concurrency: None,
            },
            config_schema: None,
        }
    }

    /// Declares that the plugin reads these fields of this kind. List only those that it uses,
    /// because a change to another field then does not run a key.
    #[must_use]
    pub fn reads<'a>(mut self, kind: &Kind, fields: impl IntoIterator<Item = &'a str>) -> Self {
        self.reads.push(Read::new(kind, fields));
        self
    }

    /// Declares a [`Read`], which may be narrowed to namespaces or by selectors.
    #[must_use]
    pub fn reads_only(mut self, read: Read) -> Self {
        self.reads.push(read);
        self
    }

    /// Declares that the plugin reads whole objects of this kind.
    #[must_use]
    pub fn reads_whole(self, kind: &Kind) -> Self {
        self.reads(kind, [])
    }

    /// Declares an index of this kind by the values at these paths, for use with
    /// [`Filter::index`](crate::Filter::index). The plugin must read the kind.
    #[must_use]
    pub fn indexes<'a>(
        mut self,
        name: &str,
        kind: &Kind,
        paths: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        self.indexes.push(Index {
            name: name.to_owned(),
            kind: kind.clone(),
            paths: paths.into_iter().map(str::to_owned).collect(),
        });
        self
    }

    /// Declares that the plugin writes objects of this kind. [`Verb::Update`] replaces the whole
    /// object, so the plugin must then read the kind whole, or not at all.
    #[must_use]
    pub fn writes(self, kind: &Kind, verbs: impl IntoIterator<Item = Verb>) -> Self {
        self.declare_write(kind, None, verbs, false)
    }

    /// Declares that the plugin writes this subresource: `status`, `scale`, `eviction`, `binding`,
    /// ….
    #[must_use]
    pub fn writes_subresource(
        self,
        kind: &Kind,
        subresource: &str,
        verbs: impl IntoIterator<Item = Verb>,
    ) -> Self {
        self.declare_write(kind, Some(subresource), verbs, false)
    }

    /// Declares that objects of this kind may be members of a [`Children`](crate::Children) action.
    /// The host deletes those that are no longer members. The plugin must read the kind, without
    /// selectors.
    #[must_use]
    pub fn keeps_children(self, kind: &Kind) -> Self {
        self.declare_write(kind, None, [Verb::Apply, Verb::Delete], true)
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
        self.limits.timeout = Some(crate::outcome::milliseconds(timeout));
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
        self.config_schema = Some(schema.to_string());
        self
    }

    fn declare_write(
        mut self,
        kind: &Kind,
        subresource: Option<&str>,
        verbs: impl IntoIterator<Item = Verb>,
        children: bool,
    ) -> Self {
        self.writes.push(Write {
            kind: kind.clone(),
            subresource: subresource.map(str::to_owned),
            verbs: verbs.into_iter().collect(),
            children,
        });
        self
    }
}

impl Selection {
    /// Selects all objects of a kind.
    #[must_use]
    pub fn of(kind: &Kind) -> Self {
        Self {
            kind: kind.clone(),
            labels: Vec::new(),
            fields: None,
            namespaces: Vec::new(),
            companions: Vec::new(),
        }
    }

    /// Selects only objects with this label.
    #[must_use]
    pub fn label(self, name: &str, value: &str) -> Self {
        self.require(LabelRequirement::Equals((
            name.to_owned(),
            value.to_owned(),
        )))
    }

    /// Selects only objects whose labels meet this requirement. May be called several times; the
    /// labels must then meet all requirements.
    #[must_use]
    pub fn require(mut self, requirement: LabelRequirement) -> Self {
        self.labels.push(requirement);
        self
    }

    /// Selects only objects that match this field selector, in the API server's syntax:
    /// `type=kubernetes.io/tls`.
    #[must_use]
    pub fn fields(mut self, selector: &str) -> Self {
        self.fields = Some(selector.to_owned());
        self
    }

    /// Selects only objects in this namespace. May be called several times, for several namespaces.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespaces.push(namespace.to_owned());
        self
    }

    /// Declares a companion: a kind whose objects have the namespace and name of a subject, as
    /// Endpoints have those of their Service. A key is then reconciled when either object exists.
    /// The plugin must read the kind.
    #[must_use]
    pub fn companion(mut self, kind: &Kind) -> Self {
        self.companions.push(kind.clone());
        self
    }
}

impl From<Selection> for Subject {
    fn from(selection: Selection) -> Self {
        Self::Each(selection)
    }
}
