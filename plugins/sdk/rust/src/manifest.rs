//! Building a [`Manifest`]: what a plugin reconciles, reads and writes.

use std::time::Duration;

use crate::{
    Index, Kind, LabelRequirement, Limits, Manifest, Read, Selection, Subject, Verb, Write,
};

impl Read {
    /// These fields of every object of a kind.
    pub fn new<'a>(kind: &Kind, fields: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            kind: kind.clone(),
            fields: fields.into_iter().map(str::to_owned).collect(),
            namespaces: Vec::new(),
            labels: Vec::new(),
            field_selector: None,
        }
    }

    /// Only of objects in this namespace, or another one that is named the same way.
    #[must_use]
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.namespaces.push(namespace.to_owned());
        self
    }

    /// Only of objects with this label.
    #[must_use]
    pub fn label(self, name: &str, value: &str) -> Self {
        self.require(LabelRequirement::Equals((
            name.to_owned(),
            value.to_owned(),
        )))
    }

    /// Only of objects whose labels meet this, and every other requirement named the same way.
    #[must_use]
    pub fn require(mut self, requirement: LabelRequirement) -> Self {
        self.labels.push(requirement);
        self
    }

    /// Only of objects matching this field selector, as the API server writes it: `spec.nodeName=a`.
    #[must_use]
    pub fn matching(mut self, field_selector: &str) -> Self {
        self.field_selector = Some(field_selector.to_owned());
        self
    }
}

impl Manifest {
    /// A plugin of this name, which is also the field manager of its writes. It reads and writes nothing yet.
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

    /// It may read these fields of this kind. List what is used and no more: a change elsewhere in an object wakes nobody.
    #[must_use]
    pub fn reads<'a>(mut self, kind: &Kind, fields: impl IntoIterator<Item = &'a str>) -> Self {
        self.reads.push(Read::new(kind, fields));
        self
    }

    /// It may read what this says: a [`Read`] that is narrowed to namespaces or by selectors.
    #[must_use]
    pub fn reads_only(mut self, read: Read) -> Self {
        self.reads.push(read);
        self
    }

    /// It may read whole objects of this kind.
    #[must_use]
    pub fn reads_whole(self, kind: &Kind) -> Self {
        self.reads(kind, [])
    }

    /// The host keeps an index of this kind by the values at these paths, for [`Filter::index`](crate::Filter::index).
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

    /// It may write objects of this kind.
    #[must_use]
    pub fn writes(self, kind: &Kind, verbs: impl IntoIterator<Item = Verb>) -> Self {
        self.declare_write(kind, None, verbs, false)
    }

    /// It may write this subresource: `status`, `scale`, `eviction`, `binding`, ….
    #[must_use]
    pub fn writes_subresource(
        self,
        kind: &Kind,
        subresource: &str,
        verbs: impl IntoIterator<Item = Verb>,
    ) -> Self {
        self.declare_write(kind, Some(subresource), verbs, false)
    }

    /// Objects of this kind may be members of a [`Children`](crate::Children) action, and so be pruned.
    #[must_use]
    pub fn keeps_children(self, kind: &Kind) -> Self {
        self.declare_write(kind, None, [Verb::Apply, Verb::Delete], true)
    }

    /// What it asks for beyond the host's defaults.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How long one reconcile may take, by the clock.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.limits.timeout = Some(crate::outcome::milliseconds(timeout));
        self
    }

    /// The JSON Schema of its configuration: the host hands out no other. Draft 2020-12 if `$schema` names none; at most 256 KiB; no
    /// references to other documents; patterns without look-around and back references.
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
    /// Every object of a kind.
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

    /// Only those with this label.
    #[must_use]
    pub fn label(self, name: &str, value: &str) -> Self {
        self.require(LabelRequirement::Equals((
            name.to_owned(),
            value.to_owned(),
        )))
    }

    /// Only those whose labels meet this.
    #[must_use]
    pub fn require(mut self, requirement: LabelRequirement) -> Self {
        self.labels.push(requirement);
        self
    }

    /// Only those that match this field selector, in the API server's syntax: `type=kubernetes.io/tls`.
    #[must_use]
    pub fn fields(mut self, selector: &str) -> Self {
        self.fields = Some(selector.to_owned());
        self
    }

    /// Only those in this namespace, or in another one given the same way.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespaces.push(namespace.to_owned());
        self
    }

    /// Objects of this kind have the namespace and name of a subject: a key is reconciled when either exists.
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
