//! Builders for the objects that a plugin reconciles and reads.

use super::{Read, Selection};

impl Selection {
    /// Selects all objects of a kind, or of every kind of a pattern.
    #[must_use]
    pub fn of(kind: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            optional: false,
            labels: String::new(),
            field_selector: None,
            namespaces: Vec::new(),
            also_enqueued_by: Vec::new(),
        }
    }

    /// Selects only objects whose labels match this selector, as kubectl writes it:
    /// `app=web,tier in (a,b),!canary`. May be called several times; the labels must then match
    /// all selectors.
    #[must_use]
    pub fn labels(mut self, selector: &str) -> Self {
        and(&mut self.labels, selector);
        self
    }

    /// Selects only objects that match this field selector, in the API server's syntax:
    /// `type=kubernetes.io/tls`.
    #[must_use]
    pub fn field_selector(mut self, selector: &str) -> Self {
        self.field_selector = Some(selector.to_owned());
        self
    }

    /// Selects only objects in this namespace. May be called several times, for several namespaces.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespaces.push(namespace.to_owned());
        self
    }

    /// Declares a kind whose objects have the namespace and name of a reconciled object, as
    /// Endpoints have those of their Service. A key is then reconciled when either object exists.
    /// The plugin must read the kind.
    #[must_use]
    pub fn also_enqueued_by(mut self, kind: &str) -> Self {
        self.also_enqueued_by.push(kind.to_owned());
        self
    }

    /// A read of these fields of the selected objects, and of no others. Without fields: the whole
    /// objects. What that means is said [elsewhere](crate::Manifest::reads_selected_as).
    #[must_use]
    pub fn read<'a>(&self, fields: impl IntoIterator<Item = &'a str>) -> Read {
        Read {
            optional: self.optional,
            namespaces: self.namespaces.clone(),
            labels: self.labels.clone(),
            field_selector: self.field_selector.clone(),
            ..Read::new(&self.kind, fields)
        }
    }
}

impl Read {
    /// Reads these fields of all objects of a kind. Without fields: the whole objects.
    pub fn new<'a>(kind: &str, fields: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            kind: kind.to_owned(),
            optional: false,
            fields: fields.into_iter().map(str::to_owned).collect(),
            namespaces: Vec::new(),
            labels: String::new(),
            field_selector: None,
            except: Vec::new(),
        }
    }

    /// Reads all kinds of the pattern but this one. May be called several times.
    #[must_use]
    pub fn except(mut self, kind: &str) -> Self {
        self.except.push(kind.to_owned());
        self
    }

    /// Reads only objects in this namespace. May be called several times, for several namespaces.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespaces.push(namespace.to_owned());
        self
    }

    /// Reads only objects whose labels match this selector, as kubectl writes it. May be called
    /// several times; the labels must then match all selectors.
    #[must_use]
    pub fn labels(mut self, selector: &str) -> Self {
        and(&mut self.labels, selector);
        self
    }

    /// Reads only objects that match this field selector, in the API server's syntax:
    /// `spec.nodeName=a`.
    #[must_use]
    pub fn field_selector(mut self, selector: &str) -> Self {
        self.field_selector = Some(selector.to_owned());
        self
    }
}

/// Adds conditions to a selector.
fn and(labels: &mut String, selector: &str) {
    if !labels.is_empty() {
        labels.push(',');
    }
    labels.push_str(selector);
}
