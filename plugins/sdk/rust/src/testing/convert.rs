//! Converts the contract's types, as this crate has them, to and from the host's. Only shapes
//! change here; the host's code checks what the values mean. `host/wasm` has the same for the types
//! of its own bindings.

use std::time::Duration;

use pilothouse_core as host;

use crate::bindings::pilothouse::controller::changes;
use crate::{
    Action, ActionResult, Delete, Event, Failure, Filter, Index, Kind, LabelRequirement,
    LabelSelector, Limits, Manifest, ObjectKey, Outcome, Read, ReadError, Request, Selection,
    Subject, Verb, Write,
};

fn all<T, U: From<T>>(values: Vec<T>) -> Vec<U> {
    values.into_iter().map(U::from).collect()
}

pub(super) fn kind(kind: &Kind) -> host::Kind {
    host::Kind::new(&kind.group, &kind.version, &kind.kind)
}

pub(super) fn key(key: &ObjectKey) -> host::ObjectKey {
    host::ObjectKey::new(&key.namespace, &key.name)
}

fn selector(requirements: LabelSelector) -> host::LabelSelector {
    host::LabelSelector {
        requirements: all(requirements),
    }
}

impl From<LabelRequirement> for host::Requirement {
    fn from(requirement: LabelRequirement) -> Self {
        match requirement {
            LabelRequirement::Equals((key, value)) => Self::Equals(key, value),
            LabelRequirement::OneOf((key, values)) => Self::OneOf(key, values),
            LabelRequirement::NoneOf((key, values)) => Self::NoneOf(key, values),
            LabelRequirement::Exists(key) => Self::Exists(key),
            LabelRequirement::Absent(key) => Self::Absent(key),
        }
    }
}

pub(super) fn filter(filter: &Filter) -> host::ListFilter {
    match filter.clone() {
        Filter::Everything => host::ListFilter::Everything,
        Filter::Labels(labels) => host::ListFilter::Labels(selector(labels)),
        Filter::Index(index) => host::ListFilter::Index(index.name, index.value),
    }
}

pub(super) fn manifest(manifest: Manifest) -> host::Manifest {
    host::Manifest {
        name: manifest.name,
        version: manifest.version,
        subject: match manifest.subject {
            Subject::Each(selected) => host::Subject::Each(selection(selected)),
            Subject::Singleton => host::Subject::Singleton,
        },
        reads: all(manifest.reads),
        indexes: all(manifest.indexes),
        writes: all(manifest.writes),
        limits: limits(manifest.limits),
        config_schema: manifest.config_schema,
    }
}

fn selection(selection: Selection) -> host::Selection {
    host::Selection {
        kind: kind(&selection.kind),
        labels: selector(selection.labels),
        fields: selection.fields,
        namespaces: selection.namespaces,
        companions: selection.companions.iter().map(kind).collect(),
    }
}

impl From<Read> for host::ReadDeclaration {
    fn from(read: Read) -> Self {
        Self {
            kind: kind(&read.kind),
            fields: read.fields,
            namespaces: read.namespaces,
            labels: selector(read.labels),
            field_selector: read.field_selector,
        }
    }
}

impl From<Index> for host::IndexDeclaration {
    fn from(index: Index) -> Self {
        Self {
            name: index.name,
            kind: kind(&index.kind),
            paths: index.paths,
        }
    }
}

impl From<Write> for host::WriteDeclaration {
    fn from(write: Write) -> Self {
        Self {
            kind: kind(&write.kind),
            subresource: write.subresource,
            verbs: all(write.verbs),
            children: write.children,
        }
    }
}

impl From<Verb> for host::Verb {
    fn from(verb: Verb) -> Self {
        match verb {
            Verb::Apply => Self::Apply,
            Verb::Create => Self::Create,
            Verb::Update => Self::Update,
            Verb::Patch => Self::Patch,
            Verb::Delete => Self::Delete,
        }
    }
}

fn limits(limits: Limits) -> host::Limits {
    host::Limits {
        memory_bytes: limits.memory_bytes,
        fuel: limits.fuel,
        timeout: limits.timeout.map(Duration::from_millis),
        concurrency: limits.concurrency,
    }
}

impl From<&host::Request> for Request {
    fn from(request: &host::Request) -> Self {
        Self {
            key: ObjectKey::new(&request.key.namespace, &request.key.name),
            attempt: request.attempt,
            previous: request.previous.iter().cloned().map(Into::into).collect(),
            config: request.config.clone(),
        }
    }
}

impl From<host::ActionResult> for ActionResult {
    fn from(result: host::ActionResult) -> Self {
        use host::ActionResult as Host;
        match result {
            Host::Done(resource_version) => Self::Done(resource_version),
            Host::Unchanged => Self::Unchanged,
            Host::Skipped => Self::Skipped,
            Host::Conflict(text) => Self::Conflict(text),
            Host::AlreadyExists(text) => Self::AlreadyExists(text),
            Host::NotFound(text) => Self::NotFound(text),
            Host::Forbidden(text) => Self::Forbidden(text),
            Host::Invalid(text) => Self::Invalid(text),
            Host::Failed(text)
            | Host::Busy(text, _)
            | Host::Unknown(text)
            | Host::Unavailable(text) => Self::Failed(text),
        }
    }
}

/// What a guest is told of a read that has no answer.
///
/// # Panics
///
/// The host would not tell it anything, but stop it.
pub(super) fn read_error(error: &host::ReadError) -> ReadError {
    use host::ReadError as Host;
    let text = error.to_string();
    match error {
        Host::Denied(_) | Host::NotGranted(_) | Host::OtherNamespace { .. } => {
            ReadError::Denied(text)
        }
        Host::UnknownIndex { .. } => ReadError::UnknownIndex(text),
        Host::InvalidPointer(_) => ReadError::InvalidPointer(text),
        Host::OutOfFuel
        | Host::TooMany
        | Host::TooLarge(_)
        | Host::Selector
        | Host::Unreadable { .. } => panic!("the host stops the plugin: {text}"),
    }
}

pub(super) fn outcome(outcome: &Outcome) -> host::Outcome {
    host::Outcome {
        actions: all(outcome.actions.clone()),
        requeue_after: outcome.requeue_after.map(Duration::from_millis),
    }
}

impl From<Failure> for host::Failure {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Retry(text) => Self::Retry(text),
            Failure::Terminal(text) => Self::Terminal(text),
        }
    }
}

impl From<Action> for host::Action {
    fn from(action: Action) -> Self {
        match action {
            Action::Apply(apply) => Self::Apply {
                object: apply.object,
                subresource: apply.subresource,
                force: apply.force,
            },
            Action::Create(create) => Self::Create {
                object: create.object,
                subresource: create.subresource,
            },
            Action::Update(update) => Self::Update {
                object: update.object,
                subresource: update.subresource,
            },
            Action::Patch(patch) => Self::Patch {
                kind: kind(&patch.kind),
                key: key(&patch.key),
                subresource: patch.subresource,
                patch_type: match patch.patch_type {
                    changes::PatchType::JsonPatch => host::PatchType::Json,
                    changes::PatchType::MergePatch => host::PatchType::Merge,
                    changes::PatchType::StrategicMergePatch => host::PatchType::Strategic,
                },
                body: patch.body,
            },
            Action::Delete(delete) => Self::Delete(delete.into()),
            Action::Event(event) => Self::Event(event.into()),
            Action::Finalizer(finalizer) => Self::Finalizer {
                kind: kind(&finalizer.kind),
                key: key(&finalizer.key),
                name: finalizer.name,
                present: finalizer.present,
            },
            Action::Children(children) => Self::Children {
                objects: children.objects,
            },
        }
    }
}

impl From<Delete> for host::Delete {
    fn from(delete: Delete) -> Self {
        Self {
            kind: kind(&delete.kind),
            key: key(&delete.key),
            uid: delete.uid,
            resource_version: delete.resource_version,
            propagation: delete.propagation.map(|propagation| match propagation {
                changes::Propagation::Background => host::Propagation::Background,
                changes::Propagation::Foreground => host::Propagation::Foreground,
                changes::Propagation::Orphan => host::Propagation::Orphan,
            }),
            grace_period_seconds: delete.grace_period_seconds,
        }
    }
}

impl From<Event> for host::Event {
    fn from(event: Event) -> Self {
        Self {
            kind: kind(&event.kind),
            key: key(&event.key),
            is_warning: matches!(event.event_type, changes::EventType::Warning),
            reason: event.reason,
            action: event.action,
            note: event.note,
        }
    }
}
